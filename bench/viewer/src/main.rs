//! The bench `viewer`: what a heartbeat costs, what the gate's question costs, what a million viewers weigh.
//!
//! - [`heartbeats`]: how many a second, beside a ceiling, Redis and miniflare
//! - [`question`]: "is anybody watching?" with 1, 1,000 and 1,000,000 sessions
//! - [`memory`]: a real node with 1,000,000 sessions that came over HTTP
//! - [`contender`], [`server`]: the processes under load, and those of them that this program is itself
//! - [`load`]: wrk, in a process of its own
//!
//! README.md says what is fair about it and what is not.

// Printing is what this program does.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod contender;
mod heartbeats;
mod load;
mod memory;
mod question;
mod server;

use anyhow::{Context, Result};
use bench_figures::process;
use clap::{Parser, Subcommand};
use serde_json::{Map, Value};

/// Measures heartbeats, the gate's question, and memory.
#[derive(Parser)]
#[command(name = "cargo xtask bench viewer --")]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// Measure only this.
    #[arg(long)]
    only: Option<Question>,
    #[command(flatten)]
    turns: heartbeats::Turns,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Question {
    Heartbeats,
    Active,
    Memory,
}

#[derive(Subcommand)]
enum Role {
    /// Be one of the servers under load.
    #[command(hide = true)]
    Serve { kind: server::Kind },
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    // As the product does; an error only says that somebody has chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let Some(Role::Serve { kind }) = arguments.role {
        return runtime()?.block_on(server::run(kind));
    }
    let wanted = |question| arguments.only.is_none_or(|only| only == question);
    let mut answers = Map::new();
    answers.insert("machine".to_owned(), process::machine());
    if wanted(Question::Heartbeats) {
        answers.insert("heartbeats".to_owned(), heartbeats::measure(&arguments.turns)?);
    }
    if wanted(Question::Active) {
        answers.insert("has_active_viewer".to_owned(), runtime()?.block_on(question::measure())?);
    }
    if wanted(Question::Memory) {
        answers.insert("memory".to_owned(), memory::measure()?);
    }
    bench_figures::write("viewer", &Value::Object(answers))
}

/// The same runtime as the product's.
fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")
}
