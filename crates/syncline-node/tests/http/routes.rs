//! The router and its description say the same.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use axum::body::Body;
use http::{Method, Request, header};
use serde_json::Value;
use tower::ServiceExt;

use crate::world::{HOST, World};

#[tokio::test]
async fn every_route_is_described_and_every_description_is_a_route() {
    let world = World::new("").await;
    let api = world.get("/openapi.json").await.value();
    let described: BTreeSet<(String, String)> = api["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(|method| (path.clone(), method.to_uppercase()))
        })
        .collect();
    let mut served = BTreeSet::new();
    let for_programs = |path: &String| {
        ["/api/", "/storage/", "/metrics", "/openapi.json", "/healthz", "/readyz"]
            .iter()
            .any(|start| path.starts_with(start))
    };
    for path in paths(&format!("{:?}", world.app)).into_iter().filter(for_programs) {
        for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS]
        {
            let uri = path.replace("{*path}", "x").replace(['{', '}'], "");
            let request = Request::builder().method(&method).uri(uri).header(header::HOST, HOST);
            let answer = world.app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            if answer.status() != 405 {
                served.insert((path.clone(), method.to_string()));
            }
        }
    }
    assert!(served.len() > 15, "{served:?}");
    assert_eq!(served, described);
}

#[tokio::test]
async fn every_operation_says_what_its_errors_look_like_and_who_may_call() {
    let world = World::new("").await;
    let api = world.get("/openapi.json").await.value();
    let error = &api["components"]["schemas"]["ErrorBody"]["properties"];
    assert!(error["error"].is_object() && error["code"].is_object(), "{error}");
    for (path, item) in api["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            let errors = responses.iter().filter(|(status, _)| status.starts_with(['4', '5', 'd']));
            for (status, response) in errors {
                let schema = &response["content"]["application/json"]["schema"]["$ref"];
                assert_eq!(schema, "#/components/schemas/ErrorBody", "{method} {path} {status}");
            }
            assert!(responses.contains_key("default"), "{method} {path}");
            let described = operation["summary"].is_string() || operation["description"].is_string();
            assert!(described, "{method} {path} has no words");
        }
    }
    assert_eq!(api["paths"]["/healthz"]["get"]["security"], Value::Null);
    assert!(api["paths"]["/api/kv"]["get"]["security"].is_array());
}

/// No client could be generated: answers without a description, operations with one id, paths that are no templates, and
/// two schemas of one name, so that keys were described as locks.
#[tokio::test]
async fn cn_20_the_description_is_valid_and_every_operation_has_an_id_of_its_own() {
    let world = World::new("").await;
    let api = world.get("/openapi.json").await.value();
    let operations =
        api["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values());
    let ids: Vec<&str> = operations.map(|operation| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    let listing =
        &api["paths"]["/api/kv"]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
    let name = listing["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
    assert!(api["components"]["schemas"][name]["properties"]["entries"].is_object(), "{name}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("openapi.json");
    std::fs::write(&file, api.to_string()).unwrap();
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("moto/bin");
    let validator =
        Command::new(tools.join("openapi-spec-validator")).args(["--errors", "all"]).arg(&file).output();
    let said = validator.expect("`cargo xtask setup` installs openapi-spec-validator");
    let text = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{text}");
}

/// The paths in the debug output of a router, which is the only place that lists them.
fn paths(debug: &str) -> BTreeSet<String> {
    let quoted = debug.split('"').skip(1).step_by(2);
    let ours = quoted.filter(|text| text.starts_with('/') && !text.contains("__private__axum_fallback"));
    ours.map(str::to_owned).collect()
}
