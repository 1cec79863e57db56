//! The bench `queue`: keyed work in memory and on disk, and the cover cache.
//!
//! - [`memory`]: tasks that do nothing beside p-queue and bottleneck; cost per key from 1,000 to 1,000,000
//! - [`durable`]: every result on disk, beside graphile-worker, pg-boss, BullMQ and graphile_worker in Rust; cost per key
//! - [`covers`]: inserts into a full cache
//! - [`workers`]: workers over HTTP, beside graphile-worker and BullMQ
//! - [`ours`]: our durable queue as an application uses it
//! - [`peer`]: the peers as processes
//!
//! README.md says what is fair about it and what is not.

// Printing is what this program does.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod covers;
mod durable;
mod memory;
mod ours;
mod peer;
mod workers;

use anyhow::Result;
use bench_figures::process;
use clap::Parser;
use serde_json::{Map, Value};

/// Measures queues in memory and on disk, and the cover cache.
#[derive(Parser)]
#[command(name = "cargo xtask bench queue --")]
struct Arguments {
    /// Measure only this.
    #[arg(long)]
    only: Option<Question>,
    /// How often each contender has its turn; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
    /// Tasks on disk.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tasks: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Question {
    Memory,
    Growth,
    Durable,
    Workers,
    Covers,
}

fn main() -> Result<()> {
    let Arguments { only, rounds, tasks } = Arguments::parse();
    // As the product does; an error only says that somebody has chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let wanted = |question| only.is_none_or(|only| only == question);
    let rounds = usize::from(rounds);
    println!("load average before: {:.1}", process::load_average());
    let mut answers = Map::new();
    answers.insert("machine".to_owned(), process::machine());
    if wanted(Question::Memory) {
        answers.insert("memory".to_owned(), memory::tasks(rounds)?);
    }
    if wanted(Question::Growth) {
        answers.insert("growth".to_owned(), memory::growth()?);
        answers.insert("growth_on_disk".to_owned(), durable::growth()?);
    }
    if wanted(Question::Durable) {
        answers.insert("durable".to_owned(), durable::measure(rounds, tasks)?);
    }
    if wanted(Question::Workers) {
        answers.insert("workers".to_owned(), workers::measure(rounds, tasks)?);
    }
    if wanted(Question::Covers) {
        answers.insert("covers".to_owned(), covers::inserts(rounds)?);
    }
    bench_figures::write("queue", &Value::Object(answers))
}
