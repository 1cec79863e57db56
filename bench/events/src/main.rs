//! The bench `events`: how soon many listeners hear of one event, and what a listener costs.
//!
//! - [`server`]: the node and the peer, as processes
//! - [`crowd`]: listeners over real sockets
//!
//! README.md says what is fair about it and what is not.

// Printing is what this program does.
#![allow(clippy::print_stdout)]

mod crowd;
mod server;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bench_figures::{process, table};
use clap::Parser;
use serde_json::{Value, json};

use crowd::Crowd;
use server::{Contender, Server};

/// Measures how soon many listeners hear of one event.
#[derive(Parser)]
#[command(name = "cargo xtask bench events --")]
struct Arguments {
    /// Listeners.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    streams: u32,
    /// Events, one after the other: each when all have heard of the last.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    events: u32,
    /// Of the listeners, so many read nothing.
    #[arg(long, default_value_t = 0)]
    silent: u32,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    raise_file_limit();
    println!("load average before: {:.1}", process::load_average());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (mut rows, mut figures) = (Vec::new(), Vec::new());
    for contender in Contender::ALL {
        if contender == Contender::Syncline || bench_figures::takes_part(contender.name()) {
            let (row, figure) = runtime.block_on(measure(contender, &arguments))?;
            rows.push(row);
            figures.push(figure);
        }
    }
    let title = format!("{} listeners hear of one event", table::thousands(f64::from(arguments.streams)));
    let heads = ["", "p50 ms", "p99 ms", "last ms", "CPU µs a delivery", "KiB a listener"];
    table::print(&title, &heads, &rows);
    bench_figures::write("events", &json!({ "machine": process::machine(), "crowd": figures }))
}

async fn measure(contender: Contender, arguments: &Arguments) -> Result<(Vec<String>, Value)> {
    let server = Server::start(contender)?;
    server.until_it_answers().await?;
    let (before, _) = process::memory_bytes(server.pid())?;
    let mut crowd = Crowd::gather(&server, arguments.streams, arguments.silent).await?;
    let (after, _) = process::memory_bytes(server.pid())?;
    let each_kib = after.saturating_sub(before) as f64 / 1_024.0 / f64::from(arguments.streams);
    let cpu = process::cpu(server.pid())?;
    let (mut all, mut last) = (Vec::new(), Vec::new());
    for number in 0..arguments.events {
        let published = Instant::now();
        server.publish(number).await?;
        let heard = crowd.heard(published).await?;
        last.push(heard.iter().copied().max().unwrap_or_default());
        all.extend(heard);
        // So that one event's deliveries are not the next one's waiting.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let spent = process::cpu(server.pid())?.saturating_sub(cpu);
    all.sort_unstable();
    let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let last = table::median(last.iter().map(Duration::as_secs_f64)).context("no event was heard")? * 1e3;
    let each_us = spent.as_secs_f64() * 1e6 / all.len() as f64;
    let (p50, p99) = (at(0.5), at(0.99));
    let row = vec![
        contender.name().to_owned(),
        format!("{p50:.1}"),
        format!("{p99:.1}"),
        format!("{last:.1}"),
        format!("{each_us:.1}"),
        format!("{each_kib:.1}"),
    ];
    let figure = json!({
        "name": contender.name(), "streams": arguments.streams, "events": arguments.events, "silent": arguments.silent,
        "p50_ms": p50, "p99_ms": p99, "last_ms": last, "cpu_us_per_delivery": each_us, "kib_per_stream": each_kib,
    });
    Ok((row, figure))
}

/// A listener is a file here and one in the server, which inherits the limit.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    // Where it cannot be raised, opening the streams says so.
    let _ = setrlimit(Resource::Nofile, raised);
}
