//! Peers as processes: scripts and programs that print one line of JSON, and servers that they need.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

/// How long a server may take to listen.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Runs a peer to its end and reads the last line it printed.
pub fn answer(command: &mut Command) -> Result<Value> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {command:?}"))?;
    ensure!(output.status.success(), "{command:?} ended with {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).with_context(|| format!("{command:?} said {line:?}"))
}

/// A server in a folder of its own, on a free port of loopback; both are gone when it is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub port: u16,
    _folder: TempDir,
}

impl Server {
    /// Redis; `persistence` says what it keeps on disk.
    pub fn redis(persistence: &[&str]) -> Result<Server> {
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", ""]).args(persistence);
        Server::start(command, |command, port| {
            command.args(["--port", &port.to_string()]);
        })
    }

    /// etcd, one member.
    pub fn etcd() -> Result<Server> {
        let peers = free_port()?;
        let mut command = Command::new("etcd");
        command.args(["--data-dir", "data", "--listen-peer-urls", &format!("http://127.0.0.1:{peers}")]);
        Server::start(command, |command, port| {
            let url = format!("http://127.0.0.1:{port}");
            command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        })
    }

    fn start(mut command: Command, listen_on: impl Fn(&mut Command, u16)) -> Result<Server> {
        let folder = tempfile::tempdir().context("cannot create a folder for a server")?;
        let port = free_port()?;
        listen_on(&mut command, port);
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let server = Server { child, port, _folder: folder };
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            ensure!(begun.elapsed() < START_LIMIT, "{command:?} does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
    Ok(listener.local_addr()?.port())
}
