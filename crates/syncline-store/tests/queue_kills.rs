//! A queue survives the death of its workers: no key is lost, and none runs again after its result was stored.
//!
//! Child processes (this very program, told so by an environment variable) enqueue and work off the same thousand keys
//! and say on standard output what they begin and what was acknowledged; the parent kills each with SIGKILL in the middle.
//! `SYNCLINE_KILLS` sets how often. This covers the death of the process, not of the machine.

#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use syncline_core::queue::{Answer, GroupSettings, Kind, Place, Settings};
use syncline_sim::postgres;
use syncline_store::Store;
use syncline_store::queue::{NewTask, Rules};

/// Set in the child: the store to work on.
const WORK_ON: &str = "SYNCLINE_TEST_WORK_ON";
const QUEUE: &str = "words";
const KILLS_DEFAULT: usize = 10;
const KEYS_DEFAULT: usize = 1_000;
/// Groups, where keys are in any.
const GROUPS: usize = 23;
/// Keys of one claim, and of one enqueue.
const BATCH: usize = 16;

mod sqlite {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn qu_20_no_key_is_lost_or_done_twice_when_workers_are_killed() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        super::kill_and_check(&url, "sqlite::qu_20_no_key_is_lost_or_done_twice_when_workers_are_killed")
            .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn qu_32_no_key_of_any_group_is_lost_or_done_twice_when_workers_are_killed() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        let test = "sqlite::qu_32_no_key_of_any_group_is_lost_or_done_twice_when_workers_are_killed";
        super::kill_and_check(&url, test).await;
    }
}

mod postgres_server {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn qu_20_no_key_is_lost_or_done_twice_when_workers_are_killed() {
        let test = "postgres_server::qu_20_no_key_is_lost_or_done_twice_when_workers_are_killed";
        if std::env::var(super::WORK_ON).is_ok() {
            return super::kill_and_check("", test).await;
        }
        let database = tokio::task::spawn_blocking(super::postgres::database).await.unwrap();
        super::kill_and_check(&database.url, test).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn qu_32_no_key_of_any_group_is_lost_or_done_twice_when_workers_are_killed() {
        let test = "postgres_server::qu_32_no_key_of_any_group_is_lost_or_done_twice_when_workers_are_killed";
        if std::env::var(super::WORK_ON).is_ok() {
            return super::kill_and_check("", test).await;
        }
        let database = tokio::task::spawn_blocking(super::postgres::database).await.unwrap();
        super::kill_and_check(&database.url, test).await;
    }
}

async fn kill_and_check(url: &str, test: &str) {
    if let Ok(url) = env::var(WORK_ON) {
        return work_until_done(&url, test).await;
    }
    let kills = number("SYNCLINE_KILLS", KILLS_DEFAULT);
    let total = total(kills);
    let mut ledger = Ledger::default();
    for round in 0..kills {
        // The blow falls when so many more are stored: too few for the last child to have nothing left.
        let results = total / (2 * kills) + rand::random_range(0..BATCH * 2);
        assert!(child(url, test, &mut ledger, Some(results)), "the child of round {round} ended by itself");
    }
    assert!(!child(url, test, &mut ledger, None), "the last one is let finish");

    let store = Store::open(url).await.unwrap();
    let (queues, rules) = (store.queues(), rules(test));
    let counts = queues.status(QUEUE, &rules).await.unwrap().counts;
    let mut lost = 0;
    for n in 0..total {
        let key = format!("word {n}");
        match queues.entry(QUEUE, &key).await.unwrap().map(|entry| entry.place) {
            Some(Place::Done(result)) => {
                if let Some(said) = ledger.stored.get(&key) {
                    assert_eq!(&result, said, "{key} was done again after its result was stored");
                }
            }
            other => {
                println!("{key}: {other:?}");
                lost += 1;
            }
        }
    }
    let (begun, stored, repeated) = (ledger.begun, ledger.stored.len(), ledger.repeated.len());
    println!(
        "kills={kills} keys={total} begun={begun} acknowledged={stored} lost={lost} repeated={repeated}"
    );
    assert_eq!((lost, repeated), (0, 0), "{:?}", ledger.repeated);
    assert_eq!((counts.done, counts.left(), counts.dead), (total, 0, 0));
}

/// What the children said.
#[derive(Default)]
struct Ledger {
    begun: usize,
    /// Each key's acknowledged result.
    stored: BTreeMap<String, String>,
    /// Keys that began after their result was acknowledged.
    repeated: BTreeSet<String>,
}

/// Runs a worker until `results` more are acknowledged and kills it then; tells whether it came to that.
fn child(url: &str, test: &str, ledger: &mut Ledger, results: Option<usize>) -> bool {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--quiet"]).env(WORK_ON, url);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut output, mut line) = (BufReader::new(child.stdout.take().unwrap()), String::new());
    let (mut more, mut killed) = (0, false);
    // What was cut short was not said.
    while output.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
        let words: Vec<&str> = line.trim_end().splitn(3, '|').collect();
        match words[..] {
            ["begin", key] => {
                ledger.begun += 1;
                if ledger.stored.contains_key(key) {
                    ledger.repeated.insert(key.to_owned());
                }
            }
            ["stored", key, result] => {
                ledger.stored.insert(key.to_owned(), result.to_owned());
                more += 1;
            }
            // The test harness speaks too.
            _ => {}
        }
        if results.is_some_and(|results| more >= results) && !killed {
            child.kill().unwrap();
            killed = true;
        }
        line.clear();
    }
    let status = child.wait().unwrap();
    assert!(killed || status.success(), "the child failed by itself");
    killed
}

/// The child: enqueues every key, a few at a time, while it works them off; ends when all are done.
async fn work_until_done(url: &str, test: &str) {
    let total = total(number("SYNCLINE_KILLS", KILLS_DEFAULT));
    let (store, rules) = (Store::open(url).await.unwrap(), rules(test));
    let queues = store.queues();
    let enqueuing = tokio::spawn({
        let queues = store.queues();
        async move {
            let group = |n| rules.groups.map(|_| format!("group {}", n % GROUPS));
            let task = |n| NewTask { group: group(n), ..NewTask::from(format!("word {n}")) };
            let tasks: Vec<NewTask> = (0..total).map(task).collect();
            for (n, some) in tasks.chunks(BATCH).enumerate() {
                let kind = if n % 2 == 0 { Kind::New } else { Kind::Priority };
                queues.enqueue_tasks(QUEUE, &rules, kind, some.to_vec()).await.unwrap();
            }
        }
    });
    let mut changes = queues.changes(QUEUE).unwrap();
    loop {
        let claimed = queues.claim(QUEUE, &rules, BATCH).await.unwrap();
        let mut answers = Vec::new();
        for run in &claimed.runs {
            println!("begin|{}", run.key);
            answers.push((run.call, Answer::Done(format!("{} {}", std::process::id(), run.call))));
        }
        for ended in queues.settle(QUEUE, &rules, answers).await.unwrap() {
            println!("stored|{}|{} {}", ended.key, std::process::id(), ended.call);
        }
        if !claimed.runs.is_empty() {
            continue;
        }
        if enqueuing.is_finished() && queues.status(QUEUE, &rules).await.unwrap().counts.left() == 0 {
            return;
        }
        let look_at =
            claimed.look_at.unwrap_or_else(|| std::time::Instant::now() + Duration::from_millis(50));
        tokio::select! {
            () = tokio::time::sleep_until(look_at.into()) => {}
            _ = changes.changed() => {}
        }
    }
}

/// Calls count as lost soon, and leave slots enough to go on meanwhile.
fn rules(test: &str) -> Rules {
    let mut settings = Settings::new(1_000, Duration::ZERO, Duration::from_millis(1));
    settings.call_timeout = Duration::from_millis(500);
    settings.retry.max_attempts = 1_000;
    settings.retry.max_delay = Duration::from_millis(10);
    settings.breaker_threshold = u32::MAX;
    let groups = GroupSettings { concurrency: 10, interval: Duration::ZERO };
    Rules { groups: test.contains("qu_32").then_some(groups), ..Rules::from(settings) }
}

/// Enough keys for each of the children to be killed in the middle.
fn total(kills: usize) -> usize {
    KEYS_DEFAULT.max(kills * 100)
}

fn number(variable: &str, default: usize) -> usize {
    env::var(variable).map_or(default, |number| number.parse().unwrap())
}
