//! The router and its description say the same, and programs can use the description.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use axum::body::Body;
use http::{Method, Request};

use super::{api_description, fill, is_for_programs, object, operations, served_paths};
use crate::RouterNode;

/// Checks that every route is in the description and everything in the description is a route. Returns how many there are.
pub async fn every_route_is_described(node: &RouterNode) -> usize {
    let described: BTreeSet<(String, String)> = operations(&api_description(node, None).await)
        .into_iter()
        .map(|operation| (operation.path, operation.method))
        .collect();
    let mut served = BTreeSet::new();
    for path in served_paths(node).into_iter().filter(|path| is_for_programs(path)) {
        for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS]
        {
            let request = Request::builder().method(&method).uri(fill(&path, &[]));
            let answer = node.respond(request.body(Body::empty()).unwrap()).await;
            if answer.status() != 405 {
                served.insert((path.clone(), method.to_string()));
            }
        }
    }
    assert_eq!(served, described);
    served.len()
}

/// Checks that every operation has words and an id of its own, and says what its errors look like. Returns how many there are.
pub async fn every_operation_is_explained(node: &RouterNode) -> usize {
    let api = api_description(node, None).await;
    let error = &api["components"]["schemas"]["ErrorBody"]["properties"];
    assert!(error["error"].is_object() && error["code"].is_object(), "{error}");
    let operations = operations(&api);
    let mut ids = BTreeSet::new();
    for operation in &operations {
        let (method, path) = (&operation.method, &operation.path);
        let responses = object(&operation.about["responses"]);
        let errors = responses.iter().filter(|(status, _)| status.starts_with(['4', '5', 'd']));
        for (status, response) in errors {
            let schema = &response["content"]["application/json"]["schema"]["$ref"];
            assert_eq!(schema, "#/components/schemas/ErrorBody", "{method} {path} {status}");
        }
        assert!(responses.contains_key("default"), "{method} {path}");
        let described = operation.about["summary"].is_string() || operation.about["description"].is_string();
        assert!(described, "{method} {path} has no words");
        let id = operation.about["operationId"].as_str().unwrap();
        assert!(ids.insert(id), "{method} {path}: another operation is called {id}");
    }
    operations.len()
}

/// Checks that clients can be generated from the description: that it is valid. `validator` is the program
/// `openapi-spec-validator`.
pub async fn the_description_is_valid(node: &RouterNode, validator: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("openapi.json");
    std::fs::write(&file, api_description(node, None).await.to_string()).unwrap();
    let said = Command::new(validator).args(["--errors", "all"]).arg(&file).output();
    let said = said.unwrap_or_else(|error| {
        panic!("{}: {error}; `cargo xtask setup` installs it", validator.display());
    });
    let text = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{text}");
}
