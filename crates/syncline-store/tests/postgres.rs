//! What only the shared engine promises: it outlives its server's restarts and tells its troubles apart.

#![cfg(test)]

use std::collections::BTreeSet;
use std::env;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection};
use syncline_core::kv::Key;
use syncline_core::lock::Name;
use syncline_core::schedule::{Bucket, Cost, Reason};
use syncline_core::time::Timestamp;
use syncline_sim::postgres::{self, Cluster};
use syncline_store::schedule::{Claim, Filter, HISTORY_MAX, Intent};
use syncline_store::{Error, Store};
use tokio::task::block_in_place;

const DEADLINE: Duration = Duration::from_secs(120);

fn key(text: &str) -> Key {
    Key::new(text).expect("the tests' keys are valid")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_restarted_is_found_again() {
    let mut cluster = block_in_place(Cluster::start).unwrap();
    let store = Store::open(&cluster.url("postgres")).await.unwrap();
    store.kv().put(&key("before"), "v", None).await.unwrap();

    block_in_place(|| cluster.stop_immediate()).unwrap();
    let (kv, before) = (store.kv(), key("before"));
    let (lost, ping) = tokio::join!(kv.get(&before), store.ping());
    for lost in [lost.map(drop), ping] {
        let lost = lost.unwrap_err();
        assert!(matches!(lost, Error::Unreachable { .. }), "{lost:?}");
        assert!(lost.retryable() && lost.hint().is_some());
    }

    block_in_place(|| cluster.restart()).unwrap();
    // Nothing was reopened; the same store answers again.
    assert_eq!(store.kv().get(&key("before")).await.unwrap().unwrap().value, "v");
    store.kv().put(&key("after"), "v", None).await.unwrap();
    store.ping().await.unwrap();
}

/// A store that nobody closed used to keep its listening connection for as long as the process lived: the listener held
/// what it listened for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lk_21_the_listener_leaves_with_a_store_that_nobody_closed() {
    let database = block_in_place(postgres::database);
    let store = Store::open(&database.url).await.unwrap();
    let mut outside = PgConnection::connect(&database.url).await.unwrap();
    let listeners =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'LISTEN %'";
    let watch = store.locks().watch(&Name::new("project").unwrap());
    wait_for_count(&mut outside, listeners, 1).await;
    drop((watch, store));
    wait_for_count(&mut outside, listeners, 0).await;
}

async fn wait_for_count(connection: &mut PgConnection, sql: &'static str, wanted: i64) {
    let start = Instant::now();
    while sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut *connection).await.unwrap() != wanted {
        assert!(start.elapsed() < DEADLINE, "never {wanted}: {sql}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// `SYNCLINE_POSTGRES_KILLS` sets how often; a restart with recovery takes its time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_write_is_lost_when_the_server_is_killed() {
    let kills = env::var("SYNCLINE_POSTGRES_KILLS").map_or(2, |kills| kills.parse().unwrap());
    let mut cluster = block_in_place(Cluster::start).unwrap();
    let store = Store::open(&cluster.url("postgres")).await.unwrap();
    let mut acknowledged = 0;
    for round in 0..kills {
        let said = Arc::new(Mutex::new((BTreeSet::new(), BTreeSet::new())));
        let writers: Vec<_> = (0..4)
            .map(|writer| tokio::spawn(write_until_lost(store.clone(), round, writer, Arc::clone(&said))))
            .collect();
        let start = Instant::now();
        while said.lock().unwrap().0.len() < 50 {
            assert!(start.elapsed() < DEADLINE, "the writers do not get going");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        block_in_place(|| cluster.kill()).unwrap();
        for writer in writers {
            writer.await.unwrap();
        }
        block_in_place(|| cluster.restart()).unwrap();
        let (puts, claims) = std::mem::take(&mut *said.lock().unwrap());
        for put in &puts {
            assert!(store.kv().get(&key(put)).await.unwrap().is_some(), "lost {put}");
        }
        for run in &claims {
            assert!(store.schedule().run(*run).await.unwrap().is_some(), "lost {run:?}");
        }
        acknowledged += puts.len() + claims.len();
    }
    println!("kills={kills} acknowledged={acknowledged} lost=0");

    let mut runs = 0;
    let mut before = None;
    loop {
        let page = store.schedule().history(Filter::default(), before, HISTORY_MAX).await.unwrap();
        let Some(last) = page.last() else { break };
        (runs, before) = (runs + page.len() as u64, Some(last.id));
        for run in &page {
            let lock = Name::new(format!("genlock:{}:picture", run.bucket.as_ref().unwrap())).unwrap();
            assert!(store.locks().look(&lock).await.unwrap().is_some(), "run without its lock: {run:?}");
        }
    }
    assert_eq!(store.schedule().totals(None).await.unwrap().runs_total(), runs, "no count without its run");
}

type Said = Arc<Mutex<(BTreeSet<String>, BTreeSet<syncline_store::schedule::RunId>)>>;

async fn write_until_lost(store: Store, round: u64, writer: u64, said: Said) {
    for n in 0.. {
        let name = format!("k:{round}:{writer}:{n}");
        if store.kv().put(&key(&name), "v", None).await.is_err() {
            return;
        }
        let intent = Intent { job: "picture", node: "a", reason: Reason::Watched, cost: Cost::DEFAULT };
        let minute = (round * 100_000 + n) * 10 + writer;
        let bucket = Bucket::minute(Timestamp::from_ms(minute * 60_000));
        let claim = store.schedule().claim(&intent, bucket, Duration::from_secs(86_400)).await;
        let mut said = said.lock().expect("no writer panics while it holds this");
        said.0.insert(name);
        match claim {
            Ok(Claim::Won { run_id }) => _ = said.1.insert(run_id),
            Ok(Claim::Taken { by }) => panic!("{bucket} is taken by {by}"),
            Err(_) => return,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_keeps_a_store_from_opening_is_told_apart() {
    let database = block_in_place(postgres::database);
    let Err(missing) = Store::open(&format!("{}_missing", database.url)).await else { panic!("it opened") };
    assert!(
        matches!(&missing, Error::Denied { reason, .. } if reason.contains("does not exist")),
        "{missing:?}"
    );

    // A port that nobody listens on: this one was just given back.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let refused = Store::open(&format!("postgres://user:hunter2@127.0.0.1:{port}/db")).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Unreachable { reason, .. } if reason.contains("refused")),
        "{refused:?}"
    );
    assert!(!format!("{refused} {refused:?}").contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_answers_does_not_hold_us_for_ever() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://user@{}/db?sslmode=disable", silent.local_addr().unwrap());
    let gone = Store::open(&url).await.unwrap_err();
    assert!(matches!(gone, Error::Unreachable { .. }), "{gone:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_hang_are_given_up_and_leave_room_for_others() {
    let database = block_in_place(postgres::database);
    let store = Store::open(&database.url).await.unwrap();
    store.kv().put(&key("before"), "v", None).await.unwrap();
    let mut other = PgConnection::connect(&database.url).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE kv IN ACCESS EXCLUSIVE MODE").execute(&mut other).await.unwrap();
    // As many as there are connections, so that one that stayed behind would be missed.
    let stuck = (0..10).map(|n| {
        let store = store.clone();
        tokio::spawn(async move { store.kv().put(&key(&format!("stuck:{n}")), "v", None).await })
    });
    for put in futures::future::join_all(stuck).await {
        let given_up = put.unwrap().unwrap_err();
        assert!(
            matches!(&given_up, Error::Unreachable { reason, .. } if reason.contains("no answer")),
            "{given_up:?}"
        );
    }
    store.ping().await.unwrap();
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    assert_eq!(store.kv().get(&key("before")).await.unwrap().unwrap().value, "v");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_not_create_can_use_what_is_there() {
    let database = block_in_place(postgres::database);
    let role = format!("clerk_{}", std::process::id());
    let create = format!("CREATE ROLE {role} LOGIN PASSWORD 'clerk'");
    block_in_place(|| database.execute(&create)).unwrap();
    let (scheme, rest) = database.url.split_once("://").unwrap();
    let (_, address) = rest.split_once('@').unwrap();
    let clerk = format!("{scheme}://{role}:clerk@{address}");
    let denied = Store::open(&clerk).await.unwrap_err();
    assert!(
        matches!(&denied, Error::Denied { reason, .. } if reason.contains("permission denied")),
        "{denied:?}"
    );

    Store::open(&database.url).await.unwrap();
    let grant = format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}; \
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}"
    );
    let revoke = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    block_in_place(|| database.execute(&grant)).unwrap();
    let store = Store::open(&clerk).await.unwrap();
    store.kv().put(&key("k"), "v", None).await.unwrap();
    let intent = Intent { job: "picture", node: "a", reason: Reason::ByHand, cost: Cost::DEFAULT };
    store.schedule().start(&intent).await.unwrap();
    store.close().await;
    block_in_place(|| database.execute(&revoke)).unwrap();
}
