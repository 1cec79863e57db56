//! The bench `outbox`: entries from one database into another, over HTTP.
//!
//! - [`throughput`]: a backlog is carried away, beside the plain algorithm, graphile-worker and pg-boss
//! - [`latency`]: from the commit of a lone entry to its being there, while nothing else happens
//! - [`guest`]: commits a second of an application, with us and without
//! - [`routes`]: a backlog to several receivers at once, one of them down
//! - [`growth`]: cost of an entry in a table of 1,000 rows and of 1,000,000
//! - [`world`]: front ends, workers and backlogs
//!
//! README.md says what is fair about it and what is not.

// Printing is what this program does.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod growth;
mod guest;
mod latency;
mod routes;
mod throughput;
mod world;

use anyhow::Result;
use bench_figures::process;
use clap::Parser;
use serde_json::{Map, Value};

/// Measures how fast entries get from one database into another.
#[derive(Parser)]
#[command(name = "cargo xtask bench outbox --")]
struct Arguments {
    /// Measure only this.
    #[arg(long)]
    only: Option<Question>,
    /// How often each contender has its turn; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
    /// Entries of a backlog. The plain algorithm gets a tenth of it.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    entries: u32,
    /// Rows of the largest table.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(10_000..=10_000_000))]
    rows: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Question {
    Throughput,
    Latency,
    Growth,
    Guest,
    Routes,
}

fn main() -> Result<()> {
    let Arguments { only, rounds, entries, rows } = Arguments::parse();
    // As the product does; an error only says that somebody has chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let wanted = |question| only.is_none_or(|only| only == question);
    println!("load average before: {:.1}", process::load_average());
    let mut answers = Map::new();
    answers.insert("machine".to_owned(), process::machine());
    if wanted(Question::Throughput) {
        answers.insert("throughput".to_owned(), throughput::measure(usize::from(rounds), entries)?);
    }
    if wanted(Question::Latency) {
        answers.insert("latency".to_owned(), latency::measure(usize::from(rounds))?);
    }
    if wanted(Question::Growth) {
        answers.insert("growth".to_owned(), growth::measure(rows)?);
    }
    if wanted(Question::Guest) {
        answers.insert("guest".to_owned(), guest::measure(usize::from(rounds))?);
    }
    if wanted(Question::Routes) {
        answers.insert("routes".to_owned(), routes::measure(usize::from(rounds), entries)?);
    }
    bench_figures::write("outbox", &Value::Object(answers))
}
