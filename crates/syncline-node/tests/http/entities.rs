//! Settings that are edited here, and the outbox they leave through.

use http::header;
use serde_json::{Value, json};
use std::time::Duration;
use syncline_core::outbox::Verdict;
use syncline_store::outbox::{Kind, NewEntry};

use crate::world::{Answer, World, request};

/// Orders happen; rules and schedules are settings.
const KINDS: &str = "[[entities]]\nname = \"order\"\n\
     [[entities]]\nname = \"routing_rule\"\nsettings = true\n\
     [[entities]]\nname = \"schedule\"\nsettings = true\n";

async fn put(world: &World, path: &str, body: &str, tag: Option<&str>) -> Answer {
    let mut put = request("PUT", path, body);
    if let Some(tag) = tag {
        put.headers_mut().insert(header::IF_MATCH, tag.parse().unwrap());
    }
    world.send(put).await
}

#[tokio::test]
async fn ss_10_an_edited_setting_is_stored_and_on_its_way_in_one_step() {
    let world = World::new(KINDS).await;
    let answer = put(&world, "/api/entities/routing_rule/r-1", "{\"to\":\"desk\"}", None).await;
    assert_eq!((answer.status.as_u16(), &answer.value()["payload"]), (200, &json!({ "to": "desk" })));
    let pending = world.get("/api/outbox/entries?state=pending").await.value();
    let entry = &pending["entries"][0];
    assert_eq!(
        (&entry["entityType"], &entry["entityId"], &entry["state"]),
        (&json!("routing_rule"), &json!("r-1"), &json!("waiting"))
    );
    let path = format!("/api/outbox/entries/{}", entry["id"]);
    assert_eq!(world.get(&path).await.value()["payload"], json!({ "to": "desk" }));
    let stats = world.get("/api/outbox").await.value();
    assert_eq!((&stats["pending"], &stats["dead"]), (&json!(1), &json!(0)));
    assert!(stats["oldestMs"].is_u64());
    // The worker counts the outbox; a node that did so too would make every sum count twice.
    assert!(!world.get("/metrics").await.text().contains("syncline_outbox_"));
}

#[tokio::test]
async fn ss_10_what_arrives_does_not_go_back_where_it_came_from() {
    let world = World::new(KINDS).await;
    let batch = json!({ "sender": "box", "entries": [{ "id": 1, "entityType": "routing_rule", "entityId": "r",
        "payload": { "to": "desk" }, "createdAt": "2026-02-07T10:00:00Z" }] });
    world.json("POST", "/api/ingest/sync", &batch.to_string()).await;
    assert_eq!(world.get("/api/outbox").await.value()["pending"], 0);
}

#[tokio::test]
async fn ss_10_an_editor_that_saw_an_older_setting_is_told_and_nothing_is_overwritten() {
    let world = World::new(KINDS).await;
    let first = put(&world, "/api/entities/schedule/s", "{\"v\":1}", None).await;
    let seen = first.header("etag").to_owned();
    assert_eq!(seen, format!("\"{}\"", first.value()["version"].as_str().unwrap()));
    assert_eq!(put(&world, "/api/entities/schedule/s", "{\"v\":2}", Some(&seen)).await.status, 200);
    put(&world, "/api/entities/schedule/s", "{\"v\":3}", Some(&seen)).await.refused(412, "changed-meanwhile");
    put(&world, "/api/entities/schedule/s", "{\"v\":3}", Some("soon")).await.refused(400, "invalid-tag");
    assert_eq!(world.get("/api/entities/schedule/s").await.value()["payload"]["v"], 2);
}

#[tokio::test]
async fn ss_10_what_happened_is_not_edited_and_what_is_no_setting_is_refused() {
    let world = World::new(KINDS).await;
    put(&world, "/api/entities/order/o", "{}", None).await.refused(403, "read-only");
    put(&world, "/api/entities/nonsense/o", "{}", None).await.refused(404, "not-found");
    put(&world, "/api/entities/schedule/s", "[1]", None).await.refused(400, "invalid-body");
    put(&world, "/api/entities/schedule/s", "{\"a\":", None).await.refused(400, "invalid-json");
    put(&world, "/api/entities/schedule/a%0Ab", "{}", None).await.refused(400, "invalid-id");
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(1024 * 1024));
    put(&world, "/api/entities/schedule/s", &large, None).await.refused(413, "too-large");
    world.get("/api/entities/nonsense").await.refused(404, "not-found");
    world.get("/api/entities/schedule?limit=0").await.refused(400, "invalid-limit");
    world.get("/api/entities/schedule?after=x").await.refused(400, "invalid-after");
    assert_eq!(world.get("/api/outbox").await.value()["pending"], 0);
}

#[tokio::test]
async fn ss_23_what_was_given_up_is_listed_retried_and_discarded() {
    let world = World::new(KINDS).await;
    let outbox = world.context.store.outbox();
    let new =
        |id: &str| NewEntry { entity_type: "schedule".into(), entity_id: id.into(), payload: "{}".into() };
    let ids = outbox.enqueue(&[new("a"), new("b"), new("c")]).await.unwrap();
    let claimed = outbox.claim("test", Kind::Change, 10, Duration::from_secs(60)).await.unwrap();
    let dead = |id: &i64| (*id, Verdict::Dead { reason: "422: no".to_owned() });
    outbox.settle(claimed.claim, &ids.iter().map(dead).collect::<Vec<_>>()).await.unwrap();

    let listed = world.get("/api/outbox/entries?state=dead&limit=2").await.value();
    assert_eq!(listed["entries"].as_array().unwrap().len(), 2);
    assert_eq!(listed["entries"][0]["lastError"], "422: no");
    let after = &listed["next"];
    let rest = world.get(&format!("/api/outbox/entries?state=dead&limit=2&after={after}")).await.value();
    assert_eq!((rest["entries"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null));

    let act = async |what: &str, body: Value| {
        world.json("POST", &format!("/api/outbox/{what}"), &body.to_string()).await
    };
    assert_eq!(act("retry", json!({ "ids": [ids[0]] })).await.value(), json!({ "entries": 1 }));
    assert_eq!(act("discard", json!({})).await.value(), json!({ "entries": 2 }));
    let stats = world.get("/api/outbox").await.value();
    assert_eq!((&stats["pending"], &stats["dead"]), (&json!(1), &json!(0)));
    act("retry", json!({ "ids": [] })).await.refused(400, "invalid-ids");
    act("retry", json!({ "all": true })).await.refused(400, "invalid-body");
    world.get("/api/outbox/entries?state=lost").await.refused(400, "invalid-state");
    world.get("/api/outbox/entries/99").await.refused(404, "not-found");
}

#[tokio::test]
async fn cn_01_the_outbox_is_paused_and_resumed_by_the_switch_that_serversync_reads() {
    let world = World::new(KINDS).await;
    let paused = async || {
        let stats = world.get("/api/outbox").await.value();
        (stats["paused"].clone(), stats["filesPaused"].clone())
    };
    assert_eq!(paused().await, (json!(false), json!(false)), "nobody has set anything");
    for (what, is) in [("pause", true), ("pause", true), ("resume", false)] {
        let answer = world.json("POST", &format!("/api/outbox/{what}"), "{}").await;
        assert_eq!((answer.status.as_u16(), answer.value()), (200, json!({ "paused": is })));
        assert_eq!(paused().await, (json!(is), json!(false)));
        let settings = world.context.store.outbox().settings().await.unwrap();
        assert_eq!((settings.enabled, settings.files_enabled), (Some(!is), None));
    }
}
