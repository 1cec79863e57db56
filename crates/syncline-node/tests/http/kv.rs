//! The key-value store over HTTP.

use serde_json::{Value, json};
use syncline_testing::TestKey;

use crate::events::Reader;
use crate::world::{Answer, World};

#[tokio::test]
async fn vw_03_keys_are_put_read_listed_and_removed() {
    let world = World::new("").await;
    let put = world.json("PUT", "/api/kv/a%2Fb", "{\"value\":\"1\"}").await;
    let version = put.value()["version"].clone();
    let expected = json!({ "key": "a/b", "value": "1", "version": version, "ttlMs": null, "ttl_ms": null });
    assert!(version.is_u64() && put.value() == expected, "{put:?}");
    world.json("PUT", "/api/kv/a%2Fa", "{\"value\":\"2\",\"ttl_sec\":60}").await;
    assert_eq!(world.get("/api/kv/a%2Fb").await.value(), expected);
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

/// Everything that nodes write for themselves used to be in the users' key space: a forged report of viewers made a paid job run
/// with nobody there, and a job's input or what an app keeps could be read and replaced.
#[tokio::test]
async fn vw_32_what_nodes_write_for_themselves_can_neither_be_read_nor_forged() {
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
    assert!(world.context.kv.list("", 1_000).await.unwrap().is_empty(), "nothing is in the users' space");
    let node = world.context.store.kv_space("node").unwrap();
    let written = node.list("", 1_000).await.unwrap();
    assert!(written.len() >= 3, "{written:?}");
    let mut keys: Vec<String> = written.into_iter().map(|entry| entry.key.into()).collect();
    keys.extend(["viewers:evil", "job-input:report", "node-session:secret"].map(str::to_owned));
    for key in &keys {
        let path = format!("/api/kv/{}", key.replace('/', "%2F"));
        send("GET", &path, "").await.refused(403, "reserved-key");
        send("PUT", &path, "{\"value\":\"1\"}").await.refused(403, "reserved-key");
        send("DELETE", &path, "").await.refused(403, "reserved-key");
        send("POST", &format!("{path}/increment"), "{}").await.refused(403, "reserved-key");
        for operation in ["get", "delete", "increment"] {
            let batch = json!({ "operations": [{ "op": operation, "key": key }] }).to_string();
            send("POST", "/api/kv", &batch).await.refused(403, "reserved-key");
        }
    }
    for key in ["viewer:x", "genlock:2025-11-11T12:00:report"] {
        send("PUT", &format!("/api/kv/{key}"), "{\"value\":\"1\"}").await.refused(403, "reserved-key");
    }
    // The space behind the control character cannot be named either.
    send("GET", "/api/kv/%01node%01viewers:evil", "").await.refused(400, "invalid-key");
    send("GET", "/api/kv?prefix=%01", "").await.refused(400, "invalid-key");
    for query in ["", "?after=", "?q=viewers", "?q=node"] {
        assert_eq!(
            send("GET", &format!("/api/kv{query}"), "").await.value()["entries"],
            json!([]),
            "{query}"
        );
    }
    assert_eq!(send("PUT", "/api/kv/session:7", "{\"value\":\"1\"}").await.status, 200);
}

async fn conditional(
    world: &World,
    method: &str,
    path: &str,
    header: (&'static str, &str),
    body: &str,
) -> Answer {
    let mut request = crate::world::request(method, path, body);
    request.headers_mut().insert(header.0, header.1.parse().unwrap());
    world.send(request).await
}

#[tokio::test]
async fn vw_33_a_key_is_put_if_absent_and_changed_if_nobody_else_has_changed_it() {
    let world = World::new("").await;
    let put = async |header, value: &str| {
        conditional(&world, "PUT", "/api/kv/k", header, &json!({ "value": value }).to_string()).await
    };
    put(("if-match", "*"), "1").await.refused(412, "changed-meanwhile");
    let first = put(("if-none-match", "*"), "1").await;
    let tag = first.header("etag").to_owned();
    assert_eq!(
        (first.status.as_u16(), tag.as_str()),
        (200, format!("\"{}\"", first.value()["version"]).as_str())
    );
    let refused = put(("if-none-match", "*"), "2").await;
    refused.refused(412, "changed-meanwhile");
    assert_eq!(refused.value()["version"], first.value()["version"]);
    let second = put(("if-match", &tag), "2").await;
    assert_eq!((second.status.as_u16(), second.header("etag") == tag), (200, false));
    put(("if-match", &tag), "3").await.refused(412, "changed-meanwhile");
    put(("if-match", "\"nonsense\""), "3").await.refused(400, "invalid-tag");
    put(("if-none-match", &tag), "3").await.refused(400, "invalid-tag");
    let known = conditional(&world, "GET", "/api/kv/k", ("if-none-match", second.header("etag")), "").await;
    assert_eq!(known.status, 304);
    let news = conditional(&world, "GET", "/api/kv/k", ("if-none-match", &tag), "").await;
    assert_eq!((news.status.as_u16(), news.value()["value"].as_str()), (200, Some("2")));
    conditional(&world, "DELETE", "/api/kv/k", ("if-match", &tag), "")
        .await
        .refused(412, "changed-meanwhile");
    let gone = conditional(&world, "DELETE", "/api/kv/k", ("if-match", second.header("etag")), "").await;
    assert_eq!(gone.value()["deleted"], true);
}

#[tokio::test]
async fn vw_33_numbers_are_incremented_and_several_keys_changed_in_one_request() {
    let world = World::new("").await;
    let add = async |body: &str| world.json("POST", "/api/kv/n/increment", body).await;
    assert_eq!(add("{}").await.value()["value"], "1");
    assert_eq!(add("{\"by\":-5,\"ttlSec\":60}").await.value()["value"], "-4");
    add("{\"by\":9007199254740996}").await.refused(409, "out-of-range");
    add("{\"by\":1.5}").await.refused(400, "invalid-body");
    world.json("PUT", "/api/kv/text", "{\"value\":\"one\"}").await;
    world.json("POST", "/api/kv/text/increment", "{}").await.refused(409, "not-a-number");
    let batch = async |operations: Value| {
        world.json("POST", "/api/kv", &json!({ "operations": operations }).to_string()).await
    };
    let done = batch(json!([
        { "op": "put", "key": "new", "value": "v", "ifAbsent": true },
        { "op": "get", "key": "text" },
        { "op": "get", "key": "nothing" },
        { "op": "increment", "key": "n", "by": 4 },
        { "op": "delete", "key": "text" },
    ]))
    .await;
    let results = done.value()["results"].clone();
    let seen: Vec<Value> = results.as_array().unwrap().iter().map(|result| result["value"].clone()).collect();
    assert_eq!(seen, [json!("v"), json!("one"), Value::Null, json!("0"), Value::Null], "{results}");
    assert_eq!((&results[2]["exists"], &results[4]["deleted"]), (&json!(false), &json!(true)));
    let refused = batch(json!([
        { "op": "increment", "key": "n" },
        { "op": "put", "key": "new", "value": "w", "ifVersion": 1 },
    ]))
    .await;
    refused.refused(412, "changed-meanwhile");
    assert_eq!((&refused.value()["index"], &refused.value()["version"]), (&json!(1), &results[0]["version"]));
    assert_eq!(world.get("/api/kv/n").await.value()["value"], "0", "nothing of it was done");
    let versions = json!([{ "op": "put", "key": "a", "value": "", "ifAbsent": true, "ifVersion": 1 }]);
    batch(versions).await.refused(400, "invalid-body");
    batch(json!([{ "op": "swap", "key": "a" }])).await.refused(400, "invalid-body");
    batch(json!(vec![json!({ "op": "get", "key": "a" }); 129])).await.refused(400, "too-many-operations");
}

#[tokio::test]
async fn vw_33_changes_are_followed_by_prefix_as_far_as_they_may_be_read() {
    let key = TestKey::new("cart", &["kv:cart:*:read"]);
    let world = World::new(&format!("token = \"a-token-long-enough-for-anybody\"\n{}", key.table())).await;
    let open = async |bearer: &str, path: &str| {
        let request = http::Request::get(path).header("authorization", bearer);
        Reader::of(&world, request.body(axum::body::Body::empty()).unwrap()).await
    };
    let mut owner =
        open("Bearer a-token-long-enough-for-anybody", "/api/events?topics=kv&prefix=cart:,other:").await;
    let mut cart = open(key.bearer().to_str().unwrap(), "/api/events?topics=kv&prefix=c").await;
    for reader in [&mut owner, &mut cart] {
        assert_eq!(reader.next().await.unwrap().0, "hello");
    }
    let events = &world.context.events;
    for key in ["elsewhere", "other:1", "cart:1"] {
        events.publish_in("kv.put", key, &json!({ "key": key, "version": 1 }));
    }
    events.publish_in("kv.deleted", "cart:1", &json!({ "key": "cart:1" }));
    events.publish("kv.missed", &json!({}));
    let named = |event: Option<(String, Value)>| {
        let (name, facts) = event.unwrap();
        (name, facts["key"].as_str().unwrap_or_default().to_owned())
    };
    let is = |name: &str, key: &str| (name.to_owned(), key.to_owned());
    assert_eq!(named(owner.next().await), is("kv.put", "other:1"));
    assert_eq!(named(owner.next().await), is("kv.put", "cart:1"));
    assert_eq!(named(owner.next().await), is("kv.deleted", "cart:1"));
    assert_eq!(named(owner.next().await), is("kv.missed", ""));
    assert_eq!(named(cart.next().await), is("kv.put", "cart:1"));
    assert_eq!(named(cart.next().await), is("kv.deleted", "cart:1"));
    assert_eq!(named(cart.next().await), is("kv.missed", ""));
}

#[tokio::test]
async fn vw_33_a_running_node_tells_of_changed_keys_without_their_values() {
    let node = crate::world::builder("").start().await;
    let mut events = node.context().events.listen();
    let put = json!({ "value": "secret" });
    // The watcher begins with the node; the first change that it hears of ends the wait.
    let heard = loop {
        node.send("PUT", "/api/kv/cart:1", Some(&put)).await;
        if let Ok(event) = events.try_recv()
            && event.topic() == "kv"
        {
            break event;
        }
    };
    assert_eq!((&*heard.name, heard.about.as_deref()), ("kv.put", Some("cart:1")));
    assert!(heard.data.contains("version") && !heard.data.contains("secret"), "{}", heard.data);
    node.stop().await;
}

#[tokio::test]
async fn vw_33_a_batch_needs_the_grant_of_each_key() {
    let key = TestKey::new("cart", &["kv:cart:*:read,write", "kv:public:*:read"]);
    let world = World::new(&format!("token = \"a-token-long-enough-for-anybody\"\n{}", key.table())).await;
    let batch = async |operation: &str, name: &str| {
        let mut operation = json!({ "op": operation, "key": name });
        if operation["op"] == "put" {
            operation["value"] = json!("1");
        }
        let body = json!({ "operations": [operation] }).to_string();
        world.send(key.shown_by(crate::world::request("POST", "/api/kv", &body))).await
    };
    for (operation, name, allowed) in [
        ("put", "cart:1", true),
        ("get", "cart:1", true),
        ("increment", "cart:1", true),
        ("delete", "cart:1", true),
        ("get", "public:1", true),
        ("put", "public:1", false),
        ("increment", "public:1", false),
        ("get", "other", false),
        ("delete", "other", false),
    ] {
        let answer = batch(operation, name).await;
        match allowed {
            true => assert_eq!(answer.status, 200, "{operation} {name} {answer:?}"),
            false => answer.refused(403, "forbidden"),
        }
    }
    let request = crate::world::request("POST", "/api/kv", "{\"operations\":[]}");
    world.send(request).await.refused(401, "token-missing");
}
