//! The gallery on a node: what was painted is shown, and its keys are its own.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use serde_json::Value;
use syncline_core::schedule::Bucket;
use syncline_gallery::{Gallery, GalleryPart, Scene};
use syncline_testing::NodeBuilder;

fn builder(file: &str) -> NodeBuilder {
    let mut parts = syncline_node::systems();
    parts.push(Box::new(GalleryPart));
    NodeBuilder::new(parts).file(file)
}

#[tokio::test(flavor = "multi_thread")]
async fn vw_08_the_last_snapshot_and_the_gallery_show_what_was_painted() {
    let node =
        builder("[[jobs]]\nname = \"picture\"\ncron = \"* * * * * *\"\nrun = \"picture\"\n").start().await;
    node.beat("somebody").await;
    let is_painted = |run: &Value| run["reason"] == "run: watched" && run["state"] == "done";
    let done = node.wait_for_run("picture", is_painted).await;
    let object_key = done["detail"].as_str().unwrap();
    let last = node.get("/api/kv/last_snapshot").await;
    let snapshot: Value = serde_json::from_str(last["value"].as_str().unwrap()).unwrap();
    assert!(snapshot["objectKey"].as_str().unwrap().ends_with(".svg"), "{snapshot}");
    assert!(snapshot["ts"].as_str().unwrap().ends_with('Z'), "{snapshot}");
    let ttl_ms = last["ttl_ms"].as_u64().unwrap();
    assert!((1..=3_600_000).contains(&ttl_ms), "{last}");
    let gallery = node.get("/api/gallery").await;
    let pictures = gallery["pictures"].as_array().unwrap();
    let hung = pictures.iter().find(|picture| picture["objectKey"] == object_key).unwrap();
    assert_eq!(hung["viewers"], 1);
    let svg = node.send("GET", hung["url"].as_str().unwrap(), None).await;
    assert_eq!(svg.header("content-type"), "image/svg+xml");
    assert!(svg.header("content-security-policy").starts_with("default-src 'none'"), "{svg:?}");
    assert!(svg.text().starts_with("<svg "));
    node.stop().await;
}

#[tokio::test]
async fn vw_08_a_node_with_a_gallery_paints_every_minute_unless_told_otherwise() {
    let jobs = async |file: &str| builder(file).router().await.get("/api/jobs").await.value()["jobs"].clone();
    let by_default = jobs("").await;
    assert_eq!((by_default.as_array().unwrap().len(), &by_default[0]["name"]), (1, &Value::from("picture")));
    assert_eq!(jobs("jobs = []\n").await, Value::Array(Vec::new()));
}

/// Pictures used to be keys among those of users: whoever could write there could replace them.
#[tokio::test]
async fn vw_32_pictures_are_in_a_space_of_their_own() {
    let node = builder("").router().await;
    let bucket: Bucket = "2025-11-11T12:00".parse().unwrap();
    node.context.find::<Gallery>().unwrap().add(Scene::of(bucket, 1), bucket).await.unwrap();
    assert!(node.context.kv.list("", 1_000).await.unwrap().is_empty());
    let written = node.context.store.kv_space("gallery").unwrap().list("", 1_000).await.unwrap();
    assert_eq!(written.len(), 3, "{written:?}");
    for entry in written {
        let path = format!("/api/kv/{}", entry.key);
        node.json("PUT", &path, "{\"value\":\"1\"}").await.refused(403, "reserved-key");
        node.json("DELETE", &path, "").await.refused(403, "reserved-key");
        if entry.key.as_str() != "last_snapshot" {
            node.get(&path).await.refused(403, "reserved-key");
        }
    }
    assert_eq!(node.get("/api/kv").await.value()["entries"], Value::Array(Vec::new()));
    let listed = node.get("/api/kv?prefix=last_snapshot").await.value();
    assert_eq!(listed["entries"][0]["key"], "last_snapshot", "other programs read it");
}
