//! A stranger's part plugs into a node as the systems do.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use example_own_part::{Guestbook, commands};
use serde_json::{Value, json};
use syncline_client::command::{add_to, called};
use syncline_node::config::Flags;
use syncline_node::{Config, Node, Running};

async fn start(folder: &std::path::Path, systems: &str, file: &str) -> Running {
    let path = folder.join("syncline.toml");
    std::fs::write(&path, file).unwrap();
    let flags = Flags {
        config: Some(path),
        listen: Some("127.0.0.1:0".to_owned()),
        data: Some(folder.display().to_string()),
        systems: Some(systems.to_owned()),
        apps: Some("guestbook".to_owned()),
        ..Flags::default()
    };
    let mut parts = syncline_node::systems();
    parts.push(Box::new(Guestbook::default()));
    Node::start(Config::load(&flags, &|_| None, parts).unwrap()).await.unwrap()
}

#[tokio::test]
async fn hs_02_a_part_of_a_stranger_has_configuration_routes_events_rules_and_commands() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), "kv", "[guestbook]\nentries_max = 2\n").await;
    let url = |path: &str| format!("http://{}{path}", node.address());
    let client = reqwest::Client::new();
    let mut heard = node.context().events.listen();
    let program = add_to(clap::Command::new("program"), &commands());
    let matches = program.get_matches_from(["program", "sign", "ann", "--url", &url("")]);
    called(&commands(), &matches).unwrap().await.unwrap();
    for name in ["bob", "ann", "cleo"] {
        let sign = client.post(url("/api/guestbook/entries")).json(&json!({ "name": name }));
        assert_eq!(sign.send().await.unwrap().status(), 200);
    }
    assert_eq!(heard.recv().await.unwrap().name, "guestbook.signed");
    let listed: Value = client.get(url("/api/guestbook")).send().await.unwrap().json().await.unwrap();
    assert_eq!(listed, json!({ "entries": [{ "name": "ann" }, { "name": "bob" }] }));
    // Its rules are the door's: the body is bounded.
    let large = client.post(url("/api/guestbook/entries")).json(&json!({ "name": "a".repeat(5_000) }));
    assert_eq!(large.send().await.unwrap().status(), 413);
    let api: Value = client.get(url("/openapi.json")).send().await.unwrap().json().await.unwrap();
    assert!(api["paths"]["/api/guestbook"]["get"].is_object(), "{api}");
    // Of the systems it asked for kv alone.
    assert_eq!(client.get(url("/api/kv")).send().await.unwrap().status(), 200);
    assert_eq!(client.get(url("/api/queues")).send().await.unwrap().status(), 404);
    node.stop().await;
}
