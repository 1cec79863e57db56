//! Copies of a database in use: of one moment, whole, and put back without losing what was there.

#![cfg(test)]
#![allow(clippy::print_stdout, reason = "what was counted is told to whoever reads the run")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use syncline_core::kv::{Condition, Key};
use syncline_sim::until;
use syncline_store::kv::{Kv, Operation};
use syncline_store::{Error, Store};
use tempfile::TempDir;

struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn url(&self, name: &str) -> String {
        format!("sqlite:{}", self.path(name).display())
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path()).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

async fn value(kv: &dyn Kv, name: &str) -> Option<String> {
    kv.get(&key(name)).await.unwrap().map(|entry| entry.value)
}

const WRITERS: usize = 4;

/// Each writer counts up, and writes each number under two names in one transaction.
async fn count_up(
    kv: Arc<dyn Kv>,
    writer: usize,
    acknowledged: Arc<[AtomicU64; WRITERS]>,
    stop: Arc<AtomicBool>,
) {
    for n in 1_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let put = |name: &str| Operation::Put {
            key: key(&format!("{name}{writer}")),
            value: n.to_string(),
            ttl: None,
            condition: Condition::None,
        };
        kv.apply(vec![put("left"), put("right")]).await.unwrap().unwrap();
        acknowledged[writer].store(n, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_08_a_copy_made_under_load_is_of_one_moment_and_has_everything_acknowledged_before() {
    let rounds = std::env::var("SYNCLINE_ROUNDS").map_or(5, |rounds| rounds.parse().unwrap());
    let home = Home::new();
    let store = Store::open(&home.url("store.db")).await.unwrap();
    let (acknowledged, stop) =
        (Arc::new([const { AtomicU64::new(0) }; WRITERS]), Arc::new(AtomicBool::new(false)));
    let writers = (0..WRITERS).map(|writer| {
        tokio::spawn(count_up(store.kv(), writer, Arc::clone(&acknowledged), Arc::clone(&stop)))
    });
    let writers: Vec<_> = writers.collect();
    for round in 0..rounds {
        let before = acknowledged.each_ref().map(|n| n.load(Ordering::SeqCst));
        until("writers to go on", async || {
            acknowledged.iter().zip(before).all(|(now, before)| now.load(Ordering::SeqCst) > before)
        })
        .await;
        let before = acknowledged.each_ref().map(|n| n.load(Ordering::SeqCst));
        let name = format!("copy{round}.db");
        let copied = Store::back_up(&home.url("store.db"), &home.path(&name)).await.unwrap();
        assert_eq!(copied.bytes, fs::metadata(home.path(&name)).unwrap().len());
        let copy = Store::open(&home.url(&name)).await.unwrap();
        let kv = copy.kv();
        for (writer, before) in before.into_iter().enumerate() {
            let left = value(&*kv, &format!("left{writer}")).await;
            assert_eq!(
                left,
                value(&*kv, &format!("right{writer}")).await,
                "half of a transaction was copied"
            );
            let copied: u64 = left.unwrap().parse().unwrap();
            assert!(copied >= before, "{before} was acknowledged before the copy, which has {copied}");
        }
        copy.close().await;
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    let written: u64 = acknowledged.iter().map(|n| n.load(Ordering::SeqCst)).sum();
    println!("{rounds} copies beside {written} transactions");
    assert!(!home.names().iter().any(|name| name.ends_with(".part")), "{:?}", home.names());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_08_a_restore_waits_for_nobody_and_keeps_what_was_there() {
    let home = Home::new();
    let (url, copy) = (home.url("store.db"), home.path("copy.db"));
    let store = Store::open(&url).await.unwrap();
    store.kv().put(&key("a"), "of the copy", None).await.unwrap();
    Store::back_up(&url, &copy).await.unwrap();
    store.kv().put(&key("a"), "of later", None).await.unwrap();
    let refused = Store::restore(&url, &copy).await.unwrap_err();
    assert!(matches!(&refused, Error::Busy { reason, .. } if reason.contains("stop it")), "{refused:?}");
    assert_eq!(value(&*store.kv(), "a").await.unwrap(), "of later");
    store.close().await;

    let restored = Store::restore(&url, &copy).await.unwrap();
    let former = restored.former.unwrap();
    for (url, expected) in
        [(url.clone(), "of the copy"), (format!("sqlite:{}", former.display()), "of later")]
    {
        let store = Store::open(&url).await.unwrap();
        assert_eq!(value(&*store.kv(), "a").await.unwrap(), expected);
        store.close().await;
    }
    // Where nothing is yet, too, and with a log beside the database that nobody has closed.
    assert_eq!(Store::restore(&home.url("new.db"), &copy).await.unwrap().former, None);
    let store = Store::open(&home.url("new.db")).await.unwrap();
    assert_eq!(value(&*store.kv(), "a").await.unwrap(), "of the copy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_08_what_is_no_whole_copy_is_refused_and_changes_nothing() {
    let home = Home::new();
    let url = home.url("store.db");
    let store = Store::open(&url).await.unwrap();
    for n in 0..500 {
        store.kv().put(&key(&n.to_string()), &"v".repeat(1_000), None).await.unwrap();
    }
    let copy = home.path("copy.db");
    Store::back_up(&url, &copy).await.unwrap();
    let again = Store::back_up(&url, &copy).await.unwrap_err();
    assert!(again.to_string().contains("is there already"), "{again}");
    store.close().await;

    let whole = fs::read(&copy).unwrap();
    let mut spoilt = whole.clone();
    spoilt[40_000..60_000].fill(7);
    let stranger = home.path("stranger.db");
    rusqlite::Connection::open(&stranger).unwrap().execute_batch("CREATE TABLE mine (a)").unwrap();
    let bad: [(&str, Vec<u8>); 4] = [
        ("cut.db", whole[..whole.len() / 2].to_vec()),
        ("spoilt.db", spoilt),
        ("text.db", b"no database at all, whatever its name may be".repeat(100)),
        ("stranger.db", fs::read(&stranger).unwrap()),
    ];
    for (name, bytes) in bad {
        fs::write(home.path(name), bytes).unwrap();
        let refused = Store::restore(&url, &home.path(name)).await.unwrap_err();
        assert!(matches!(refused, Error::Corrupt { .. } | Error::Unprepared { .. }), "{name}: {refused:?}");
    }
    assert!(matches!(Store::restore(&url, Path::new("/nowhere.db")).await, Err(Error::Missing { .. })));
    let kept = |name: &String| name.contains("before-restore") || name.ends_with(".restoring");
    assert!(!home.names().iter().any(kept), "{:?}", home.names());
    let store = Store::open(&url).await.unwrap();
    assert_eq!(value(&*store.kv(), "499").await.unwrap().len(), 1_000);

    for url in ["sqlite::memory:", "postgres://somewhere/else"] {
        let refused = Store::back_up(url, &home.path("other.db")).await.unwrap_err();
        assert!(matches!(refused, Error::Address { .. }), "{refused:?}");
    }
    assert!(matches!(
        Store::back_up(&home.url("none.db"), &home.path("other.db")).await,
        Err(Error::Missing { .. })
    ));
}
