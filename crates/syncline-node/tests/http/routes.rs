//! The router and its description say the same.

use std::path::Path;

use serde_json::Value;
use syncline_testing::walk;

use crate::world::World;

#[tokio::test]
async fn every_route_is_described_and_every_description_is_a_route() {
    let world = World::new("").await;
    let routes = walk::every_route_is_described(&world).await;
    assert!(routes > 30, "{routes}");
}

#[tokio::test]
async fn every_operation_says_what_its_errors_look_like_and_who_may_call() {
    let world = World::new("").await;
    let operations = walk::every_operation_is_explained(&world).await;
    assert!(operations > 30, "{operations}");
    let api = world.get("/openapi.json").await.value();
    assert_eq!(api["paths"]["/healthz"]["get"]["security"], Value::Null);
    assert!(api["paths"]["/api/kv"]["get"]["security"].is_array());
}

/// No client could be generated: answers without a description, operations with one id, paths that are no templates, and
/// two schemas of one name, so that keys were described as locks.
#[tokio::test]
async fn cn_20_the_description_is_valid_and_every_operation_has_an_id_of_its_own() {
    let world = World::new("").await;
    walk::every_operation_is_explained(&world).await;
    let api = world.get("/openapi.json").await.value();
    let listing =
        &api["paths"]["/api/kv"]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
    let name = listing["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
    assert!(api["components"]["schemas"][name]["properties"]["entries"].is_object(), "{name}");
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("moto/bin");
    walk::the_description_is_valid(&world, &tools.join("openapi-spec-validator")).await;
}
