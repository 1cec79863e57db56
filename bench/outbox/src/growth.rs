//! Cost of an entry in a small table and in a large one: claimed and settled, by the hundred.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bench_figures::table::{self, thousands};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use syncline_core::outbox::Verdict;
use syncline_sim::postgres;
use syncline_store::Store;
use syncline_store::outbox::Kind;

const SMALL: u32 = 1_000;
/// Entries claimed and settled at once, and how often.
const BATCH: usize = 100;
const BATCHES: usize = 5;
const LEASE: Duration = Duration::from_secs(60);

/// Microseconds for each entry.
pub(crate) fn measure(large: u32) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (mut rows, mut figures) = (Vec::new(), Vec::new());
    for name in ["Syncline, PostgreSQL", "Syncline, SQLite"] {
        let mut costs = Vec::new();
        for size in [SMALL, large] {
            let folder = tempfile::tempdir()?;
            let database = (name == "Syncline, PostgreSQL").then(postgres::database);
            let url = database.as_ref().map_or_else(
                || format!("sqlite:{}", folder.path().join("box.db").display()),
                |database| database.url.clone(),
            );
            costs.push(runtime.block_on(cost(&url, size))?);
        }
        let cells = costs.iter().map(|us| format!("{us:.1}"));
        rows.push(
            [vec![name.to_owned()], cells.collect(), vec![format!("{:.2} ×", costs[1] / costs[0])]].concat(),
        );
        figures.push(json!({ "contender": name, "rows": [SMALL, large], "us_per_entry": costs }));
    }
    let heads = ["µs per entry, with rows", &thousands(SMALL.into()), &thousands(large.into()), "ratio"];
    table::print("Claimed and settled, by the hundred", &heads, &rows);
    Ok(json!({ "unit": "µs per entry", "contenders": figures }))
}

async fn cost(url: &str, size: u32) -> Result<f64> {
    let store = Store::open(url).await?;
    fill(url, size).await?;
    let outbox = store.outbox();
    let mut took = Vec::new();
    for _ in 0..BATCHES {
        let begun = Instant::now();
        let claimed = outbox.claim("bench", Kind::Change, BATCH, LEASE).await?;
        ensure!(claimed.entries.len() == BATCH, "only {} were there", claimed.entries.len());
        let verdicts: Vec<_> = claimed.entries.iter().map(|entry| (entry.id, Verdict::Done)).collect();
        outbox.settle(claimed.claim, &verdicts).await?;
        took.push(begun.elapsed().as_secs_f64() * 1e6 / BATCH as f64);
    }
    store.close().await;
    Ok(table::median(took).unwrap_or(f64::NAN))
}

/// Half of the rows processed long ago, the rest waiting.
async fn fill(url: &str, size: u32) -> Result<()> {
    let processed = size / 2;
    if url.starts_with("sqlite:") {
        let connection = rusqlite::Connection::open(url.trim_start_matches("sqlite:"))?;
        let insert = format!(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {size}) \
             INSERT INTO sync_outbox (entity_type, entity_id, payload, processed_at) SELECT 'order', 'order-' || n, \
             '{{}}', CASE WHEN n <= {processed} THEN '2026-01-01T00:00:00.000Z' END FROM n"
        );
        connection.execute_batch(&insert)?;
    } else {
        let mut connection = PgConnection::connect(url).await?;
        let insert = format!(
            "INSERT INTO sync_outbox (entity_type, entity_id, payload, processed_at) SELECT 'order', 'order-' || n, \
             '{{}}', CASE WHEN n <= {processed} THEN now() END FROM generate_series(1, {size}) AS n"
        );
        sqlx::query(AssertSqlSafe(insert)).execute(&mut connection).await?;
        sqlx::query("VACUUM ANALYZE sync_outbox").execute(&mut connection).await?;
    }
    Ok(())
}
