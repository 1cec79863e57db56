//! A disk that fills up under the database: refused with 507, and the node goes on.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use syncline_testing::process::Node;

/// Whether this machine lets us have a small file system of our own.
fn mounts() -> bool {
    let probe = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size=1m tmpfs {}", probe.path().display());
    Command::new("unshare").args(["-m", "sh", "-c", &mount]).output().is_ok_and(|done| done.status.success())
}

/// A full disk under the database was a 500, which a sender counts as the entry's fault.
#[test]
fn ss_09_a_full_disk_under_the_database_is_a_507_and_ends_with_the_fullness() {
    if !mounts() {
        // SQLite calls a limit on the size of files a broken disk, not a full one, so nothing can stand in for the mount.
        return;
    }
    let inner = "mkdir small && mount -t tmpfs -o size=4m tmpfs small && exec \"$0\" serve";
    let command = format!("export SYNCLINE_DATA=small; exec unshare -m sh -c '{inner}' \"$0\"");
    let node = Node::start_by(&command, "[[entities]]\nname = \"order\"\n", &[]);
    let entry = |n: usize| {
        let payload = json!({ "text": "x".repeat(200_000) });
        let created = "2026-02-07T10:20:30Z";
        json!({ "entries": [{ "entityType": "order", "entityId": format!("o{n}"), "payload": payload, "createdAt": created }] })
            .to_string()
    };
    let post =
        |n: usize| node.ask("POST", "/api/ingest/sync", &[("content-type", "application/json")], &entry(n));
    let refused = (0..200).map(post).find(|(status, _)| *status != 200).expect("the disk fills up");
    let body: Value = serde_json::from_str(&refused.1).unwrap();
    assert_eq!((refused.0, &body["code"]), (507, &json!("storage-full")), "{body}");
    // Room is made in the node's own file system.
    let small = format!("/proc/{}/root{}/small", node.pid(), node.folder.path().display());
    assert!(fs::metadata(&small).is_ok());
    let remount = format!("mount -o remount,size=64m {}/small", node.folder.path().display());
    let made =
        Command::new("nsenter").args(["-t", &node.pid(), "-m", "sh", "-c", &remount]).status().unwrap();
    assert!(made.success());
    assert_eq!(post(999).0, 200, "and it goes on by itself");
}
