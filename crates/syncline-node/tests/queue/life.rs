//! Stopping and starting: nothing is lost, nothing is done twice.

use std::time::Duration;

use serde_json::json;
use syncline_testing::{Reply, StubApi, until};

use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn qu_20_what_waits_when_a_node_stops_is_done_by_the_next() {
    let api = StubApi::start(|_, _| Reply::new(200, "{}").after(Duration::from_millis(30))).await;
    let folder = tempfile::tempdir().unwrap();
    let file = api.queue("words", "interval_ms = 20");
    let keys: Vec<String> = (0..20).map(|n| format!("k{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let first = World::start(folder.path(), None, &file).await;
    first.enqueue("words", "new", &keys).await;
    until("some calls", async || api.calls().len() >= 5).await;
    first.node.stop().await;
    let before = api.calls().len();
    assert!(before < 20, "{before}");

    let second = World::start(folder.path(), None, &file).await;
    for key in &keys {
        assert_eq!(second.ended("words", key).await["state"], "done");
    }
    assert_eq!(api.calls().len(), 20, "a call under way was ended before the node was");
    second.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn qu_20_a_call_that_does_not_end_is_given_back_when_the_node_stops() {
    let api = StubApi::start(|_, before| {
        Reply::new(200, "{}").after(if before == 0 { Duration::from_secs(3_600) } else { Duration::ZERO })
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let file = api.queue("words", "interval_ms = 20\ntimeout_sec = 600");
    let first = World::start(folder.path(), None, &file).await;
    first.enqueue("words", "new", &["a"]).await;
    until("the call", async || !api.calls().is_empty()).await;
    first.node.stop().await;

    let second = World::start(folder.path(), None, &file).await;
    let known = second.ended("words", "a").await;
    assert_eq!((&known["state"], &known["attempts"]), (&json!("done"), &json!(1)));
    second.node.stop().await;
}
