//! One system alone: what is switched off leaves nothing behind.

use serde_json::{Value, json};
use syncline_testing::process::{Node, run};

/// The names of all tables in a node's database.
fn tables(node: &Node) -> Vec<String> {
    let database = rusqlite::Connection::open(node.folder.path().join("data/syncline.db")).unwrap();
    let mut names = database
        .prepare(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
        )
        .unwrap();
    let names = names.query_map([], |row| row.get(0)).unwrap();
    names.collect::<Result<_, _>>().unwrap()
}

/// What every store on SQLite has: which steps were applied, and its clock.
fn is_of_store(table: &str) -> bool {
    ["syncline_migrations", "syncline_steady_clock"].contains(&table)
}

#[test]
fn hs_03_one_system_alone_has_its_own_tables_routes_metrics_topics_and_pages() {
    let start =
        |systems: &str| Node::start_in(tempfile::tempdir().unwrap(), "", &[("SYNCLINE_SYSTEMS", systems)]);
    let node = start("lock");
    let found = tables(&node);
    assert!(found.iter().all(|name| name.starts_with("syncline_lock") || is_of_store(name)), "{found:?}");
    assert_eq!(
        node.ask("POST", "/api/locks/one/acquire", &[("content-type", "application/json")], "{}").0,
        200
    );
    for path in ["/api/queues", "/api/kv", "/api/viewer", "/api/state", "/api/outbox"] {
        assert_eq!(node.ask("GET", path, &[], "").0, 404, "{path}");
    }
    let (_, metrics) = node.ask("GET", "/metrics", &[], "");
    for series in ["syncline_queue", "syncline_viewer", "syncline_inbox", "syncline_state"] {
        assert!(!metrics.contains(series), "{series} in {metrics}");
    }
    let (_, page) = node.ask("GET", "/", &[("accept", "text/html")], "");
    let menu = page.split("<nav").nth(1).unwrap().split("</nav>").next().unwrap();
    assert_eq!(menu.matches("<a ").count(), 1, "{menu}");
    assert_eq!(node.ask("GET", "/api/events?topics=queue", &[], "").0, 400);
    let api: Value = node.get("/openapi.json");
    let paths: Vec<&String> = api["paths"].as_object().unwrap().keys().collect();
    assert!(paths.iter().any(|path| path.starts_with("/api/locks")), "{paths:?}");
    assert!(!paths.iter().any(|path| path.starts_with("/api/queues")), "{paths:?}");
    assert_eq!(node.ask("GET", "/readyz", &[], "").0, 200);

    let queue = start("queue");
    let found = tables(&queue);
    assert!(found.iter().all(|name| name.starts_with("syncline_queue") || is_of_store(name)), "{found:?}");
    assert_eq!(queue.ask("GET", "/api/queues", &[], "").0, 200);
    assert_eq!(queue.ask("GET", "/api/locks", &[], "").0, 404);
}

#[test]
fn hs_03_a_node_has_all_systems_and_no_app_unless_told() {
    let node = Node::start("");
    for path in ["/api/queues", "/api/kv", "/api/viewer", "/api/state", "/api/outbox", "/api/locks"] {
        assert_eq!(node.ask("GET", path, &[], "").0, 200, "{path}");
    }
    for path in ["/api/shelf/books", "/api/gallery", "/api/recordings", "/shelf", "/calls", "/gallery"] {
        assert_eq!(node.ask("GET", path, &[], "").0, 404, "{path}");
    }
    assert!(!tables(&node).iter().any(|name| name.contains("shelf")));
    // The jobs that an app runs by default, and the kinds of entities that it brings, are off with it.
    assert_eq!(node.get("/api/jobs")["jobs"], json!([]));
    let entry = json!({ "entityType": "call_log", "entityId": "c1", "payload": {}, "createdAt": "2026-02-07T10:20:30Z" });
    let (_, body) = node.ask("POST", "/api/ingest/sync", &[], &json!({ "entries": [entry] }).to_string());
    assert!(body.contains("unknown entity type"), "{body}");
    let folder = tempfile::tempdir().unwrap();
    let said = run(folder.path(), &["serve", "--check", "--apps", "bookshelv"], &[]);
    assert_eq!(said.status.code(), Some(2));
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(text.contains("did you mean \"bookshelf\"?"), "{text}");
}
