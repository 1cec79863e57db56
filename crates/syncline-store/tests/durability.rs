//! An acknowledged write survives the death of the process that made it.
//!
//! A child process (this very program, told so by an environment variable) writes as fast as it can and says on
//! standard output what was acknowledged; the parent kills it with SIGKILL at a random moment, opens the store
//! and looks for all of it. `SYNCLINE_KILLS` sets how often; zero losses in N kills bound the rate of loss below
//! about 3/N. This covers the death of the process, not of the machine.

#![cfg(test)]

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use syncline_core::kv::Key;
use syncline_core::lock::Name;
use syncline_core::schedule::{Bucket, Cost, Reason};
use syncline_core::state::{Change, Entry, Kept, Space, Stamp};
use syncline_core::time::Timestamp;
use syncline_store::schedule::{Claim, Ending, Filter, HISTORY_MAX, Intent, Outcome, Run, State};
use syncline_store::state::{Asked, Batch, Pushed};
use syncline_store::{Error, Store};

/// Set in the child: the store to write to.
const WRITE_TO: &str = "SYNCLINE_TEST_WRITE_TO";
/// Set in the child: a number no other child has.
const ROUND: &str = "SYNCLINE_TEST_ROUND";
const KILLS_DEFAULT: u64 = 30;
const WRITERS: u64 = 8;
/// Buckets are minutes; no child claims this many.
const BUCKETS_PER_ROUND: u64 = 1_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_write_is_lost_when_the_process_is_killed() {
    if let Ok(url) = env::var(WRITE_TO) {
        return write_until_killed(&url).await;
    }
    let kills = env::var("SYNCLINE_KILLS").map_or(KILLS_DEFAULT, |kills| kills.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("store.db").display());
    let (mut put, mut won, mut done, mut shared) = (0, BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for round in 0..kills {
        let said = kill_a_writer(&url, round);
        let store = Store::open(&url).await.unwrap();
        for line in said.lines() {
            match line.split_once(' ').unwrap() {
                ("put", key) => {
                    let found = store.kv().get(&Key::new(key).unwrap()).await.unwrap();
                    assert_eq!(found.map(|entry| entry.value).as_deref(), Some(key), "lost in round {round}");
                    put += 1;
                }
                ("won", run) => assert!(won.insert(run.parse::<i64>().unwrap()), "run {run} won twice"),
                ("done", run) => assert!(done.insert(run.parse::<i64>().unwrap())),
                ("shared", id) => assert!(shared.insert(id.to_owned())),
                other => panic!("{other:?}"),
            }
        }
        store.close().await;
    }
    let store = Store::open(&url).await.unwrap();
    let history = whole_history(&store).await;
    let recorded: BTreeSet<i64> = history.iter().map(|run| run.id.0).collect();
    let ended = history.iter().filter(|run| run.state == State::Done).map(|run| run.id.0).collect();
    println!(
        "kills={kills} puts={put} claims={} finishes={} shared={} lost=0",
        won.len(),
        done.len(),
        shared.len()
    );
    let kept = everything_shared(&store).await;
    assert!(shared.is_subset(&kept), "lost from a space: {:?}", shared.difference(&kept));
    assert!(put >= kills && won.len() as u64 >= kills, "every child got something done before it was killed");
    assert!(won.is_subset(&recorded), "lost claims: {:?}", won.difference(&recorded));
    assert!(done.is_subset(&ended), "lost finishes: {:?}", done.difference(&ended));

    // A claim is one transaction: a record, its lock and its count, or none of them.
    let totals = store.schedule().totals(None).await.unwrap();
    assert_eq!(totals.runs_total(), history.len() as u64);
    assert_eq!(totals.spent, Cost::DEFAULT.times(history.len() as u64));
    for run in &history {
        let lock = Name::new(format!("genlock:{}:render", run.bucket.as_ref().unwrap())).unwrap();
        assert!(store.locks().look(&lock).await.unwrap().is_some(), "run without its lock: {run:?}");
    }
}

/// The child: several tasks that write and report, until the process is no more.
async fn write_until_killed(url: &str) {
    let round: u64 = env::var(ROUND).unwrap().parse().unwrap();
    let store = Store::open(url).await.unwrap();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for n in 0.. {
                    let key = format!("k:{round}:{writer}:{n}");
                    store.kv().put(&Key::new(key.as_str()).unwrap(), &key, None).await.unwrap();
                    println!("put {key}");
                    run_once(&store, round * BUCKETS_PER_ROUND + n * WRITERS + writer).await;
                }
            })
        })
        .collect();
    share_until_killed(&store, round).await;
    for writer in writers {
        writer.await.unwrap();
    }
}

/// One device that sends an entity after the other.
async fn share_until_killed(store: &Store, round: u64) {
    let (states, space) = (store.states(), Space::new("list").unwrap());
    let mut epoch = states.pull(&space, &Asked::default()).await.unwrap().epoch;
    for n in 0.. {
        let entry = Entry { stamp: Stamp::ZERO.after(Timestamp::from_ms(n)), live: true };
        let id = format!("{round}:{n}");
        let change = Change::Entity { id: id.clone(), kept: Kept { entry, stored: None } };
        let batch = Batch { after: 0, epoch: epoch.clone(), changes: vec![change] };
        // The first push makes the space, which has an epoch of its own from then on.
        let Pushed::Taken { epoch: given, .. } = states.push(&space, batch).await.unwrap() else {
            panic!("{id} was not taken");
        };
        epoch = given;
        println!("shared {id}");
    }
}

/// The ids in the space.
async fn everything_shared(store: &Store) -> BTreeSet<String> {
    let (states, space) = (store.states(), Space::new("list").unwrap());
    let (mut asked, mut ids) = (Asked::default(), BTreeSet::new());
    loop {
        let page = states.pull(&space, &asked).await.unwrap();
        ids.extend(page.changes.iter().map(|change| change.id().to_owned()));
        if !page.more {
            return ids;
        }
        asked = Asked { after: page.cursor, epoch: Some(page.epoch), paging: true };
    }
}

async fn run_once(store: &Store, minute: u64) {
    let intent = Intent { job: "render", node: "a", reason: Reason::Watched, cost: Cost::DEFAULT };
    let bucket = Bucket::minute(Timestamp::from_ms(minute * 60_000));
    let day = Duration::from_secs(86_400);
    let claim = store.schedule().claim(&intent, bucket, day).await.unwrap();
    let Claim::Won { run_id } = claim else { panic!("{bucket} is taken") };
    println!("won {}", run_id.0);
    let outcome = Outcome { ending: Ending::Done, attempts: 1, detail: String::new(), cost: Cost::DEFAULT };
    store.schedule().finish(run_id, &outcome).await.unwrap().unwrap();
    println!("done {}", run_id.0);
}

fn child(test: &str, url: &str, round: u64) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--quiet"]);
    command.env(WRITE_TO, url).env(ROUND, round.to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Starts a writer, kills it some time after its first acknowledgement, and returns what it acknowledged.
fn kill_a_writer(url: &str, round: u64) -> String {
    let mut child: Child =
        child("no_acknowledged_write_is_lost_when_the_process_is_killed", url, round).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut said = String::new();
    while !said.contains("done ") || !said.contains("shared ") {
        assert!(output.read_line(&mut said).unwrap() > 0, "the child ended by itself: {said}");
    }
    let reader = thread::spawn(move || {
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        rest
    });
    thread::sleep(Duration::from_micros(rand::random_range(0..40_000)));
    child.kill().unwrap();
    child.wait().unwrap();
    said += &reader.join().unwrap();
    // The test harness of the child speaks too, and what was cut short was not said.
    let whole_lines = said.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole_lines
        .filter(|line| ["put ", "won ", "done ", "shared "].iter().any(|word| line.starts_with(word)))
        .collect()
}

async fn whole_history(store: &Store) -> Vec<Run> {
    let mut history: Vec<Run> = Vec::new();
    loop {
        let last = history.last().map(|run| run.id);
        let page = store.schedule().history(Filter::default(), last, HISTORY_MAX).await.unwrap();
        if page.is_empty() {
            return history;
        }
        history.extend(page);
    }
}

/// The disk refuses a write in the middle of a commit: here because the process may write files of 512 KiB only.
#[tokio::test]
async fn after_a_failed_disk_write_nothing_more_is_taken_and_nothing_acknowledged_is_lost() {
    if let Ok(url) = env::var(WRITE_TO) {
        return write_until_refused(&url).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("store.db").display());
    let name = "after_a_failed_disk_write_nothing_more_is_taken_and_nothing_acknowledged_is_lost";
    let limited = Command::new("sh")
        .args(["-c", r#"trap "" XFSZ; ulimit -f 1024; exec "$@""#, "limited"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--quiet"])
        .env(WRITE_TO, &url)
        .output()
        .unwrap();
    let said = String::from_utf8(limited.stdout).unwrap();
    assert!(limited.status.success(), "{said}\n{}", String::from_utf8_lossy(&limited.stderr));
    let acknowledged: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("put ")).collect();
    assert!(acknowledged.len() > 10 && said.contains("halted"), "{said}");

    let store = Store::open(&url).await.unwrap();
    for key in acknowledged {
        assert!(store.kv().get(&Key::new(key).unwrap()).await.unwrap().is_some(), "lost {key}");
    }
    store.kv().put(&Key::new("again").unwrap(), "v", None).await.unwrap();
}

async fn write_until_refused(url: &str) {
    let store = Store::open(url).await.unwrap();
    let kv = store.kv();
    let value = "v".repeat(1_000);
    for n in 0..1_000 {
        let key = format!("k:{n}");
        match kv.put(&Key::new(key.as_str()).unwrap(), &value, None).await {
            Ok(_) => println!("put {key}"),
            Err(failed) => {
                assert!(matches!(failed, Error::Disk { .. }), "{failed:?}");
                break;
            }
        }
    }
    // A small one would fit, but who knows what the disk made of the last one.
    let refused = kv.put(&Key::new("small").unwrap(), "v", None).await.unwrap_err();
    assert!(matches!(refused, Error::Disk { .. }), "{refused:?}");
    assert_eq!(store.ping().await.unwrap_err(), refused);
    assert_eq!(store.try_write().await.unwrap_err(), refused);
    assert!(!refused.retryable() && refused.hint().is_some());
    assert!(kv.get(&Key::new("k:0").unwrap()).await.unwrap().is_some(), "reading goes on");
    println!("halted");
}
