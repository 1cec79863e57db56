//! Over real sockets, byte by byte: every request gets its answer, whatever follows it and however malformed it is, and
//! nobody keeps a place without using it.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use syncline_testing::{NodeBuilder, RunningNode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn start(limits: &str) -> RunningNode {
    NodeBuilder::new(syncline_node::systems()).file(&format!("[limits]\n{limits}")).start().await
}

/// Sends `bytes` and leaves the connection open; what comes back until `end` is in it.
async fn answer_to(node: &RunningNode, bytes: &[u8], end: &str) -> String {
    let mut stream = TcpStream::connect(node.address()).await.unwrap();
    // A server that has refused already may have closed before everything is sent.
    let _ = stream.write_all(bytes).await;
    let (mut seen, mut piece) = (Vec::new(), [0; 4_096]);
    loop {
        let text = String::from_utf8_lossy(&seen).into_owned();
        if text.contains(end) {
            return text;
        }
        let read = stream.read(&mut piece).await.unwrap_or(0);
        assert!(
            read > 0,
            "closed after {text:?} in answer to {:?}",
            String::from_utf8_lossy(&bytes[..bytes.len().min(200)])
        );
        seen.extend_from_slice(&piece[..read]);
    }
}

/// An answer used to be withheld while anything unread was there: the change was made, and its sender heard nothing.
#[tokio::test]
async fn an_answer_is_sent_whatever_follows_the_request() {
    // A time-out of an hour: what does not come at once does not come.
    let node = start("header_timeout_sec = 3600\n").await;
    let host = node.address();
    let put = format!(
        "PUT /api/kv/a HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n{{\"value\":\"1\"}}"
    );
    for after in ["", "\r\n", "\r\n\r\n", "G", "GET /healthz HTTP/1.1\r\nhost: "] {
        answer_to(&node, format!("{put}{after}").as_bytes(), "\"ttl_ms\":null}").await;
    }
    let mut many = String::new();
    for number in 0..50 {
        write!(many, "GET /api/kv/{number} HTTP/1.1\r\nhost: {host}\r\n\r\n").unwrap();
    }
    write!(many, "{put}GET /half").unwrap();
    let answers = answer_to(&node, many.as_bytes(), "\"ttl_ms\":null}").await;
    assert_eq!(answers.matches("HTTP/1.1 404").count(), 50, "in order, before the last");
}

#[tokio::test]
async fn what_is_no_request_is_told_so() {
    let node = start("header_timeout_sec = 3600\n").await;
    let host = node.address();
    let line = format!("POST /api/viewer HTTP/1.1\r\nhost: {host}\r\n");
    let headers = |count: usize| (0..count).map(|n| format!("x-{n}: 1\r\n")).collect::<String>();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("400", format!("{line}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}").into_bytes()),
        (
            "400",
            format!("{line}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n").into_bytes(),
        ),
        ("400", format!("{line}content-length: -1\r\n\r\n").into_bytes()),
        ("400", format!("{line}transfer-encoding: gzip\r\n\r\n").into_bytes()),
        ("400", format!("{line}bad header\r\n\r\n").into_bytes()),
        ("400", b"GET / HTTP/9.9\r\n\r\n".to_vec()),
        (
            "400",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello to the plain port \r\n\r\n".to_vec(),
        ),
        ("431", format!("{line}{}\r\n", headers(150)).into_bytes()),
        ("431", format!("{line}x: {}\r\n\r\n", "y".repeat(100_000)).into_bytes()),
        ("414", format!("GET /{} HTTP/1.1\r\nhost: {host}\r\n\r\n", "y".repeat(70_000)).into_bytes()),
    ];
    for (status, bytes) in cases {
        let answer = answer_to(&node, &bytes, "\r\n\r\n").await;
        let got = answer.split(' ').nth(1).unwrap_or_default();
        // What hyper calls too long and what it calls malformed is its own business, as long as it is said.
        assert!(
            got == status || (status != "400" && ["400", "431", "414"].contains(&got)),
            "{status}: {answer}"
        );
    }
}

/// One that is refused before its body was read used to be reset, and its sender saw a broken connection in place of the reason.
#[tokio::test]
async fn a_large_body_that_is_refused_unread_does_not_hide_the_answer() {
    let node = start("").await;
    let body = vec![b'x'; 3 * 1024 * 1024];
    let head = format!(
        "POST /no/such/path HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n\r\n",
        node.address(),
        body.len()
    );
    let mut stream = TcpStream::connect(node.address()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&body).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
}

async fn http_2(
    node: &RunningNode,
) -> (http2::SendRequest<Empty<Bytes>>, tokio::task::JoinHandle<hyper::Result<()>>) {
    let io = TokioIo::new(TcpStream::connect(node.address()).await.unwrap());
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    (sender, tokio::spawn(connection))
}

fn health(node: &RunningNode) -> Request<Empty<Bytes>> {
    Request::get(format!("http://{}/healthz", node.address())).body(Empty::new()).unwrap()
}

/// After one request such a connection could stay for ever, as long as it answered pings: a few thousand kept everybody out.
#[tokio::test]
async fn ac_12_an_http_2_connection_without_a_request_is_closed_and_one_that_listens_is_not() {
    let node = start("header_timeout_sec = 1\n").await;
    let (mut idle, idle_connection) = http_2(&node).await;
    let (mut listening, listening_connection) = http_2(&node).await;
    assert_eq!(idle.send_request(health(&node)).await.unwrap().status(), 200);
    let events = Request::get(format!("http://{}/api/events", node.address())).body(Empty::new()).unwrap();
    let events = listening.send_request(events).await.unwrap();
    assert_eq!(events.status(), 200);
    // It is closed with a goodbye: its client sees no error.
    idle_connection.await.unwrap().unwrap();
    assert!(!listening_connection.is_finished());
    assert_eq!(listening.send_request(health(&node)).await.unwrap().status(), 200);
    drop(events);
}

#[tokio::test]
async fn ac_12_idle_connections_make_room_for_those_who_wait() {
    // As many as there are places, and an hour to stay.
    let node = start("connections = 16\nheader_timeout_sec = 3600\n").await;
    let mut idle = Vec::new();
    for number in 0..40 {
        if number % 2 == 0 {
            let (mut sender, connection) = http_2(&node).await;
            let asked =
                tokio::time::timeout(Duration::from_secs(60), sender.send_request(health(&node))).await;
            assert_eq!(asked.unwrap().unwrap().status(), 200, "{number}");
            idle.push((Some((sender, connection)), None));
        } else {
            let mut half = TcpStream::connect(node.address()).await.unwrap();
            half.write_all(b"GET /healthz HTTP/1.1\r\nhost").await.unwrap();
            idle.push((None, Some(half)));
        }
    }
    let get = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", node.address());
    assert!(answer_to(&node, get.as_bytes(), "alive").await.starts_with("HTTP/1.1 200"));
}
