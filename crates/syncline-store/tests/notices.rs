//! The connection that listens: beside a pooler, at an address of its own, and through a network that forgets it. And which databases a
//! store can be kept in.

#![cfg(test)]

#[path = "conformance/pooler.rs"]
mod pooler;

use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use syncline_core::kv::Key;
use syncline_core::queue::{Kind, Settings};
use syncline_sim::postgres::{self, Cluster};
use syncline_sim::until;
use syncline_store::outbox::{Kind as EntryKind, NewEntry};
use syncline_store::queue::Rules;
use syncline_store::{Error, News, Options, Store, Topic};
use tokio::task::block_in_place;
use tokio::time::timeout;

/// No announcement is polled for within this time.
const NEVER: Duration = Duration::from_secs(3_600);

/// A lost connection is noticed within this time, and what was announced meanwhile is looked for.
const NOTICED_WITHIN: Duration = Duration::from_secs(15);

fn options(listen_url: &str) -> Options {
    Options::default().listen_url(Some(listen_url))
}

/// Waits until `news` are heard although nobody looks.
async fn until_heard(news: &mut News, announcer: &Store) {
    until("an announcement to be heard", async || {
        announcer.announce(Topic::Viewer).await.unwrap();
        timeout(Duration::from_millis(500), news.heard(NEVER)).await.is_ok()
    })
    .await;
}

async fn pooled(database: &postgres::Database) -> String {
    let direct: PgConnectOptions = database.url.parse().unwrap();
    let server = (direct.get_host().to_owned(), direct.get_port());
    let server = tokio::net::lookup_host(server).await.unwrap().next().unwrap();
    let (user, name) = (direct.get_username(), direct.get_database().unwrap());
    let pooler = pooler::start(server, user, name).await;
    format!("postgres://{user}@{pooler}/{name}")
}

/// Behind a pooler nothing was heard, and everybody who waited for another node polled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_05_on_postgres_an_address_past_the_pooler_is_listened_at() {
    let database = block_in_place(postgres::database);
    let url = pooled(&database).await;
    let store = Store::open_with(&url, &options(&database.url)).await.unwrap();
    let other = Store::open(&database.url).await.unwrap();
    let mut news = store.news(Topic::Viewer);
    until_heard(&mut news, &other).await;
    // Every system hears by the same connection.
    let (mut states, mut queue) = (store.states().listen(), store.queues().changes("q").unwrap());
    let rules = Rules::from(Settings::new(1, Duration::ZERO, Duration::from_secs(1)));
    // Its first look at the queue counts as news, too.
    let mut heard = 0;
    for n in 0..5 {
        other.queues().enqueue("q", &rules, Kind::New, &[format!("key-{n}")]).await.unwrap();
        heard += usize::from(timeout(Duration::from_secs(30), queue.changed()).await.is_ok());
    }
    assert_eq!(heard, 5);
    assert!(states.try_recv().is_err(), "nothing of state was announced");
    let listening =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    let mut looking = PgConnection::connect(&database.url).await.unwrap();
    let listening: i64 = sqlx::query_scalar(listening).fetch_one(&mut looking).await.unwrap();
    assert_eq!(
        listening, 1,
        "one connection for all that a store hears, and none for a store that follows nothing"
    );
    store.close().await;
    other.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_05_on_postgres_an_address_at_which_nothing_is_heard_is_refused() {
    let (database, another) = block_in_place(|| (postgres::database(), postgres::database()));
    let url = pooled(&database).await;
    for (listen_url, expected) in [(&another.url, "leads to another database"), (&url, "leads to a pooler")] {
        let refused = Store::open_with(&url, &options(listen_url)).await.unwrap_err();
        assert!(matches!(&refused, Error::Address { reason, .. } if reason.contains(expected)), "{refused}");
    }
    // Nobody else of the pooler's clients is sent what was listened for.
    let store = Store::open(&url).await.unwrap();
    for n in 0..20 {
        store.kv().put(&Key::new(format!("key-{n}")).unwrap(), "1", None).await.unwrap();
    }
    store.close().await;
    let gone = Store::open_with(&url, &options("postgres://nobody@127.0.0.1:1/none")).await.unwrap_err();
    assert!(matches!(gone, Error::Unreachable { .. }), "{gone}");
    let sqlite = Store::open_with("sqlite::memory:", &options(&database.url)).await.unwrap_err();
    assert!(matches!(sqlite, Error::Address { .. }), "{sqlite}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_05_on_postgres_a_store_opens_no_more_connections_than_it_may() {
    let database = block_in_place(postgres::database);
    for wrong in [0, 1, 501] {
        let refused =
            Store::open_with(&database.url, &Options::default().connections(wrong)).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid { field: "connections", .. }), "{refused}");
    }
    let store = Store::open_with(&database.url, &Options::default().connections(3)).await.unwrap();
    let kv = store.kv();
    let count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'syncline'";
    let mut looking = PgConnection::connect(&database.url).await.unwrap();
    let mut most = 0;
    for round in 0..20 {
        let put = |n: usize| {
            let kv = &kv;
            async move { kv.put(&Key::new(format!("key-{n}")).unwrap(), "1", None).await }
        };
        let puts = futures::future::join_all((0..50).map(put));
        let (puts, now) = tokio::join!(puts, sqlx::query_scalar::<_, i64>(count).fetch_one(&mut looking));
        assert!(puts.into_iter().all(|put| put.is_ok()), "round {round}");
        most = most.max(now.unwrap());
    }
    assert_eq!(most, 3);
    store.close().await;
}

/// The database says itself what it is, so a real server that says it is CockroachDB is as good as one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_05_on_postgres_cockroachdb_is_refused_by_name_with_the_reason() {
    let database = block_in_place(postgres::database);
    for sql in [
        "CREATE SCHEMA another",
        "CREATE FUNCTION another.version() RETURNS text LANGUAGE sql AS $$ SELECT 'CockroachDB CCL v24.1.0'::text $$",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = another, pg_catalog', current_database()); END $$",
    ] {
        block_in_place(|| database.execute(sql)).unwrap();
    }
    let refused = Store::open(&database.url).await.unwrap_err();
    assert!(matches!(refused, Error::Denied { .. }), "{refused:?}");
    let said = refused.to_string();
    assert!(
        said.contains("CockroachDB") && said.contains("LISTEN") && said.contains("use PostgreSQL"),
        "{said}"
    );
    assert!(!refused.retryable(), "a start that cannot succeed is not repeated");
}

/// A firewall that forgot a connection told neither end. The listener waited on for ever, and what was announced was found by
/// polling, after five minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_02_on_postgres_a_listener_that_the_network_forgot_is_noticed_within_15_seconds() {
    let server = match block_in_place(|| Cluster::start_behind_router(&[])) {
        Err(postgres::Error::NotRoot) => return println!("not tested: only root may make networks"),
        started => started.unwrap(),
    };
    let url = server.url("postgres");
    let store = Store::open(&url).await.unwrap();
    let (mut news, outbox) = (store.news(Topic::Viewer), store.outbox());
    let mut wakes = outbox.wakes();
    until_heard(&mut news, &store_of_others(&url).await).await;
    // The worker of the outbox sleeps: only an announcement wakes it.
    until("the worker to sleep", async || timeout(Duration::from_secs(2), wakes.changed()).await.is_err())
        .await;

    let since = Instant::now();
    let forgotten = block_in_place(|| server.forget_connections()).unwrap();
    assert!(forgotten >= 2, "{forgotten} connections");
    let other = store_of_others(&url).await;
    let [entity_type, entity_id, payload] = ["note", "1", "{}"].map(str::to_owned);
    let entry = NewEntry { entity_type, entity_id, payload };
    other.outbox().enqueue(&[entry]).await.unwrap();
    other.announce(Topic::Viewer).await.unwrap();

    let claimed = async {
        loop {
            wakes.changed().await.unwrap();
            let claimed = outbox.claim("worker", EntryKind::Change, 10, Duration::from_secs(60)).await;
            if claimed.is_ok_and(|claimed| !claimed.entries.is_empty()) {
                return since.elapsed();
            }
        }
    };
    let heard = async {
        news.heard(NEVER).await;
        since.elapsed()
    };
    let (claimed, heard) = tokio::join!(timeout(NOTICED_WITHIN, claimed), timeout(NOTICED_WITHIN, heard));
    let (claimed, heard) =
        (claimed.expect("the entry is claimed in time"), heard.expect("news are heard in time"));
    println!(
        "{forgotten} connections forgotten; news were looked for after {heard:?}, the entry was claimed after {claimed:?}"
    );
    // And it listens again.
    until_heard(&mut news, &other).await;
}

async fn store_of_others(url: &str) -> Store {
    Store::open(url).await.unwrap()
}
