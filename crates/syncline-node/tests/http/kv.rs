//! The key-value store over HTTP.

use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn vw_03_keys_are_put_read_listed_and_removed() {
    let world = World::new("").await;
    let put = world.json("PUT", "/api/kv/a%2Fb", "{\"value\":\"1\"}").await;
    assert_eq!(put.value(), json!({ "key": "a/b", "value": "1", "ttlMs": null, "ttl_ms": null }));
    world.json("PUT", "/api/kv/a%2Fa", "{\"value\":\"2\",\"ttl_sec\":60}").await;
    assert_eq!(
        world.get("/api/kv/a%2Fb").await.value(),
        json!({ "key": "a/b", "value": "1", "ttlMs": null, "ttl_ms": null })
    );
    let listed = world.get("/api/kv?prefix=a/&limit=10").await.value();
    let keys: Vec<_> =
        listed["entries"].as_array().unwrap().iter().map(|entry| entry["key"].clone()).collect();
    assert_eq!(keys, ["a/a", "a/b"]);
    let ttl_ms = listed["entries"][0]["ttl_ms"].as_u64().unwrap();
    assert!((1..=60_000).contains(&ttl_ms), "{ttl_ms}");
    assert_eq!(world.get("/api/kv?prefix=a/&limit=1").await.value()["entries"].as_array().unwrap().len(), 1);
    assert_eq!(
        world.json("DELETE", "/api/kv/a%2Fb", "").await.value(),
        json!({ "key": "a/b", "deleted": true })
    );
    assert_eq!(
        world.json("DELETE", "/api/kv/a%2Fb", "").await.value(),
        json!({ "key": "a/b", "deleted": false })
    );
    world.get("/api/kv/a%2Fb").await.refused(404, "not-found");
}

#[tokio::test]
async fn vw_03_what_cannot_be_stored_is_refused_with_a_reason() {
    let world = World::new("").await;
    world
        .json("PUT", &format!("/api/kv/{}", "k".repeat(513)), "{\"value\":\"1\"}")
        .await
        .refused(400, "invalid-key");
    world.json("PUT", "/api/kv/a%0Ab", "{\"value\":\"1\"}").await.refused(400, "invalid-key");
    for ttl in ["0", "-1", "1e300"] {
        let body = format!("{{\"value\":\"1\",\"ttl_sec\":{ttl}}}");
        world.json("PUT", "/api/kv/a", &body).await.refused(400, "invalid-ttl");
    }
    world
        .json("PUT", "/api/kv/a", "{\"value\":\"1\",\"ttl_sec\":1e12}")
        .await
        .refused(400, "invalid-argument");
    for limit in ["0", "1001", "-1"] {
        let code = if limit == "-1" { "invalid-query" } else { "invalid-limit" };
        world.get(&format!("/api/kv?limit={limit}")).await.refused(400, code);
    }
    assert!(world.context.kv.get(&syncline_core::kv::Key::new("a").unwrap()).await.unwrap().is_none());
}

#[tokio::test]
async fn vw_02_a_heartbeat_is_a_key_that_can_be_read_and_not_written() {
    let world = World::new("").await;
    world.json("POST", "/api/viewer", "{\"sessionId\":\"abc\"}").await;
    let read = world.get("/api/kv/viewer:abc").await.value();
    assert_eq!((read["key"].as_str(), read["value"].as_str()), (Some("viewer:abc"), Some("1")));
    let ttl_ms = read["ttl_ms"].as_u64().unwrap();
    assert!((59_000..=60_000).contains(&ttl_ms), "{ttl_ms}");
    let listed = world.get("/api/kv?prefix=viewer:&limit=1").await.value();
    assert_eq!(listed["entries"][0]["key"], "viewer:abc");
    world.json("PUT", "/api/kv/viewer:x", "{\"value\":\"1\"}").await.refused(403, "reserved-key");
    world.json("DELETE", "/api/kv/viewer:abc", "").await.refused(403, "reserved-key");
    world.json("POST", "/api/viewer", "{\"sessionId\":\"abc\",\"bye\":true}").await;
    world.get("/api/kv/viewer:abc").await.refused(404, "not-found");
    assert_eq!(world.get("/api/kv?prefix=viewer:").await.value(), json!({ "entries": [], "next": null }));
}

#[tokio::test]
async fn vw_07_the_lock_of_a_minute_is_a_key_that_can_be_read_and_not_written() {
    let world = World::new("").await;
    let name = "genlock:2025-11-11T12:00:report";
    world.get(&format!("/api/kv/{name}")).await.refused(404, "not-found");
    world.json("POST", &format!("/api/locks/{name}/acquire"), "{\"holder\":\"node-1\"}").await;
    let read = world.get(&format!("/api/kv/{name}")).await.value();
    assert_eq!((&read["key"], &read["value"]), (&json!(name), &json!("node-1")));
    assert!((1..=15_000).contains(&read["ttl_ms"].as_u64().unwrap()), "{read}");
    assert_eq!(world.get("/api/kv?prefix=genlock:2025").await.value()["entries"][0]["key"], name);
    world.get("/api/kv/genlock:2025").await.refused(404, "not-found");
    world.json("PUT", &format!("/api/kv/{name}"), "{\"value\":\"1\"}").await.refused(403, "reserved-key");
    world.json("DELETE", &format!("/api/kv/{name}"), "").await.refused(403, "reserved-key");
}

/// The kv over HTTP used to guard two of the node's own prefixes: a forged report of viewers made a paid job run with nobody
/// there, and a thousand that made no sense filled the log.
#[tokio::test]
async fn vw_03_keys_that_nodes_write_for_themselves_can_be_read_and_not_changed() {
    let file = "token = \"a-token-long-enough-for-anybody\"\n";
    let world = World::new(file).await;
    let send = async |method: &str, path: &str, body: &str| {
        let mut request = crate::world::request(method, path, body);
        request
            .headers_mut()
            .insert("authorization", "Bearer a-token-long-enough-for-anybody".parse().unwrap());
        world.send(request).await
    };
    // Everything that makes a node write to the kv: a viewer, and a browser that signs in and out.
    world.json("POST", "/api/viewer", "{\"sessionId\":\"s\"}").await;
    let signed_in = send("POST", "/api/session", "{\"token\":\"a-token-long-enough-for-anybody\"}").await;
    let cookie = signed_in.header("set-cookie").split(';').next().unwrap().to_owned();
    let sign_out = http::Request::delete("/api/session").header("cookie", cookie);
    world.send(sign_out.body(axum::body::Body::empty()).unwrap()).await;
    let mut written: Vec<String> =
        world.context.kv.list("", 1_000).await.unwrap().into_iter().map(|entry| entry.key.into()).collect();
    assert!(written.len() >= 3, "{written:?}");
    let others = ["viewer:x", "viewers:evil", "genlock:2025-11-11T12:00:report", "job-input:report"];
    written.extend(others.map(str::to_owned));
    written.push("node-session:secret".to_owned());
    for key in &written {
        let path = format!("/api/kv/{}", key.replace('/', "%2F"));
        send("PUT", &path, "{\"value\":\"1\"}").await.refused(403, "reserved-key");
        send("DELETE", &path, "").await.refused(403, "reserved-key");
    }
    send("GET", "/api/kv/node-session:secret", "").await.refused(403, "reserved-key");
    let listed = send("GET", "/api/kv", "").await;
    assert!(listed.text().contains("viewers:") && !listed.text().contains("node-session"), "{listed:?}");
    assert_eq!(send("PUT", "/api/kv/session:7", "{\"value\":\"1\"}").await.status, 200);
}
