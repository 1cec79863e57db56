//! The routes of queues: what goes in is checked and kept, what is asked is answered. Nothing works on them here.

use serde_json::{Value, json};

use crate::world::World;

const WORDS: &str =
    "[[queues]]\nname = \"words\"\nurl = \"http://127.0.0.1:1/{key}?token=canary\"\ninterval_ms = 100\n";

fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    list["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == name).unwrap()
}

#[tokio::test]
async fn qu_24_every_queue_says_how_it_is() {
    let world =
        World::new(&format!("{WORDS}[[queues]]\nname = \"more\"\nurl = \"http://127.0.0.1:1/{{key}}\"\n"))
            .await;
    let list = world.get("/api/queues").await.value();
    let names: Vec<&str> =
        list["queues"].as_array().unwrap().iter().map(|queue| queue["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["words", "more"]);
    let words = named(&list, "words");
    assert_eq!(words["url"], "http://127.0.0.1:1/redacted/{key}?redacted");
    let counts = json!({ "waiting": 0, "running": 0, "retrying": 0, "done": 0, "failed": 0, "dead": 0 });
    assert_eq!(
        (&words["counts"], &words["interval_ms"], &words["breaker"]),
        (&counts, &json!(100), &json!("closed"))
    );
    for absent in ["next_call_at", "next_retry_at", "paused", "waits_for"] {
        assert_eq!(words[absent], Value::Null, "{absent}");
    }
    assert_eq!(&world.get("/api/queues/words").await.value(), words);
    world.get("/api/queues/nothing").await.refused(404, "not-found");
}

#[tokio::test]
async fn qu_01_keys_are_taken_in_once_and_can_be_listed_and_removed() {
    let world = World::new(WORDS).await;
    let put = async |kind: &str, keys: &[&str]| {
        let body = json!({ "kind": kind, "keys": keys }).to_string();
        let answer = world.json("POST", "/api/queues/words", &body).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.value()
    };
    assert_eq!(
        put("new", &["a", "b", "c"]).await,
        json!({ "added": 3, "moved": 0, "again": 0, "unchanged": 0 })
    );
    assert_eq!(put("new", &["b", "d"]).await, json!({ "added": 1, "moved": 0, "again": 0, "unchanged": 1 }));
    assert_eq!(put("priority", &["d"]).await, json!({ "added": 0, "moved": 1, "again": 0, "unchanged": 0 }));
    assert_eq!(put("again", &["a"]).await["unchanged"], 1);
    let page = world.get("/api/queues/words/keys?state=waiting&limit=3").await.value();
    let keys = |page: &Value| -> Vec<String> {
        page["keys"].as_array().unwrap().iter().map(|key| key["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(&page), ["a", "d", "b"]);
    let rest = format!("/api/queues/words/keys?state=waiting&after={}", page["next"].as_str().unwrap());
    let rest = world.get(&rest).await.value();
    assert_eq!((keys(&rest), &rest["next"]), (vec!["c".to_owned()], &Value::Null));

    let known = world.get("/api/queues/words/results/d").await.value();
    assert_eq!(
        (&known["state"], &known["attempts"], known.get("result")),
        (&json!("waiting"), &json!(0), None)
    );
    world.get("/api/queues/words/results/x").await.refused(404, "not-found");
    let gone = world.json("DELETE", "/api/queues/words/keys/d", "").await.value();
    assert_eq!(gone, json!({ "key": "d", "deleted": true }));
    assert_eq!(world.json("DELETE", "/api/queues/words/keys/d", "").await.value()["deleted"], false);
    assert_eq!(world.json("POST", "/api/queues/words/revive", "{}").await.value(), json!({ "revived": 0 }));
    let waited = world.get("/api/queues/words/results/a?wait_ms=30").await.value();
    assert_eq!(waited["state"], "waiting");
}

#[tokio::test]
async fn qu_23_what_no_queue_can_take_is_refused_with_a_reason() {
    let world = World::new(WORDS).await;
    let cases = [
        ("/api/queues/nothing", json!({ "kind": "new", "keys": ["a"] }), 404, "not-found"),
        ("/api/queues/words", json!({ "kind": "old", "keys": ["a"] }), 400, "invalid-body"),
        ("/api/queues/words", json!({ "kind": "new", "keys": [] }), 400, "invalid-keys"),
        ("/api/queues/words", json!({ "kind": "new", "keys": [""] }), 400, "invalid-key"),
        ("/api/queues/words", json!({ "kind": "new", "keys": ["x".repeat(1_025)] }), 400, "invalid-key"),
        ("/api/queues/words", json!({ "kind": "new", "keys": ["a", ".."] }), 400, "invalid-key"),
        ("/api/queues/words", json!({ "kind": "new", "keys": ["a\u{7}"] }), 400, "invalid-argument"),
        ("/api/queues/words/revive", json!({ "keys": [] }), 400, "invalid-keys"),
    ];
    for (path, body, status, code) in cases {
        world.json("POST", path, &body.to_string()).await.refused(status, code);
    }
    for query in ["state=gone", "state=dead&limit=0", "state=dead&limit=1001"] {
        let answer = world.get(&format!("/api/queues/words/keys?{query}")).await;
        answer.refused(400, if query.contains("gone") { "invalid-state" } else { "invalid-limit" });
    }
    world.get("/api/queues/words/keys?state=dead&after=x").await.refused(400, "invalid-argument");
    assert_eq!(world.get("/api/queues/words").await.value()["counts"]["waiting"], 0);
}

#[tokio::test]
async fn qu_24_queues_are_counted_for_prometheus_before_anything_happened() {
    let world = World::new(WORDS).await;
    let text = world.get("/metrics").await.text().to_owned();
    for series in [
        "syncline_queue_waiting{queue=\"words\"} 0",
        "syncline_queue_running{queue=\"words\"} 0",
        "syncline_queue_retrying{queue=\"words\"} 0",
        "syncline_queue_dead{queue=\"words\"} 0",
        "syncline_queue_done_total{queue=\"words\"} 0",
        "syncline_queue_failed_total{queue=\"words\"} 0",
        "syncline_queue_calls_total{queue=\"words\",status=\"429\"} 0",
        "syncline_queue_breaker{queue=\"words\"} 0",
        "syncline_queue_next_call_seconds{queue=\"words\"} 0",
    ] {
        assert!(text.contains(series), "{series} in {text}");
    }
}
