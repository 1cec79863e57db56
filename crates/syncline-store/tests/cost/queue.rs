//! A queue of a million keys.
//!
//! `SYNCLINE_ROUNDS` sets how many keys the large queue has, in tens of thousands: 100 make a million.

use std::env;
use std::time::Duration;

use syncline_core::queue::{Answer, Kind, Outcome, Settings};
use syncline_sim::postgres::{self, Database};
use syncline_store::Store;
use syncline_store::queue::{GivenUp, KEYS_MAX, List, Rules};
use tokio::task::block_in_place;

use crate::rows_read;

const QUEUE: &str = "words";
/// Rows read by the operations below, which name some fifty keys and take some twenty.
const READ_MAX: i64 = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn qu_05_on_postgres_every_operation_reads_as_few_rows_of_a_large_queue_as_of_a_small_one() {
    let large = 10_000 * env::var("SYNCLINE_ROUNDS").map_or(3, |rounds| rounds.parse::<usize>().unwrap());
    let mut read = Vec::new();
    for size in [1_000, large] {
        let database = block_in_place(postgres::database);
        fill(&database, size).await;
        let before = rows_read(&database, "queue_keys").await;
        operate(&database, size).await;
        read.push(rows_read(&database, "queue_keys").await - before);
    }
    println!("rows read with 1000 keys: {}, with {large} keys: {}", read[0], read[1]);
    assert!(read[0] > 20, "nothing was counted");
    assert!(read[1] <= READ_MAX && read[1] <= read[0] + 50, "{read:?}");
}

fn rules() -> Rules {
    let mut settings = Settings::new(100, Duration::ZERO, Duration::from_secs(60));
    settings.retry.max_attempts = 1;
    Rules::from(settings)
}

fn key(n: usize) -> String {
    format!("word {n}")
}

/// A tenth done, the rest waiting.
async fn fill(database: &Database, size: usize) {
    let store = Store::open(&database.url).await.unwrap();
    let keys: Vec<String> = (0..size).map(key).collect();
    for some in keys.chunks(KEYS_MAX) {
        store.queues().enqueue(QUEUE, &rules(), Kind::New, some).await.unwrap();
    }
    let done = keys[..size / 10].iter().map(|key| (key.clone(), Outcome::Done("r".to_owned())));
    let done: Vec<_> = done.collect();
    for some in done.chunks(KEYS_MAX) {
        store.queues().dequeue(QUEUE, &rules(), some.to_vec()).await.unwrap();
    }
    store.close().await;
}

/// Everything that a queue does, a little of each.
async fn operate(database: &Database, size: usize) {
    let store = Store::open(&database.url).await.unwrap();
    let (queues, rules) = (store.queues(), rules());
    let some = |from: usize| (from..from + 5).map(key).collect::<Vec<_>>();
    queues.enqueue(QUEUE, &rules, Kind::New, &some(size - 3)).await.unwrap();
    queues.enqueue(QUEUE, &rules, Kind::Priority, &some(size - 20)).await.unwrap();
    queues.enqueue(QUEUE, &rules, Kind::Again, &some(0)).await.unwrap();
    let runs = queues.claim(QUEUE, &rules, 10).await.unwrap().runs;
    assert_eq!(runs.len(), 10);
    let answers = runs.iter().map(|run| (run.call, Answer::Done("r".to_owned()))).collect();
    queues.settle(QUEUE, &rules, answers).await.unwrap();
    let runs = queues.claim(QUEUE, &rules, 10).await.unwrap().runs;
    queues.renew(QUEUE, &rules, &[runs[0].call]).await.unwrap();
    let answers = runs.iter().map(|run| (run.call, Answer::Throttled { retry_after: None })).collect();
    queues.settle(QUEUE, &rules, answers).await.unwrap();
    assert_eq!(queues.revive_all(QUEUE, GivenUp::Dead).await.unwrap(), 10);
    queues.remove(QUEUE, &some(size / 2)).await.unwrap();
    for list in [List::Waiting, List::Running, List::Retrying, List::Done, List::Failed, List::Dead] {
        queues.list(QUEUE, list, None, 10).await.unwrap();
    }
    queues.status(QUEUE, &rules).await.unwrap();
    queues.entry(QUEUE, &key(7)).await.unwrap();
    store.close().await;
}
