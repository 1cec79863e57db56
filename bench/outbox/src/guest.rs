//! What an application pays for us: its commits a second with `serversync` at work on its table, beside the same table without us.
//!
//! Twice. An application that serves requests does something else between two commits of a connection. One that only commits takes
//! all the processors there are, and then whatever the worker and its receiver do is taken from it: this shows their price, not
//! whether commits wait for one another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench_figures::table;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use crate::world::{Kind, World};

/// Connections of the application, each with one commit after the other.
const CONNECTIONS: [usize; 3] = [1, 32, 64];
/// What a connection does between two commits: the rest of a request, or nothing.
const PACES: [(&str, Duration); 2] = [("10 ms", Duration::from_millis(10)), ("none", Duration::ZERO)];
/// Before the measurement, so that the worker is at work, and how long it takes.
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(6);
const PATIENCE: Duration = Duration::from_secs(30);

/// As the guide has it.
const TABLE: &str = "CREATE TABLE sync_outbox (id bigserial PRIMARY KEY, entity_type text NOT NULL, entity_id text NOT NULL, \
     payload jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), processed_at timestamptz)";
const INSERT: &str = "INSERT INTO sync_outbox (entity_type, entity_id, payload) VALUES ('order', $1, \
     '{\"from\":\"+81312345678\",\"to\":\"+81398765432\",\"durationSec\":12,\"status\":\"ended\"}')";
/// Whether the worker has made the table its own.
const TAKEN_OVER: &str = "SELECT count(*) FROM pg_trigger WHERE tgname = 'sync_outbox_announce'";

/// Commits a second, without and with us, by turns.
pub(crate) fn measure(rounds: usize) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (mut rows, mut figures) = (Vec::new(), Vec::new());
    for ((pace, pause), connections) in
        PACES.into_iter().flat_map(|pace| CONNECTIONS.map(|some| (pace, some)))
    {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            without.push(runtime.block_on(commits(connections, pause, false))?);
            with.push(runtime.block_on(commits(connections, pause, true))?);
        }
        let [without, with] =
            [without, with].map(|rates| table::median(rates).context("no round was measured"));
        let (without, with) = (without?, with?);
        rows.push(vec![
            pace.to_owned(),
            connections.to_string(),
            table::thousands(without),
            table::thousands(with),
            format!("{:.0} %", 100.0 * with / without),
        ]);
        figures.push(json!({
            "pause_ms": pause.as_millis() as u64, "connections": connections,
            "without": without, "with": with, "share": with / without
        }));
    }
    let heads = ["pause", "connections", "without us", "with serversync", "share"];
    table::print("An application's commits a second", &heads, &rows);
    Ok(json!({ "unit": "commits per second", "connections": figures }))
}

async fn commits(connections: usize, pause: Duration, with_us: bool) -> Result<f64> {
    let world = World::new(Kind::Postgres)?;
    let mut owner = PgConnection::connect(&world.box_url).await?;
    sqlx::raw_sql(TABLE).execute(&mut owner).await?;
    let _worker = if with_us { Some(world.worker(&[])?) } else { None };
    let begun = Instant::now();
    while with_us && sqlx::query_scalar::<_, i64>(TAKEN_OVER).fetch_one(&mut owner).await? == 0 {
        ensure!(begun.elapsed() < PATIENCE, "serversync did not take the table over");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (count, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut application: tokio::task::JoinSet<sqlx::Result<()>> = tokio::task::JoinSet::new();
    for number in 0..connections {
        let mut connection = PgConnection::connect(&world.box_url).await?;
        let (count, over) = (Arc::clone(&count), Arc::clone(&over));
        application.spawn(async move {
            let mut made = 0_u64;
            while !over.load(Ordering::Relaxed) {
                made += 1;
                sqlx::query(INSERT).bind(format!("order-{number}-{made}")).execute(&mut connection).await?;
                count.fetch_add(1, Ordering::Relaxed);
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
            }
            Ok(())
        });
    }
    tokio::time::sleep(WARM_UP).await;
    let (from, begun) = (count.load(Ordering::Relaxed), Instant::now());
    tokio::time::sleep(MEASURED).await;
    let (made, took) = (count.load(Ordering::Relaxed) - from, begun.elapsed());
    over.store(true, Ordering::Relaxed);
    while let Some(ended) = application.join_next().await {
        ended??;
    }
    if with_us {
        ensure!(world.arrived().await? > 0, "nothing arrived: the worker was not at work");
    }
    Ok(made as f64 / took.as_secs_f64())
}
