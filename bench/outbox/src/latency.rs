//! From the commit of a lone entry to its being there, while nothing else happens.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bench_figures::table;
use serde_json::{Value, json};
use syncline_core::outbox::EntityType;
use syncline_store::Store;

use crate::world::{Kind, World, entry};

/// Entries of one round.
const SAMPLES: u32 = 300;
/// Between two of them; nothing is left to do by then.
const PAUSE: Duration = Duration::from_millis(20);
/// Entries before the measurement, so that connections and plans are there.
const WARM_UP: u32 = 20;
const ASK_EVERY: Duration = Duration::from_micros(100);
const LATE: Duration = Duration::from_secs(10);

/// Milliseconds for PostgreSQL and SQLite.
pub(crate) fn measure(rounds: usize) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (mut rows, mut figures) = (Vec::new(), Vec::new());
    for (kind, name) in [(Kind::Postgres, "Syncline, PostgreSQL"), (Kind::Sqlite, "Syncline, SQLite")] {
        let mut times = Vec::new();
        for _ in 0..rounds {
            let world = World::new(kind)?;
            let _worker = world.worker(&[])?;
            times.extend(runtime.block_on(watch(&world))?);
        }
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        let shown = [0.5, 0.9, 0.99, 1.0].map(at);
        let mut row = vec![name.to_owned()];
        row.extend(shown.map(|ms| format!("{ms:.1}")));
        rows.push(row);
        let [p50, p90, p99, most] = shown;
        figures.push(json!({
            "contender": name, "samples": times.len(), "p50_ms": p50, "p90_ms": p90, "p99_ms": p99, "max_ms": most
        }));
    }
    table::print("Commit to visible, ms", &["contender", "p50", "p90", "p99", "most"], &rows);
    Ok(json!({ "unit": "ms", "contenders": figures }))
}

async fn watch(world: &World) -> Result<Vec<f64>> {
    let (from, to) = (Store::open(&world.box_url).await?, Store::open(&world.front_url).await?);
    let kind = EntityType::new("order")?;
    let (outbox, inbox) = (from.outbox(), to.inbox(std::slice::from_ref(&kind)).await?);
    let mut times = Vec::new();
    for n in 0..WARM_UP + SAMPLES {
        tokio::time::sleep(PAUSE).await;
        let entry = entry(n);
        outbox.enqueue(std::slice::from_ref(&entry)).await?;
        let committed = Instant::now();
        while inbox.entity(&kind, &entry.entity_id).await?.is_none() {
            ensure!(committed.elapsed() < LATE, "entry {n} did not arrive");
            // Blocks, because the runtime's timers count in milliseconds; nothing else runs on it.
            std::thread::sleep(ASK_EVERY);
        }
        if n >= WARM_UP {
            times.push(committed.elapsed().as_secs_f64() * 1_000.0);
        }
    }
    from.close().await;
    to.close().await;
    Ok(times)
}
