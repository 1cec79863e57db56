//! An application that was written by somebody else, and receivers that know nothing of ours: a program in Python for the plain
//! contract and for webhooks, and one in Node that checks webhooks with the package `standardwebhooks`.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rusqlite::Connection;
use serde_json::Value;
use syncline_testing::process::{ask, serversync, syncline};
use tempfile::TempDir;

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

pub(crate) struct Receiver {
    child: Child,
    address: SocketAddr,
}

impl Receiver {
    /// The plain contract and webhooks, in Python.
    pub(crate) fn start() -> Receiver {
        Self::run("python3", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/process/receiver.py"))
    }

    /// Webhooks, checked by the package `standardwebhooks`.
    pub(crate) fn of_webhooks() -> Receiver {
        Self::run("node", concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/clients/webhooks.mjs"))
    }

    fn run(program: &str, script: &str) -> Receiver {
        let mut program = Command::new(program);
        program.arg(script).env("HOOK_SECRET", SECRET).stdout(Stdio::piped());
        let mut child = program.spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
        let address = first.trim_end().strip_prefix("listening on http://").unwrap().parse().unwrap();
        Receiver { child, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn told(&self) -> Value {
        serde_json::from_str(&ask(self.address, "GET", "/seen", &[], "").1).unwrap()
    }

    /// The ids of the entities that came, in order.
    pub(crate) fn ids(&self) -> Vec<String> {
        let told = self.told();
        let seen = told["seen"].as_array().unwrap();
        seen.iter().map(|entry| entry[1].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn turn(&self, path: &str) {
        assert_eq!(ask(self.address, "PUT", path, &[], "").0, 200);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An application with its own database.
pub(crate) struct Application {
    pub(crate) folder: TempDir,
    pub(crate) database: Connection,
}

impl Application {
    pub(crate) fn new() -> Application {
        let folder = tempfile::tempdir().unwrap();
        let database = Connection::open(folder.path().join("shop.db")).unwrap();
        database.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
        let table = "CREATE TABLE sync_outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, entity_type TEXT NOT NULL, \
                     entity_id TEXT NOT NULL, payload TEXT NOT NULL, created_at TEXT NOT NULL \
                     DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), processed_at TEXT)";
        database.execute_batch(table).unwrap();
        Application { folder, database }
    }

    pub(crate) fn insert(&self, entity_type: &str, id: &str, payload: &Value) {
        let insert = "INSERT INTO sync_outbox (entity_type, entity_id, payload) VALUES (?1, ?2, ?3)";
        self.database.execute(insert, (entity_type, id, payload.to_string())).unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
        let mut command = serversync(self.folder.path(), arguments);
        command.env("DATABASE_URL", "sqlite:shop.db").envs(environment.iter().copied());
        command
    }

    pub(crate) fn send(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        self.command(arguments, environment).output().unwrap()
    }

    pub(crate) fn outbox(&self, arguments: &[&str]) -> Value {
        outbox(self.folder.path(), arguments)
    }

    pub(crate) fn config(&self, text: &str) {
        std::fs::write(self.folder.path().join("serversync.toml"), text).unwrap();
    }
}

pub(crate) fn outbox(folder: &Path, arguments: &[&str]) -> Value {
    let arguments = [&["outbox"], arguments, &["--json"]].concat();
    let output = syncline(folder, &arguments).env("DATABASE_URL", "sqlite:shop.db").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().next().map_or(Value::Null, |line| serde_json::from_str(line).unwrap())
}

/// A worker that is ended with the test.
pub(crate) struct Worker(pub(crate) Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
