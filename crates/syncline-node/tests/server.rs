//! A node in this process, reached over real sockets: protocols, keep-alive, start and stop.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use axum::body::Body;
use http::{Request, Version, header};
use http_body_util::BodyExt;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use syncline_testing::{NodeBuilder, RunningNode};
use tokio::net::TcpStream;

async fn start(listen: &str) -> RunningNode {
    NodeBuilder::new(syncline_node::systems()).listen(listen).start().await
}

fn health(node: &RunningNode) -> Request<Body> {
    let uri = format!("http://{}/healthz", node.address());
    Request::get(uri).header(header::HOST, node.address().to_string()).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn http_2_is_spoken_to_those_who_begin_with_it() {
    let node = start("127.0.0.1:0").await;
    let stream = TcpStream::connect(node.address()).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let asking = (0..50).map(|_| {
        let (mut sender, request) = (sender.clone(), health(&node));
        async move { sender.send_request(request).await.unwrap() }
    });
    for answer in futures::future::join_all(asking).await {
        assert_eq!((answer.version(), answer.status().as_u16()), (Version::HTTP_2, 200));
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
        answer.into_body().collect().await.unwrap();
    }
    drop(sender);
    node.stop().await;
    connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_connection_serves_many_requests_and_is_let_go_when_the_node_stops() {
    let node = start("127.0.0.1:0").await;
    let stream = TcpStream::connect(node.address()).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    for _ in 0..100 {
        let answer = sender.send_request(health(&node)).await.unwrap();
        assert_eq!((answer.version(), answer.status().as_u16()), (Version::HTTP_11, 200));
        answer.into_body().collect().await.unwrap();
    }
    node.stop().await;
    connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_port_can_be_taken_again_right_after_a_stop() {
    let node = start("127.0.0.1:0").await;
    let address = node.address();
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender.send_request(health(&node)).await.unwrap();
    node.stop().await;
    let again = start(&address.to_string()).await;
    assert_eq!(again.address(), address);
    again.stop().await;
}

#[tokio::test]
async fn ipv6_is_served_under_its_own_address() {
    let node = start("[::1]:0").await;
    let stream = TcpStream::connect(node.address()).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    assert_eq!(sender.send_request(health(&node)).await.unwrap().status(), 200);
    node.stop().await;
}
