//! The router and its description say the same.

use std::collections::BTreeSet;

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
    for path in paths(&format!("{:?}", world.app)) {
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

/// The paths in the debug output of a router, which is the only place that lists them.
fn paths(debug: &str) -> BTreeSet<String> {
    let quoted = debug.split('"').skip(1).step_by(2);
    let ours = quoted.filter(|text| text.starts_with('/') && !text.contains("__private__axum_fallback"));
    ours.map(str::to_owned).collect()
}
