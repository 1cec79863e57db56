//! Workers over HTTP: a node as a process, and workers in Node.js that claim its keys, one or a hundred at a time.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use bench_figures::peer::Server;
use bench_figures::turns::{self, Contender};
use serde_json::Value;
use syncline_sim::postgres;

use crate::peer;

/// Workers at once, of everybody.
const WORKERS: &str = "10";

/// A node that is killed when it is dropped.
struct Node {
    child: Child,
    base: String,
    _folder: tempfile::TempDir,
}

impl Node {
    fn start(database: Option<&str>) -> Result<Node> {
        let folder = tempfile::tempdir().context("cannot create a folder")?;
        let config = folder.path().join("syncline.toml");
        let file = "systems = [\"queue\"]\n[[queues]]\nname = \"nothing\"\nworkers = true\n";
        std::fs::write(&config, file).context("cannot write a configuration")?;
        let syncline = env::var_os("SYNCLINE_BIN").context("SYNCLINE_BIN must name the syncline binary")?;
        let mut serve = Command::new(syncline);
        serve.arg("serve").arg("--config").arg(config).env("SYNCLINE_LISTEN", "127.0.0.1:0");
        serve.env("SYNCLINE_DATA", folder.path().join("data")).env("SYNCLINE_LOG_LEVEL", "error");
        if let Some(url) = database {
            serve.env("DATABASE_URL", url);
        }
        let mut child =
            serve.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start a node")?;
        let output = BufReader::new(child.stdout.take().context("a child without output")?);
        let base = output.lines().map_while(Result::ok).find_map(|line| {
            let at = line.find("http://")?;
            Some(line[at..].split_whitespace().next()?.trim_end_matches(['/', ',', '.']).to_owned())
        });
        let base = base.context("the node does not say where it listens")?;
        Ok(Node { child, base, _folder: folder })
    }

    /// Keys claimed and completed a second.
    fn rate(&self, tasks: u32, batch: u32) -> Result<f64> {
        let (tasks, batch) = (tasks.to_string(), batch.to_string());
        peer::rate(&peer::script("syncline-workers.mjs", &[&self.base, &tasks, &batch, WORKERS])?)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keys a second that workers claim and complete, beside peers at the same durability.
pub(crate) fn measure(rounds: usize, tasks: u32) -> Result<Value> {
    let on_postgres = |batch: u32| {
        move || {
            let database = postgres::database();
            Node::start(Some(&database.url))?.rate(tasks, batch)
        }
    };
    let on_sqlite = |batch: u32| move || Node::start(None)?.rate(tasks, batch);
    let graphile = |settings: &'static [&'static str]| {
        move || {
            let database = postgres::database();
            let tasks = tasks.to_string();
            let arguments: Vec<&str> = [&[database.url.as_str(), &tasks], settings].concat();
            peer::rate(&peer::script("graphile-worker.mjs", &arguments)?)
        }
    };
    let bullmq = move || {
        let redis = Server::redis(&["--appendonly", "yes", "--appendfsync", "always"])?;
        peer::rate(&peer::script("bullmq.mjs", &[&redis.port.to_string(), &tasks.to_string()])?)
    };
    let contenders = vec![
        Contender::new("Syncline, PostgreSQL, 100 a claim", on_postgres(100)),
        Contender::new("Syncline, PostgreSQL, one a claim", on_postgres(1)),
        Contender::new("graphile-worker 0.18.0, in batches", graphile(&[])),
        Contender::new("graphile-worker 0.18.0, one by one", graphile(&["single"])),
        Contender::new("BullMQ 6.7.0, Redis, AOF always", bullmq),
        Contender::new("Syncline, SQLite, 100 a claim", on_sqlite(100)),
        Contender::new("Syncline, SQLite, one a claim", on_sqlite(1)),
    ];
    turns::measure("Workers over HTTP", "keys claimed and completed per second", rounds, contenders)
}
