//! Single entities of shared state over HTTP, and what a search finds.

use http::Request;
use serde_json::{Value, json};

use crate::world::{Answer, World};

const ITEM: &str = "/api/state/cart/item%2F1";

async fn send(world: &World, method: &str, path: &str, header: Option<(&str, &str)>, body: &str) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    request = request.header("content-type", "application/json");
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    world.send(request.body(body.to_owned().into()).unwrap()).await
}

#[tokio::test]
async fn cn_21_a_server_writes_state_under_a_condition_and_a_device_pulls_it() {
    let world = World::new("").await;
    world.get(ITEM).await.refused(404, "not-found");
    let first = send(&world, "PUT", ITEM, Some(("if-none-match", "*")), "{\"n\": 1.10e2}").await;
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(first.text().matches("{\"n\":1.10e2}").count(), 1, "digit by digit: {}", first.text());
    let tag = first.header("etag").to_owned();
    assert_eq!(tag, format!("\"{}\"", first.value()["version"].as_str().unwrap()));
    send(&world, "PUT", ITEM, Some(("if-none-match", "*")), "{}").await.refused(412, "changed-meanwhile");
    let second =
        send(&world, "PUT", &format!("{ITEM}?schema=4"), Some(("if-match", &tag)), "{\"n\":2}").await;
    assert_eq!(second.status, 200, "{second:?}");
    assert_eq!(second.value()["schema"], 4);
    send(&world, "PUT", ITEM, Some(("if-match", &tag)), "{}").await.refused(412, "changed-meanwhile");
    send(&world, "DELETE", ITEM, Some(("if-match", &tag)), "").await.refused(412, "changed-meanwhile");

    let pulled = world.get("/api/state/cart").await.value();
    assert_eq!(pulled["changes"][0]["id"], "item/1");
    assert_eq!(pulled["changes"][0]["value"]["n"], 2);
    let read = world.get(ITEM).await;
    assert_eq!((&read.value()["value"], read.header("etag")), (&json!({ "n": 2 }), second.header("etag")));
    assert_eq!(send(&world, "DELETE", ITEM, None, "").await.value()["deleted"], true);
    assert_eq!(send(&world, "DELETE", ITEM, None, "").await.value()["deleted"], false);
    world.get(ITEM).await.refused(404, "not-found");

    for (path, header, body, status, code) in [
        (ITEM, None, "[1]", 400, "invalid-body"),
        (ITEM, None, "{\"sync\":1}", 400, "invalid-body"),
        (ITEM, None, "{", 400, "invalid-json"),
        (ITEM, Some(("if-match", "5")), "{}", 400, "invalid-tag"),
        (ITEM, Some(("if-none-match", "\"x-1\"")), "{}", 400, "invalid-tag"),
        ("/api/state/no%20space/a", None, "{}", 400, "invalid-space"),
        ("/api/state/cart/a%01", None, "{}", 400, "invalid-id"),
    ] {
        send(&world, "PUT", path, header, body).await.refused(status, code);
    }
    let large = format!("{{\"t\":\"{}\"}}", "x".repeat(300_000));
    send(&world, "PUT", ITEM, None, &large).await.refused(413, "too-large");
}

async fn names(world: &World, path: &str, items: &str, id: &str) -> Vec<String> {
    let answer = world.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    let value = answer.value();
    let names = value[items].as_array().unwrap().iter().map(|item| match &item[id] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    names.collect()
}

/// Pages looked through what they had loaded and said that nothing had these words.
#[tokio::test]
async fn cn_01_every_listing_is_searched_on_the_node() {
    let file = "[[queues]]\nname = \"words\"\nurl = \"http://127.0.0.1:1/{key}\"\n[[entities]]\nname = \"note\"\nsettings = true\n";
    let world = World::new(file).await;
    for n in 0..30 {
        send(&world, "PUT", &format!("/api/kv/key-{n:02}"), None, "{\"value\":\"v\",\"ttlSec\":600}").await;
        let space = format!("/api/state/space-{n:02}/Entity-{n:02}");
        send(&world, "PUT", &space, None, &format!("{{\"n\":\"Wert {n:02}\"}}")).await;
        let lock = format!("/api/locks/lock-{n:02}/acquire");
        send(&world, "POST", &lock, None, &format!("{{\"holder\":\"Box {n:02}\",\"ttlMs\":60000}}")).await;
        send(
            &world,
            "PUT",
            &format!("/api/entities/note/n-{n:02}"),
            None,
            &format!("{{\"t\":\"Text {n:02}\"}}"),
        )
        .await;
    }
    let keys: Vec<String> = (0..3_000).map(|n| format!("Word-{n:04}")).collect();
    let body = json!({ "kind": "new", "keys": keys }).to_string();
    assert_eq!(send(&world, "POST", "/api/queues/words", None, &body).await.status, 202);
    for (path, items, id, expected) in [
        ("/api/kv?q=KEY-07", "entries", "key", vec!["key-07"]),
        ("/api/state?q=E-2&limit=3", "spaces", "space", vec!["space-20", "space-21", "space-22"]),
        ("/api/state?q=E-2&limit=3&after=space-28", "spaces", "space", vec!["space-29"]),
        ("/api/state?state=full", "spaces", "space", vec![]),
        ("/api/spaces/space-05/entities?q=wert", "entities", "id", vec!["Entity-05"]),
        ("/api/spaces/space-05/entities?q=wort", "entities", "id", vec![]),
        ("/api/locks?q=lock-11", "locks", "name", vec!["lock-11"]),
        ("/api/locks?q=box%2011", "locks", "name", vec!["lock-11"]),
        ("/api/locks?minAgeMs=3600000", "locks", "name", vec![]),
        ("/api/queues/words/keys?state=waiting&q=word-2999", "keys", "key", vec!["Word-2999"]),
        ("/api/queues/words/keys?state=dead&q=word-2999", "keys", "key", vec![]),
        ("/api/entities/note?q=text%2013", "entities", "entityId", vec!["n-13"]),
        ("/api/outbox/entries?state=pending&q=note%20n-13", "entries", "entityId", vec!["n-13"]),
    ] {
        assert_eq!(names(&world, path, items, id).await, expected, "{path}");
    }
    assert_eq!(world.get("/api/kv?q=key-07").await.value()["entries"][0]["value"], "v");
    world.get(&format!("/api/kv?q={}", "x".repeat(201))).await.refused(400, "invalid-query");
    let forgotten = json!({ "keys": ["Word-0000", "Word-0001", "nobody"] }).to_string();
    let removed = send(&world, "POST", "/api/queues/words/remove", None, &forgotten).await;
    assert_eq!(removed.value()["removed"], 2);
}

#[tokio::test]
async fn cn_02_a_node_lists_itself() {
    let world = World::new("").await;
    let nodes = world.get("/api/nodes").await.value();
    assert_eq!(nodes["nodes"].as_array().unwrap().len(), 1);
    assert_eq!((&nodes["nodes"][0]["self"], &nodes["nodes"][0]["silentMs"]), (&json!(true), &json!(0)));
}
