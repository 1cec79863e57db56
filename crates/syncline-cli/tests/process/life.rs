//! Starting, stopping, dying and coming back.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use rustix::process::Signal;
use syncline_testing::process::{Node, answer};

#[test]
fn asked_to_stop_a_node_finishes_what_is_in_flight_and_takes_nothing_new() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut node = Node::start("");
        let body = "{\"value\":\"in flight\"}";
        let (first, rest) = body.split_at(8);
        let mut stream = node.connect();
        let head = format!(
            "PUT /api/kv/a HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{first}",
            node.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        wait_until_counted(&node);
        node.signal(signal);
        while TcpStream::connect(node.address).is_ok() {
            std::thread::yield_now();
        }
        stream.write_all(rest.as_bytes()).unwrap();
        let (status, body) = answer(stream);
        assert_eq!(status, 200, "{body}");
        assert!(node.ended().success());
        assert!(node.log().contains("node stopped"), "{}", node.log());
    }
}

/// Waits until the node has two connections: the one in flight and the one that asks.
fn wait_until_counted(node: &Node) {
    let connections = || {
        let (_, metrics) = node.ask("GET", "/metrics", &[], "");
        metrics.lines().find_map(|line| line.strip_prefix("syncline_http_connections ")).map(str::to_owned)
    };
    while connections().as_deref() != Some("2") {
        std::thread::yield_now();
    }
}

#[test]
fn streams_and_half_sent_requests_do_not_delay_the_end() {
    let mut node = Node::start("[limits]\ndrain_timeout_sec = 3600\n");
    let mut half = node.connect();
    half.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let mut stream = node.connect();
    let get = format!("GET /api/events HTTP/1.1\r\nhost: {}\r\n\r\n", node.address);
    stream.write_all(get.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines();
    assert!(lines.any(|line| line.unwrap() == "event: hello"));
    node.signal(Signal::TERM);
    assert!(node.ended().success());
    assert!(lines.map_while(Result::ok).any(|line| line == "0"), "the stream was ended, not cut");
    let mut rest = Vec::new();
    let _ = half.read_to_end(&mut rest);
    assert!(rest.is_empty());
}

/// SIGHUP, by which services are asked to read their configuration again, ended the node at once and without a word.
#[test]
fn op_08_sighup_ends_no_service_and_is_answered_in_the_log() {
    let mut node = Node::start("");
    node.signal(Signal::HUP);
    while !node.log().contains("the configuration was read again: nothing has changed") {
        assert_eq!(node.ask("GET", "/healthz", &[], "").0, 200);
    }
    node.signal(Signal::TERM);
    assert!(node.ended().success());
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let node = Node::start("");
    for number in 0..50 {
        let (status, _) = node.ask("PUT", &format!("/api/kv/k{number:02}"), &[], "{\"value\":\"kept\"}");
        assert_eq!(status, 200);
    }
    let node = Node::start_in(node.kill(), "", &[]);
    let listed = node.get("/api/kv?prefix=k&limit=100");
    let entries = listed["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 50);
    assert!(entries.iter().all(|entry| entry["value"] == "kept"));
}

#[test]
fn vw_23_a_node_that_was_watched_is_watched_after_kill_9_or_restart() {
    let node = Node::start("");
    assert_eq!(node.beat("page"), 200);
    let node = Node::start_in(node.kill(), "", &[]);
    while node.get("/api/viewer")["occupied"] != true {
        std::thread::yield_now();
    }
    // And once more without any page: the first life's word still stands, and so does a polite goodbye.
    let mut node = Node::start_in(node.kill(), "", &[]);
    assert_eq!(node.beat("page"), 200);
    node.signal(Signal::TERM);
    assert!(node.ended().success());
    let node = Node::start_in(node.into_folder(), "", &[]);
    while node.get("/api/viewer")["occupied"] != true {
        std::thread::yield_now();
    }
}

#[test]
fn a_port_that_is_taken_is_an_error_in_one_sentence() {
    let node = Node::start("");
    let folder = tempfile::tempdir().unwrap();
    let address = node.address.to_string();
    let output = syncline_testing::process::run(
        folder.path(),
        &["serve", "--listen", &address, "--log-level", "off"],
        &[],
    );
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with(&format!("error: cannot listen on {address}")), "{said}");
}
