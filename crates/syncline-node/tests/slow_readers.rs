//! Over real sockets: readers who are slow, or read nothing, cost no more than a small buffer each.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use futures::stream;
use http::{Request, header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde_json::json;
use syncline_node::{Context, http as api};
use syncline_testing::{NodeBuilder, RunningNode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

const MIB: usize = 1024 * 1024;

/// What the system buffers for a connection on both sides, at the very most, and what we do.
const BUFFERS_MAX: usize = 16 * MIB;

async fn start(app: impl FnOnce(&Arc<Context>) -> Router + Send + 'static) -> RunningNode {
    NodeBuilder::new(syncline_node::systems()).app(app).start().await
}

/// A connection whose own buffer is small, so that what is not read stays with the node.
async fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    socket.connect(address).await.unwrap()
}

async fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = connect(address).await;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut byte = [0; 1];
    stream.read_exact(&mut byte).await.unwrap();
    stream
}

/// An address that has an endless answer, and how much of it was asked for.
fn endless(pulled: &Arc<AtomicUsize>) -> impl FnOnce(&Arc<Context>) -> Router + Send + use<> {
    let pulled = Arc::clone(pulled);
    move |context| {
        let body = move || {
            let pulled = Arc::clone(&pulled);
            let pieces = stream::repeat_with(move || {
                pulled.fetch_add(64 * 1024, Ordering::SeqCst);
                Ok::<_, Infallible>(Bytes::from(vec![0; 64 * 1024]))
            });
            std::future::ready(Body::from_stream(pieces))
        };
        api::behind_door(Router::new().route("/endless", get(body)), context)
    }
}

/// Waits until nothing more is asked for: twice the same number, a while apart.
async fn settled(pulled: &AtomicUsize) -> usize {
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = pulled.load(Ordering::SeqCst);
        assert!(now <= BUFFERS_MAX * 8, "{now} bytes were asked for, and nobody reads them");
        if now == before && now > 0 {
            return now;
        }
        before = now;
    }
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// The server used to flush only when nothing more had come in, and therefore never said that its buffer was full: whoever
/// downloaded a large file slowly made the node hold all of it in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_04_a_reader_that_stops_reading_stops_the_answer() {
    let pulled = Arc::new(AtomicUsize::new(0));
    let node = start(endless(&pulled)).await;
    let streams = [ask(node.address(), "/endless").await, ask(node.address(), "/endless").await];
    let held = settled(&pulled).await;
    assert!(held <= streams.len() * BUFFERS_MAX, "{held}");
    // It goes on where it stopped.
    let [mut reader, _other] = streams;
    let mut read = vec![0; 2 * BUFFERS_MAX];
    reader.read_exact(&mut read).await.unwrap();
    assert!(pulled.load(Ordering::SeqCst) > held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_04_an_http_2_window_that_stays_shut_holds_one_piece_of_each_answer() {
    let pulled = Arc::new(AtomicUsize::new(0));
    let node = start(endless(&pulled)).await;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).initial_stream_window_size(0);
    let io = TokioIo::new(TcpStream::connect(node.address()).await.unwrap());
    let (sender, connection) = builder.handshake::<_, Empty<Bytes>>(io).await.unwrap();
    tokio::spawn(connection);
    let asking = (0..100).map(|_| {
        let mut sender = sender.clone();
        let uri = format!("http://{}/endless", node.address());
        async move { sender.send_request(Request::get(uri).body(Empty::new()).unwrap()).await.unwrap() }
    });
    let answers = futures::future::join_all(asking).await;
    assert!(answers.iter().all(|answer| answer.status() == 200));
    let held = settled(&pulled).await;
    assert!(held <= answers.len() * 2 * 64 * 1024, "{held}");
}

/// 200 readers that read nothing used to cost 870 MiB within seconds, and were never told that they had missed anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_04_event_streams_that_nobody_reads_are_bounded_and_told_what_they_missed() {
    let node = start(api::app).await;
    let mut readers = Vec::new();
    for _ in 0..200 {
        readers.push(ask(node.address(), "/api/events?topics=job").await);
    }
    let before = resident();
    let large = "x".repeat(2_000);
    for number in 0..60_000 {
        node.context().events.publish("job", &json!({ "number": number, "text": large }));
        if number % 500 == 0 {
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 128 * MIB, "{} MiB for 120 MB of events and 200 readers", grown / MIB);
    let mut reader = readers.pop().unwrap();
    let (mut seen, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
    while !String::from_utf8_lossy(&seen).contains("event: lagged") {
        let read = reader.read(&mut piece).await.unwrap();
        assert!(read > 0, "the stream ended without a word");
        seen.extend_from_slice(&piece[..read]);
    }
}

/// Large answers that are whole in memory share what they may take together; beyond that the next one is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_answers_that_nobody_reads_have_a_bound_together() {
    let whole = Bytes::from(vec![b'x'; 16 * MIB]);
    let app = move |context: &Arc<Context>| {
        api::behind_door(Router::new().route("/large", get(async move || whole.clone())), context)
    };
    let node = start(app).await;
    let mut unread = Vec::new();
    for _ in 0..16 {
        unread.push(ask(node.address(), "/large").await);
    }
    let client = |path: &'static str| {
        let address = node.address();
        async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            answer
        }
    };
    let refused = client("/large").await;
    let refused = String::from_utf8_lossy(&refused).to_lowercase();
    assert!(refused.starts_with("http/1.1 503") && refused.contains("retry-after: 1"), "{refused}");
    let mut first = unread.pop().unwrap();
    let mut read = vec![0; 16 * MIB];
    first.read_exact(&mut read).await.unwrap();
    // The share is given back with the last piece.
    loop {
        let answer = client("/large").await;
        if answer.starts_with(b"HTTP/1.1 200") {
            assert!(answer.len() > 16 * MIB);
            break;
        }
        assert!(answer.starts_with(b"HTTP/1.1 503"));
    }
}

/// The header the tests above rely on is there in both protocols.
#[tokio::test]
async fn an_answer_in_pieces_says_how_long_it_is() {
    let whole = Bytes::from(vec![b'x'; 100_000]);
    let app = move |context: &Arc<Context>| {
        api::behind_door(Router::new().route("/large", get(async move || whole.clone())), context)
    };
    let node = start(app).await;
    let uri = format!("http://{}/large", node.address());
    let io = TokioIo::new(TcpStream::connect(node.address()).await.unwrap());
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let answer = sender.send_request(Request::get(uri).body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    assert_eq!(answer.headers()[header::CONTENT_LENGTH], "100000");
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), 100_000);
}
