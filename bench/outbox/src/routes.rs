//! Several receivers at once: how fast a backlog reaches two of them while a third one is down, beside two without a third, and one alone.
//!
//! The third one takes connections and never answers, which is the outage that costs a sender most. All share the processors, so two
//! receivers halve each other's speed on a machine that one of them fills; what the third one takes away is the figure to look at.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench_figures::table;
use serde_json::{Value, json};

use crate::world::{Kind, World};

const ASK_EVERY: Duration = Duration::from_millis(10);
const LATE: Duration = Duration::from_secs(300);

/// Entries a second at each receiver that is well.
pub(crate) fn measure(rounds: usize, entries: u32) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (mut rows, mut figures) = (Vec::new(), Vec::new());
    for (kind, name) in [(Kind::Postgres, "Syncline, PostgreSQL"), (Kind::Sqlite, "Syncline, SQLite")] {
        let mut rates = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (rate, (well, down)) in rates.iter_mut().zip([(1, false), (2, false), (2, true)]) {
                rate.push(runtime.block_on(rate_of(kind, well, down, entries))?);
            }
        }
        let [alone, two, beside] = rates.map(|rates| table::median(rates).context("no round was measured"));
        let (alone, two, beside) = (alone?, two?, beside?);
        rows.push(vec![
            name.to_owned(),
            table::thousands(alone),
            table::thousands(two),
            table::thousands(beside),
            format!("{:.0} %", 100.0 * beside / two),
        ]);
        figures.push(json!({
            "contender": name, "one_alone": alone, "two": two, "two_beside_one_that_is_down": beside, "share": beside / two
        }));
    }
    let heads = ["entries a second at each", "one alone", "two", "two, a third is down", "share"];
    table::print("Several receivers at once", &heads, &rows);
    Ok(json!({ "unit": "entries per second at each receiver", "contenders": figures }))
}

/// How fast a backlog is at all of `well` receivers, beside one that is down or not.
async fn rate_of(kind: Kind, well: usize, down: bool, entries: u32) -> Result<f64> {
    let world = World::new(kind)?;
    let others = (1..well).map(|_| World::new(kind)).collect::<Result<Vec<_>>>()?;
    let fronts: Vec<&World> = std::iter::once(&world).chain(&others).collect();
    let silent = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
    let mut addresses: Vec<String> = fronts.iter().map(|front| front.base.clone()).collect();
    if down {
        addresses.push(format!("http://{}", silent.local_addr()?));
    }
    let routes = addresses.iter().enumerate().map(|(n, url)| {
        format!("[[routes]]\nname = \"receiver_{n}\"\ntypes = [\"order\"]\nurl = \"{url}\"\n")
    });
    let config = world.folder().join("routes.toml");
    fs::write(&config, routes.collect::<String>()).context("cannot write a configuration")?;
    world.fill(entries).await?;
    let config = config.display().to_string();
    let begun = Instant::now();
    let _worker = world.worker_of_routes(&["--config", &config])?;
    for front in &fronts {
        while front.arrived().await? < u64::from(entries) {
            ensure!(begun.elapsed() < LATE, "a receiver did not get everything");
            tokio::time::sleep(ASK_EVERY).await;
        }
    }
    Ok(f64::from(entries) / begun.elapsed().as_secs_f64())
}
