//! Listeners over real sockets, each of which says when it has heard of an event.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::server::Server;

/// Connections that are opened at the same time.
const AT_ONCE: u32 = 200;
const PATIENCE: Duration = Duration::from_secs(60);
/// What the data of every event contains, and nothing else does.
const MARK: &[u8] = b"\"bench";

pub(crate) struct Crowd {
    listeners: u32,
    heard: mpsc::UnboundedReceiver<Instant>,
    /// Gone with the crowd.
    _reading: JoinSet<()>,
    _silent: Vec<TcpStream>,
}

impl Crowd {
    /// Opens the streams. `silent` of them are never read again.
    pub(crate) async fn gather(server: &Server, streams: u32, silent: u32) -> Result<Crowd> {
        let (tell, heard) = mpsc::unbounded_channel();
        let (mut reading, mut unread, mut opened) = (JoinSet::new(), Vec::new(), 0);
        while opened < streams {
            let some = AT_ONCE.min(streams - opened);
            let mut opening = JoinSet::new();
            for _ in 0..some {
                opening.spawn(open(server.port, server.stream_path()));
            }
            while let Some(stream) = opening.join_next().await {
                let stream = stream??;
                opened += 1;
                if opened <= silent {
                    unread.push(stream);
                } else {
                    reading.spawn(read(stream, tell.clone()));
                }
            }
        }
        Ok(Crowd { listeners: streams - silent, heard, _reading: reading, _silent: unread })
    }

    /// How long it took until each of them had heard of what was published.
    pub(crate) async fn heard(&mut self, published: Instant) -> Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(self.listeners as usize);
        while times.len() < self.listeners as usize {
            let next = tokio::time::timeout(PATIENCE, self.heard.recv()).await;
            let Ok(Some(at)) = next else {
                ensure!(false, "{} of {} have heard of it", times.len(), self.listeners);
                break;
            };
            times.push(at.saturating_duration_since(published));
        }
        Ok(times)
    }
}

async fn open(port: u16, path: &'static str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\naccept: text/event-stream\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut piece = [0; 1_024];
    let read = stream.read(&mut piece).await?;
    ensure!(piece[..read].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&piece[..read]));
    Ok(stream)
}

async fn read(mut stream: TcpStream, tell: mpsc::UnboundedSender<Instant>) {
    let mut piece = [0; 1_024];
    while let Ok(read) = stream.read(&mut piece).await {
        if read == 0 {
            return;
        }
        if piece[..read].windows(MARK.len()).any(|part| part == MARK) && tell.send(Instant::now()).is_err() {
            return;
        }
    }
}
