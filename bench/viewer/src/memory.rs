//! What a million viewers weigh in a real node, sent to it over HTTP.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bench_figures::process;
use bench_figures::table::{print, thousands};
use serde_json::{Value, json};

use crate::contender::Contender;
use crate::load::wrk;

const SESSIONS: u32 = 1_000_000;

/// All sessions must be alive at once, and one lives 60 s.
const FILL_LIMIT_SEC: u32 = 60;

/// What a node may use for them.
const LIMIT_BYTES: u64 = 200_000_000;

pub(crate) fn measure() -> Result<Value> {
    let node = Contender::syncline()?;
    let (before, _) = process::memory_bytes(node.process())?;
    let started = Instant::now();
    fill(&node)?;
    let took = started.elapsed();
    let (after, most) = process::memory_bytes(node.process())?;
    let table = metric(&node, "syncline_viewer_memory_bytes")?;
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    let grown = after.saturating_sub(before);
    let rows = [
        ("the process without a viewer", before),
        ("with all of them", after),
        ("growth", grown),
        ("of which the session table, by its own account", table),
        ("most the process ever had", most),
        ("limit", LIMIT_BYTES),
    ];
    let title = format!("Memory of a node with {} live sessions (resident)", thousands(SESSIONS.into()));
    let rows = rows.map(|(what, bytes)| vec![what.to_owned(), megabytes(bytes)]);
    print(&title, &["", "MB"], &rows);
    println!("\nThey came over HTTP within {:.0} s.", took.as_secs_f64());
    Ok(json!({
        "sessions": SESSIONS, "before_bytes": before, "after_bytes": after, "most_bytes": most,
        "grown_bytes": grown, "table_bytes": table, "limit_bytes": LIMIT_BYTES,
        "filled_in_seconds": took.as_secs_f64(),
    }))
}

/// Sends heartbeats until the node counts every session.
fn fill(node: &Contender) -> Result<()> {
    eprintln!("filling a node with {} sessions", thousands(SESSIONS.into()));
    let mut load = wrk(node, SESSIONS, 0, FILL_LIMIT_SEC).stdout(std::process::Stdio::null()).spawn()?;
    let reached = loop {
        std::thread::sleep(Duration::from_millis(250));
        let viewers = node.viewers()?;
        if viewers == u64::from(SESSIONS) || load.try_wait()?.is_some() {
            break viewers;
        }
    };
    // It may have ended by itself.
    let _ = load.kill();
    load.wait()?;
    if reached < u64::from(SESSIONS) {
        bail!("only {reached} sessions were alive at once after {FILL_LIMIT_SEC} s");
    }
    Ok(())
}

fn metric(node: &Contender, name: &str) -> Result<u64> {
    let text = node.get("/metrics")?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
    value.map(|value| value as u64).with_context(|| format!("the node has no metric {name}"))
}
