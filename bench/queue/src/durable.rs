//! On disk: 20,000 keys that wait, taken out one after the other, every result stored before it counts.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench_figures::turns::{self, Contender};
use serde_json::Value;
use syncline_sim::postgres;
use tempfile::TempDir;

use crate::{ours, peer};

/// How long Redis may take to start.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Tasks a second, PostgreSQL first. Every run has a database of its own.
pub(crate) fn measure(rounds: usize, tasks: u32) -> Result<Value> {
    let tasks_text = tasks.to_string();
    let on_postgres = |script: &'static str| {
        let tasks = tasks_text.clone();
        move || {
            let database = postgres::database();
            peer::rate(&peer::script(script, &[&database.url, &tasks])?)
        }
    };
    let on_redis = |persistence: &'static [&'static str]| {
        let tasks = tasks_text.clone();
        move || {
            let redis = Redis::start(persistence)?;
            peer::rate(&peer::script("bullmq.mjs", &[&redis.port.to_string(), &tasks])?)
        }
    };
    let rust_peer = {
        let tasks = tasks_text.clone();
        move || {
            let database = postgres::database();
            peer::rate(&peer::graphile_worker_rust(&[&database.url, &tasks])?)
        }
    };
    let contenders = vec![
        Contender::new("Syncline, PostgreSQL", move || ours::drain(&postgres::database().url, tasks)),
        Contender::new("graphile-worker 0.18.0", on_postgres("graphile-worker.mjs")),
        Contender::new("pg-boss 12.35.0", on_postgres("pg-boss.mjs")),
        Contender::new("graphile_worker 0.14.1 (Rust)", rust_peer),
        Contender::new(
            "BullMQ 6.7.0, Redis, AOF always",
            on_redis(&["--appendonly", "yes", "--appendfsync", "always"]),
        ),
        Contender::new("BullMQ 6.7.0, Redis, nothing on disk", on_redis(&["--appendonly", "no"])),
        Contender::new("Syncline, SQLite", move || {
            let folder = tempfile::tempdir().context("cannot create a folder")?;
            ours::drain(&format!("sqlite:{}", folder.path().join("bench.db").display()), tasks)
        }),
    ];
    turns::measure("Tasks that do nothing, on disk", "tasks per second", rounds, contenders)
}

/// A Redis of our own; stopped when dropped.
struct Redis {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Redis {
    fn start(persistence: &[&str]) -> Result<Redis> {
        let folder = tempfile::tempdir().context("cannot create a folder for Redis")?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string()]).args(persistence);
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().context("cannot start redis-server")?;
        let redis = Redis { child, port, _folder: folder };
        let begun = Instant::now();
        while std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            ensure!(begun.elapsed() < START_LIMIT, "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(redis)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
