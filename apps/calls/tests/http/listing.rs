//! The listing of recordings.

use serde_json::{Value, json};
use syncline_testing::walk;

use crate::form::{recording, upload};
use crate::world::{builder, node};

#[tokio::test]
async fn ss_09_recordings_are_listed_the_last_first_with_what_came_along() {
    let world = node("").await;
    for call in ["c-1", "c-2"] {
        let body = recording(call, "r", call.as_bytes(), "{\"seconds\":3}");
        assert_eq!(world.send(upload(body)).await.status, 200);
    }
    let list = world.get("/api/recordings?limit=1").await.value();
    let first = &list["recordings"][0];
    assert_eq!(
        (&first["callLogId"], &first["length"], &first["meta"]),
        (&json!("c-2"), &json!(3), &json!({ "seconds": 3 }))
    );
    assert_eq!(world.get(first["path"].as_str().unwrap()).await.text(), "c-2");
    let rest = world.get(&format!("/api/recordings?after={}", list["next"].as_str().unwrap())).await.value();
    assert_eq!((&rest["recordings"][0]["callLogId"], &rest["next"]), (&json!("c-1"), &Value::Null));
}

#[tokio::test]
async fn vw_03_the_listing_is_bounded_in_bytes_and_leads_through_everything_once() {
    let world = node("").await;
    let meta = json!({ "text": "x".repeat(60_000) }).to_string();
    for n in 0..160 {
        let sent = world.send(upload(recording(&format!("call-{n}"), "r", b"RIFF", &meta))).await;
        assert_eq!(sent.status, 200, "{sent:?}");
    }
    let listed =
        walk::a_listing_leads_through_everything(&world, "/api/recordings?", "recordings", "callLogId").await;
    assert_eq!(listed, 160);
}

/// A zero in a query was answered with 500 on PostgreSQL, and taken on SQLite.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_27_a_text_that_postgres_cannot_hold_is_the_callers_mistake() {
    let database = tokio::task::spawn_blocking(syncline_sim::postgres::database).await.unwrap();
    let world = builder("").database(&database.url).router().await;
    world.get("/api/recordings?after=%00").await.refused(400, "invalid-argument");
}
