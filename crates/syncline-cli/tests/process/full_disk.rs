//! A disk that fills up under a node: refused with 507, nothing left behind, and the node goes on.

use std::fs;
use std::io::Write;
use std::process::Command;

use serde_json::{Value, json};

use crate::program::{Node, answer};
use crate::recordings::begin;

/// Whether this machine lets us have a small file system of our own.
fn mounts() -> bool {
    let probe = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size=1m tmpfs {}", probe.path().display());
    Command::new("unshare").args(["-m", "sh", "-c", &mount]).output().is_ok_and(|done| done.status.success())
}

fn send(node: &Node, call: &str, bytes: usize) -> (u16, Value) {
    let (mut stream, after) = begin(node, call, bytes as u64);
    let piece = vec![7; 256 * 1024];
    for _ in 0..bytes / piece.len() {
        // A node that has refused may stop reading.
        if stream.write_all(&piece).is_err() {
            break;
        }
    }
    let _ = stream.write_all(after.as_bytes());
    let (status, body) = answer(stream);
    (status, serde_json::from_str(&body).unwrap_or(Value::Null))
}

/// An upload that did not fit made the handler panic: the failed write was waited for a second time.
#[test]
fn ss_09_a_disk_that_fills_up_during_an_upload_is_a_507_and_the_node_goes_on() {
    // Where nothing can be mounted, a limit on the size of files is the nearest thing that really fails a write.
    let small = match mounts() {
        true => {
            "exec unshare -m sh -c 'mkdir rec && mount -t tmpfs -o size=24m tmpfs rec && exec \"$0\" serve' \"$0\""
        }
        // In blocks of 512 bytes or 1 KiB, whichever the shell has: 12 or 24 MiB.
        false => "trap '' XFSZ; ulimit -f 24576 && exec \"$0\" serve",
    };
    let node = Node::start_by(&format!("export RECORDINGS_DIR=rec; {small}"), "");
    for n in 0..3 {
        let (status, body) = send(&node, &format!("large-{n}"), 32 << 20);
        assert_eq!((status, &body["code"]), (507, &json!("storage-full")), "{body}");
    }
    let (status, body) = send(&node, "small", 1 << 20);
    assert_eq!((status, &body["length"]), (200, &json!(1 << 20)), "what fits is taken: {body}");
    assert!(!node.log().contains("panicked"), "{}", node.log());
}

/// A full disk under the database was a 500, which a sender counts as the entry's fault.
#[test]
fn ss_09_a_full_disk_under_the_database_is_a_507_and_ends_with_the_fullness() {
    if !mounts() {
        // The recordings above are refused by a limit on files; SQLite calls such a limit a broken disk, not a full one.
        return;
    }
    let inner = "mkdir small && mount -t tmpfs -o size=4m tmpfs small && exec \"$0\" serve";
    let command =
        format!("export SYNCLINE_DATA=small RECORDINGS_DIR=rec; exec unshare -m sh -c '{inner}' \"$0\"");
    let node = Node::start_by(&command, "");
    let entry = |n: usize| {
        let payload = json!({ "text": "x".repeat(200_000) });
        let created = "2026-02-07T10:20:30Z";
        json!({ "entries": [{ "entityType": "call_log", "entityId": format!("c{n}"), "payload": payload, "createdAt": created }] })
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
