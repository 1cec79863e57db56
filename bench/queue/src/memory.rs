//! In memory: tasks that do nothing, and what a key costs as the queue grows.

use std::hash::RandomState;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bench_figures::table::{print, thousands};
use bench_figures::turns::{Contender, measure};
use serde_json::{Value, json};
use syncline_core::queue::{Answer, Clock, Kind, Limits, Paced, Settings, Setup, Step};
use syncline_core::time::Timestamp;

use crate::peer;

const TASKS: usize = 100_000;
/// The slow one gets fewer: at some hundreds a second, all of them would take minutes.
const BOTTLENECK_TASKS: usize = 2_000;
const CONCURRENCY: u32 = 10;

/// Tasks a second, beside p-queue and bottleneck.
pub(crate) fn tasks(rounds: usize) -> Result<Value> {
    let script = |name: &'static str, tasks: usize| {
        move || peer::rate(&peer::script("memory.mjs", &[name, &tasks.to_string()])?)
    };
    let contenders = vec![
        Contender::new("Syncline, npm package in Node.js", script("syncline", TASKS)),
        Contender::new("Syncline, Rust", || Ok(TASKS as f64 / drain(TASKS)?.as_secs_f64())),
        Contender::new("p-queue 10.0.0", script("p-queue", TASKS)),
        Contender::new("bottleneck 2.19.5", script("bottleneck", BOTTLENECK_TASKS)),
    ];
    measure("Tasks that do nothing, in memory", "tasks per second", rounds, contenders)
}

/// Time per key at growing numbers of keys, beside the arrays that applications start with.
pub(crate) fn growth() -> Result<Value> {
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    for keys in [1_000, 5_000, 20_000, 100_000, 1_000_000] {
        let ours_us = drain(keys)?.as_secs_f64() * 1e6 / keys as f64;
        // Its time grows with the square: beyond this it would take hours.
        let arrays =
            (keys <= 20_000).then(|| peer::script("growth.mjs", &[&keys.to_string()])).transpose()?;
        let arrays_us = arrays.map(|answer| peer::rate(&answer)).transpose()?.map(|rate| 1e6 / rate);
        rows.push(vec![
            thousands(keys as f64),
            format!("{ours_us:.2}"),
            arrays_us.map_or_else(|| "–".to_owned(), |us| format!("{us:.0}")),
            arrays_us.map_or_else(|| "–".to_owned(), |us| format!("{} ×", thousands(us / ours_us))),
        ]);
        figures.push(json!({ "keys": keys, "ours_us": ours_us, "arrays_us": arrays_us }));
    }
    print(
        "Enqueue n keys and take them out one by one, per key",
        &["keys", "Syncline µs", "arrays µs", "ours is"],
        &rows,
    );
    Ok(json!(figures))
}

/// All of it: enqueued, started at the concurrency, settled with a result each.
fn drain(keys: usize) -> Result<Duration> {
    let names: Vec<String> = (0..keys).map(|n| format!("key-{n}")).collect();
    let settings = Settings::new(CONCURRENCY, Duration::ZERO, Duration::from_millis(500));
    let setup =
        Setup { settings, limits: Limits::default(), groups: None, hasher: RandomState::new(), seed: 1 };
    let begun = Instant::now();
    let clock = |elapsed: Duration| {
        let now = Timestamp::from_ms(1_000_000 + elapsed.as_millis() as u64);
        Clock { now, wall: now }
    };
    let mut queue: Paced<String, &'static str> = Paced::new(setup, clock(Duration::ZERO).now);
    queue.enqueue(Kind::New, names)?;
    let mut running = Vec::new();
    loop {
        let now = clock(begun.elapsed());
        match queue.poll(now) {
            Step::Start(start) => running.push(start.call),
            Step::Lost { key, .. } => anyhow::bail!("{key} was lost"),
            Step::Wait(_) if running.is_empty() => break,
            Step::Wait(_) => {
                for call in running.drain(..) {
                    queue.settle(now, call, Answer::Done("done"));
                }
            }
        }
    }
    let took = begun.elapsed();
    let done = queue.queue().counts().done;
    ensure!(done == keys, "{done} of {keys} were done");
    Ok(took)
}
