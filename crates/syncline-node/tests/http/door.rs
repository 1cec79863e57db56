//! What every answer has in common: errors, headers, limits, counts.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, header};
use serde_json::Value;
use syncline_node::http as api;

use crate::world::{Answer, World, request};

#[tokio::test]
async fn every_refusal_is_json_with_a_word_a_sentence_and_an_id() {
    let world = World::new("").await;
    world.get("/no/such/path").await.refused(404, "not-found");
    world.get("/api/no-such-route").await.refused(404, "not-found");
    world.get("/assets/none.js").await.refused(404, "not-found");
    world.get("/api/kv/none").await.refused(404, "not-found");
    world.get("/api/kv?limit=many").await.refused(400, "invalid-query");
    world.get("/api/kv/%FF").await.refused(400, "invalid-path");
    let not_allowed = world.json("PATCH", "/api/kv/a", "{}").await;
    not_allowed.refused(405, "method-not-allowed");
    for method in ["GET", "PUT", "DELETE"] {
        assert!(not_allowed.header("allow").contains(method), "{not_allowed:?}");
    }
    world.json("PUT", "/api/kv/a", "{\"value\":").await.refused(400, "invalid-json");
    world.json("PUT", "/api/kv/a", "{\"value\":7}").await.refused(400, "invalid-body");
    world.json("PUT", "/api/kv/a", "{\"value\":\"1\",\"ttl\":1}").await.refused(400, "invalid-body");
    world.json("PUT", "/api/kv/a", "[\"1\"]").await.refused(400, "invalid-body");
    let plain =
        Request::put("/api/kv/a").header(header::CONTENT_TYPE, "text/plain").body(Body::from("x")).unwrap();
    world.send(plain).await.refused(415, "unsupported-media-type");
    let form = Request::post("/api/viewer").header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    world.send(form.body(Body::from("sessionId=s")).unwrap()).await.refused(415, "unsupported-media-type");
}

#[tokio::test]
async fn bodies_are_limited_by_route_announced_or_not() {
    let world = World::new("").await;
    let largest = format!("{{\"value\":\"{}\"}}", "v".repeat(256 * 1024));
    assert_eq!(world.json("PUT", "/api/kv/a", &largest).await.status, 200);
    let over = format!("{{\"value\":\"{}\"}}", "v".repeat(256 * 1024 + 1));
    world.json("PUT", "/api/kv/a", &over).await.refused(400, "invalid-key");
    world.json("PUT", "/api/kv/a", &"x".repeat(4 * 1024 * 1024)).await.refused(413, "too-large");
    let unannounced = stream::iter(std::iter::repeat_n(Bytes::from_static(&[b'x'; 1_024]), 1_024));
    let body = Body::from_stream(unannounced.map(Ok::<_, std::io::Error>));
    let post =
        Request::post("/api/viewer").header(header::CONTENT_TYPE, "application/json").body(body).unwrap();
    let refused = world.send(post).await;
    refused.refused(413, "too-large");
    assert_eq!(refused.value()["success"], Value::Bool(false));
}

#[tokio::test]
async fn a_body_that_stops_coming_is_given_up() {
    let world = World::new("").await;
    tokio::time::pause();
    let stalled = stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b"{\"val")) })
        .chain(stream::pending());
    let put = Request::put("/api/kv/a").header(header::CONTENT_TYPE, "application/json");
    world.send(put.body(Body::from_stream(stalled)).unwrap()).await.refused(408, "timeout");
}

#[tokio::test]
async fn a_slow_drip_is_given_up_as_a_whole() {
    let world = World::new("").await;
    tokio::time::pause();
    let drip = stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(9)).await;
        Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), ()))
    });
    let put = Request::put("/api/kv/a").header(header::CONTENT_TYPE, "application/json");
    world.send(put.body(Body::from_stream(drip)).unwrap()).await.refused(408, "timeout");
}

#[tokio::test]
async fn a_handler_that_panics_or_hangs_becomes_an_error() {
    let world = World::with("", |context| {
        let router = Router::new()
            .route("/panic", get(async || -> &'static str { panic!("canary") }))
            .route("/hang", get(async || std::future::pending::<&'static str>().await));
        api::behind_door(router, context)
    })
    .await;
    let panicked = world.get("/panic").await;
    panicked.refused(500, "internal");
    assert!(!panicked.text().contains("canary"), "{panicked:?}");
    tokio::time::pause();
    world.get("/hang").await.refused(408, "timeout");
}

#[tokio::test]
async fn answers_keep_browsers_strict() {
    let world = World::new("").await;
    let api_policy = "default-src 'none'; frame-ancestors 'none'";
    for path in ["/api/viewer", "/healthz", "/no/such/path", "/openapi.json"] {
        let answer = world.get(path).await;
        assert_eq!(answer.header("content-security-policy"), api_policy, "{path}");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        strict(&answer);
    }
    let page = world.get("/").await;
    strict(&page);
    assert_eq!(page.header("cross-origin-opener-policy"), "same-origin");
    assert_eq!(
        page.header("content-security-policy"),
        "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data: blob:; \
         connect-src 'self'; worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    );
    let frame = world.get("/state/frame").await;
    assert!(
        frame.header("content-security-policy").contains("frame-ancestors 'self'; "),
        "in our own pages alone"
    );
}

fn strict(answer: &Answer) {
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("referrer-policy"), "no-referrer");
    assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin");
}

#[tokio::test]
async fn readiness_is_the_stores_word() {
    let world = World::new("").await;
    assert_eq!(world.get("/readyz").await.value()["status"], "ready");
    world.context.store.close().await;
    world.get("/readyz").await.refused(503, "store");
    world.get("/api/kv").await.refused(500, "store");
    assert_eq!(world.get("/healthz").await.value()["status"], "alive");
}

#[tokio::test]
async fn requests_are_counted_by_route_and_not_by_path() {
    let world = World::new("").await;
    world.json("PUT", "/api/kv/one", "{\"value\":\"1\"}").await;
    world.json("PUT", "/api/kv/two", "{\"value\":\"1\"}").await;
    world.get("/api/kv/none").await;
    world.get("/a/made/up/path").await;
    let metrics = world.get("/metrics").await;
    assert_eq!(metrics.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let text = metrics.text();
    for line in [
        "syncline_http_requests_total{route=\"/api/kv/{key}\",method=\"PUT\",status=\"2xx\"} 2",
        "syncline_http_requests_total{route=\"/api/kv/{key}\",method=\"GET\",status=\"4xx\"} 1",
        "syncline_http_requests_total{route=\"other\",method=\"any\",status=\"4xx\"} 1",
        "syncline_http_request_duration_seconds_count{route=\"/api/kv/{key}\",method=\"PUT\"} 2",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("/made") && !text.contains("/one"), "{text}");
    let named = |line: &&str| !line.starts_with('#') && !line.is_empty();
    for line in text.lines().filter(named) {
        assert!(line.starts_with("syncline_") || line.starts_with("process_"), "{line}");
    }
}

#[tokio::test]
async fn no_secret_is_in_any_answer() {
    let world =
        World::new("token = \"canary-token-1\"\ndatabase_url = \"postgres://ann:canary-2@db/x\"\n").await;
    for path in ["/metrics", "/openapi.json", "/api/viewer", "/api/kv", "/readyz", "/healthz", "/", "/no"] {
        let mut get = request("GET", path, "");
        get.headers_mut().insert(header::AUTHORIZATION, "Bearer canary-token-1".parse().unwrap());
        let answer = world.send(get).await;
        assert!(!answer.text().contains("canary"), "{path}: {answer:?}");
        assert!(!format!("{:?}", answer.headers).contains("canary"), "{path}: {answer:?}");
    }
}
