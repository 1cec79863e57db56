//! A stranger's part plugs into a node as the systems do, and is tested as they are.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use example_own_part::{Guestbook, commands};
use serde_json::json;
use syncline_client::command::{add_to, called};
use syncline_testing::{NodeBuilder, walk};

/// A node with the guest book and, of the systems, the kv alone.
fn builder(file: &str) -> NodeBuilder {
    let mut parts = syncline_node::systems();
    parts.push(Box::new(Guestbook::default()));
    NodeBuilder::new(parts).file(&format!("systems = [\"kv\"]\n{file}"))
}

#[tokio::test]
async fn hs_02_a_part_of_a_stranger_has_configuration_routes_events_rules_and_commands() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let node = builder("[guestbook]\nentries_max = 2\n").start().await;
    let mut heard = node.context().events.listen();
    let program = add_to(clap::Command::new("program"), &commands());
    let matches = program.get_matches_from(["program", "sign", "ann", "--url", &node.url("")]);
    called(&commands(), &matches).unwrap().await.unwrap();
    for name in ["bob", "ann", "cleo"] {
        node.post("/api/guestbook/entries", &json!({ "name": name })).await;
    }
    assert_eq!(heard.recv().await.unwrap().name, "guestbook.signed");
    let listed = node.get("/api/guestbook").await;
    assert_eq!(listed, json!({ "entries": [{ "name": "ann" }, { "name": "bob" }] }));
    // Its rules are the door's: the body is bounded.
    let large = json!({ "name": "a".repeat(5_000) });
    node.send("POST", "/api/guestbook/entries", Some(&large)).await.refused(413, "too-large");
    assert_eq!(node.send("GET", "/api/kv", None).await.status, 200);
    node.send("GET", "/api/queues", None).await.refused(404, "not-found");
    node.stop().await;
}

#[tokio::test]
async fn hs_02_what_holds_for_every_route_holds_for_those_of_a_stranger() {
    let node = builder("").router().await;
    walk::every_route_is_described(&node).await;
    walk::every_operation_is_explained(&node).await;
    walk::other_sites_read_nothing(&node, &[]).await;
    walk::no_text_is_a_failure(&node, &[]).await;
    let (operations, owners) = walk::every_route_needs_its_grant(builder, "", &[]).await;
    assert!(operations > 10 && owners == 1, "{operations} {owners}");
}
