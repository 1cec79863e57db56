//! Recordings sent to a real node: larger than its memory, and cut off by its death.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;

use syncline_testing::process::{Node, answer, number};

use crate::node;

const BOUNDARY: &str = "----syncline-process-boundary";

/// Bytes sent at a time.
const PIECE: usize = 1024 * 1024;

/// What a form has before and after the sound.
pub(crate) fn around(call: &str) -> (String, String) {
    let text = |name: &str, value: &str| {
        format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let before = format!(
        "{}{}--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"audio\"; filename=\"mixed.wav\"\r\n\
         content-type: application/octet-stream\r\n\r\n",
        text("callLogId", call),
        text("recordingId", "r-1")
    );
    (before, format!("\r\n{}--{BOUNDARY}--\r\n", text("meta", "{}")))
}

/// Sends the head and the form up to the sound.
pub(crate) fn begin(node: &Node, call: &str, length: u64) -> (TcpStream, String) {
    let (before, after) = around(call);
    let mut stream = node.connect();
    let head = format!(
        "POST /api/ingest/recording-file HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
         content-type: multipart/form-data; boundary={BOUNDARY}\r\ncontent-length: {}\r\n\r\n{before}",
        node.address,
        before.len() as u64 + length + after.len() as u64
    );
    stream.write_all(head.as_bytes()).unwrap();
    (stream, after)
}

/// The most memory the process ever had, in kilobytes.
fn memory_peak_kb(node: &Node) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", node.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn ss_07_a_recording_of_a_gigabyte_passes_a_process_limited_to_a_hundred_megabytes() {
    let megabytes = number("SYNCLINE_RECORDING_MB", 1_024);
    let length = megabytes * PIECE as u64;
    // The system refuses it any more than this many kilobytes.
    let node = node::start_by("ulimit -d 102400 && exec \"$0\" serve");
    let (mut stream, after) = begin(&node, "large", length);
    let piece = vec![0x5a; PIECE];
    for _ in 0..megabytes {
        stream.write_all(&piece).unwrap();
    }
    stream.write_all(after.as_bytes()).unwrap();
    let (status, body) = answer(stream);
    assert_eq!(status, 200, "{body}\n{}", node.log());
    assert!(body.contains(&format!("\"length\":{length}")), "{body}");
    let kept = node.folder.path().join("data/recordings/large/mixed.wav");
    assert_eq!(fs::metadata(&kept).unwrap().len(), length);
    let peak = memory_peak_kb(&node);
    println!("{megabytes} MB received, {} MB of memory at most", peak / 1_024);
    assert!(peak < 100 * 1_024, "{peak} kB");
}

#[test]
fn ss_24_a_recording_cut_off_by_kill_9_is_not_there_and_comes_again_whole() {
    let mut folder = None;
    for kill in 0..number("SYNCLINE_KILLS", 3) {
        let node = node::start_in(folder.unwrap_or_else(|| tempfile::tempdir().unwrap()), "", &[]);
        let root = node.folder.path().join("data/recordings");
        let call = format!("call-{kill}");
        let length = 4 * PIECE as u64;
        let (mut stream, _) = begin(&node, &call, length);
        stream.write_all(&vec![1; 3 * PIECE]).unwrap();
        while names(&root.join(".incoming")).is_empty() {
            std::thread::yield_now();
        }
        let node = node::start_in(node.kill(), "", &[]);
        assert_eq!(names(&root.join(".incoming")), Vec::<String>::new(), "what was cut off is gone");
        assert!(!root.join(&call).exists());

        let (mut stream, after) = begin(&node, &call, length);
        stream.write_all(&vec![1; 4 * PIECE]).unwrap();
        stream.write_all(after.as_bytes()).unwrap();
        let (status, body) = answer(stream);
        assert_eq!(status, 200, "{body}");
        // What was answered for survives.
        let node = node::start_in(node.kill(), "", &[]);
        let (status, sound) = node.ask("GET", &format!("/storage/recordings/{call}/mixed.wav"), &[], "");
        assert_eq!((status, sound.len()), (200, 4 * PIECE));
        folder = Some(node.kill());
    }
}

/// A sender that reads no answer before it has sent everything saw a reset connection in place of the refusal.
#[test]
fn ss_27_a_sender_that_does_not_look_up_sees_that_its_recording_is_too_large() {
    let node = node::start("[recordings]\nmax_bytes = 100000\n");
    // The size is announced, and refused before anything is read.
    let (mut stream, after) = begin(&node, "announced", 3 * PIECE as u64);
    stream.write_all(&vec![1; 3 * PIECE]).unwrap();
    stream.write_all(after.as_bytes()).unwrap();
    let (status, body) = answer(stream);
    assert_eq!(status, 413, "{body}");
    // It is not, and turns out in the middle of a part.
    let (before, after) = around("chunked");
    let mut stream = node.connect();
    let head = format!(
        "POST /api/ingest/recording-file HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
         content-type: multipart/form-data; boundary={BOUNDARY}\r\ntransfer-encoding: chunked\r\n\r\n",
        node.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    for piece in [before.as_bytes(), &vec![1; 3 * PIECE], after.as_bytes(), b""] {
        stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).unwrap();
        stream.write_all(piece).unwrap();
        stream.write_all(b"\r\n").unwrap();
    }
    let (status, body) = answer(stream);
    assert_eq!(status, 413, "{body}");
}
