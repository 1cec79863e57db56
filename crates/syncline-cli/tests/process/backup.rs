//! `syncline backup` beside a node that runs, and `syncline restore` after it was killed.

use syncline_testing::process::{Node, run};

fn put(node: &Node, value: &str) {
    let json = [("content-type", "application/json")];
    let (status, body) = node.ask("PUT", "/api/kv/a", &json, &format!("{{\"value\":\"{value}\"}}"));
    assert_eq!(status, 200, "{body}");
}

#[test]
fn op_08_a_node_is_copied_while_it_runs_and_is_what_it_was_after_the_restore() {
    let node = Node::start("");
    put(&node, "of the copy");
    let folder = node.folder.path().to_owned();
    let copied = run(&folder, &["backup", "copy.db"], &[]);
    assert!(copied.status.success(), "{copied:?}");
    assert!(String::from_utf8_lossy(&copied.stdout).contains("checked"), "{copied:?}");
    put(&node, "of later");
    let refused = run(&folder, &["restore", "copy.db"], &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("stop it first"), "{refused:?}");
    assert_eq!(node.get("/api/kv/a")["value"], "of later");

    // Killed, it leaves a log beside its database that nobody has closed.
    let home = node.kill();
    let restored = run(&folder, &["restore", "copy.db"], &[]);
    assert!(restored.status.success(), "{restored:?}");
    let said = String::from_utf8_lossy(&restored.stdout).into_owned();
    assert!(said.contains("before-restore") && said.contains("outbox sender --new"), "{said}");
    let node = Node::start_in(home, "", &[]);
    assert_eq!(node.get("/api/kv/a")["value"], "of the copy");
}
