//! Over real sockets: who plays a recording slowly costs no more than a small buffer.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::form::{BOUNDARY, recording};
use crate::world::builder;

const MIB: usize = 1024 * 1024;

/// A listener whose own buffer is small, so that what is not read stays with the node.
async fn play(address: SocketAddr, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recording_is_played_slowly_without_being_held_in_memory() {
    let node = builder("").start().await;
    let sound = vec![7_u8; 96 * MIB];
    let form = recording("call-1", "r-1", &sound, "{}");
    drop(sound);
    let mut stream = TcpStream::connect(node.address()).await.unwrap();
    let head = format!(
        "POST /api/ingest/recording-file HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
         content-type: multipart/form-data; boundary={BOUNDARY}\r\ncontent-length: {}\r\n\r\n",
        node.address(),
        form.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&form).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(form);
    let before = resident();
    let mut listeners = Vec::new();
    for _ in 0..8 {
        listeners.push(play(node.address(), "/storage/recordings/call-1/mixed.wav").await);
    }
    for listener in &mut listeners {
        let mut read = vec![0; MIB];
        listener.read_exact(&mut read).await.unwrap();
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 * MIB, "{} MiB for eight listeners to 96 MiB", grown / MIB);
}
