//! What every bench shares.
//!
//! - [`table`]: medians, and tables as Markdown
//! - [`process`]: processor time and memory of others, and of the machine, from `/proc`
//! - [`peer`]: peers as processes, and the servers that they need
//! - [`turns`]: contenders one after the other, round after round, and the median of each
//! - [`write()`]: the figures as `cargo xtask bench` wants them
//!
//! What is measured, and what would be unfair, is said in each bench's README.

// Printing is what benches do.
#![allow(clippy::print_stdout)]

pub mod peer;
pub mod process;
pub mod table;
pub mod turns;

use std::env;
use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Where `cargo xtask bench` wants the figures.
const FIGURES_VARIABLE: &str = "BENCH_JSON";

/// Set by `cargo xtask bench --ours`: the peers stay at home. That is for two trees of Syncline, one after the other.
const OURS_VARIABLE: &str = "BENCH_OURS";

/// Whether a contender of this name takes part.
pub fn takes_part(contender: &str) -> bool {
    env::var_os(OURS_VARIABLE).is_none() || contender.starts_with("Syncline")
}

/// Writes the figures of the bench of this name. By hand, without `cargo xtask bench`, the tables are all there is.
pub fn write(bench: &str, figures: &Value) -> Result<()> {
    let Some(path) = env::var_os(FIGURES_VARIABLE) else { return Ok(()) };
    let text = serde_json::to_string_pretty(&json!({ "bench": bench, "answers": figures }))?;
    fs::write(&path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}
