//! What goes on meanwhile: every port in use, and a ledger of what was acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use syncline_core::kv::Key;
use syncline_core::outbox::Verdict;
use syncline_core::queue::{Answer, Kind, Place, Settings};
use syncline_core::state::{Change, Entry, Kept, Space, Stamp, Stored, Value};
use syncline_core::time::Timestamp;
use syncline_sim::until;
use syncline_store::queue::Rules;
use syncline_store::state::{Asked, Batch, Pushed, States};
use syncline_store::{Error, Store, outbox};
use tokio::task::JoinSet;

use crate::hold::Holders;

const QUEUE: &str = "words";
/// A failed call is followed by this.
const PAUSE: Duration = Duration::from_millis(50);
/// Acknowledged writes are this far apart, so that a round is about failing over and not about throughput.
const PACE: Duration = Duration::from_millis(10);

/// Everything that is going on.
pub(crate) struct Load {
    ledger: Arc<Ledger>,
    tasks: JoinSet<()>,
}

/// What was acknowledged.
#[derive(Default)]
struct Ledger {
    stop: AtomicBool,
    writes: AtomicU64,
    pauses: Mutex<Pauses>,
    keys: Mutex<Vec<Key>>,
    queued: Mutex<BTreeSet<String>>,
    /// The result that was acknowledged, by key.
    results: Mutex<BTreeMap<String, String>>,
    outbox: Mutex<BTreeSet<i64>>,
    entities: Mutex<BTreeSet<String>>,
    holders: Holders,
}

/// When something was acknowledged last, and the longest time without.
#[derive(Default)]
struct Pauses {
    last: Option<Instant>,
    longest: Duration,
}

impl Load {
    pub(crate) fn start(store: &Store) -> Load {
        let ledger = Arc::new(Ledger::default());
        let mut tasks = JoinSet::new();
        for writer in 0..4 {
            tasks.spawn(write_keys(store.clone(), Arc::clone(&ledger), writer));
        }
        for holder in ["ann", "ben", "cem"] {
            let (locks, ledger) = (store.locks(), Arc::clone(&ledger));
            tasks.spawn(async move {
                while !ledger.stopped() {
                    let held = ledger.holders.hold_once(&*locks, holder).await;
                    ledger.note(held).await;
                }
            });
        }
        tasks.spawn(enqueue_words(store.clone(), Arc::clone(&ledger)));
        for _ in 0..2 {
            tasks.spawn(work_off_words(store.clone(), Arc::clone(&ledger)));
        }
        tasks.spawn(enqueue_entries(store.clone(), Arc::clone(&ledger)));
        tasks.spawn(settle_entries(store.clone(), Arc::clone(&ledger)));
        tasks.spawn(push_entities(store.clone(), Arc::clone(&ledger)));
        Load { ledger, tasks }
    }

    /// Waits for so many acknowledged writes more.
    pub(crate) async fn more(&self, many: u64) {
        let wanted = self.ledger.writes.load(Ordering::Relaxed) + many;
        until("more writes", async || self.ledger.writes.load(Ordering::Relaxed) >= wanted).await;
    }

    /// The longest time without an acknowledged write since this was asked last.
    pub(crate) fn longest_pause(&self) -> Duration {
        let mut pauses = held(&self.ledger.pauses);
        std::mem::take(&mut pauses.longest)
    }

    /// Lets everything come to an end and compares what is there with what was acknowledged.
    pub(crate) async fn finish(mut self, store: &Store) -> Report {
        self.ledger.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        let ledger = &self.ledger;
        let keys = held(&ledger.keys).clone();
        for key in &keys {
            assert!(store.kv().get(key).await.unwrap().is_some(), "{key:?} was acknowledged and is lost");
        }
        let entities = held(&ledger.entities).clone();
        let there = entities_of(&*store.states()).await.unwrap();
        let lost: Vec<&String> = entities.difference(&there).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        let (queued, results) = (held(&ledger.queued).clone(), held(&ledger.results).clone());
        drain(store, &queued).await;
        for key in &queued {
            let place = store.queues().entry(QUEUE, key).await.unwrap().map(|entry| entry.place);
            let Some(Place::Done(result)) = place else { panic!("{key} was acknowledged and is {place:?}") };
            if let Some(said) = results.get(key) {
                assert_eq!(&result, said, "{key} was done again after its result was stored");
            }
        }
        let entries = held(&ledger.outbox).clone();
        for &id in &entries {
            assert!(
                store.outbox().entry(id).await.unwrap().is_some(),
                "entry {id} was acknowledged and is lost"
            );
        }
        let (grants, entities) = (ledger.holders.grants(), entities.len());
        Report { keys: keys.len(), grants, queued: queued.len(), entries: entries.len(), entities }
    }
}

/// How much was acknowledged, all of it there in the end.
pub(crate) struct Report {
    keys: usize,
    grants: u64,
    queued: usize,
    entries: usize,
    entities: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { keys, grants, queued, entries, entities } = self;
        write!(
            f,
            "kv={keys} grants={grants} queued={queued} outbox={entries} state={entities}, nothing lost or doubled"
        )
    }
}

impl Ledger {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Counts a write that was acknowledged; rests after one that was not.
    async fn note(&self, acknowledged: bool) {
        if !acknowledged {
            return tokio::time::sleep(PAUSE).await;
        }
        self.writes.fetch_add(1, Ordering::Relaxed);
        {
            let mut pauses = held(&self.pauses);
            let pause = pauses.last.replace(Instant::now()).map_or(Duration::ZERO, |last| last.elapsed());
            pauses.longest = pauses.longest.max(pause);
        }
        tokio::time::sleep(PACE).await;
    }
}

async fn write_keys(store: Store, ledger: Arc<Ledger>, writer: usize) {
    for n in 0.. {
        if ledger.stopped() {
            return;
        }
        let key = Key::new(format!("key-{writer}-{n}")).unwrap();
        let written = store.kv().put(&key, "1", None).await.is_ok();
        if written {
            held(&ledger.keys).push(key);
        }
        ledger.note(written).await;
    }
}

async fn enqueue_words(store: Store, ledger: Arc<Ledger>) {
    for n in 0.. {
        if ledger.stopped() {
            return;
        }
        let words: Vec<String> = (0..4).map(|m| format!("word {n} {m}")).collect();
        let enqueued = store.queues().enqueue(QUEUE, &rules(), Kind::New, &words).await.is_ok();
        if enqueued {
            held(&ledger.queued).extend(words);
        }
        ledger.note(enqueued).await;
    }
}

async fn work_off_words(store: Store, ledger: Arc<Ledger>) {
    while !ledger.stopped() {
        let worked = work_once(&store, &ledger).await.is_ok_and(|worked| worked > 0);
        ledger.note(worked).await;
    }
}

/// Claims some keys and settles them; how many.
async fn work_once(store: &Store, ledger: &Ledger) -> Result<usize, Error> {
    let claimed = store.queues().claim(QUEUE, &rules(), 8).await?;
    let answers: Vec<_> = claimed
        .runs
        .iter()
        .map(|run| {
            let said = held(&ledger.results).get(&run.key).cloned();
            assert_eq!(said, None, "{} runs again although its result was stored", run.key);
            (run.call, Answer::Done(run.call.to_string()))
        })
        .collect();
    let ended = store.queues().settle(QUEUE, &rules(), answers).await?;
    let mut results = held(&ledger.results);
    results.extend(ended.iter().map(|ended| (ended.key.clone(), ended.call.to_string())));
    Ok(ended.len())
}

/// Until every key has its result.
async fn drain(store: &Store, queued: &BTreeSet<String>) {
    let ledger = Ledger::default();
    until("the queue to be empty", async || {
        let _ = work_once(store, &ledger).await;
        store.queues().status(QUEUE, &rules()).await.is_ok_and(|status| status.counts.left() == 0)
    })
    .await;
    assert!(!queued.is_empty());
}

async fn enqueue_entries(store: Store, ledger: Arc<Ledger>) {
    for n in 0.. {
        if ledger.stopped() {
            return;
        }
        let entry = outbox::NewEntry {
            entity_type: "order".to_owned(),
            entity_id: format!("order-{n}"),
            payload: "{}".to_owned(),
        };
        let enqueued = store.outbox().enqueue(&[entry]).await;
        let acknowledged = enqueued.is_ok();
        held(&ledger.outbox).extend(enqueued.unwrap_or_default());
        ledger.note(acknowledged).await;
    }
}

async fn settle_entries(store: Store, ledger: Arc<Ledger>) {
    while !ledger.stopped() {
        let settled = async {
            let port = store.outbox();
            let claimed = port.claim("worker", outbox::Kind::Change, 50, Duration::from_secs(5)).await?;
            let verdicts: Vec<_> = claimed.entries.iter().map(|entry| (entry.id, Verdict::Done)).collect();
            port.settle(claimed.claim, &verdicts).await
        };
        let settled = settled.await.is_ok_and(|settled| !settled.is_empty());
        ledger.note(settled).await;
    }
}

async fn push_entities(store: Store, ledger: Arc<Ledger>) {
    let states = store.states();
    for n in 0_u64.. {
        if ledger.stopped() {
            return;
        }
        let id = format!("entity-{n}");
        let pushed = push(&*states, &id, n).await.unwrap_or(false);
        if pushed {
            held(&ledger.entities).insert(id);
        }
        ledger.note(pushed).await;
    }
}

async fn push(states: &dyn States, id: &str, n: u64) -> Result<bool, Error> {
    let asked = up_to_date(states).await?.0;
    let now_ms = u64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    let stamp = Stamp::ZERO.after(Timestamp::from_ms(now_ms + n % 2));
    let stored =
        Stored { value: Value::read("{\"n\":1}").unwrap(), stamp: Some(stamp), added: None, version: 1 };
    let kept = Kept { entry: Entry { stamp, live: true }, stored: Some(stored) };
    let changes = vec![Change::Entity { id: id.to_owned(), kept }];
    let batch = Batch { after: asked.after, epoch: asked.epoch.unwrap_or_default(), changes };
    Ok(matches!(states.push(&space(), batch).await?, Pushed::Taken { .. }))
}

async fn entities_of(states: &dyn States) -> Result<BTreeSet<String>, Error> {
    Ok(up_to_date(states).await?.1)
}

/// Where the log is, and every entity on the way there.
async fn up_to_date(states: &dyn States) -> Result<(Asked, BTreeSet<String>), Error> {
    let (mut asked, mut seen) = (Asked::default(), BTreeSet::new());
    loop {
        let page = states.pull(&space(), &asked).await?;
        seen.extend(page.changes.into_iter().filter_map(|change| match change {
            Change::Entity { id, .. } => Some(id),
            _ => None,
        }));
        asked = Asked { after: page.cursor, epoch: Some(page.epoch), paging: page.more };
        if !page.more {
            return Ok((asked, seen));
        }
    }
}

fn space() -> Space {
    Space::new("list").unwrap()
}

/// Calls count as lost soon, and leave slots enough to go on meanwhile.
fn rules() -> Rules {
    let mut settings = Settings::new(1_000, Duration::ZERO, Duration::from_millis(1));
    settings.call_timeout = Duration::from_secs(2);
    settings.retry.max_attempts = 1_000;
    settings.retry.max_delay = Duration::from_millis(10);
    settings.breaker_threshold = u32::MAX;
    Rules::from(settings)
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
