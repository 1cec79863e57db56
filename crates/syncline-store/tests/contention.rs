//! Three processes, one lock, and a resource that knows tokens: whoever is frozen or killed, nothing stale is accepted.
//!
//! Each contender (this very program, told so by an environment variable) acquires the lock and writes to the resource
//! while it believes in its lease; it looks at the clock, works for a moment, and writes without looking again. The parent
//! freezes (SIGSTOP) or kills (SIGKILL) a holder, lets another take over, and wakes the frozen one up. The resource
//! accepts a write unless it has seen a higher token. `SYNCLINE_ROUNDS` sets how often.

#![cfg(test)]

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use syncline_core::lock::{LeaseId, Name, Ttl};
use syncline_store::Store;
use syncline_store::lock::{Acquired, Request};

/// Set in a contender: the store, and where the resource listens.
const STORE: &str = "SYNCLINE_TEST_STORE";
const RESOURCE: &str = "SYNCLINE_TEST_RESOURCE";
const ROUNDS_DEFAULT: u64 = 24;
/// After so many stops somebody must have been late, or the test does not test what it says.
const LATE_BY_STOPS: u64 = 100;
const CONTENDERS: usize = 3;
/// Far longer than anything here takes; reaching it is a failure, not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than a lease and everything that follows its end.
const STUCK_AFTER: Duration = Duration::from_secs(8);

/// What the resource has seen, by process.
#[derive(Debug, Default)]
struct Seen {
    highest: u64,
    /// The process that wrote last with the highest token.
    holder: u32,
    accepted: u64,
    refused: u64,
    grants: u64,
    /// Accepted although a higher token had been seen. Counted apart from the check that prevents it.
    stale: u64,
}

type Resource = Arc<(Mutex<Seen>, Condvar)>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lk_20_three_processes_frozen_and_killed_no_stale_write_is_accepted_on_sqlite() {
    if let Ok(url) = env::var(STORE) {
        return contend(&url).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("store.db").display());
    Store::open(&url).await.unwrap().close().await;
    tokio::task::block_in_place(|| {
        torment(&url, "lk_20_three_processes_frozen_and_killed_no_stale_write_is_accepted_on_sqlite");
    });
}

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn lk_20_three_processes_frozen_and_killed_no_stale_write_is_accepted() {
        if let Ok(url) = env::var(STORE) {
            return contend(&url).await;
        }
        let database = tokio::task::block_in_place(syncline_sim::postgres::database);
        Store::open(&database.url).await.unwrap().close().await;
        tokio::task::block_in_place(|| {
            torment(
                &database.url,
                "postgres::lk_20_three_processes_frozen_and_killed_no_stale_write_is_accepted",
            );
        });
    }
}

/// The parent: freezes and kills holders, round after round.
fn torment(url: &str, test: &str) {
    let rounds = env::var("SYNCLINE_ROUNDS").map_or(ROUNDS_DEFAULT, |rounds| rounds.parse().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let resource = Resource::default();
    thread::spawn({
        let resource = Arc::clone(&resource);
        move || {
            for stream in listener.incoming() {
                let resource = Arc::clone(&resource);
                thread::spawn(move || serve(stream.unwrap(), &resource));
            }
        }
    });
    let start = || Contender::start(test, url, &address);
    let mut contenders: Vec<Contender> = (0..CONTENDERS).map(|_| start()).collect();
    let (mut stops, mut kills, mut stuck, mut worst) = (0, 0, 0, Duration::ZERO);
    for _ in 0..rounds {
        // The lock changes hands in peace for a while.
        thread::sleep(Duration::from_millis(rand::random_range(0..100)));
        let before =
            wait_for(&resource, "a holder writes", |seen| contenders.iter().any(|c| c.pid() == seen.holder));
        let at = contenders.iter().position(|contender| contender.pid() == before.0).unwrap();
        // In the middle of whatever it does.
        thread::sleep(Duration::from_micros(rand::random_range(0..5_000)));
        let kill = rand::random_bool(0.5);
        contenders[at].signal(if kill { Signal::KILL } else { Signal::STOP });
        let since = Instant::now();
        let token = resource.0.lock().unwrap().highest;
        let taken_over = |seen: &Seen| seen.highest > token && seen.holder != before.0;
        if kill {
            kills += 1;
            wait_for(&resource, "another takes over", taken_over);
            worst = worst.max(since.elapsed());
            contenders[at] = start();
            continue;
        }
        stops += 1;
        if comes_true(&resource, STUCK_AFTER, taken_over) {
            worst = worst.max(since.elapsed());
            contenders[at].signal(Signal::CONT);
        } else {
            // Frozen in the middle of a transaction on the file, which then nobody can change until it goes on.
            stuck += 1;
            contenders[at].signal(Signal::CONT);
            wait_for(&resource, "another takes over", taken_over);
        }
    }
    drop(contenders);
    let seen = resource.0.lock().unwrap();
    println!(
        "rounds={rounds} grants={} stops={stops} kills={kills} frozen_in_a_transaction={stuck} accepted={} stale_refused={} stale_accepted={} worst_takeover_ms={}",
        seen.grants,
        seen.accepted,
        seen.refused,
        seen.stale,
        worst.as_millis()
    );
    assert_eq!(seen.stale, 0);
    assert!(seen.grants >= rounds && seen.accepted >= rounds, "the run must have done something: {seen:?}");
    // A write comes late where the freeze fell between the look at the clock and the write: one stop in seven or so.
    assert!(stops < LATE_BY_STOPS || seen.refused > 0, "nobody was ever late: {seen:?}");
}

/// One connection to the resource: lines of `pid token.`, each answered with `ok` or `stale`.
fn serve(stream: TcpStream, resource: &Resource) {
    let mut answers = stream.try_clone().unwrap();
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        // Killed in the middle of a line.
        let Some((pid, token)) = line.strip_suffix('.').and_then(|line| line.split_once(' ')) else { return };
        let (pid, token): (u32, u64) = (pid.parse().unwrap(), token.parse().unwrap());
        let mut seen = resource.0.lock().unwrap();
        let before = seen.highest;
        let accepted = token >= seen.highest;
        if accepted {
            seen.grants += u64::from(token > before);
            seen.stale += u64::from(token < before || (token == before && pid != seen.holder && before > 0));
            (seen.highest, seen.holder, seen.accepted) = (token, pid, seen.accepted + 1);
        } else {
            seen.refused += 1;
        }
        drop(seen);
        resource.1.notify_all();
        if answers.write_all(if accepted { b"ok\n" } else { b"stale\n" }).is_err() {
            return;
        }
    }
}

/// Whether something becomes true of the resource within `patience`.
fn comes_true(resource: &Resource, patience: Duration, holds: impl Fn(&Seen) -> bool) -> bool {
    let deadline = Instant::now() + patience;
    let mut seen = resource.0.lock().unwrap();
    while !holds(&seen) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        seen = resource.1.wait_timeout(seen, left).unwrap().0;
    }
    true
}

/// Waits for something to be true of the resource, and says who holds it and with which token.
fn wait_for(resource: &Resource, what: &str, holds: impl Fn(&Seen) -> bool) -> (u32, u64) {
    assert!(comes_true(resource, PATIENCE, holds), "still not: {what}, {:?}", resource.0.lock().unwrap());
    let seen = resource.0.lock().unwrap();
    (seen.holder, seen.highest)
}

struct Contender(Child);

impl Contender {
    fn start(test: &str, url: &str, resource: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture", "--quiet"]).env(STORE, url).env(RESOURCE, resource);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn signal(&mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
        if signal == Signal::KILL {
            self.0.wait().unwrap();
        }
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A contender: asks, writes while its lease is certain, gives back, and so on until it is killed.
async fn contend(url: &str) {
    // One that is frozen in the middle of a write keeps the file from being opened, too.
    let store = loop {
        match Store::open(url).await {
            Ok(store) => break store,
            Err(error) => assert!(error.retryable(), "{error}"),
        }
    };
    let locks = store.locks();
    let name = Name::new("project").unwrap();
    let mut stream = TcpStream::connect(env::var(RESOURCE).unwrap()).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let me = format!("process {}", std::process::id());
    loop {
        let lease = LeaseId::from_random(rand::random());
        let request = Request { name: &name, lease, holder: &me, ttl: Ttl::MIN, waits: true };
        let mut watch = locks.watch(&name);
        let token = loop {
            match locks.acquire(request).await {
                Ok(Acquired::Granted { token }) => break token,
                Ok(Acquired::Held(held)) => watch.freed(held.left).await,
                Ok(Acquired::Quiet { left }) => watch.freed(left).await,
                Err(error) => assert!(error.retryable(), "{error}"),
            }
        };
        let hold = Duration::from_millis(rand::random_range(5..150));
        let asked = Instant::now();
        while asked.elapsed() < hold {
            // The clock was looked at before this work and not after it: a freeze in here makes the write late.
            tokio::time::sleep(Duration::from_millis(3)).await;
            writeln!(stream, "{} {}.", std::process::id(), token.number()).unwrap();
            let mut answer = String::new();
            answers.read_line(&mut answer).unwrap();
            if answer != "ok\n" {
                break;
            }
        }
        // Late or not: what is not ours any more is not changed by this.
        if let Err(error) = locks.release(&name, lease).await {
            assert!(error.retryable(), "{error}");
        }
    }
}
