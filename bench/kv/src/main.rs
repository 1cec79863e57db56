//! The bench `kv`: what a put and a get of a small key cost, beside a plain driver on the same kind of file.
//!
//! README.md says what is fair about it and what is not.

// Printing is what this program does.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bench_figures::process;
use bench_figures::turns::{Contender, measure};
use clap::Parser;
use rusqlite::Connection;
use serde_json::{Map, Value};
use syncline_core::kv::Key;
use syncline_sim::postgres;
use syncline_store::Store;

/// Keys that clients put and get.
const KEYS: usize = 1_000;
const VALUE: &str = "a value as small as a viewer's report: {\"until\":1762819200000}";

/// Measures puts and gets of the kv.
#[derive(Parser)]
#[command(name = "cargo xtask bench kv --")]
struct Arguments {
    /// How often each contender has its turn; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
    /// How long a turn takes, in seconds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=60))]
    seconds: u8,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Put,
    Get,
}

fn main() -> Result<()> {
    let Arguments { rounds, seconds } = Arguments::parse();
    // As the product does; an error only says that somebody has chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    println!("load average before: {:.1}", process::load_average());
    let mut answers = Map::new();
    answers.insert("machine".to_owned(), process::machine());
    let questions = [
        ("put_alone", "Puts, one client", Operation::Put, 1),
        ("put_many", "Puts, 64 clients", Operation::Put, 64),
        ("get_alone", "Gets, one client", Operation::Get, 1),
        ("get_many", "Gets, 64 clients", Operation::Get, 64),
    ];
    let time = Duration::from_secs(seconds.into());
    for (name, title, operation, clients) in questions {
        let contenders = vec![
            Contender::new("Syncline, SQLite", move || {
                let folder = tempfile::tempdir().context("cannot create a folder")?;
                ours(
                    &format!("sqlite:{}", folder.path().join("bench.db").display()),
                    operation,
                    clients,
                    time,
                )
            }),
            Contender::new("Syncline, PostgreSQL", move || {
                ours(&postgres::database().url, operation, clients, time)
            }),
            Contender::new("rusqlite, one thread, a commit for each put", move || {
                let folder = tempfile::tempdir().context("cannot create a folder")?;
                plain(&folder.path().join("bench.db"), operation, time)
            }),
        ];
        answers.insert(name.to_owned(), measure(title, "per second", rounds.into(), contenders)?);
    }
    bench_figures::write("kv", &Value::Object(answers))
}

fn key(n: usize) -> String {
    format!("bench:{:04}", n % KEYS)
}

/// Operations per second of so many clients, each of which waits for its answer.
fn ours(url: &str, operation: Operation, clients: usize, time: Duration) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let store = Store::open(url).await?;
        let keys: Vec<Key> = (0..KEYS).map(|n| Key::new(key(n))).collect::<Result<_, _>>()?;
        for key in &keys {
            store.kv().put(key, VALUE, None).await?;
        }
        let until = Instant::now() + time;
        let mut running = tokio::task::JoinSet::new();
        for client in 0..clients {
            let (kv, keys) = (store.kv(), keys.clone());
            running.spawn(async move {
                let mut done = 0_u64;
                while Instant::now() < until {
                    let key = &keys[(client * 37 + usize::try_from(done).unwrap_or(0)) % KEYS];
                    match operation {
                        Operation::Put => {
                            kv.put(key, VALUE, Some(Duration::from_secs(60))).await?;
                        }
                        Operation::Get => drop(kv.get(key).await?),
                    }
                    done += 1;
                }
                Ok::<u64, syncline_store::Error>(done)
            });
        }
        let mut done = 0;
        while let Some(client) = running.join_next().await {
            done += client??;
        }
        store.close().await;
        Ok(done as f64 / time.as_secs_f64())
    })
}

/// The floor: the same statements on a table like ours, by a plain driver on the caller's own thread.
fn plain(file: &Path, operation: Operation, time: Duration) -> Result<f64> {
    let connection = Connection::open(file)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
         CREATE TABLE kv (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL, expires_at INTEGER) STRICT; \
         CREATE INDEX kv_expires_at ON kv (expires_at) WHERE expires_at IS NOT NULL",
    )?;
    let mut put = connection.prepare(
        "INSERT INTO kv VALUES (?1, ?2, ?3) ON CONFLICT (key) DO UPDATE SET value = excluded.value, \
         expires_at = excluded.expires_at",
    )?;
    let mut get = connection.prepare("SELECT value FROM kv WHERE key = ?1")?;
    for n in 0..KEYS {
        put.execute((key(n), VALUE, 0))?;
    }
    let (until, mut done) = (Instant::now() + time, 0_u64);
    while Instant::now() < until {
        let key = key(usize::try_from(done).unwrap_or(0));
        match operation {
            Operation::Put => drop(put.execute((key, VALUE, i64::try_from(done).unwrap_or(0)))?),
            Operation::Get => drop(get.query_row([key], |row| row.get::<_, String>(0))?),
        }
        done += 1;
    }
    Ok(done as f64 / time.as_secs_f64())
}
