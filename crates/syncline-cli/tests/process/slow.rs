//! Clients that take their time.

use std::io::{Read, Write};
use std::net::TcpStream;

use syncline_testing::process::Node;

/// Opens connections that will never get to the point.
fn dawdlers(node: &Node, count: usize, words: &str) -> Vec<TcpStream> {
    let open = |_| {
        let mut stream = node.connect();
        stream.write_all(words.replace("HOST", &node.address.to_string()).as_bytes()).unwrap();
        stream
    };
    (0..count).map(open).collect()
}

const NOTHING: &str = "";
const HALF_A_WORD: &str = "GE";
const HALF_A_HEAD: &str = "GET / HTTP/1.1\r\nhost: HOST\r\nx-slow: ";
const HALF_A_BODY: &str = "POST /api/viewer HTTP/1.1\r\nhost: HOST\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"sess";
const HALF_A_PREFACE: &str = "PRI * HTTP/2.0\r\n";

#[test]
fn hundreds_of_half_sent_requests_do_not_keep_a_real_one_from_its_answer() {
    let node = Node::start("");
    let mut slow = Vec::new();
    for words in [NOTHING, HALF_A_WORD, HALF_A_HEAD, HALF_A_BODY, HALF_A_PREFACE] {
        slow.extend(dawdlers(&node, 200, words));
    }
    assert_eq!(node.get("/healthz")["status"], "alive");
    assert_eq!(node.beat("real"), 200);
    let open = slow.iter().filter(|stream| is_open(stream)).count();
    assert_eq!(open, 1_000, "the answers came while all the others were still waiting");
}

#[test]
fn whoever_never_finishes_is_let_go() {
    let node = Node::start("[limits]\nheader_timeout_sec = 1\nbody_idle_timeout_sec = 1\n");
    let kinds = [NOTHING, HALF_A_WORD, HALF_A_HEAD, HALF_A_PREFACE, HALF_A_BODY];
    let slow: Vec<_> = kinds.into_iter().flat_map(|words| dawdlers(&node, 20, words)).collect();
    let mut last_words = Vec::new();
    for mut stream in slow {
        last_words.clear();
        // The end of the stream is what is waited for; a reset is an end, too.
        let _ = stream.read_to_end(&mut last_words);
    }
    let last_words = String::from_utf8(last_words).unwrap();
    assert!(last_words.starts_with("HTTP/1.1 408"), "a stalled body is told: {last_words:?}");
    assert!(last_words.contains("\"code\":\"timeout\""), "{last_words:?}");
    assert_eq!(node.get("/api/viewer")["viewers"], 0);
}

#[test]
fn connections_beyond_the_cap_wait_their_turn_and_are_answered() {
    let node = Node::start("[limits]\nconnections = 16\nheader_timeout_sec = 1\n");
    let slow = dawdlers(&node, 32, HALF_A_HEAD);
    assert_eq!(node.get("/healthz")["status"], "alive");
    drop(slow);
}

#[test]
fn a_body_that_is_too_large_is_answered_even_to_those_who_send_all_of_it_first() {
    let node = Node::start("");
    let megabyte = format!("{{\"sessionId\":\"s\",\"x\":\"{}\"}}", "x".repeat(1024 * 1024));
    for _ in 0..5 {
        let (status, body) = node.ask("POST", "/api/viewer", &[], &megabyte);
        assert_eq!(status, 413, "{body}");
        assert!(body.contains("\"success\":false") && body.contains("\"code\":\"too-large\""), "{body}");
    }
}

/// Whether the other side has not closed, without waiting for it.
fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let peeked = stream.peek(&mut [0; 1]);
    stream.set_nonblocking(false).unwrap();
    matches!(peeked, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}
