//! Storms, crashes and set clocks: the real queue and pacer against a simulated API that keeps its own records.
//!
//! Two worlds: several workers that share one pace and one queue through a database, and a node that has both to
//! itself and keeps them on disk. `ledger` judges what the API saw. The second half of this file plants faults
//! and demands that it finds them.

mod api;
mod fate;
mod ledger;
mod node;
mod store;
mod worker;

use syncline_core::queue::{Kind, Pace};
use syncline_sim::{Actor, ActorId, Context, Event, check, find_failure};

use ledger::Tally;

type World = syncline_sim::World<Party>;

/// Whoever lives in these worlds.
enum Party {
    Api(api::Api),
    Store(Box<store::Store>),
    Worker(Box<worker::Worker>),
    Node(Box<node::Node>),
}

/// Whatever they tell each other.
#[derive(Debug, Clone)]
enum Note {
    Request {
        call: u64,
        key: u32,
    },
    /// For the ledger: when it was sent by the world's clock.
    Abort {
        call: u64,
        sent_ms: u64,
    },
    /// The connection of a caller that died was closed for it.
    Closed {
        caller: ActorId,
        call: u64,
    },
    Response {
        call: u64,
        response: api::Response,
    },
    Read {
        ask: u64,
    },
    Write {
        ask: u64,
        token: u64,
        pace: Pace,
        change: store::Change,
    },
    Told {
        ask: u64,
        told: store::Told,
    },
    Enqueue {
        kind: Kind,
        keys: Vec<u32>,
    },
    Revive,
}

/// Faults to plant, each of which the ledger must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    IntervalFromTheStart,
    PausesOnlyTheKey,
    AgainIsNew,
}

impl Actor for Party {
    type Message = Note;

    fn handle(&mut self, event: Event<Note>, context: &mut Context<'_, Note>) {
        match self {
            Self::Api(api) => api.handle(&event, context),
            Self::Store(store) => store.handle(event, context),
            Self::Worker(worker) => worker.handle(event, context),
            Self::Node(node) => node.handle(event, context),
        }
    }
}

/// A number for an actor, for records that outlive it.
fn number(id: ActorId) -> usize {
    let text = format!("{id:?}");
    text.chars().filter(char::is_ascii_digit).collect::<String>().parse().expect("ids are numbers")
}

const SEEDS: u64 = 60;

/// All that happened, as text. Less than `least` in a hundred seeds is too little to prove anything.
fn report(name: &str, runs: &[(Tally, u64)], least: &[(&str, u64)]) -> String {
    let mut total = Tally::default();
    runs.iter().for_each(|(tally, _)| total.merge(tally));
    let smallest = runs.iter().map(|(_, gap_ms)| *gap_ms).min().expect("at least one seed ran");
    let lines = total.0.iter().map(|(what, count)| format!("\n  {what:26} {count:8}"));
    let told = format!("{} seeds, smallest gap {smallest} ms{}", runs.len(), lines.collect::<String>());
    for (what, least_per_100) in least {
        let count = total.0.get(what).copied().unwrap_or(0);
        let wanted = least_per_100 * runs.len() as u64 / 100;
        assert!(count >= wanted, "{name}: only {count} {what}, {wanted} wanted; {told}");
    }
    format!("{name}: {told}")
}

/// The pacer is driven as the store does it: read and adopt, change a copy with the clock that came with what was read, commit,
/// keep the copy.
#[test]
fn hs_08_qu_21_workers_that_share_a_pace_never_exceed_it_and_lose_nothing() {
    let name = "hs_08_qu_21_workers_that_share_a_pace_never_exceed_it_and_lose_nothing";
    let runs = check(name, SEEDS, |seed| fate::shared(seed, None));
    let told = report(
        name,
        &runs,
        &[
            ("calls", 8_000),
            ("ends", 3_000),
            ("calls beside others", 300),
            ("429 with Retry-After", 100),
            ("429 without Retry-After", 200),
            ("429 with a malformed one", 100),
            ("silences", 50),
            ("time-outs", 50),
            ("retries", 500),
            ("deaths", 10),
            ("runs again", 50),
            ("agains while running", 50),
            ("moved up", 50),
            ("races lost", 1_000),
            ("calls lost", 50),
            ("crashes", 100),
            ("freezes", 100),
            ("clocks set", 100),
            ("unreadable paces", 20),
        ],
    );
    println!("{told}");
}

#[test]
fn qu_20_a_node_killed_at_any_moment_loses_nothing_and_repeats_no_stored_result() {
    let name = "qu_20_a_node_killed_at_any_moment_loses_nothing_and_repeats_no_stored_result";
    let runs = check(name, SEEDS, |seed| fate::alone(seed, None));
    let told = report(
        name,
        &runs,
        &[
            ("calls", 8_000),
            ("ends", 3_000),
            ("429 with Retry-After", 100),
            ("429 without Retry-After", 200),
            ("429 with a malformed one", 100),
            ("time-outs", 50),
            ("retries", 500),
            ("runs again", 50),
            ("agains while running", 50),
            ("crashes", 500),
            ("freezes", 50),
            ("clocks set", 100),
            ("unreadable paces", 20),
        ],
    );
    println!("{told}");
}

/// What the ledger says about a planted fault.
fn found(bug: Bug) -> [String; 2] {
    let told = |failure: Option<(u64, String)>| failure.unwrap_or_else(|| panic!("{bug:?} was not found")).1;
    [
        told(find_failure(30, |seed| fate::shared(seed, Some(bug)))),
        told(find_failure(30, |seed| fate::alone(seed, Some(bug)))),
    ]
}

#[test]
fn qu_03_an_interval_counted_from_the_start_is_found() {
    for told in found(Bug::IntervalFromTheStart) {
        assert!(told.contains("pace exceeded") || told.contains("calls at once"), "{told}");
    }
}

#[test]
fn qu_26_a_pause_of_only_one_key_is_found() {
    for told in found(Bug::PausesOnlyTheKey) {
        assert!(told.contains("although the pause"), "{told}");
    }
}

#[test]
fn qu_25_a_lost_wake_up_is_found() {
    for told in found(Bug::AgainIsNew) {
        assert!(told.contains("lost wake-up"), "{told}");
    }
}
