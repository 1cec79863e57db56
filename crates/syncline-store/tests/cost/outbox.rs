//! An outbox of a million entries.
//!
//! `SYNCLINE_ROUNDS` sets how many entries the large table has, in tens of thousands: 100 make a million.

use std::env;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use syncline_core::outbox::{EntityType, SenderId, Verdict};
use syncline_sim::postgres::{self, Database};
use syncline_store::Store;
use syncline_store::inbox::Arrival;
use syncline_store::outbox::{Entry, Kind, List};
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

/// The server plans by what the table was like when it last counted. What arrives in a burst after that, or was processed
/// since, must not be gone through from its beginning for every entry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_22_on_postgres_a_burst_reads_few_rows_whatever_the_server_believes_of_the_table() {
    const BURST: usize = 1_000;
    // Everything processed when it was counted; or nothing, and processed since.
    for (counted, since) in [("now()", "processed_at"), ("NULL", "now()")] {
        let database = block_in_place(postgres::database);
        Store::open(&database.url).await.unwrap().close().await;
        let mut connection = PgConnection::connect(&database.url).await.unwrap();
        for sql in [
            format!(
                "INSERT INTO sync_outbox (entity_type, entity_id, payload, processed_at) \
                 SELECT 'order', 'old-' || n, '{{}}', {counted} FROM generate_series(1, 20000) AS n"
            ),
            "VACUUM ANALYZE sync_outbox".to_owned(),
            format!("UPDATE sync_outbox SET processed_at = {since}"),
            format!(
                "INSERT INTO sync_outbox (entity_type, entity_id, payload) \
                 SELECT 'order', 'new-' || n, '{{}}' FROM generate_series(1, {BURST}) AS n"
            ),
        ] {
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        }
        connection.close().await.unwrap();

        let before = rows_read(&database, "sync_outbox").await;
        let store = Store::open(&database.url).await.unwrap();
        let types = [EntityType::new("order").unwrap()];
        let (outbox, inbox) = (store.outbox(), store.inbox(&types).await.unwrap());
        let claimed = outbox.claim("w", Kind::Change, BURST, LEASE).await.unwrap();
        assert_eq!(claimed.entries.len(), BURST);
        let verdicts: Vec<_> = claimed.entries.iter().map(|entry| (entry.id, Verdict::Done)).collect();
        outbox.settle(claimed.claim, &verdicts).await.unwrap();
        let arrivals: Vec<Arrival> = claimed.entries.iter().map(arrival).collect();
        inbox.apply(Some(&SenderId::new("box").unwrap()), &arrivals).await.unwrap();
        outbox.cleanup(Duration::from_secs(3_600), 10).await.unwrap();
        store.close().await;
        let read = rows_read(&database, "sync_outbox").await - before;
        println!("rows read for a burst of {BURST}, processed_at {counted} when counted: {read}");
        assert!(read > BURST as i64 && read <= 10 * BURST as i64, "{read}");
    }
}

fn arrival(entry: &Entry) -> Arrival {
    Arrival {
        entry: Some(entry.id),
        entity_type: "order".to_owned(),
        entity_id: entry.entity_id.clone(),
        payload: entry.payload.clone(),
        created_at: entry.created_at,
    }
}

/// Half of them processed, the rest waiting, many of one entity and most of others.
async fn fill(database: &Database, size: usize) {
    Store::open(&database.url).await.unwrap().close().await;
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let insert = format!(
        "INSERT INTO sync_outbox (entity_type, entity_id, payload, processed_at) \
         SELECT 'order', CASE WHEN n % 5 = 0 THEN 'the same' ELSE n::text END, '{{}}', \
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
