//! The bench `lock`: what it costs to take a lock and give it back, alone and when others want it too.
//!
//! - [`ours`]: our locks on SQLite and PostgreSQL, as an application in Rust uses them
//! - [`race`]: what every contender does, and what is measured of it
//! - `peers/race.mjs`: the same with etcd, redlock, proper-lockfile and PostgreSQL's advisory locks
//! - `peers/chromium.mjs`: the project lock of a page beside the browser's own locks
//!
//! README.md says what is fair about it and what is not.

// Printing is what this program does.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod ours;
mod race;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use bench_figures::peer::{Server, answer};
use bench_figures::process;
use bench_figures::table::{print, thousands};
use clap::Parser;
use serde_json::{Map, Value, json};
use syncline_sim::postgres;

use race::{Contender, Race};

/// Measures locks: alone, side by side and in contention; natively and in Chromium.
#[derive(Parser)]
#[command(name = "cargo xtask bench lock --")]
struct Arguments {
    /// Measure only this.
    #[arg(long)]
    only: Option<Question>,
    /// How often each contender has its turn; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
    /// How long a turn takes, in seconds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=60))]
    seconds: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Question {
    Alone,
    Many,
    Contended,
    Chromium,
}

fn main() -> Result<()> {
    let Arguments { only, rounds, seconds } = Arguments::parse();
    // As the product does; an error only says that somebody has chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let wanted = |question| only.is_none_or(|only| only == question);
    println!("load average before: {:.1}", process::load_average());
    let mut answers = Map::new();
    answers.insert("machine".to_owned(), process::machine());
    let mut ask = |question, name: &str, title: &str, clients, names| -> Result<()> {
        if wanted(question) {
            let race = Race { clients, names, seconds };
            answers.insert(name.to_owned(), race::measure(title, race, rounds, &contenders())?);
        }
        Ok(())
    };
    ask(Question::Alone, "alone", "One client, one name", 1, 1)?;
    ask(Question::Many, "many", "Eight clients, eight names", 8, 8)?;
    ask(Question::Contended, "contended", "Eight clients, one name", 8, 1)?;
    if wanted(Question::Chromium) {
        answers.insert("chromium".to_owned(), chromium(seconds)?);
    }
    bench_figures::write("lock", &Value::Object(answers))
}

/// Ours first, then the peers; each run of each has a server or a folder of its own.
fn contenders() -> Vec<Contender> {
    vec![
        Contender::new("Syncline, SQLite", |race| {
            let folder = tempfile::tempdir().context("cannot create a folder")?;
            ours::run(&format!("sqlite:{}", folder.path().join("bench.db").display()), race)
        }),
        Contender::new("Syncline, PostgreSQL", |race| ours::run(&postgres::database().url, race)),
        Contender::new("etcd 3.4, etcd3 1.1.2", |race| {
            let etcd = Server::etcd()?;
            script("etcd", &format!("127.0.0.1:{}", etcd.port), race)
        }),
        Contender::new("redlock 5.0.0-beta.2, Redis, nothing on disk", |race| {
            let redis = Server::redis(&["--appendonly", "no"])?;
            script("redlock", &format!("redis://127.0.0.1:{}", redis.port), race)
        }),
        Contender::new("proper-lockfile 4.1.2", |race| {
            let folder = tempfile::tempdir().context("cannot create a folder")?;
            script("proper-lockfile", &folder.path().display().to_string(), race)
        }),
        Contender::new("PostgreSQL, pg_advisory_lock", |race| {
            script("advisory", &postgres::database().url, race)
        }),
    ]
}

fn script(peer: &str, place: &str, race: Race) -> Result<race::Outcome> {
    let mut command = Command::new("node");
    command.arg(peers().join("race.mjs")).args([peer, place]);
    command.args([race.clients, race.names, u32::from(race.seconds)].map(|number| number.to_string()));
    serde_json::from_value(answer(&mut command)?).context("a peer's answer")
}

/// In one page of a real browser, one after the other.
fn chromium(seconds: u8) -> Result<Value> {
    let mut command = Command::new("node");
    command.arg(peers().join("chromium.mjs")).arg(seconds.to_string());
    let figures = answer(&mut command)?;
    let row = |name: &str, key: &str| {
        let number = |field: &str| figures[key][field].as_f64().unwrap_or(f64::NAN);
        vec![
            name.to_owned(),
            thousands(number("per_second")),
            format!("{:.2}", number("p50_ms")),
            format!("{:.2}", number("p99_ms")),
        ]
    };
    let rows = [
        row("Syncline, acquireProjectLock and release", "syncline"),
        row("navigator.locks, nothing kept", "web_locks"),
        row("navigator.locks and a file in OPFS", "web_locks_and_file"),
    ];
    print("In Chromium, one tab", &["contender", "pairs per second", "p50 ms", "p99 ms"], &rows);
    Ok(json!(figures))
}

fn peers() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/peers"))
}
