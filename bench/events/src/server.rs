//! Those who tell: a node, and a server made of an npm package.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const START_LIMIT: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    Syncline,
    BetterSse,
}

impl Contender {
    pub(crate) const ALL: [Contender; 2] = [Contender::Syncline, Contender::BetterSse];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Contender::Syncline => "Syncline",
            Contender::BetterSse => "better-sse 0.16.1, Node.js",
        }
    }
}

/// A server in a folder of its own; both are gone when it is dropped.
pub(crate) struct Server {
    contender: Contender,
    child: Child,
    pub(crate) port: u16,
    _folder: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start(contender: Contender) -> Result<Server> {
        let folder = tempfile::tempdir()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut command = match contender {
            Contender::Syncline => {
                let program = std::env::var_os("SYNCLINE_BIN").context("SYNCLINE_BIN names the program")?;
                let file = folder.path().join("syncline.toml");
                std::fs::write(&file, "[limits]\nconnections = 30000\nevent_streams = 30000\n")?;
                let mut command = Command::new(program);
                command.args(["serve", "--config"]).arg(file);
                command
                    .env("SYNCLINE_LISTEN", format!("127.0.0.1:{port}"))
                    .env("SYNCLINE_DATA", folder.path());
                command
            }
            Contender::BetterSse => {
                let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/better-sse.mjs");
                let mut command = Command::new("node");
                command.args([script, &port.to_string()]);
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Server { contender, child, port, _folder: folder })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) async fn until_it_answers(&self) -> Result<()> {
        let begun = Instant::now();
        while self.ask("GET", "/healthz", "").await.is_err() {
            ensure!(begun.elapsed() < START_LIMIT, "{} did not start", self.contender.name());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Where listeners go.
    pub(crate) fn stream_path(&self) -> &'static str {
        match self.contender {
            Contender::Syncline => "/api/events?topics=lock",
            Contender::BetterSse => "/events",
        }
    }

    /// Makes one event happen. The node commits a lock for it, the peer only tells.
    pub(crate) async fn publish(&self, number: u32) -> Result<()> {
        match self.contender {
            Contender::Syncline => {
                let path = format!("/api/locks/bench-{number}/acquire");
                self.ask("POST", &path, "{\"holder\":\"bench\",\"ttlMs\":15000}").await
            }
            Contender::BetterSse => self.ask("POST", "/publish", "{\"holder\":\"bench\"}").await,
        }
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> Result<()> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await?;
        let (port, length) = (self.port, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        let answer = String::from_utf8_lossy(&answer);
        if !answer.starts_with("HTTP/1.1 2") {
            bail!("{path} answered {}", answer.lines().next().unwrap_or_default());
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
