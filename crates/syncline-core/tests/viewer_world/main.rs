//! Days of simulated minutes: pages with the real heartbeat, nodes with the real session table, promises, ticker and gate,
//! and a shared store, in a world where all of them fail. The checkers are in `trace`; the second half of this file
//! plants faults and demands that the checkers find them.

mod fate;
mod node;
mod page;
mod store;
mod trace;

use syncline_core::schedule::Reason;
use syncline_core::viewer::{Input, SessionId};
use syncline_sim::{Actor, Context, Event, check, find_failure};

use fate::Fate;
use store::{Request, Response};
use trace::Trace;

type World = syncline_sim::World<Party>;

/// Whoever lives in this world.
enum Party {
    Page(page::Page),
    Node(Box<node::Node>),
    Store(store::Store),
}

/// Whatever they tell each other.
#[derive(Debug, Clone)]
enum Note {
    User(Input),
    Beat { session: SessionId, visible: bool },
    Bye { session: SessionId },
    Answer,
    Ask { op: u64, request: Request },
    Reply { op: u64, response: Option<Response> },
}

/// Faults to plant, each of which some checker must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    IgnoresOtherNodes,
    AnswersBeforeThePromiseIsStored,
    TimesToLiveOnTheWallClock,
    FailsClosed,
    RereadingRenews,
    RestartsRenew,
    ClaimsAreNotUnique,
    ForgetsWhatItRan,
    NoCap,
}

impl Actor for Party {
    type Message = Note;

    fn handle(&mut self, event: Event<Note>, context: &mut Context<'_, Note>) {
        match self {
            Self::Page(page) => page.handle(&event, context),
            Self::Node(node) => node.handle(event, context),
            Self::Store(store) => store.handle(event, context),
        }
    }
}

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const HOURS: u64 = 8;

#[test]
fn vw_06_23_24_no_watched_minute_is_skipped_and_none_runs_twice() {
    let name = "vw_06_23_24_no_watched_minute_is_skipped_and_none_runs_twice";
    let worlds = check(name, 30, |seed| {
        let mut fate = Fate::new(seed, None);
        fate.run_for(HOURS * HOUR_MS);
        let trace = fate.trace.take();
        demand_activity(&trace);
        trace
    });
    let sum = |count: fn(&Trace) -> u64| worlds.iter().map(count).sum::<u64>();
    println!("{} worlds, {} days, no promise broken", worlds.len(), worlds.len() as u64 * HOURS / 24);
    println!("heartbeats {}, answered {}", sum(|t| t.counts.beats), sum(|t| t.counts.accepted));
    println!("ticks {}, of them watched {}", sum(|t| t.counts.ticks), sum(|t| t.counts.owed_ticks));
    println!("minutes generated {}", sum(Trace::generated));
    println!("nodes started {}, frozen {}", sum(|t| t.counts.starts), sum(|t| t.counts.pauses));
    println!("clocks jumped {}, readings failed {}", sum(|t| t.counts.jumps), sum(|t| t.counts.failed_reads));
    for reason in Reason::ALL {
        println!("{reason}: {}", worlds.iter().map(|trace| trace.tally.of(reason)).sum::<u64>());
    }
}

/// A world in which little happened would prove little.
fn demand_activity(trace: &Trace) {
    let Trace { counts, tally, .. } = trace;
    for (what, happened, least) in [
        ("answered heartbeats", counts.accepted, 500),
        ("goodbyes", counts.byes, 20),
        ("ticks", counts.ticks, 1_000),
        ("watched ticks", counts.owed_ticks, 100),
        ("runs judged for forgetting", counts.judged, 20),
        ("arrivals", counts.arrivals, 30),
        ("node starts", counts.starts, 30),
        ("failed readings", counts.failed_reads, 500),
        ("clock jumps", counts.jumps, 5),
        ("pauses", counts.pauses, 20),
        ("runs: watched", tally.of(Reason::Watched), 50),
        ("runs: store unreadable", tally.of(Reason::StoreUnreadable), 50),
        ("runs: viewer arrived", tally.of(Reason::ViewerArrived), 1),
        ("skips: no viewer", tally.of(Reason::NoViewer), 100),
        ("skips: another node", tally.of(Reason::AnotherNode), 50),
        ("skips: unchanged input", tally.of(Reason::UnchangedInput), 5),
        ("skips: still running", tally.of(Reason::StillRunning), 1),
    ] {
        assert!(happened >= least, "only {happened} {what}, at least {least} are wanted");
    }
}

#[test]
fn vw_07_three_nodes_generate_each_watched_minute_exactly_once() {
    check("vw_07_three_nodes_generate_each_watched_minute_exactly_once", 20, |seed| {
        let mut fate = Fate::calm(seed);
        fate.world.run_until(30_000);
        // The first minute was skipped by all three; whoever arrives sets it going after all.
        fate.open_pages();
        fate.world.run_until(HOUR_MS - 1);
        let trace = fate.trace.take();
        assert_eq!(trace.counts.ticks, 3 * 60);
        assert_eq!(trace.tally.of(Reason::NoViewer), 3);
        let busy_everywhere = trace.tally.of(Reason::StillRunning) / 3;
        assert!((60 - busy_everywhere..=60).contains(&settled(&trace)), "{:?}", trace.tally);
    });
}

#[test]
fn vw_06_nobody_watches_and_nothing_is_generated() {
    check("vw_06_nobody_watches_and_nothing_is_generated", 5, |seed| {
        let mut fate = Fate::calm(seed);
        fate.world.run_until(HOUR_MS - 1);
        let trace = fate.trace.take();
        assert_eq!((trace.tally.runs(), trace.tally.of(Reason::NoViewer)), (0, 3 * 60));
    });
}

/// All nodes die with a viewer there, come back before the minute is over, and hear nothing from the page until the
/// minute is decided: what the dead promised must stand.
#[test]
fn vw_23_nodes_that_restart_do_not_skip_the_minute_that_was_being_watched() {
    check("vw_23_nodes_that_restart_do_not_skip_the_minute_that_was_being_watched", 50, |seed| {
        let mut fate = Fate::calm(seed);
        fate.open_pages();
        fate.world.run_until(5 * MINUTE_MS + 31_000);
        fate.freeze_pages();
        fate.crash_nodes();
        let (settled_before, skipped_before) = fate.outcome();
        fate.world.run_until(5 * MINUTE_MS + 50_000);
        fate.restart_nodes();
        fate.world.run_until(6 * MINUTE_MS + 10_000);
        assert_eq!(fate.outcome(), (settled_before + 1, skipped_before));
    });
}

/// Jobs ran for nobody after each restart of a node, for as long as the report of its former life was in the store.
#[test]
fn vw_02_restarts_do_not_bring_a_dead_nodes_viewers_back() {
    check("vw_02_restarts_do_not_bring_a_dead_nodes_viewers_back", 50, |seed| {
        let mut fate = Fate::calm(seed);
        fate.open_pages();
        fate.world.run_until(5 * MINUTE_MS + 31_000);
        fate.freeze_pages();
        fate.crash_nodes();
        fate.world.run_until(7 * MINUTE_MS + 10_000);
        let (settled_before, _) = fate.outcome();
        for minute in 8..=15 {
            fate.restart_nodes();
            fate.world.run_until(minute * MINUTE_MS + 10_000);
            fate.crash_nodes();
        }
        assert_eq!(fate.outcome().0, settled_before);
    });
}

/// How many minutes were generated or found unchanged.
fn settled(trace: &Trace) -> u64 {
    trace.tally.runs() + trace.tally.of(Reason::UnchangedInput)
}

/// Plants `bug` in every world and returns which promise was seen to break.
fn broken_by(bug: Bug) -> String {
    let found = find_failure(60, |seed| Fate::new(seed, Some(bug)).run_for(HOURS * HOUR_MS));
    let (seed, failure) = found.expect("a planted fault must be found");
    let promise = failure.find('P').map(|at| failure[at..].chars().take(2).collect());
    promise.unwrap_or_else(|| format!("world {seed} failed otherwise: {failure}"))
}

#[test]
fn the_checkers_find_a_gate_that_ignores_other_nodes() {
    assert_eq!(broken_by(Bug::IgnoresOtherNodes), "P1");
}

#[test]
fn the_checkers_find_an_answer_given_before_the_promise_is_stored() {
    assert_eq!(broken_by(Bug::AnswersBeforeThePromiseIsStored), "P1");
}

#[test]
fn the_checkers_find_times_to_live_on_the_wall_clock() {
    // Jumps ahead end viewers too early, jumps back too late.
    let promise = broken_by(Bug::TimesToLiveOnTheWallClock);
    assert!(["P1", "P2"].contains(&promise.as_str()), "{promise}");
}

#[test]
fn the_checkers_find_promises_renewed_by_reading_them_again() {
    assert_eq!(broken_by(Bug::RereadingRenews), "P2");
}

#[test]
fn the_checkers_find_promises_renewed_by_a_restart() {
    assert_eq!(broken_by(Bug::RestartsRenew), "P2");
}

#[test]
fn the_checkers_find_claims_that_are_not_unique() {
    assert_eq!(broken_by(Bug::ClaimsAreNotUnique), "P3");
}

#[test]
fn the_checkers_find_a_gate_that_fails_closed() {
    assert_eq!(broken_by(Bug::FailsClosed), "P4");
}

#[test]
fn the_checkers_find_a_process_that_forgets_what_it_ran() {
    assert_eq!(broken_by(Bug::ForgetsWhatItRan), "P4");
}

#[test]
fn the_checkers_find_a_session_table_without_a_cap() {
    assert_eq!(broken_by(Bug::NoCap), "P5");
}
