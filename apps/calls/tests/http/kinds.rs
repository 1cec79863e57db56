//! The kinds of entities of a telephone exchange.

use serde_json::{Value, json};

use crate::world::node;

/// All of them, and whether each may be edited here.
const KINDS: [(&str, bool); 7] = [
    ("call_log", false),
    ("recording", false),
    ("registered_number", true),
    ("routing_rule", true),
    ("ivr_flow", true),
    ("schedule", true),
    ("announcement", true),
];

#[tokio::test]
async fn ss_05_changes_of_an_exchange_are_taken_and_what_stands_for_a_file_is_not() {
    let world = node("").await;
    let entry = |name: &str| {
        json!({ "entityType": name, "entityId": "e-1", "payload": { "of": name },
            "createdAt": "2026-02-07T19:20:30+09:00" })
    };
    let entries: Vec<Value> = KINDS.iter().map(|(name, _)| entry(name)).collect();
    let sync = async |entries: Value| {
        world.json("POST", "/api/ingest/sync", &json!({ "entries": entries }).to_string()).await
    };
    let answer = sync(entries.into()).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (200, "{\"ok\":true}"));
    for (name, _) in KINDS {
        let kept = world.get(&format!("/api/entities/{name}/e-1")).await.value();
        assert_eq!(kept["payload"], json!({ "of": name }));
    }
    sync(json!([entry("recording_file")])).await.refused(422, "unknown-type");
}

#[tokio::test]
async fn ss_06_more_kinds_are_a_matter_of_configuration_and_what_happened_is_not_edited() {
    let world = node("[[entities]]\nname = \"voicemail\"\nsettings = true\n").await;
    let listed = world.get("/api/entities").await.value();
    let kinds = KINDS.iter().chain(&[("voicemail", true)]);
    let expected: Vec<Value> =
        kinds.map(|(name, settings)| json!({ "name": name, "settings": settings })).collect();
    assert_eq!(listed["types"], Value::from(expected));
    for (name, is_setting) in KINDS {
        let put = world.json("PUT", &format!("/api/entities/{name}/e-1"), "{}").await;
        if is_setting {
            assert_eq!(put.status, 200, "{name}: {put:?}");
        } else {
            put.refused(403, "read-only");
        }
    }
}
