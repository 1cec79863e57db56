//! Batches of changes: taken once, refused whole, answered entry by entry where the sender can use that.

use serde_json::{Value, json};

use crate::world::{Answer, World};

/// Orders happen; rules are settings.
const KINDS: &str =
    "[[entities]]\nname = \"order\"\n[[entities]]\nname = \"routing_rule\"\nsettings = true\n";

fn entry(entity_type: &str, id: &str, payload: Value, at: &str) -> Value {
    let mut entry = json!({ "entityType": entity_type, "entityId": id, "createdAt": at });
    entry["payload"] = payload;
    entry
}

fn numbered(number: i64, entity_type: &str, id: &str, payload: Value) -> Value {
    let mut entry = entry(entity_type, id, payload, "2026-02-07T10:00:00Z");
    entry["id"] = json!(number);
    entry
}

async fn post(world: &World, body: Value) -> Answer {
    world.json("POST", "/api/ingest/sync", &body.to_string()).await
}

async fn names(world: &World, entity_type: &str) -> Vec<String> {
    let list = world.get(&format!("/api/entities/{entity_type}")).await.value();
    let entities = list["entities"].as_array().unwrap().iter();
    entities.map(|entity| entity["entityId"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn ss_05_a_batch_of_the_plain_contract_is_answered_with_ok_and_nothing_else() {
    let world = World::new(KINDS).await;
    let types = ["order", "routing_rule"];
    let entries: Vec<Value> = types
        .iter()
        .map(|name| entry(name, "e-1", json!({ "of": name }), "2026-02-07T19:20:30+09:00"))
        .collect();
    let answer = post(&world, json!({ "entries": entries })).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (200, "{\"ok\":true}"));
    for name in types {
        let kept = world.get(&format!("/api/entities/{name}/e-1")).await.value();
        assert_eq!(
            (&kept["payload"], &kept["changedAt"]),
            (&json!({ "of": name }), &json!("2026-02-07T10:20:30Z"))
        );
    }
    assert_eq!(post(&world, json!({ "entries": [] })).await.text(), "{\"ok\":true}");
}

#[tokio::test]
async fn ss_09_payloads_are_kept_to_the_last_digit() {
    let world = World::new(KINDS).await;
    let raw = "{\"big\":12345678901234567890123,\"exact\":1.10,\"text\":\"\\u547c\",\"b\":1,\"a\":2}";
    let body = format!(
        "{{\"entries\":[{{\"entityType\":\"order\",\"entityId\":\"x\",\"payload\":{raw},\"createdAt\":\"2026-02-07T10:00:00Z\"}}]}}"
    );
    assert_eq!(world.json("POST", "/api/ingest/sync", &body).await.status, 200);
    let kept = world.get("/api/entities/order/x").await;
    assert!(kept.text().contains("12345678901234567890123") && kept.text().contains("1.10"), "{kept:?}");
}

#[tokio::test]
async fn ss_10_an_older_change_never_replaces_a_newer_one_and_null_removes() {
    let world = World::new(KINDS).await;
    let send = async |name: &str, payload: Value, at: &str| {
        post(&world, json!({ "entries": [entry("routing_rule", name, payload, at)] })).await
    };
    send("r", json!({ "v": 2 }), "2026-02-07T10:00:02Z").await;
    assert_eq!(send("r", json!({ "v": 1 }), "2026-02-07T10:00:01Z").await.text(), "{\"ok\":true}");
    assert_eq!(world.get("/api/entities/routing_rule/r").await.value()["payload"]["v"], 2);
    send("r", Value::Null, "2026-02-07T10:00:03Z").await;
    world.get("/api/entities/routing_rule/r").await.refused(404, "not-found");
    send("r", json!({ "v": 2 }), "2026-02-07T10:00:02Z").await;
    world.get("/api/entities/routing_rule/r").await.refused(404, "not-found");
}

#[tokio::test]
async fn ss_24_a_sender_with_a_name_hears_of_each_entry_and_nothing_takes_effect_twice() {
    let world = World::new(KINDS).await;
    let batch = json!({ "sender": "box-1", "entries": [
        numbered(1, "order", "c-1", json!({ "v": 1 })),
        numbered(2, "nonsense", "c-2", json!({})),
        numbered(3, "order", "c-1", json!({ "v": 2 })),
    ] });
    let first = post(&world, batch.clone()).await;
    assert_eq!(first.status, 200, "{first:?}");
    let results = first.value()["results"].as_array().unwrap().clone();
    let words: Vec<&str> = results.iter().map(|result| result["result"].as_str().unwrap()).collect();
    assert_eq!(words, ["applied", "refused", "applied"], "{results:?}");
    assert!(!results[1]["reason"].as_str().unwrap().is_empty());
    assert_eq!(first.value()["ok"], false);
    let again = post(&world, batch).await.value();
    let words: Vec<&str> = again["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["result"].as_str().unwrap())
        .collect();
    assert_eq!(words, ["duplicate", "refused", "duplicate"]);
    // The number of an entry that is known, with something else in it, is no repetition.
    let forged = json!({ "sender": "box-1", "entries": [numbered(1, "order", "c-1", json!({ "v": 9 }))] });
    assert_eq!(post(&world, forged).await.value()["results"][0]["result"], "refused");
    assert_eq!(world.get("/api/entities/order/c-1").await.value()["payload"]["v"], 2);
}

#[tokio::test]
async fn ss_27_what_is_wrong_with_a_batch_is_said_and_nothing_of_it_is_stored() {
    let world = World::new(KINDS).await;
    let good = entry("order", "good", json!({}), "2026-02-07T10:00:00Z");
    let with = |bad: Value| json!({ "entries": [good, bad] }).to_string();
    let long = "x".repeat(201);
    let large = json!({ "text": "x".repeat(1024 * 1024) });
    let many: Vec<Value> = (0..1_001).map(|_| good.clone()).collect();
    let at = "2026-02-07T10:00:00Z";
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let deep = with(entry("order", "b", json!("DEEP"), at)).replace("\"DEEP\"", &deep);
    let mut without = good.clone();
    without.as_object_mut().unwrap().remove("payload");
    let cases = [
        (with(entry("nonsense", "b", json!({}), at)), 422, "unknown-type"),
        (with(entry("invoice_file", "b", json!({}), at)), 422, "unknown-type"),
        (with(entry("order; DROP TABLE kv", "b", json!({}), at)), 422, "unknown-type"),
        (with(entry("order", "", json!({}), at)), 400, "invalid-id"),
        (with(entry("order", "a\nb", json!({}), at)), 400, "invalid-id"),
        (with(entry("order", &long, json!({}), at)), 400, "invalid-id"),
        (with(entry("order", "b", json!({}), "yesterday")), 400, "invalid-entry"),
        (with(entry("order", "b", large, at)), 413, "too-large"),
        (with(without), 400, "invalid-body"),
        (json!({ "entries": many }).to_string(), 413, "too-large"),
        (json!({ "entries": good }).to_string(), 400, "invalid-body"),
        (json!({}).to_string(), 400, "invalid-body"),
        (json!({ "sender": "a b", "entries": [] }).to_string(), 400, "invalid-body"),
        (json!({ "sender": "box", "entries": [good] }).to_string(), 400, "invalid-entry"),
        (json!([good]).to_string(), 400, "invalid-body"),
        (deep, 400, "invalid-entry"),
        ("{\"entries\":[".to_owned(), 400, "invalid-json"),
        (format!("{{\"entries\":[],\"pad\":\"{}\"}}", "x".repeat(17 * 1024 * 1024)), 413, "too-large"),
    ];
    for (number, (body, status, code)) in cases.into_iter().enumerate() {
        let answer = world.json("POST", "/api/ingest/sync", &body).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.value()["code"]),
            (status, &json!(code)),
            "{number}: {answer:?}"
        );
        answer.refused(status, code);
        assert!(names(&world, "order").await.is_empty(), "{number}");
    }
}

#[tokio::test]
async fn ss_27_changes_need_the_token() {
    let world = World::new(&format!("token = \"open-sesame\"\n{KINDS}")).await;
    post(&world, json!({ "entries": [] })).await.refused(401, "token-missing");
    world.get("/api/entities/order").await.refused(401, "token-missing");
    world.get("/api/outbox").await.refused(401, "token-missing");
}

#[tokio::test]
async fn ss_06_new_kinds_are_a_matter_of_configuration() {
    let world = World::new(&format!("{KINDS}[[entities]]\nname = \"price_list\"\nsettings = true\n")).await;
    let kinds = world.get("/api/entities").await.value();
    let expected = [("order", false), ("routing_rule", true), ("price_list", true)]
        .map(|(name, settings)| json!({ "name": name, "settings": settings }));
    assert_eq!(kinds["types"], json!(expected));
    let answer =
        post(&world, json!({ "entries": [entry("price_list", "p", json!({}), "2026-02-07T10:00:00Z")] }))
            .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(names(&world, "price_list").await, ["p"]);
}

#[tokio::test]
async fn ss_09_who_listens_hears_what_changed_and_not_what_did_not() {
    let world = World::new(KINDS).await;
    let mut heard = world.context.events.listen();
    let batch = json!({ "sender": "box-1", "entries": [
        numbered(1, "order", "c-1", json!({ "v": 1 })),
        numbered(2, "order", "large", json!({ "text": "x".repeat(5_000) })),
    ] });
    post(&world, batch.clone()).await;
    post(&world, batch).await;
    let mut told = Vec::new();
    while let Ok(event) = heard.try_recv() {
        if event.name == "entity.changed" {
            told.push(serde_json::from_str::<Value>(&event.data).unwrap());
        }
    }
    assert_eq!(told.len(), 1, "a repetition changes nothing: {told:?}");
    assert_eq!(told[0]["omitted"], 0);
    assert_eq!(told[0]["changes"][0]["payload"], json!({ "v": 1 }));
    assert_eq!(told[0]["changes"][1].get("payload"), None, "what is large is read");
    let metrics = world.get("/metrics").await;
    for line in [
        "syncline_inbox_entries_total{result=\"applied\"} 2",
        "syncline_inbox_entries_total{result=\"duplicate\"} 2",
    ] {
        assert!(metrics.text().lines().any(|found| found == line), "{line}\n{}", metrics.text());
    }
}

#[tokio::test]
async fn ss_21_a_thousand_entries_travel_as_one_request() {
    let world = World::new(KINDS).await;
    let entries: Vec<Value> =
        (0..1_000).map(|n| numbered(n + 1, "order", &format!("c-{n}"), json!({ "n": n }))).collect();
    let answer = post(&world, json!({ "sender": "box", "entries": entries })).await;
    assert_eq!(answer.value()["ok"], true);
    let mut seen = 0;
    let mut next = String::new();
    loop {
        let page = world.get(&format!("/api/entities/order?limit=300{next}")).await.value();
        let count = page["entities"].as_array().unwrap().len();
        if count == 0 {
            break;
        }
        seen += count;
        next = format!("&after={}", page["next"].as_str().unwrap());
    }
    assert_eq!(seen, 1_000);
}
