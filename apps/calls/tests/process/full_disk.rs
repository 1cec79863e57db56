//! A disk that fills up under recordings: refused with 507, nothing left behind, and the node goes on.

use std::io::Write;
use std::process::Command;

use serde_json::{Value, json};
use syncline_testing::process::{Node, answer};

use crate::node;
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
    let node = node::start_by(&format!("export RECORDINGS_DIR=rec; {small}"));
    for n in 0..3 {
        let (status, body) = send(&node, &format!("large-{n}"), 32 << 20);
        assert_eq!((status, &body["code"]), (507, &json!("storage-full")), "{body}");
    }
    let (status, body) = send(&node, "small", 1 << 20);
    assert_eq!((status, &body["length"]), (200, &json!(1 << 20)), "what fits is taken: {body}");
    assert!(!node.log().contains("panicked"), "{}", node.log());
}
