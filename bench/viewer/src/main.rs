//! The bench `viewer`: what a heartbeat costs, what the gate's question costs, what a million viewers weigh.
//!
//! - [`heartbeats`]: how many a second, beside a ceiling, Redis and miniflare
//! - [`question`]: "is anybody watching?" with 1, 1,000 and 1,000,000 sessions
//! - [`memory`]: a real node with 1,000,000 sessions that came over HTTP
//! - [`contender`], [`server`]: the processes under load, and those of them that this program is itself
//! - [`load`]: wrk, in a process of its own
//! - [`process`]: processor time and memory of others, from `/proc`
//! - [`figures`]: medians, tables and the JSON file
//!
//! README.md says what is fair about it and what is not.

// Printing is what this program does.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod contender;
mod figures;
mod heartbeats;
mod load;
mod memory;
mod process;
mod question;
mod server;

use std::env;
use std::fs;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use serde_json::{Map, Value, json};

/// Where `cargo xtask bench` wants the figures.
const FIGURES_VARIABLE: &str = "BENCH_JSON";

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
    write(&Value::Object(answers))
}

/// The same runtime as the product's.
fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")
}

/// By hand, without `cargo xtask bench`, the tables are all there is.
fn write(figures: &Value) -> Result<()> {
    let Some(path) = env::var_os(FIGURES_VARIABLE) else { return Ok(()) };
    let text = serde_json::to_string_pretty(&json!({ "bench": "viewer", "answers": figures }))?;
    fs::write(&path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}
