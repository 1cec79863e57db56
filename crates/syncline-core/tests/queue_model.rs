//! The queue against the plainest thing that does the same: arrays that are searched from end to end.
//!
//! Both are driven through the same random operations and must agree after each one. Between operations the queue
//! is also thrown away and made again from the rows that its changes left behind.

use std::collections::BTreeMap;
use std::hash::RandomState;

use proptest::collection::vec;
use proptest::prelude::*;
use syncline_core::queue::{Change, Kind, Limits, Outcome, Place, Queue, Record, Settled};
use syncline_core::time::Timestamp;

type Key = u8;
type Row = Record<Key, Place<u32>>;

const LIMITS: Limits = Limits { max_keys: 14, max_results: 5, max_overtakes: 2 };

#[derive(Debug, Clone)]
enum Op {
    Enqueue(Kind, Vec<Key>),
    EnqueueDue(u64),
    Start,
    Dequeue(Vec<(Key, Outcome<u32>)>),
    Release(Key),
    Revive(Key),
    Remove(Key),
    Reload,
}

/// A head that may not be displaced, searched for in an array.
#[derive(Debug, Default)]
struct Model {
    /// The first `running` of these run, the others wait.
    line: Vec<Key>,
    running: usize,
    again: Vec<Key>,
    priority: Vec<Key>,
    /// The waiting ones, longest in line first.
    ages: Vec<Key>,
    overtakes: u32,
    attempts: BTreeMap<Key, u32>,
    /// In the order they failed.
    retrying: Vec<(Key, u64)>,
    results: Vec<(Key, Option<u32>)>,
    dead: Vec<Key>,
}

impl Model {
    fn known(&self, key: Key) -> bool {
        self.line.contains(&key) || self.is_retrying(key) || self.has_result(key) || self.dead.contains(&key)
    }

    fn is_retrying(&self, key: Key) -> bool {
        self.retrying.iter().any(|&(other, _)| other == key)
    }

    fn has_result(&self, key: Key) -> bool {
        self.results.iter().any(|&(other, _)| other == key)
    }

    fn runs(&self, key: Key) -> bool {
        self.line[..self.running].contains(&key)
    }

    /// The source's `enqueue`, except that a key already in line moves instead of standing there twice.
    fn enqueue(&mut self, kind: Kind, keys: &[Key]) -> bool {
        let mut keys: Vec<Key> = keys.to_vec();
        let taken = |model: &Self, key: Key| match kind {
            Kind::New => !model.known(key),
            Kind::Retry => model.is_retrying(key),
            Kind::Priority => {
                let head = model.running.max(1).min(model.line.len());
                let free = model.line.contains(&key) || !model.known(key);
                free && !model.line[..head].contains(&key)
            }
            Kind::Again => !model.line.contains(&key) && !model.is_retrying(key),
        };
        let held = self.line.len() + self.retrying.len() + self.dead.len();
        let outside = |model: &Self, key: Key| !model.known(key) || model.has_result(key);
        let asked = keys.iter().filter(|&&key| taken(self, key) && outside(self, key)).count();
        if asked > 0 && held + asked > LIMITS.max_keys as usize {
            return false;
        }
        let mut once = Vec::new();
        keys.retain(|key| {
            !once.contains(key) && {
                once.push(*key);
                true
            }
        });
        if kind == Kind::Again {
            let running: Vec<Key> = keys.iter().copied().filter(|&key| self.runs(key)).collect();
            self.again.extend(running);
        }
        keys.retain(|&key| taken(self, key));
        match kind {
            Kind::New | Kind::Again => {
                for key in keys {
                    self.forget(key);
                    self.line.push(key);
                    self.ages.push(key);
                }
            }
            Kind::Retry | Kind::Priority => {
                if kind == Kind::Priority {
                    self.priority.extend(&keys);
                }
                self.express(&keys);
            }
        }
        true
    }

    /// `splice(1, 0, ...keys)`, where the head is whatever runs.
    fn express(&mut self, keys: &[Key]) {
        for key in keys {
            self.retrying.retain(|(other, _)| other != key);
            if !self.line.contains(key) {
                self.ages.push(*key);
            }
            self.line.retain(|other| other != key);
        }
        let at = self.running.max(1).min(self.line.len());
        self.line.splice(at..at, keys.iter().copied());
    }

    fn enqueue_due(&mut self, now: u64) {
        let mut due: Vec<(Key, u64)> = self.retrying.iter().copied().filter(|&(_, due)| due <= now).collect();
        due.sort_by_key(|&(_, due)| due);
        let keys: Vec<Key> = due.into_iter().map(|(key, _)| key).collect();
        self.express(&keys);
    }

    fn start(&mut self) -> Option<Key> {
        let first = *self.line.get(self.running)?;
        let oldest = self.ages[0];
        let key = if first == oldest || self.overtakes >= LIMITS.max_overtakes {
            self.overtakes = 0;
            oldest
        } else {
            self.overtakes += 1;
            first
        };
        self.leave_line(key);
        self.line.insert(self.running, key);
        self.running += 1;
        *self.attempts.entry(key).or_default() += 1;
        Some(key)
    }

    fn leave_line(&mut self, key: Key) {
        if self.runs(key) {
            self.running -= 1;
        }
        self.line.retain(|&other| other != key);
        self.ages.retain(|&other| other != key);
    }

    fn settle(&mut self, key: Key, outcome: &Outcome<u32>) -> Option<Settled> {
        if !self.line.contains(&key) {
            return None;
        }
        if let Outcome::Waiting = outcome {
            let waited = !self.runs(key);
            let age = self.ages.iter().position(|&other| other == key);
            self.leave_line(key);
            self.again.retain(|&other| other != key);
            self.line.insert(self.running, key);
            self.ages.insert(age.filter(|_| waited).unwrap_or(self.ages.len()), key);
            self.attempts.entry(key).and_modify(|attempts| *attempts = attempts.saturating_sub(1));
            return Some(Settled::Waiting);
        }
        let again = self.again.contains(&key);
        self.leave_line(key);
        self.again.retain(|&other| other != key);
        if let Outcome::Excused { .. } = outcome {
            self.attempts.entry(key).and_modify(|attempts| *attempts = attempts.saturating_sub(1));
        }
        if again && !matches!(outcome, Outcome::Retrying { .. } | Outcome::Excused { .. }) {
            self.forget(key);
            self.line.push(key);
            self.ages.push(key);
            return Some(Settled::Again);
        }
        let settled = match outcome {
            Outcome::Done(result) => {
                self.results.push((key, Some(*result)));
                Settled::Done
            }
            Outcome::Failed(_) => {
                self.results.push((key, None));
                Settled::Failed
            }
            Outcome::Retrying { due } | Outcome::Excused { due } => {
                self.retrying.push((key, due.as_ms()));
                Settled::Retrying { due: *due }
            }
            Outcome::Dead(_) => {
                self.dead.push(key);
                Settled::Dead
            }
            Outcome::Waiting => unreachable!("seen to above"),
        };
        if self.results.len() > LIMITS.max_results as usize {
            let (oldest, _) = self.results[0];
            self.forget(oldest);
        }
        Some(settled)
    }

    fn release(&mut self, key: Key) -> bool {
        let runs = self.runs(key);
        if runs {
            self.leave_line(key);
            self.again.retain(|&other| other != key);
            self.line.insert(self.running, key);
            self.ages.push(key);
        }
        runs
    }

    fn revive(&mut self, key: Key) -> bool {
        let given_up = self.dead.contains(&key) || self.results.contains(&(key, None));
        if given_up {
            self.dead.retain(|&other| other != key);
            self.results.retain(|&other| other != (key, None));
            self.attempts.remove(&key);
            if self.priority.contains(&key) {
                self.express(&[key]);
            } else {
                self.line.push(key);
                self.ages.push(key);
            }
        }
        given_up
    }

    fn forget(&mut self, key: Key) -> bool {
        let known = self.known(key);
        self.leave_line(key);
        self.again.retain(|&other| other != key);
        self.priority.retain(|&other| other != key);
        self.attempts.remove(&key);
        self.retrying.retain(|&(other, _)| other != key);
        self.results.retain(|&(other, _)| other != key);
        self.dead.retain(|&other| other != key);
        known
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::New), Just(Kind::Retry), Just(Kind::Priority), Just(Kind::Again)]
}

fn key() -> impl Strategy<Value = Key> {
    0..20_u8
}

fn outcome() -> impl Strategy<Value = Outcome<u32>> {
    prop_oneof![
        4 => any::<u32>().prop_map(Outcome::Done),
        1 => Just(Outcome::Failed("empty".to_owned())),
        4 => (0..20_u64).prop_map(|ms| Outcome::Retrying { due: Timestamp::from_ms(ms) }),
        1 => Just(Outcome::Dead("gone".to_owned())),
        1 => Just(Outcome::Waiting),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (kind(), vec(key(), 0..6)).prop_map(|(kind, keys)| Op::Enqueue(kind, keys)),
        2 => (0..20_u64).prop_map(Op::EnqueueDue),
        8 => Just(Op::Start),
        6 => vec((key(), outcome()), 0..6).prop_map(Op::Dequeue),
        1 => key().prop_map(Op::Release),
        1 => key().prop_map(Op::Revive),
        1 => key().prop_map(Op::Remove),
        1 => Just(Op::Reload),
    ]
}

/// The queue under test, and the rows its changes have left in a table.
struct Kept {
    queue: Queue<Key, u32>,
    rows: BTreeMap<Key, Row>,
}

impl Kept {
    fn new() -> Self {
        let mut queue = Queue::new(LIMITS, RandomState::default());
        queue.keep_changes();
        Self { queue, rows: BTreeMap::new() }
    }

    fn write(&mut self) {
        self.queue.drain_changes(|change| match change {
            Change::Put(record) => drop(self.rows.insert(*record.key, record.cloned())),
            Change::Remove(key) => drop(self.rows.remove(key)),
        });
        self.queue.drain_changes(|change| panic!("{change:?} was handed out before"));
    }

    fn reload(&mut self) {
        let rows = self.rows.values().cloned();
        self.queue =
            Queue::restore(LIMITS, RandomState::default(), rows).expect("rows of a queue make a queue");
        self.queue.keep_changes();
    }
}

fn apply(op: &Op, kept: &mut Kept, model: &mut Model) {
    let queue = &mut kept.queue;
    match op {
        Op::Enqueue(kind, keys) => {
            let taken = queue.enqueue(*kind, keys.clone());
            assert_eq!(taken.is_ok(), model.enqueue(*kind, keys));
            if let Ok(told) = taken {
                assert_eq!(told.added + told.moved + told.again + told.ignored, keys.len());
            }
        }
        Op::EnqueueDue(now) => {
            queue.enqueue_due(Timestamp::from_ms(*now));
            model.enqueue_due(*now);
            assert!(queue.next_due().is_none_or(|due| due.as_ms() > *now));
        }
        Op::Start => assert_eq!(queue.start().map(|run| *run.key), model.start()),
        Op::Dequeue(outcomes) => {
            let expected = outcomes.iter().filter_map(|(key, outcome)| model.settle(*key, outcome)).count();
            assert_eq!(queue.dequeue(outcomes.clone()), expected);
        }
        Op::Release(key) => assert_eq!(queue.release(key), model.release(*key)),
        Op::Revive(key) => assert_eq!(queue.revive(key), model.revive(*key)),
        Op::Remove(key) => assert_eq!(queue.remove(key).is_some(), model.forget(*key)),
        Op::Reload => {
            kept.reload();
            model.overtakes = 0;
        }
    }
}

fn compare(kept: &mut Kept, model: &Model) {
    let queue = &kept.queue;
    let line: Vec<(Key, bool, bool)> = queue
        .line()
        .map(|record| {
            let (runs, again) = match record.place {
                Place::Running { again } => (true, *again),
                Place::Waiting => (false, false),
                other => panic!("{other:?} in the line"),
            };
            assert_eq!(record.attempts, model.attempts.get(record.key).copied().unwrap_or(0));
            assert_eq!(record.priority, model.priority.contains(record.key));
            (*record.key, runs, again)
        })
        .collect();
    let expected: Vec<_> =
        model.line.iter().map(|&key| (key, model.runs(key), model.again.contains(&key))).collect();
    assert_eq!(line, expected);

    let results: Vec<(Key, Option<u32>)> = queue
        .results()
        .map(|record| match record.place {
            Place::Done(result) => (*record.key, Some(*result)),
            _ => (*record.key, None),
        })
        .collect();
    assert_eq!(results, model.results.iter().rev().copied().collect::<Vec<_>>());

    let mut retrying = model.retrying.clone();
    retrying.sort_by_key(|&(_, due)| due);
    let expected: Vec<Key> = retrying.iter().map(|&(key, _)| key).collect();
    assert_eq!(queue.retrying().map(|record| *record.key).collect::<Vec<_>>(), expected);
    assert_eq!(queue.next_due().map(Timestamp::as_ms), retrying.first().map(|&(_, due)| due));
    assert!(queue.dead().map(|record| *record.key).eq(model.dead.iter().rev().copied()));

    let counts = queue.counts();
    let failed = model.results.iter().filter(|(_, result)| result.is_none()).count();
    assert_eq!((counts.waiting, counts.running), (model.line.len() - model.running, model.running));
    assert_eq!((counts.retrying, counts.dead), (model.retrying.len(), model.dead.len()));
    assert_eq!((counts.done, counts.failed), (model.results.len() - failed, failed));

    kept.write();
    let records: BTreeMap<Key, Row> =
        kept.queue.records().map(|record| (*record.key, record.cloned())).collect();
    assert_eq!(records, kept.rows, "the rows are not the queue");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn qu_01_qu_02_qu_25_the_queue_does_what_searched_arrays_do(ops in vec(op(), 1..80)) {
        let (mut kept, mut model) = (Kept::new(), Model::default());
        for op in &ops {
            apply(op, &mut kept, &mut model);
            compare(&mut kept, &model);
        }
    }
}
