//! A primary that dies, freezes or is replaced, and a store that goes on with the server that takes writes by then.

#![cfg(test)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use syncline_core::kv::Key;
use syncline_core::lock::{LeaseId, Name, Token, Ttl};
use syncline_sim::postgres::Cluster;
use syncline_sim::until;
use syncline_store::Store;
use syncline_store::lock::{Acquired, Locks, Request};
use tokio::task::block_in_place;

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

struct Pair {
    primary: Cluster,
    standby: Cluster,
}

impl Pair {
    /// Nobody waits for the standby.
    fn start_asynchronous() -> Pair {
        let primary = Cluster::start_with(&["wal_level=replica"]).unwrap();
        let standby = primary.standby().unwrap();
        Pair { primary, standby }
    }

    /// The standby gets nothing any more, and has everything from before.
    fn cut_off_standby(&self) {
        let position = self.primary.ask("postgres", "SELECT pg_current_wal_lsn()").unwrap();
        let caught_up = format!("SELECT pg_last_wal_replay_lsn() >= '{}'", position.trim());
        syncline_sim::until_blocking("the standby to catch up", || {
            self.standby.ask("postgres", &caught_up).is_ok_and(|caught_up| caught_up.trim() == "t")
        });
        self.standby.execute("postgres", "ALTER SYSTEM SET primary_conninfo = ''").unwrap();
        self.standby.execute("postgres", "SELECT pg_reload_conf()").unwrap();
        syncline_sim::until_blocking("the standby to be cut off", || {
            let count = self.primary.ask("postgres", "SELECT count(*) FROM pg_stat_replication");
            count.is_ok_and(|count| count.trim() == "0")
        });
    }

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

fn request(name: &Name, lease: LeaseId, ttl_ms: u64) -> Request<'_> {
    Request { name, lease, holder: "holder", ttl: Ttl::from_ms(ttl_ms).unwrap(), waits: false }
}

async fn granted(locks: &dyn Locks, name: &Name, lease: LeaseId, ttl_ms: u64) -> Token {
    match locks.acquire(request(name, lease, ttl_ms)).await.unwrap() {
        Acquired::Granted { token } => token,
        refused => panic!("{name:?}: {refused:?}"),
    }
}

/// A standby that nobody waited for was promoted without the last grants. It granted the same locks at once to others, whose
/// predecessors did not know that they had lost them, and the tokens followed the clock of the new server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_03_on_postgres_grants_that_a_promotion_lost_have_ended_before_anything_is_granted_again() {
    let mut pair = block_in_place(Pair::start_asynchronous);
    let store = Store::open(&pair.url()).await.unwrap();
    let locks = store.locks();
    let [old, lost, free] = ["old", "lost", "free"].map(|name| Name::new(name).unwrap());
    let [old_lease, lost_lease] = [1, 2].map(|n| LeaseId::from_random([n; 16]));
    let old_token = granted(&*locks, &old, old_lease, 8_000).await;
    // No lease here is longer than eight seconds, so nobody has to wait a minute.
    block_in_place(|| {
        pair.primary.execute("postgres", "UPDATE syncline.lock_floor SET longest_ttl = 8000").unwrap();
        pair.cut_off_standby();
    });
    let lost_token = granted(&*locks, &lost, lost_lease, 8_000).await;
    let last_lease_until = Instant::now() + Duration::from_millis(8_000);
    block_in_place(|| {
        pair.primary.kill().unwrap();
        pair.standby.promote().unwrap();
    });
    // The holder of the lost lease believes in it until its end. Everybody is refused until then.
    let mut quiet = 0;
    let token = loop {
        match locks.acquire(request(&lost, LeaseId::from_random([3; 16]), 8_000)).await {
            Ok(Acquired::Granted { token }) => break token,
            Ok(Acquired::Quiet { left }) => {
                quiet += 1;
                tokio::time::sleep(left.min(Duration::from_millis(500))).await;
            }
            Ok(Acquired::Held(held)) => panic!("{held:?}"),
            // No server takes writes yet.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    assert!(Instant::now() >= last_lease_until, "granted while a lost lease lasted");
    assert!(quiet > 0 && token > lost_token && token > old_token, "{quiet} {token:?} {lost_token:?}");
    for (name, lease) in [(&old, old_lease), (&lost, lost_lease)] {
        let renewed = locks.renew(name, lease, Ttl::from_ms(8_000).unwrap()).await.unwrap();
        assert!(renewed.is_err(), "{name:?} may have been given to somebody else meanwhile");
    }
    assert!(granted(&*locks, &free, LeaseId::from_random([4; 16]), 8_000).await > lost_token);
    store.close().await;
}

/// Where commits waited for the standby nothing is lost, and nobody has to wait for anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_03_on_postgres_grants_that_a_standby_confirmed_outlive_a_promotion() {
    let mut pair = block_in_place(Pair::start);
    let store = Store::open(&pair.url()).await.unwrap();
    let locks = store.locks();
    let [kept, free] = ["kept", "free"].map(|name| Name::new(name).unwrap());
    let lease = LeaseId::from_random([1; 16]);
    let token = granted(&*locks, &kept, lease, 600_000).await;
    block_in_place(|| {
        pair.primary.kill().unwrap();
        pair.promote();
    });
    until("the new primary", async || store.ping().await.is_ok()).await;
    let renewed = locks.renew(&kept, lease, Ttl::from_ms(600_000).unwrap()).await.unwrap();
    assert_eq!(renewed, Ok(token));
    assert!(granted(&*locks, &free, LeaseId::from_random([2; 16]), 15_000).await > token);
    store.close().await;
}
