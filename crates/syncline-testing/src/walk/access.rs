//! Who may read what: with a token set, and from pages of other sites.

use axum::body::Body;
use http::{Request, StatusCode, header};

use super::{api_description, operations};
use crate::RouterNode;

/// The operations of a node with all systems that ask for no token: health, signing in, and the heartbeats of pages.
pub const OPEN_WITH_ALL_SYSTEMS: [(&str, &str); 6] = [
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/api/session"),
    ("POST", "/api/session"),
    ("DELETE", "/api/session"),
    ("POST", "/api/viewer"),
];

/// Addresses that answer pages of other sites too: they hold no data.
const FOR_ALL_SITES: [&str; 2] = ["/healthz", "/readyz"];

/// Checks that every operation asks for the token that the node has, but those that are `open`, as method and path. Returns
/// how many operations there are.
pub async fn every_route_needs_the_token(node: &RouterNode, token: &str, open: &[(&str, &str)]) -> usize {
    let operations = operations(&api_description(node, Some(token)).await);
    let is_open = |method: &str, path: &str| open.contains(&(method, path));
    for operation in &operations {
        let (method, path) = (&operation.method, &operation.path);
        let ask = async |credential: Option<&str>| {
            let mut request = Request::builder().method(method.as_str()).uri(operation.address(&[]));
            request = request.header(header::CONTENT_TYPE, "application/json");
            if let Some(credential) = credential {
                request = request.header(header::AUTHORIZATION, format!("Bearer {credential}"));
            }
            node.respond(request.body(Body::from("{}")).unwrap()).await.status()
        };
        for credential in [None, Some("nearly")] {
            let status = ask(credential).await;
            let refused = status == StatusCode::UNAUTHORIZED;
            assert_eq!(refused, !is_open(method, path), "{method} {path} with {credential:?}: {status}");
        }
        assert_ne!(ask(Some(token)).await, StatusCode::UNAUTHORIZED, "{method} {path}");
    }
    let known = |(method, path): &&(&str, &str)| {
        operations.iter().any(|operation| operation.method == *method && operation.path == *path)
    };
    let unknown: Vec<_> = open.iter().filter(|one| !known(one)).collect();
    assert!(unknown.is_empty(), "open, and not there: {unknown:?}");
    operations.len()
}

/// Checks that pages of other sites read no address but those of health, and that a person may follow a link to those in
/// `linked` alone, as paths of the description. Returns how many addresses there are.
pub async fn other_sites_read_nothing(node: &RouterNode, linked: &[&str]) -> usize {
    let operations = operations(&api_description(node, None).await);
    let reads: Vec<_> = operations.iter().filter(|operation| operation.method == "GET").collect();
    for operation in &reads {
        let path = operation.path.as_str();
        let get = async |headers: &[(&str, &str)]| {
            let mut get = Request::get(operation.address(&[]));
            for (name, value) in headers {
                get = get.header(*name, *value);
            }
            node.respond(get.body(Body::empty()).unwrap()).await.status()
        };
        let is_for_all = FOR_ALL_SITES.contains(&path);
        for site in ["cross-site", "same-site"] {
            for mode in ["no-cors", "cors", "navigate"] {
                let headers =
                    [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", "image")];
                let refused = get(&headers).await == StatusCode::FORBIDDEN;
                assert_eq!(refused, !is_for_all, "{path} {headers:?}");
            }
            let followed =
                [("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
            let refused = get(&followed).await == StatusCode::FORBIDDEN;
            assert_eq!(refused, !is_for_all && !linked.contains(&path), "{path} {followed:?}");
        }
        for site in ["same-origin", "none"] {
            assert_ne!(get(&[("sec-fetch-site", site)]).await, StatusCode::FORBIDDEN, "{path}");
        }
        assert_ne!(get(&[]).await, StatusCode::FORBIDDEN, "no page at all: {path}");
    }
    let unknown: Vec<_> =
        linked.iter().filter(|one| !reads.iter().any(|operation| operation.path == **one)).collect();
    assert!(unknown.is_empty(), "linked, and not there: {unknown:?}");
    reads.len()
}
