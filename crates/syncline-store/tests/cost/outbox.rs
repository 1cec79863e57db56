//! An outbox of a million entries.
//!
//! `SYNCLINE_ROUNDS` sets how many entries the large table has, in tens of thousands: 100 make a million.

use std::env;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use syncline_core::outbox::Verdict;
use syncline_sim::postgres::{self, Database};
use syncline_store::Store;
use syncline_store::outbox::{Kind, List};
use tokio::task::block_in_place;

use crate::rows_read;

const LEASE: Duration = Duration::from_secs(60);
/// Rows read by the operations below, which claim fifty entries and look at twenty more.
const READ_MAX: i64 = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_22_on_postgres_every_operation_reads_as_few_rows_of_a_large_outbox_as_of_a_small_one() {
    let large = 10_000 * env::var("SYNCLINE_ROUNDS").map_or(3, |rounds| rounds.parse::<usize>().unwrap());
    let mut read = Vec::new();
    for size in [1_000, large] {
        let database = block_in_place(postgres::database);
        fill(&database, size).await;
        let before = rows_read(&database, "sync_outbox").await;
        operate(&database).await;
        read.push(rows_read(&database, "sync_outbox").await - before);
    }
    println!("rows read with 1000 entries: {}, with {large} entries: {}", read[0], read[1]);
    assert!(read[0] > 50, "nothing was counted");
    assert!(read[1] <= READ_MAX && read[1] <= read[0] + 100, "{read:?}");
}

/// Half of them processed, the rest waiting, many of one entity and most of others.
async fn fill(database: &Database, size: usize) {
    Store::open(&database.url).await.unwrap().close().await;
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let insert = format!(
        "INSERT INTO sync_outbox (entity_type, entity_id, payload, processed_at) \
         SELECT 'call_log', CASE WHEN n % 5 = 0 THEN 'the same' ELSE n::text END, '{{}}', \
         CASE WHEN n <= {size} / 2 THEN now() END FROM generate_series(1, {size}) AS n"
    );
    sqlx::query(AssertSqlSafe(insert)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// Everything that a worker and an operator do, a little of each; not counting, which reads what it counts.
async fn operate(database: &Database) {
    let store = Store::open(&database.url).await.unwrap();
    let outbox = store.outbox();
    for verdict in [
        Verdict::Done,
        Verdict::Retry { after: Duration::from_secs(3_600), reason: "r".to_owned() },
        Verdict::Dead { reason: "r".to_owned() },
        Verdict::GiveBack,
        Verdict::Done,
    ] {
        let claimed = outbox.claim("w", Kind::Change, 10, LEASE).await.unwrap();
        assert!(!claimed.entries.is_empty());
        let ids: Vec<i64> = claimed.entries.iter().map(|entry| entry.id).collect();
        outbox.renew(claimed.claim, &ids, LEASE).await.unwrap();
        let verdicts: Vec<_> = ids.into_iter().map(|id| (id, verdict.clone())).collect();
        outbox.settle(claimed.claim, &verdicts).await.unwrap();
    }
    outbox.claim("w", Kind::File, 10, LEASE).await.unwrap();
    let pending = outbox.fetch_pending(10).await.unwrap();
    outbox.mark_processed(&[pending[0].id], None).await.unwrap();
    for list in [List::Pending, List::Dead, List::Processed] {
        outbox.list(list, None, 10).await.unwrap();
    }
    outbox.cleanup(Duration::from_secs(3_600), 10).await.unwrap();
    outbox.cleanup(Duration::ZERO, 10).await.unwrap();
    store.close().await;
}
