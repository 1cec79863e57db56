//! Heartbeats over HTTP.

use axum::body::Body;
use http::{Request, header};
use serde_json::{Value, json};
use syncline_node::server::Peer;

use crate::world::{Answer, World, request};

async fn beat(world: &World, body: &str) -> Answer {
    world.json("POST", "/api/viewer", body).await
}

#[tokio::test]
async fn vw_01_a_heartbeat_is_answered_with_success_and_nothing_else() {
    let world = World::new("").await;
    let bodies = [
        "{\"sessionId\":\"550e8400-e29b-41d4-a716-446655440000\"}",
        "{\"sessionId\":\"s\",\"bye\":false}",
        "{\"sessionId\":\"s\",\"visible\":false,\"unknown\":[1,2]}",
        "{\"sessionId\":\"s\",\"bye\":true}",
        "{\"sessionId\":\"never-seen\",\"bye\":true}",
        "{\"sessionId\":\"\\u0073-escaped\"}",
        " {\"sessionId\" : \"spaced\" } ",
    ];
    for body in bodies {
        let answer = beat(&world, body).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (200, "{\"success\":true}"), "{body}");
        assert_eq!(answer.header("content-type"), "application/json");
    }
    assert!(world.get("/api/kv/viewer:s-escaped").await.status.is_success());
}

#[tokio::test]
async fn vw_01_a_bad_heartbeat_gets_the_right_answer_and_stores_nothing() {
    let world = World::new("").await;
    let long = format!("{{\"sessionId\":\"{}\"}}", "s".repeat(65));
    let deep = format!("{{\"sessionId\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let megabyte = format!("{{\"sessionId\":\"s\",\"padding\":\"{}\"}}", "x".repeat(1024 * 1024));
    let cases = [
        ("{}", 400, "session-required"),
        ("{\"sessionId\":null}", 400, "session-required"),
        ("{\"sessionId\":\"\"}", 400, "session-required"),
        ("{\"bye\":true}", 400, "session-required"),
        ("{\"sessionId\":7}", 400, "invalid-session"),
        ("{\"sessionId\":{\"a\":1}}", 400, "invalid-session"),
        ("{\"sessionId\":[\"s\"]}", 400, "invalid-session"),
        ("{\"sessionId\":true}", 400, "invalid-session"),
        ("{\"sessionId\":\"a b\"}", 400, "invalid-session"),
        ("{\"sessionId\":\"\\u0000\"}", 400, "invalid-session"),
        ("{\"sessionId\":\"é\"}", 400, "invalid-session"),
        (long.as_str(), 400, "invalid-session"),
        ("{\"sessionId\":\"s\",\"bye\":\"yes\"}", 400, "invalid-body"),
        ("{\"sessionId\":\"s\",\"visible\":1}", 400, "invalid-body"),
        ("[\"s\"]", 400, "invalid-body"),
        ("\"s\"", 400, "invalid-body"),
        ("", 400, "invalid-json"),
        ("{\"sessionId\":\"s\"", 400, "invalid-json"),
        ("not json", 400, "invalid-json"),
        (deep.as_str(), 400, "invalid-json"),
        (megabyte.as_str(), 413, "too-large"),
    ];
    for (body, status, code) in cases {
        let answer = beat(&world, body).await;
        answer.refused(status, code);
        assert_eq!(answer.value()["success"], Value::Bool(false), "{answer:?}");
        if code == "session-required" {
            assert_eq!(answer.value()["error"], "sessionId is required");
        }
    }
    assert_eq!(world.get("/api/kv?prefix=viewer:").await.value()["entries"], json!([]));
    assert_eq!(world.get("/api/viewer").await.value()["viewers"], 0);
}

#[tokio::test]
async fn vw_05_a_beacon_may_come_as_plain_text_or_with_no_type_at_all() {
    let world = World::new("").await;
    for kind in [Some("text/plain;charset=UTF-8"), Some("application/json; charset=utf-8"), None] {
        let mut post = Request::post("/api/viewer");
        if let Some(kind) = kind {
            post = post.header(header::CONTENT_TYPE, kind);
        }
        let body = Body::from("{\"sessionId\":\"s\",\"bye\":true}");
        assert_eq!(world.send(post.body(body).unwrap()).await.status, 200, "{kind:?}");
    }
}

#[tokio::test]
async fn vw_02_beats_and_byes_are_idempotent() {
    let world = World::new("").await;
    for _ in 0..3 {
        beat(&world, "{\"sessionId\":\"a\"}").await;
    }
    beat(&world, "{\"sessionId\":\"b\",\"visible\":false}").await;
    let seen = world.get("/api/viewer").await.value();
    assert_eq!((&seen["viewers"], &seen["visible"], &seen["occupied"]), (&json!(2), &json!(1), &json!(true)));
    let node = &seen["nodes"][0];
    assert_eq!(node, &json!({ "node": world.context.node.as_str(), "viewers": 2, "visible": 1 }));
    for _ in 0..3 {
        assert_eq!(beat(&world, "{\"sessionId\":\"a\",\"bye\":true}").await.status, 200);
    }
    beat(&world, "{\"sessionId\":\"b\",\"bye\":true}").await;
    let seen = world.get("/api/viewer").await.value();
    assert_eq!((&seen["viewers"], &seen["occupied"]), (&json!(0), &json!(false)));
}

#[tokio::test]
async fn vw_09_heartbeats_byes_and_refusals_are_counted() {
    let world = World::new("[viewer]\nmax_sessions = 2\n").await;
    for id in ["a", "a", "b", "c"] {
        beat(&world, &json!({ "sessionId": id }).to_string()).await;
    }
    beat(&world, "{\"sessionId\":\"b\",\"bye\":true}").await;
    let metrics = world.get("/metrics").await;
    for line in [
        "syncline_viewer_heartbeats_total 3",
        "syncline_viewer_byes_total 1",
        "syncline_viewer_refused_total{reason=\"full\"} 1",
        "syncline_viewer_refused_total{reason=\"too-fast\"} 0",
        "syncline_store_errors_total{system=\"viewer\"} 0",
        "syncline_viewer_sessions 1",
        "syncline_viewer_visible_sessions 1",
        "syncline_viewer_occupied 1",
    ] {
        assert!(metrics.text().lines().any(|found| found == line), "{line}\n{}", metrics.text());
    }
}

#[tokio::test]
async fn vw_21_beyond_the_cap_new_sessions_wait_and_the_room_stays_occupied() {
    let world = World::new("[viewer]\nmax_sessions = 2\n").await;
    for id in ["a", "b"] {
        assert_eq!(beat(&world, &json!({ "sessionId": id }).to_string()).await.status, 200);
    }
    let refused = beat(&world, "{\"sessionId\":\"c\"}").await;
    refused.refused(429, "too-many-viewers");
    assert_eq!(refused.value()["success"], false);
    assert_eq!(refused.header("retry-after"), "30");
    assert_eq!(beat(&world, "{\"sessionId\":\"a\"}").await.status, 200, "who is in stays in");
    assert_eq!(world.get("/api/viewer").await.value()["occupied"], true);
}

#[tokio::test]
async fn vw_21_one_address_cannot_invent_sessions_without_end() {
    let world = World::new("[viewer]\nnew_sessions_per_minute = 5\n").await;
    let from = |address: &str, id: &str| {
        let mut post = request("POST", "/api/viewer", &json!({ "sessionId": id }).to_string());
        post.extensions_mut().insert(Peer(format!("{address}:4000").parse().unwrap()));
        // Nobody asked us to believe this.
        post.headers_mut().insert("x-forwarded-for", "198.51.100.9".parse().unwrap());
        post
    };
    for number in 0..5 {
        assert_eq!(world.send(from("192.0.2.1", &format!("s{number}"))).await.status, 200);
    }
    let refused = world.send(from("192.0.2.1", "s5")).await;
    refused.refused(429, "too-fast");
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    assert_eq!(world.send(from("192.0.2.1", "s0")).await.status, 200, "known sessions go on");
    assert_eq!(world.send(from("192.0.2.2", "s5")).await.status, 200, "other addresses are not concerned");
}

#[tokio::test]
async fn vw_21_behind_a_trusted_proxy_the_viewers_own_address_counts() {
    let world = World::new("[viewer]\nnew_sessions_per_minute = 1\ntrust_forwarded_for = true\n").await;
    let from = |forwarded: &str, id: &str| {
        let mut post = request("POST", "/api/viewer", &json!({ "sessionId": id }).to_string());
        post.extensions_mut().insert(Peer("10.0.0.1:4000".parse().unwrap()));
        post.headers_mut().insert("x-forwarded-for", forwarded.parse().unwrap());
        post
    };
    assert_eq!(world.send(from("192.0.2.1", "a")).await.status, 200);
    assert_eq!(world.send(from("192.0.2.2", "b")).await.status, 200);
    // Only what our proxy appended counts; what the caller claims before it does not help.
    assert_eq!(world.send(from("203.0.113.5, 192.0.2.2", "c")).await.status, 429);
}

#[tokio::test]
async fn vw_01_when_the_store_fails_the_answer_says_so_and_the_viewer_still_counts_here() {
    let world = World::new("").await;
    world.context.store.close().await;
    let answer = beat(&world, "{\"sessionId\":\"a\"}").await;
    answer.refused(500, "store");
    assert_eq!(answer.value()["success"], false);
    assert_eq!(world.get("/api/viewer").await.value()["viewers"], 1);
    let metrics = world.get("/metrics").await;
    let errors = metrics
        .text()
        .lines()
        .find(|line| line.starts_with("syncline_store_errors_total{system=\"viewer\"}"));
    assert_ne!(errors.unwrap().rsplit(' ').next(), Some("0"), "{errors:?}");
}
