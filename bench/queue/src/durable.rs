//! On disk: keys that wait, taken out one after the other, every result stored before it counts.

use anyhow::{Context, Result};
use bench_figures::peer::Server;
use bench_figures::table::{print, thousands};
use bench_figures::turns::{self, Contender};
use serde_json::{Value, json};
use syncline_sim::postgres;

use crate::{ours, peer};

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
            let redis = Server::redis(persistence)?;
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
        Contender::new("Syncline, SQLite", move || on_sqlite(tasks)),
    ];
    turns::measure("Tasks that do nothing, on disk", "tasks per second", rounds, contenders)
}

/// Time per key at growing numbers of keys, on both databases.
pub(crate) fn growth() -> Result<Value> {
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    for keys in [1_000, 10_000, 100_000, 1_000_000] {
        let postgres_us = 1e6 / ours::drain(&postgres::database().url, keys)?;
        let sqlite_us = 1e6 / on_sqlite(keys)?;
        rows.push(vec![thousands(f64::from(keys)), format!("{postgres_us:.1}"), format!("{sqlite_us:.1}")]);
        figures.push(json!({ "keys": keys, "postgres_us": postgres_us, "sqlite_us": sqlite_us }));
    }
    print("Take n keys out of a queue on disk, per key", &["keys", "PostgreSQL µs", "SQLite µs"], &rows);
    Ok(json!(figures))
}

fn on_sqlite(tasks: u32) -> Result<f64> {
    let folder = tempfile::tempdir().context("cannot create a folder")?;
    ours::drain(&format!("sqlite:{}", folder.path().join("bench.db").display()), tasks)
}
