//! The guide's way from an empty application to its first delivered entry, in SQL, Python, Node and Rust: its blocks, pasted.

#[allow(unreachable_pub, reason = "as the guide has it")]
#[path = "guide_order.rs"]
mod guide_order;

use std::path::Path;
use std::process::Command;

use rusqlite::Connection;
use serde_json::json;
use syncline_sim::postgres;
use syncline_testing::process::{Node, serversync};

use super::shop::said;

/// The block of the section that begins so.
fn block(begins: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serversync.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let section = guide.split("## From an empty application to the first entry").nth(1).unwrap();
    let block =
        section.split(&format!("```{begins}\n")).nth(1).unwrap_or_else(|| panic!("no block {begins}"));
    block.split("```").next().unwrap().to_owned()
}

/// A node that takes what the guide's receiver takes.
fn receiver() -> Node {
    Node::start(&format!("jobs = []\n{}", block("toml")))
}

/// Sends what there is, which is one entry.
fn send_one(folder: &Path, database: &str, node: &Node) {
    let url = node.url();
    let sent = serversync(folder, &["--drain"])
        .envs([("DATABASE_URL", database), ("FRONTEND_BASE_URL", url.as_str())])
        .output()
        .unwrap();
    assert!(said(&sent).contains("1 sent, 0 failed attempts, 0 given up"), "{}", said(&sent));
}

#[test]
fn ss_38_the_guide_leads_from_an_empty_application_to_its_first_entry_in_sql_python_and_rust() {
    let node = receiver();
    let folder = tempfile::tempdir().unwrap();
    let mut shop = Connection::open(folder.path().join("shop.db")).unwrap();
    shop.execute_batch(&block("sql")).unwrap();
    send_one(folder.path(), "sqlite:shop.db", &node);

    std::fs::write(folder.path().join("shop.py"), block("python file=shop.py")).unwrap();
    let wrote =
        Command::new("python3").args(["shop.py", "o2", "7"]).current_dir(folder.path()).output().unwrap();
    assert!(wrote.status.success(), "{}", said(&wrote));
    send_one(folder.path(), "sqlite:shop.db", &node);

    assert_eq!(block("rust"), include_str!("guide_order.rs"), "the guide's Rust is what is compiled here");
    guide_order::place_order(&mut shop, "o3", 31).unwrap();
    send_one(folder.path(), "sqlite:shop.db", &node);
    for (id, total) in [("o1", 250), ("o2", 7), ("o3", 31)] {
        let there = node.get(&format!("/api/entities/order/{id}"));
        assert_eq!(there["payload"], json!({ "id": id, "total": total }));
    }
}

#[test]
fn ss_38_the_guide_leads_from_an_empty_application_on_postgres_to_its_first_entry_in_node() {
    let (node, database) = (receiver(), postgres::database());
    // The role of the tests may be called like our schema, into which the shop would then write.
    let public = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public', current_database()); END $$";
    database.execute(public).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.mjs"), block("mjs file=shop.mjs")).unwrap();
    let modules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/clients/node_modules");
    std::os::unix::fs::symlink(modules, folder.path().join("node_modules")).unwrap();
    for (id, total) in [("o1", 250), ("o2", 7)] {
        let wrote = Command::new("node")
            .args(["shop.mjs", id, &total.to_string()])
            .current_dir(folder.path())
            .env("DATABASE_URL", &database.url)
            .output()
            .unwrap();
        assert!(wrote.status.success(), "{}", said(&wrote));
        send_one(folder.path(), &database.url, &node);
        let there = node.get(&format!("/api/entities/order/{id}"));
        assert_eq!(there["payload"], json!({ "id": id, "total": total }));
    }
}
