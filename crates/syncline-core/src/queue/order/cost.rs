//! What each operation costs, counted in comparisons instead of seconds.
//!
//! Lists are walked by following links and searched by comparing due times, keys are found by comparing keys: these
//! counts together are the work done. One pass over a million keys would show as a million.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher, RandomState};

use super::super::chain::steps;
use super::super::{Kind, Outcome};
use super::{Limits, Queue};
use crate::time::Timestamp;

thread_local! {
    static KEYS_COMPARED: Cell<u64> = const { Cell::new(0) };
}

#[derive(Debug, Clone)]
struct Key(u32);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        KEYS_COMPARED.with(|count| count.set(count.get() + 1));
        self.0 == other.0
    }
}

impl Eq for Key {}

fn work() -> u64 {
    steps::STEPS.with(Cell::get) + KEYS_COMPARED.with(Cell::get)
}

const ROUNDS: u32 = 200;

type Counted = Queue<Key, u32>;

/// The most steps any call of each operation took, in a queue of `keys` keys.
fn most_steps(keys: u32) -> BTreeMap<&'static str, u64> {
    let limits = Limits { max_keys: keys + 20_000, max_results: 500, ..Limits::default() };
    let mut queue: Counted = Queue::new(limits, RandomState::default());
    queue.keep_changes();
    let mut most = BTreeMap::new();
    let mut measure = |name, queue: &mut Counted, operation: &mut dyn FnMut(&mut Counted)| {
        let before = work();
        operation(queue);
        let most = most.entry(name).or_default();
        *most = std::cmp::max(*most, work() - before);
    };
    for key in 0..keys {
        measure("new", &mut queue, &mut |queue| enqueue(queue, Kind::New, key));
    }
    for round in 0..ROUNDS {
        let middle = Key(keys / 4 + round * (keys / 2 / ROUNDS));
        let fresh = keys + round * 3;
        measure("move up", &mut queue, &mut |queue| enqueue(queue, Kind::Priority, middle.0));
        measure("priority", &mut queue, &mut |queue| enqueue(queue, Kind::Priority, fresh));
        measure("again", &mut queue, &mut |queue| enqueue(queue, Kind::Again, fresh + 1));
        let mut key = Key(0);
        measure("start", &mut queue, &mut |queue| key = queue.start().unwrap().key.clone());
        measure("run again", &mut queue, &mut |queue| enqueue(queue, Kind::Again, key.0));
        measure("release", &mut queue, &mut |queue| assert!(queue.release(&key)));
        measure("start", &mut queue, &mut |queue| key = queue.start().unwrap().key.clone());
        let due = Timestamp::from_ms(u64::from(round));
        measure("settle", &mut queue, &mut |queue| settle(queue, &key, Outcome::Retrying { due }));
        measure("retry", &mut queue, &mut |queue| enqueue(queue, Kind::Retry, key.0));
        measure("settle", &mut queue, &mut |queue| settle(queue, &key, Outcome::Retrying { due }));
        measure("due", &mut queue, &mut |queue| assert_eq!(queue.enqueue_due(due), 1));
        measure("settle", &mut queue, &mut |queue| settle(queue, &key, Outcome::Dead(String::new())));
        measure("revive", &mut queue, &mut |queue| assert!(queue.revive(&key)));
        measure("settle", &mut queue, &mut |queue| settle(queue, &key, Outcome::Done(0)));
        measure("remove", &mut queue, &mut |queue| assert!(queue.remove(&Key(fresh + 1)).is_some()));
        measure("look", &mut queue, &mut |queue| {
            assert!(queue.record(&Key(keys - 1)).is_some() && queue.line().nth(10).is_some());
            assert!(queue.counts().waiting >= keys as usize / 2);
        });
        measure("changes", &mut queue, &mut |queue| queue.drain_changes(|_| ()));
    }
    most
}

fn enqueue(queue: &mut Counted, kind: Kind, key: u32) {
    let told = queue.enqueue(kind, vec![Key(key)]).unwrap();
    assert_eq!(told.ignored, 0, "{kind:?} {key} was to have an effect");
}

fn settle(queue: &mut Counted, key: &Key, outcome: Outcome<u32>) {
    assert!(queue.settle(key, outcome).is_some());
}

#[test]
fn qu_05_a_million_keys_behave_like_a_thousand() {
    let (small, large) = (most_steps(1_000), most_steps(1_000_000));
    for (name, few) in &small {
        let many = large[name];
        println!("{name:10} at most {few:4} steps among 1,000 keys, {many:4} among 1,000,000");
        // Keys whose hashes nearly agree are compared by chance, a few more of them among a million.
        assert!(many <= few + 8, "{name}: {few} steps among 1,000 keys, {many} among 1,000,000");
    }
}
