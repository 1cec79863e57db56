//! The servers under load, each a process of its own in a folder of its own.
//!
//! Whatever was started is stopped when its [`Contender`] is dropped.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// What an operator of so many viewers behind one address would set: here all come from 127.0.0.1.
const CONFIGURATION: &str = "\
[viewer]
new_sessions_per_minute = 100_000_000

[log]
level = \"warn\"
";

/// How long a server may take to stop before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A server that answers heartbeats.
pub(crate) struct Contender {
    child: Child,
    address: String,
    _folder: TempDir,
}

impl Contender {
    /// The product, as it is shipped.
    pub(crate) fn syncline() -> Result<Contender> {
        let binary = env::var_os("SYNCLINE_BIN").map(PathBuf::from);
        let binary =
            binary.context("SYNCLINE_BIN must name the syncline binary; cargo xtask bench sets it")?;
        let mut command = Command::new(binary);
        command.arg("serve");
        Contender::start(&mut command)
    }

    /// This very program in another role.
    pub(crate) fn own(kind: &str) -> Result<Contender> {
        let mut command = Command::new(env::current_exe().context("where is this program?")?);
        command.args(["serve", kind]);
        Contender::start(&mut command)
    }

    /// The peer from npm.
    pub(crate) fn miniflare() -> Result<Contender> {
        let mut command = Command::new("node");
        command.arg(bench_folder().join("miniflare.mjs"));
        Contender::start(&mut command)
    }

    /// Starts a server whose first line of output says `listening on http://…`.
    fn start(command: &mut Command) -> Result<Contender> {
        let folder = tempfile::tempdir().context("cannot create a folder for a server")?;
        fs::write(folder.path().join("syncline.toml"), CONFIGURATION)?;
        for (name, _) in
            env::vars().filter(|(name, _)| name.starts_with("SYNCLINE_") || name == "DATABASE_URL")
        {
            command.env_remove(name);
        }
        command.current_dir(folder.path()).env("SYNCLINE_LISTEN", "127.0.0.1:0");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let mut first = String::new();
        let output = child.stdout.take().expect("it was asked for");
        BufReader::new(output).read_line(&mut first).context("cannot read what a server says")?;
        let mut contender = Contender { child, address: String::new(), _folder: folder };
        let address = first.trim_end().strip_prefix("listening on http://");
        contender.address = address.with_context(|| format!("{command:?} said {first:?} first"))?.to_owned();
        Ok(contender)
    }

    /// Where it listens, as `127.0.0.1:port`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// The body of its answer to a GET.
    pub(crate) fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(&self.address).context("cannot connect")?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).with_context(|| format!("no answer to GET {path}"))?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer without an end of its head")?;
        ensure!(head.contains(" 200 "), "GET {path} was answered with {head:?}");
        Ok(body.to_owned())
    }

    /// How many viewers it knows of.
    pub(crate) fn viewers(&self) -> Result<u64> {
        let body = self.get("/api/viewer")?;
        // Some peers send their answer in chunks; the JSON is the part in braces.
        let json = body.find('{').and_then(|from| body.get(from..=body.rfind('}')?));
        let value: Value =
            serde_json::from_str(json.unwrap_or_default()).context("an answer that is no JSON")?;
        value["viewers"].as_u64().with_context(|| format!("no count of viewers in {body:?}"))
    }

    fn stop(&mut self) -> Result<()> {
        drop(self.child.stdin.take());
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let deadline = Instant::now() + STOP_LIMIT;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("it does not stop");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        if self.stop().is_err() {
            // It may have ended already.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Where the scripts of this bench are.
pub(crate) fn bench_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
