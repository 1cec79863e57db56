//! A primary that dies, freezes or is replaced, and a store that goes on with the server that takes writes by then.

#![cfg(test)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use syncline_core::kv::Key;
use syncline_sim::postgres::Cluster;
use syncline_sim::until;
use syncline_store::Store;
use tokio::task::block_in_place;

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

struct Pair {
    primary: Cluster,
    standby: Cluster,
}

impl Pair {
    fn start() -> Pair {
        // Until there is a standby, nobody could confirm anything.
        let primary = Cluster::start_with(&["wal_level=replica"]).unwrap();
        let standby = primary.standby().unwrap();
        primary.execute("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'").unwrap();
        primary.execute("postgres", "SELECT pg_reload_conf()").unwrap();
        Pair { primary, standby }
    }

    /// Both in one address.
    fn url(&self) -> String {
        let (primary, standby) = (self.primary.url("postgres"), self.standby.url("postgres"));
        let host = |url: &str| url.split(['@', '/']).nth(3).unwrap_or_default().to_owned();
        primary.replace(&host(&primary), &format!("{},{}", host(&standby), host(&primary)))
    }

    fn promote(&self) {
        // The new primary has no standby of its own that could confirm.
        self.standby.execute("postgres", "SELECT 1").unwrap();
        self.standby.promote().unwrap();
        self.standby.execute("postgres", "ALTER SYSTEM RESET synchronous_standby_names").unwrap();
        self.standby.execute("postgres", "SELECT pg_reload_conf()").unwrap();
    }
}

/// More of them than the store has connections write one key after the other, and remember those that were acknowledged.
struct Writers {
    acknowledged: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<Vec<Key>>>,
}

impl Writers {
    fn start(store: &Store) -> Writers {
        let (acknowledged, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let write = |writer: usize| {
            let (kv, count, stopped) = (store.kv(), Arc::clone(&acknowledged), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut written = Vec::new();
                for n in 0.. {
                    if stopped.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = key(&format!("key-{writer}-{n}"));
                    if kv.put(&key, "1", None).await.is_ok() {
                        written.push(key);
                        count.fetch_add(1, Ordering::Relaxed);
                    } else {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
                written
            })
        };
        let tasks = (0..12).map(write).collect();
        Writers { acknowledged, stop, tasks }
    }

    async fn more(&self, many: u64) {
        let wanted = self.acknowledged.load(Ordering::Relaxed) + many;
        until("more writes", async || self.acknowledged.load(Ordering::Relaxed) >= wanted).await;
    }

    async fn finish(self) -> Vec<Key> {
        self.stop.store(true, Ordering::Relaxed);
        let mut written = Vec::new();
        for task in self.tasks {
            written.extend(task.await.unwrap());
        }
        written
    }
}

/// The worst that can happen to a primary, each with an address that names both servers.
async fn fails_over(harm: impl FnOnce(&mut Pair)) {
    let mut pair = block_in_place(Pair::start);
    let store = Store::open(&pair.url()).await.unwrap();
    let writers = Writers::start(&store);
    writers.more(200).await;
    let since = Instant::now();
    block_in_place(|| harm(&mut pair));
    writers.more(50).await;
    let pause = since.elapsed();
    let written = writers.finish().await;
    let kv = store.kv();
    for key in &written {
        assert!(kv.get(key).await.unwrap().is_some(), "{key:?} was acknowledged and is lost");
    }
    println!("{} writes acknowledged, none lost; 50 more were there after {pause:?}", written.len());
    store.ping().await.unwrap();
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_02_on_postgres_a_killed_primary_is_followed_by_its_standby_and_nothing_acknowledged_is_lost() {
    fails_over(|pair| {
        pair.primary.kill().unwrap();
        pair.promote();
    })
    .await;
}

/// A server that is frozen refuses nothing: connections to it stay open and wait. One that was just given back did so for ever, in
/// the place of one that leads to the new primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_02_on_postgres_a_frozen_primary_is_followed_by_its_standby_and_nothing_acknowledged_is_lost() {
    fails_over(|pair| {
        pair.primary.freeze().unwrap();
        pair.promote();
    })
    .await;
}

/// A connection that leads to a standby was given back after every refused write, and refused the next one, for half an hour.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_02_on_postgres_connections_that_turned_read_only_are_given_up() {
    let pair = block_in_place(Pair::start);
    let store = Store::open(&pair.primary.url("postgres")).await.unwrap();
    store.kv().put(&key("before"), "1", None).await.unwrap();
    let sql = "ALTER SYSTEM SET default_transaction_read_only = on; SELECT pg_reload_conf()";
    block_in_place(|| sql.split("; ").try_for_each(|sql| pair.primary.execute("postgres", sql))).unwrap();
    // Each write that is refused takes its connection along, until those from before are gone.
    let old = "DO $$ BEGIN IF EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'syncline' \
         AND backend_start < pg_conf_load_time()) THEN RAISE 'still there'; END IF; END $$";
    until("the connections that turned read-only to be given up", async || {
        let refused = store.kv().put(&key("refused"), "1", None).await.is_err();
        refused && block_in_place(|| pair.primary.execute("postgres", old)).is_ok()
    })
    .await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_02_on_postgres_a_standby_is_refused_with_the_reason() {
    let pair = block_in_place(Pair::start);
    let refused = Store::open(&pair.standby.url("postgres")).await.unwrap_err().to_string();
    assert!(refused.contains("is a standby"), "{refused}");
    let gone = pair.url().replace(&pair.primary.url("").rsplit(':').next().unwrap().replace('/', ""), "1");
    let refused = Store::open(&gone).await.unwrap_err().to_string();
    assert!(refused.contains("none of the servers takes writes") && refused.contains("standby"), "{refused}");
}
