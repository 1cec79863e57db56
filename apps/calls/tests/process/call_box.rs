//! A box that takes calls: its database, its recordings, and `serversync` as a process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use syncline_testing::process::{Node, ask, run, serversync};
use tempfile::TempDir;

/// Where a box sends to.
pub(crate) enum Frontend<'a> {
    Node(&'a Node),
    Url(String),
}

impl Frontend<'_> {
    fn url(&self) -> String {
        match self {
            Frontend::Node(node) => node.url(),
            Frontend::Url(url) => url.clone(),
        }
    }
}

/// A box: a folder with a database, which may be elsewhere, and recordings.
pub(crate) struct CallBox {
    pub(crate) folder: TempDir,
    pub(crate) database_url: String,
}

impl CallBox {
    pub(crate) fn new(database_url: Option<&str>) -> CallBox {
        let folder = tempfile::tempdir().unwrap();
        let own = format!("sqlite:{}", folder.path().join("box.db").display());
        CallBox { folder, database_url: database_url.map_or(own, str::to_owned) }
    }

    pub(crate) fn recordings(&self) -> PathBuf {
        self.folder.path().join("recordings")
    }

    fn environment(&self) -> Vec<(String, String)> {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![
            pair("DATABASE_URL", &self.database_url),
            pair("RECORDINGS_DIR", self.recordings().to_str().unwrap()),
        ]
    }

    /// Runs a command of `syncline` on this box.
    pub(crate) fn syncline(&self, arguments: &[&str]) -> Output {
        let environment = self.environment();
        let environment: Vec<(&str, &str)> =
            environment.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        run(self.folder.path(), arguments, &environment)
    }

    /// The same, successful, and its output read as JSON, a value a line.
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.syncline(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Takes calls that nobody made; their ids.
    pub(crate) fn take_calls(&self, count: usize, more: &[&str]) -> Vec<String> {
        let count = count.to_string();
        let arguments = [&["demo", "call", "--json", "--count", &count], more].concat();
        self.json(&arguments).iter().map(|call| call["callLogId"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn stats(&self) -> Value {
        self.json(&["outbox", "stats", "--json"]).remove(0)
    }

    /// `serversync` for this box, not yet started.
    pub(crate) fn serversync(
        &self,
        frontend: &Frontend<'_>,
        arguments: &[&str],
        more: &[(&str, &str)],
    ) -> Command {
        let mut command = serversync(self.folder.path(), arguments);
        command.envs(self.environment()).env("FRONTEND_BASE_URL", frontend.url());
        let file = self.database_url.strip_prefix("sqlite:").filter(|file| !Path::new(file).exists());
        if let Some(file) = file {
            // A worker that is started before its application makes the database only if it is told to.
            command.env("DATABASE_URL", format!("sqlite:{file}?mode=rwc"));
        }
        command.env("SYNCLINE_LOG_FORMAT", "json").envs(more.iter().copied());
        command
    }

    /// Runs `serversync` to its end.
    pub(crate) fn send(&self, frontend: &Frontend<'_>, arguments: &[&str], more: &[(&str, &str)]) -> Output {
        self.serversync(frontend, arguments, more).output().unwrap()
    }

    /// Starts `serversync`.
    pub(crate) fn start(&self, frontend: &Frontend<'_>, more: &[(&str, &str)]) -> Sending {
        let log = self.folder.path().join("serversync.log");
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let mut command = self.serversync(frontend, &[], more);
        command.env("SYNC_METRICS_LISTEN", "127.0.0.1:0").stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        stdout.read_line(&mut first).unwrap();
        let address =
            first.trim_end().strip_prefix("listening on http://").and_then(|address| address.parse().ok());
        let address = address.unwrap_or_else(|| panic!("the first line is {first:?}\n{}", self.log()));
        Sending { child, address, _stdout: stdout }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("serversync.log")).unwrap_or_default()
    }
}

/// `serversync` at work.
pub(crate) struct Sending {
    child: Child,
    address: SocketAddr,
    _stdout: BufReader<ChildStdout>,
}

impl Sending {
    pub(crate) fn metrics(&self) -> String {
        let (status, text) = ask(self.address, "GET", "/metrics", &[], "");
        assert_eq!(status, 200, "{text}");
        text
    }

    /// The value of a series without labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.metrics();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in {text}"))
    }

    pub(crate) fn is_alive(&self) -> bool {
        ask(self.address, "GET", "/healthz", &[], "").0 == 200
    }

    /// Asks it to stop and waits for the end; the exit code.
    pub(crate) fn stop(mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
