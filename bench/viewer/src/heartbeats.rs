//! How many heartbeats a second a server takes.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use bench_figures::process;
use bench_figures::table::{median, print, thousands};
use serde_json::{Value, json};

use crate::contender::{Contender, bench_folder};
use crate::load::{CONNECTIONS, Turn, press};

/// Up to this load average a machine counts as quiet.
const QUIET_LOAD_MAX: f64 = 0.7;

/// How long and how often.
#[derive(clap::Args)]
pub(crate) struct Turns {
    /// Turns each contender gets.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Length of a turn.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Seconds under load before each turn that do not count.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=60))]
    warm_up: u32,
    /// Pages that send heartbeats, one after the other.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sessions: u32,
    /// Rooms that these pages are in, for the contender that has them.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rooms: u32,
    /// Leave miniflare out.
    #[arg(long)]
    without_miniflare: bool,
}

/// A contender and what it is held to.
struct Entry {
    name: &'static str,
    server: Contender,
    keeps: Keeps,
    rooms: u32,
    turns: Vec<Turn>,
}

/// What a server must know after its turn, so that nobody wins by forgetting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Nothing,
    Everything,
    /// It cannot count beyond a page of its list, and may drop connections.
    Something,
}

pub(crate) fn measure(turns: &Turns) -> Result<Value> {
    let mut entries = contenders(turns)?;
    let load_before = process::load_average();
    if load_before > QUIET_LOAD_MAX {
        eprintln!(
            "the load average is {load_before}: something else is busy here, and these figures will be noise"
        );
    }
    for round in 1..=turns.rounds {
        for entry in &mut entries {
            eprintln!("round {round} of {}: {}", turns.rounds, entry.name);
            press(&entry.server, turns.sessions, entry.rooms, turns.warm_up)
                .and_then(|_| press(&entry.server, turns.sessions, entry.rooms, turns.seconds))
                .and_then(|turn| entry.finish(turn, turns.sessions))
                .with_context(|| entry.name)?;
        }
    }
    Ok(report(turns, &entries, load_before))
}

fn contenders(turns: &Turns) -> Result<Vec<Entry>> {
    let entry = |name, server: Result<Contender>, keeps| {
        let server = server.with_context(|| format!("cannot start {name}"))?;
        anyhow::Ok(Entry { name, server, keeps, rooms: 0, turns: Vec::new() })
    };
    let mut entries = vec![
        entry("ceiling: same server and door, constant answer", Contender::own("ceiling"), Keeps::Nothing)?,
        entry("Syncline: POST /api/viewer", Contender::syncline(), Keeps::Everything)?,
        entry("Redis: SET EX 60, same server and door", Contender::own("redis"), Keeps::Everything)?,
    ];
    let in_rooms = entry("Syncline: the same in 10,000 rooms", Contender::syncline(), Keeps::Everything)?;
    entries.insert(2, Entry { rooms: turns.rooms, ..in_rooms });
    if !turns.without_miniflare {
        let name = "miniflare: KV put, expirationTtl 60, own server";
        entries.push(entry(name, Contender::miniflare(), Keeps::Something)?);
    }
    entries.push(entry("axum alone: no door, constant answer", Contender::own("bare"), Keeps::Nothing)?);
    Ok(entries)
}

impl Entry {
    fn finish(&mut self, turn: Turn, sessions: u32) -> Result<()> {
        let least = match self.keeps {
            Keeps::Nothing => None,
            // Ids rotate, so a turn has reached as many pages as it has sent requests.
            Keeps::Everything => Some(turn.requests.min(sessions.into())),
            Keeps::Something => Some(1),
        };
        if let Some(least) = least {
            let viewers = self.server.viewers()?;
            ensure!(viewers >= least, "{viewers} viewers are known after {least} have sent heartbeats");
        }
        if self.keeps != Keeps::Something {
            let Turn { dropped, timeouts, refused, .. } = turn;
            let failed = dropped + timeouts + refused;
            ensure!(failed == 0, "{dropped} dropped, {timeouts} timed out, {refused} refused");
        }
        self.turns.push(turn);
        Ok(())
    }

    fn median(&self, of: impl Fn(&Turn) -> f64) -> f64 {
        median(self.turns.iter().map(of)).expect("there is at least one round")
    }

    /// From the slowest turn to the fastest, as a share of the median.
    fn spread(&self) -> f64 {
        let rates = || self.turns.iter().map(|turn| turn.per_second);
        let (slowest, fastest) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
        (fastest - slowest) / self.median(|turn| turn.per_second)
    }

    fn sum(&self, of: impl Fn(&Turn) -> u64) -> u64 {
        self.turns.iter().map(of).sum()
    }
}

fn report(turns: &Turns, entries: &[Entry], load_before: f64) -> Value {
    let ceiling = entries.first().map_or(f64::NAN, |entry| entry.median(|turn| turn.per_second));
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| {
            let rate = entry.median(|turn| turn.per_second);
            vec![
                entry.name.to_owned(),
                thousands(rate),
                format!("{:.0} %", 100.0 * rate / ceiling),
                format!("{:.0} %", 100.0 * entry.spread()),
                format!("{:.2}", entry.median(|turn| turn.p50_ms)),
                format!("{:.2}", entry.median(|turn| turn.p99_ms)),
                format!("{:.1}", entry.median(|turn| turn.cpu_us)),
                format!("{:.2}", entry.median(|turn| turn.client_share)),
                entry.sum(|turn| turn.dropped + turn.timeouts + turn.refused).to_string(),
            ]
        })
        .collect();
    let title = format!(
        "Heartbeats per second: {CONNECTIONS} connections, {} sessions, medians of {} turns of {} s",
        thousands(turns.sessions.into()),
        turns.rounds,
        turns.seconds,
    );
    let heads = [
        "contender",
        "per second",
        "ratio",
        "spread",
        "p50 ms",
        "p99 ms",
        "CPU µs each",
        "wrk busy",
        "failed",
    ];
    print(&title, &heads, &rows);
    println!("\nThe load average was {load_before} before the first turn.");
    let contenders = entries.iter().map(|entry| {
        let rate = entry.median(|turn| turn.per_second);
        json!({ "name": entry.name, "per_second": rate, "ratio": rate / ceiling, "turns": entry.turns })
    });
    json!({
        "connections": CONNECTIONS,
        "sessions": turns.sessions,
        "seconds": turns.seconds,
        "load_average_before": load_before,
        "versions": versions(),
        "contenders": contenders.collect::<Vec<_>>(),
    })
}

/// Who exactly took part; unknown ones are left blank.
fn versions() -> Value {
    let first_line = |program: &str, argument: &str| {
        let output = Command::new(program).arg(argument).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned())
    };
    let package = fs::read_to_string(bench_folder().join("node_modules/miniflare/package.json"));
    let package: Value = package.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    json!({
        "wrk": first_line("wrk", "-v"),
        "redis": first_line("redis-server", "--version"),
        "node": first_line("node", "--version"),
        "miniflare": package["version"],
    })
}
