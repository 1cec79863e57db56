//! A worker that sleeps until it is told of an entry, and applications that tell it no more than it needs.

use std::collections::BTreeSet;
use std::env;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::{Connection, PgConnection};
use syncline_core::outbox::Verdict;
use syncline_sim::{postgres, until};
use syncline_store::OutboxStore;
use syncline_store::outbox::Kind;
use tokio::task::block_in_place;

use super::execute;

/// Whether a worker has said that it sleeps.
pub(crate) async fn asleep(connection: &mut PgConnection) -> bool {
    let question = "SELECT last_value > 0 FROM syncline.sync_outbox_asleep";
    sqlx::query_scalar(question).fetch_one(connection).await.unwrap()
}

/// A worker that claims whenever it is woken and never by the clock, and what it has claimed.
fn claiming(store: &OutboxStore) -> (tokio::task::JoinHandle<()>, Arc<Mutex<BTreeSet<String>>>) {
    let (outbox, claimed) = (store.outbox(), Arc::new(Mutex::new(BTreeSet::new())));
    let noted = Arc::clone(&claimed);
    let mut wakes = outbox.wakes();
    let worker = tokio::spawn(async move {
        loop {
            wakes.mark_unchanged();
            let got = outbox.claim("w", Kind::Change, 100, Duration::from_secs(60)).await.unwrap();
            let done: Vec<(i64, Verdict)> =
                got.entries.iter().map(|entry| (entry.id, Verdict::Done)).collect();
            noted.lock().unwrap().extend(got.entries.iter().map(|entry| entry.entity_id.clone()));
            outbox.settle(got.claim, &done).await.unwrap();
            if got.entries.is_empty() {
                wakes.changed().await.unwrap();
            }
        }
    });
    (worker, claimed)
}

const INSERT: &str = "INSERT INTO sync_outbox (entity_type, entity_id, payload) VALUES ('a', $1, '1')";

/// With our trigger an application's commits fell to a quarter: those that announce something wait for each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_01_an_application_announces_to_a_worker_that_sleeps_and_to_nobody_else() {
    let database = block_in_place(postgres::database);
    let store = OutboxStore::open(&database.url).await.unwrap();
    let mut listener = sqlx::postgres::PgListener::connect(&database.url).await.unwrap();
    listener.listen("syncline.sync_outbox").await.unwrap();
    let mut application = PgConnection::connect(&database.url).await.unwrap();
    let insert = async |application: &mut PgConnection, id: String| {
        sqlx::query(INSERT).bind(id).execute(application).await.unwrap();
    };
    for n in 0..100 {
        insert(&mut application, format!("before {n}")).await;
    }
    let (worker, claimed) = claiming(&store);
    until("the worker to sleep", async || asleep(&mut application).await).await;
    // Time to look once more for what was inserted before that.
    tokio::time::sleep(Duration::from_millis(500)).await;
    insert(&mut application, "a lone one".to_owned()).await;
    until("it to be claimed", async || claimed.lock().unwrap().len() == 101).await;
    assert!(asleep(&mut application).await, "a lone entry is told to a worker that sleeps on");
    // A rush wakes it, and one transaction after the other finds it awake.
    let mut inserted = 101;
    until("the worker to wake", async || {
        for _ in 0..20 {
            insert(&mut application, format!("in a rush {inserted}")).await;
            inserted += 1;
        }
        !asleep(&mut application).await
    })
    .await;
    for n in 0..200 {
        insert(&mut application, format!("while it is awake {n}")).await;
    }
    until("all to be claimed", async || claimed.lock().unwrap().len() == inserted + 200).await;
    let mut announced = 0;
    while let Ok(Ok(_)) = tokio::time::timeout(Duration::from_millis(300), listener.recv()).await {
        announced += 1;
    }
    // On a busy machine the worker may have fallen asleep in between, but not each time.
    assert!((1..150).contains(&announced), "{announced} of {} inserts announced something", inserted + 200);
    worker.abort();
}

/// Whatever an application's transactions look like, none of their entries waits for the clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_01_no_entry_is_missed_by_a_worker_that_falls_asleep() {
    let rounds = env::var("SYNCLINE_ROUNDS").map_or(20, |rounds| rounds.parse::<usize>().unwrap());
    let database = block_in_place(postgres::database);
    let store = OutboxStore::open(&database.url).await.unwrap();
    let (worker, claimed) = claiming(&store);
    let applications = (0..4).map(|application| {
        let url = database.url.clone();
        tokio::spawn(async move {
            let mut connection = PgConnection::connect(&url).await.unwrap();
            for round in 0..rounds {
                let isolation =
                    ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"][(round + application) % 3];
                execute(&mut connection, &format!("BEGIN ISOLATION LEVEL {isolation}")).await.unwrap();
                // Its snapshot is from before it inserts, and the worker may fall asleep at any moment of it.
                execute(&mut connection, "SELECT count(*) FROM pg_class").await.unwrap();
                let pause =
                    |most: u64| tokio::time::sleep(Duration::from_millis(rand::random::<u64>() % most));
                pause(150).await;
                let id = format!("{application}-{round}");
                sqlx::query(INSERT).bind(id).execute(&mut connection).await.unwrap();
                pause(150).await;
                execute(&mut connection, "COMMIT").await.unwrap();
                pause(400).await;
            }
        })
    });
    for application in applications.collect::<Vec<_>>() {
        application.await.unwrap();
    }
    until("all to be claimed", async || claimed.lock().unwrap().len() == 4 * rounds).await;
    worker.abort();
}
