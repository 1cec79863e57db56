//! When a call may start: alone, and with others who share the pace.

use std::time::Duration;

use syncline_core::queue::{
    Breaker, Clock, PAUSE_MAX, Pace, Pacer, Pause, PauseReason, Settings, Signal, Wait, Why,
};
use syncline_core::retry::Policy;
use syncline_core::time::Timestamp;

const WALL_START_MS: u64 = 1_762_819_200_000;

fn settings(concurrency: u32) -> Settings {
    let mut settings = Settings::new(concurrency, ms(100), ms(500));
    settings.breaker = Policy { jitter: 0.0, ..settings.breaker };
    settings
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms)
}

/// Both clocks, going along.
fn clock(now_ms: u64) -> Clock {
    Clock { now: at(now_ms), wall: at(WALL_START_MS + now_ms) }
}

fn start(pacer: &mut Pacer, now_ms: u64) -> u64 {
    pacer.start(at(now_ms)).unwrap_or_else(|wait| panic!("at {now_ms}: {wait:?}")).call
}

fn end(pacer: &mut Pacer, now_ms: u64, call: u64, signal: Signal) {
    pacer.end(clock(now_ms), call, signal, 0.0);
}

fn waits(pacer: &Pacer, now_ms: u64) -> Option<(u64, Why)> {
    pacer.ready(at(now_ms)).err().map(|Wait { until, why }| (until.as_ms(), why))
}

fn throttled(seconds: u64) -> Signal {
    Signal::Throttled { retry_after: Some(Duration::from_secs(seconds)) }
}

#[test]
fn qu_03_the_interval_counts_from_the_end_of_the_last_call() {
    let mut pacer = Pacer::new(settings(1));
    let call = start(&mut pacer, 1_000);
    assert!(matches!(waits(&pacer, 1_500), Some((_, Why::Busy))));
    end(&mut pacer, 3_000, call, Signal::Answered);
    assert_eq!(waits(&pacer, 3_000), Some((3_100, Why::Interval)));
    assert_eq!(waits(&pacer, 3_099), Some((3_100, Why::Interval)));
    start(&mut pacer, 3_100);
}

#[test]
fn qu_03_no_more_calls_than_the_concurrency_and_starts_keep_the_interval_too() {
    let mut pacer = Pacer::new(settings(2));
    let first = start(&mut pacer, 0);
    assert_eq!(
        waits(&pacer, 50),
        Some((125, Why::Interval)),
        "an interval after it began, by 25 at the latest"
    );
    let second = start(&mut pacer, 125);
    assert!(matches!(waits(&pacer, 5_000), Some((_, Why::Busy))));
    end(&mut pacer, 5_000, second, Signal::Answered);
    assert_eq!(waits(&pacer, 5_000), Some((5_100, Why::Interval)));
    let third = start(&mut pacer, 5_100);
    for call in [first, third] {
        end(&mut pacer, 6_000, call, Signal::Answered);
    }
    assert!(pacer.pace().calls.is_empty());
}

#[test]
fn qu_03_where_several_run_at_once_a_call_begins_at_once_or_not_at_all() {
    let permit = |concurrency, interval_ms| {
        let settings = Settings { interval: ms(interval_ms), ..settings(concurrency) };
        Pacer::new(settings).start(at(0)).unwrap()
    };
    assert_eq!((permit(2, 100).start_by, permit(2, 100).deadline), (at(25), at(20_000)));
    assert_eq!(permit(1, 100).start_by, at(20_000), "nobody starts while it has the only slot");
    assert_eq!(permit(2, 0).start_by, at(20_000), "there is no distance to keep");

    let mut pacer = Pacer::new(Settings { breaker_threshold: 1, ..settings(2) });
    let call = start(&mut pacer, 0);
    end(&mut pacer, 30, call, Signal::NotMade);
    assert_eq!(pacer.pace().breaker, Breaker::Closed { failures: 0 }, "it says nothing about the API");
    let call = start(&mut pacer, 200);
    end(&mut pacer, 200, call, Signal::Broken);
    let probe = start(&mut pacer, 5_200);
    end(&mut pacer, 5_300, probe, Signal::NotMade);
    assert_eq!(pacer.pace().breaker, Breaker::Open { trips: 1 }, "the probe is still to be made");
    assert_eq!(waits(&pacer, 5_300), Some((5_400, Why::Interval)));
}

#[test]
fn qu_26_retry_after_holds_the_whole_queue_until_then() {
    let mut pacer = Pacer::new(settings(2));
    let (first, second) = (start(&mut pacer, 0), start(&mut pacer, 125));
    end(&mut pacer, 1_000, first, throttled(30));
    assert_eq!(waits(&pacer, 1_000), Some((31_000, Why::Paused(PauseReason::RetryAfter))));
    end(&mut pacer, 2_000, second, throttled(5));
    assert_eq!(
        pacer.paused(at(2_000)),
        Some((at(31_000), PauseReason::RetryAfter)),
        "a shorter one ends nothing"
    );
    assert_eq!(waits(&pacer, 30_999), Some((31_000, Why::Paused(PauseReason::RetryAfter))));
    let third = start(&mut pacer, 31_000);
    end(&mut pacer, 31_500, third, throttled(60));
    assert_eq!(pacer.paused(at(31_500)), Some((at(91_500), PauseReason::RetryAfter)));
}

#[test]
fn qu_22_a_pause_is_capped_and_none_is_no_pause() {
    let mut pacer = Pacer::new(settings(1));
    let call = start(&mut pacer, 0);
    end(&mut pacer, 0, call, Signal::Throttled { retry_after: Some(Duration::MAX) });
    assert_eq!(pacer.paused(at(0)), Some((at(0) + PAUSE_MAX, PauseReason::RetryAfter)));

    let mut pacer = Pacer::new(settings(1));
    for retry_after in [None, Some(Duration::ZERO)] {
        let call = start(&mut pacer, 1_000);
        end(&mut pacer, 1_000, call, Signal::Throttled { retry_after });
        assert_eq!(pacer.paused(at(1_000)), None);
        pacer = Pacer::new(settings(1));
    }
}

#[test]
fn qu_22_an_api_that_keeps_failing_is_paused_and_probed_by_one() {
    let mut pacer = Pacer::new(settings(3));
    let mut now_ms = 0;
    let fail = |pacer: &mut Pacer, now_ms: &mut u64| {
        let call = start(pacer, *now_ms);
        end(pacer, *now_ms, call, Signal::Broken);
        *now_ms += 125;
    };
    let early = start(&mut pacer, now_ms);
    now_ms += 125;
    (0..4).for_each(|_| fail(&mut pacer, &mut now_ms));
    assert_eq!(pacer.pace().breaker, Breaker::Closed { failures: 4 });
    fail(&mut pacer, &mut now_ms);
    assert_eq!(pacer.pace().breaker, Breaker::Open { trips: 1 });
    let opened_ms = now_ms - 125;
    assert_eq!(waits(&pacer, now_ms), Some((opened_ms + 5_000, Why::Paused(PauseReason::Breaker))));
    end(&mut pacer, now_ms, early, Signal::Answered);
    assert_eq!(pacer.pace().breaker, Breaker::Open { trips: 1 }, "an answer from before proves nothing");

    now_ms = opened_ms + 5_000;
    let probe = start(&mut pacer, now_ms);
    assert_eq!(pacer.pace().breaker, Breaker::HalfOpen { trips: 1 });
    assert!(
        matches!(waits(&pacer, now_ms + 1_000), Some((_, Why::Probing))),
        "one probe, though slots are free"
    );
    end(&mut pacer, now_ms, probe, Signal::Throttled { retry_after: None });
    assert_eq!(
        waits(&pacer, now_ms),
        Some((now_ms + 10_000, Why::Paused(PauseReason::Breaker))),
        "longer each time"
    );

    now_ms += 10_000;
    let probe = start(&mut pacer, now_ms);
    end(&mut pacer, now_ms, probe, Signal::Answered);
    assert_eq!(pacer.pace().breaker, Breaker::Closed { failures: 0 });
    assert_eq!(pacer.paused(at(now_ms)), None);
}

#[test]
fn qu_22_an_answer_between_failures_keeps_the_breaker_closed() {
    let mut pacer = Pacer::new(settings(1));
    for round in 0..50 {
        let call = start(&mut pacer, round * 100);
        let signal = if round % 5 == 4 { Signal::Answered } else { Signal::Broken };
        end(&mut pacer, round * 100, call, signal);
    }
    assert_eq!(pacer.pace().breaker, Breaker::Closed { failures: 0 });
}

#[test]
fn qu_22_the_longer_of_two_pauses_holds() {
    let open_with = |retry_after_s| {
        let mut pacer = Pacer::new(Settings { breaker_threshold: 1, ..settings(1) });
        let call = start(&mut pacer, 0);
        end(&mut pacer, 0, call, throttled(retry_after_s));
        pacer.paused(at(0))
    };
    assert_eq!(open_with(2), Some((at(5_000), PauseReason::Breaker)));
    assert_eq!(open_with(60), Some((at(60_000), PauseReason::RetryAfter)));
}

#[test]
fn qu_20_a_call_not_heard_of_frees_its_slot_after_its_lease_unless_renewed() {
    let mut pacer = Pacer::new(settings(2));
    let lost = start(&mut pacer, 0);
    let renewed = start(&mut pacer, 125);
    assert_eq!(pacer.renew(at(20_000), renewed), Some(at(40_000)));
    assert_eq!((pacer.lose(at(24_999)), pacer.next_loss_at()), (None, Some(at(25_000))));
    assert_eq!(pacer.lose(at(25_000)), Some(lost));
    assert_eq!(pacer.lose(at(25_000)), None);
    assert_eq!(waits(&pacer, 25_000), Some((25_100, Why::Interval)));
    assert_eq!(pacer.renew(at(26_000), lost), None);
    assert_eq!(pacer.lose(at(45_000)), Some(renewed));
}

#[test]
fn qu_31_a_call_with_a_lease_of_its_own_is_lost_by_that() {
    let mut pacer = Pacer::new(settings(3));
    let usual = start(&mut pacer, 0);
    let short = pacer.start_for(at(125), Some(ms(1_000))).unwrap();
    let long = pacer.start_for(at(250), Some(ms(60_000))).unwrap();
    assert_eq!((short.deadline, long.deadline), (at(1_125), at(60_250)));
    // Others see the same leases, counted from when they saw the calls.
    let mut other = Pacer::new(settings(3));
    other.adopt(clock(300), Some(pacer.pace().clone()));
    assert_eq!((other.lose(at(6_299)), other.lose(at(6_300))), (None, Some(short.call)));
    assert_eq!((pacer.lose(at(6_124)), pacer.lose(at(6_125))), (None, Some(short.call)));
    assert_eq!(pacer.renew_for(at(7_000), long.call, Some(ms(2_000))), Some(at(9_000)));
    assert_eq!(pacer.lose(at(14_000)), Some(long.call));
    assert_eq!((pacer.lose(at(24_999)), pacer.lose(at(25_000))), (None, Some(usual)));
}

#[test]
fn qu_33_a_pause_can_be_lifted_and_the_breaker_probes() {
    let mut pacer = Pacer::new(Settings { breaker_threshold: 1, ..settings(2) });
    let call = start(&mut pacer, 0);
    end(&mut pacer, 10, call, Signal::Broken);
    assert!(pacer.paused(at(1_000)).is_some());
    let mut other = Pacer::new(Settings { breaker_threshold: 1, ..settings(2) });
    other.adopt(clock(1_000), Some(pacer.pace().clone()));
    pacer.lift_pause();
    other.adopt(clock(1_100), Some(pacer.pace().clone()));
    for mut pacer in [pacer, other] {
        assert_eq!(pacer.paused(at(1_200)), None);
        start(&mut pacer, 1_300);
        assert!(matches!(pacer.pace().breaker, Breaker::HalfOpen { .. }), "one call finds out");
        assert_eq!(waits(&pacer, 1_500).map(|(_, why)| why), Some(Why::Probing));
    }
}

#[test]
fn qu_22_a_lost_probe_is_made_again() {
    let mut pacer = Pacer::new(Settings { breaker_threshold: 1, ..settings(1) });
    let call = start(&mut pacer, 0);
    end(&mut pacer, 0, call, Signal::Broken);
    let probe = start(&mut pacer, 5_000);
    assert_eq!(pacer.lose(at(30_000)), Some(probe));
    assert_eq!(pacer.pace().breaker, Breaker::Open { trips: 1 });
    let probe = start(&mut pacer, 30_100);
    assert!(pacer.pace().call(probe).is_some_and(|call| call.probe));
}

#[test]
fn qu_26_a_call_given_up_as_lost_can_still_bring_a_pause() {
    let mut pacer = Pacer::new(settings(1));
    let late = start(&mut pacer, 0);
    pacer.lose(at(25_000));
    end(&mut pacer, 26_000, late, throttled(30));
    assert_eq!(pacer.paused(at(26_000)), Some((at(56_000), PauseReason::RetryAfter)));
}

#[test]
fn qu_26_unreadable_state_means_one_interval() {
    let mut pacer = Pacer::new(settings(1));
    start(&mut pacer, 0);
    pacer.adopt(clock(7_000), None);
    assert_eq!(waits(&pacer, 7_000), Some((7_100, Why::Interval)));
    start(&mut pacer, 7_100);

    let sound = Pace { version: 9, starts: 4, ends: 3, ..Pace::default() };
    let call = syncline_core::queue::Call { id: 3, beat: 0, probe: false, lease_ms: None };
    let pause = Pause { id: 10, until: at(WALL_START_MS), length_ms: 1, reason: PauseReason::RetryAfter };
    let nonsense = [
        Pace { version: u64::MAX, ..Pace::default() },
        Pace { starts: 10, ..sound.clone() },
        Pace { ends: 10, ..sound.clone() },
        Pace { calls: vec![call, call], ..sound.clone() },
        Pace { calls: vec![syncline_core::queue::Call { id: 10, ..call }], ..sound.clone() },
        Pace {
            calls: (0..2_000).map(|id| syncline_core::queue::Call { id, ..call }).collect(),
            version: 5_000,
            ..Pace::default()
        },
        Pace { pause: Some(pause), ..sound.clone() },
        Pace { breaker: Breaker::HalfOpen { trips: 1 }, ..sound.clone() },
    ];
    assert!(sound.is_plausible());
    for pace in nonsense {
        assert!(!pace.is_plausible(), "{pace:?}");
        let mut pacer = Pacer::new(settings(1));
        pacer.adopt(clock(0), Some(pace));
        assert_eq!(waits(&pacer, 0), Some((100, Why::Interval)));
        assert!(pacer.pace().is_plausible());
    }
}

#[test]
fn qu_26_what_was_known_of_a_pause_outlives_unreadable_state() {
    let mut pacer = Pacer::new(Settings { breaker_threshold: 1, ..settings(1) });
    let call = start(&mut pacer, 0);
    end(&mut pacer, 0, call, throttled(60));
    pacer.adopt(clock(1_000), None);
    assert_eq!(waits(&pacer, 1_000), Some((60_000, Why::Paused(PauseReason::RetryAfter))));
    assert_eq!(pacer.pace().breaker, Breaker::Open { trips: 1 });
    let stored = pacer.pace().clone();
    pacer.adopt(clock(1_001), Some(stored));
    assert_eq!(waits(&pacer, 1_001), Some((60_000, Why::Paused(PauseReason::RetryAfter))));
}

/// A pause from before the time of day was set back had a higher version than the value that replaced an unreadable
/// one, which made that unreadable too, and so on for ever.
#[test]
fn qu_26_what_replaces_unreadable_state_is_readable_whatever_the_time_of_day() {
    let mut pacer = Pacer::new(settings(1));
    pacer.adopt(clock(0), None);
    let call = start(&mut pacer, 100);
    end(&mut pacer, 200, call, throttled(60));
    for wall_ms in [0, 1_000, WALL_START_MS, u64::MAX] {
        pacer.adopt(Clock { now: at(300), wall: at(wall_ms) }, None);
        assert!(pacer.pace().is_plausible(), "{:?}", pacer.pace());
        let stored = pacer.pace().clone();
        pacer.adopt(clock(301), Some(stored));
        assert_eq!(pacer.paused(at(301)), Some((at(60_200), PauseReason::RetryAfter)));
    }
}

/// Two nodes replaced an unreadable value one after the other. The second knew of fewer calls than the first had made
/// and counted on from those, so the first took the calls it then made for its own of before: no interval, and two
/// calls with the same id.
#[test]
fn qu_26_whatever_replaces_unreadable_state_is_news_to_everybody() {
    let (mut one, mut two) = (Pacer::new(settings(1)), Pacer::new(settings(1)));
    for round in 0..100 {
        let now_ms = round * 1_000;
        one.adopt(clock(now_ms), None);
        let before = one.pace().clone();
        two.adopt(Clock { now: at(now_ms + 7), ..clock(0) }, None);
        one.adopt(clock(now_ms + 500), Some(two.pace().clone()));
        assert_eq!(waits(&one, now_ms + 500), Some((now_ms + 600, Why::Interval)));
        assert!(before.version.abs_diff(two.pace().version) > 1_000, "far apart: {before:?}");
    }
}

/// The shared value, and what transactions do to it.
#[derive(Default)]
struct Shared(Pace);

impl Shared {
    /// One node's attempt to start, as a transaction makes it that nobody comes between.
    fn start(&mut self, node: &mut Pacer, clock: Clock) -> Result<u64, Why> {
        node.adopt(clock, Some(self.0.clone()));
        while node.lose(clock.now).is_some() {}
        let started = node.start(clock.now);
        self.0 = node.pace().clone();
        started.map(|permit| permit.call).map_err(|wait| wait.why)
    }

    fn end(&mut self, node: &mut Pacer, clock: Clock, call: u64, signal: Signal) {
        node.adopt(clock, Some(self.0.clone()));
        node.end(clock, call, signal, 0.0);
        self.0 = node.pace().clone();
    }
}

/// A node's clocks: its own origin, the time of day of all.
fn skewed(now_ms: u64, origin_ms: u64) -> Clock {
    Clock { now: at(now_ms + origin_ms), wall: at(WALL_START_MS + now_ms) }
}

#[test]
fn qu_21_two_nodes_share_slots_interval_and_pause() {
    let (mut shared, mut one, mut two) =
        (Shared::default(), Pacer::new(settings(1)), Pacer::new(settings(1)));
    let (of_one, of_two) = (|ms| skewed(ms, 77_000), |ms| skewed(ms, 5));
    let call = shared.start(&mut one, of_one(0)).unwrap();
    assert_eq!(shared.start(&mut two, of_two(10)), Err(Why::Busy));
    shared.end(&mut one, of_one(1_000), call, Signal::Answered);
    assert_eq!(shared.start(&mut two, of_two(1_050)), Err(Why::Interval));
    assert_eq!(shared.start(&mut two, of_two(1_149)), Err(Why::Interval), "counted from when it was seen");
    let call = shared.start(&mut two, of_two(1_150)).unwrap();
    assert_eq!(shared.start(&mut one, of_one(1_500)), Err(Why::Busy));
    shared.end(&mut two, of_two(2_000), call, throttled(10));
    let paused = Err(Why::Paused(PauseReason::RetryAfter));
    assert_eq!(shared.start(&mut one, of_one(2_000)), paused);
    assert_eq!(shared.start(&mut one, of_one(11_999)), paused);
    assert!(shared.start(&mut one, of_one(13_000)).is_ok());
}

#[test]
fn qu_21_who_could_not_commit_counts_from_the_start_of_who_could() {
    let (mut shared, mut one, mut two) =
        (Shared::default(), Pacer::new(settings(2)), Pacer::new(settings(2)));
    two.adopt(clock(0), Some(shared.0.clone()));
    // Its transaction is undone, and the copy with it.
    two.clone().start(at(0)).unwrap();
    shared.start(&mut one, clock(40)).unwrap();
    assert_eq!(shared.start(&mut two, clock(50)), Err(Why::Interval));
    assert_eq!(shared.start(&mut two, clock(174)), Err(Why::Interval), "though it wanted the same at 0");
    assert!(shared.start(&mut two, clock(175)).is_ok());
}

#[test]
fn qu_20_a_dead_nodes_call_frees_its_slot_after_a_lease_of_watching() {
    let (mut shared, mut one, mut two) =
        (Shared::default(), Pacer::new(settings(1)), Pacer::new(settings(1)));
    let call = shared.start(&mut one, clock(0)).unwrap();
    assert_eq!(shared.start(&mut two, clock(10_000)), Err(Why::Busy));
    assert_eq!(one.renew(at(15_000), call), Some(at(35_000)));
    shared.0 = one.pace().clone();
    assert_eq!(shared.start(&mut two, clock(16_000)), Err(Why::Busy), "sees the renewal");
    assert_eq!(shared.start(&mut two, clock(40_999)), Err(Why::Busy));
    assert_eq!(shared.start(&mut two, clock(41_000)), Err(Why::Interval), "gives it up");
    assert!(shared.start(&mut two, clock(41_100)).is_ok());
    one.adopt(clock(41_200), Some(shared.0.clone()));
    assert_eq!(one.renew(at(41_200), call), None);
}

#[test]
fn qu_26_a_clock_set_forward_or_back_neither_shortens_nor_prolongs_a_pause() {
    for jump_ms in [3_600_000_i64, -3_600_000] {
        let (mut shared, mut one, mut two) =
            (Shared::default(), Pacer::new(settings(1)), Pacer::new(settings(1)));
        let call = shared.start(&mut one, clock(0)).unwrap();
        two.adopt(clock(50), Some(shared.0.clone()));
        shared.end(&mut one, clock(100), call, throttled(60));
        let jumped = |now_ms: u64| Clock {
            now: at(now_ms),
            wall: at((WALL_START_MS + now_ms).checked_add_signed(jump_ms).unwrap()),
        };
        let paused = Err(Why::Paused(PauseReason::RetryAfter));
        assert_eq!(shared.start(&mut one, jumped(1_000)), paused, "one knew it before");
        assert_eq!(shared.start(&mut one, jumped(60_099)), paused);
        assert_eq!(shared.start(&mut two, jumped(1_000)), paused, "two hears of it after");
        assert_eq!(shared.start(&mut two, jumped(60_999)), paused);
        assert!(shared.start(&mut one, jumped(60_999)).is_ok());
    }
}

/// A node that took a pause for longer than it was (it heard of it just after the clock was set) did not store the
/// shorter one that its own call brought; the others went by the first alone and called too soon.
#[test]
fn qu_26_a_pause_is_stored_even_by_one_who_believes_in_a_longer_one() {
    let (mut shared, mut one, mut two) =
        (Shared::default(), Pacer::new(settings(2)), Pacer::new(settings(2)));
    let call_of_one = shared.start(&mut one, clock(0)).unwrap();
    shared.start(&mut two, clock(0)).unwrap_err();
    let call_of_two = shared.start(&mut two, clock(125)).unwrap();
    shared.end(&mut one, clock(1_000), call_of_one, throttled(60));
    let set_back = |now_ms: u64| Clock { now: at(now_ms), wall: at(WALL_START_MS + now_ms - 3_600_000) };
    shared.end(&mut two, set_back(50_000), call_of_two, throttled(30));
    assert_eq!(two.paused(at(50_000)), Some((at(110_000), PauseReason::RetryAfter)));
    let paused = Err(Why::Paused(PauseReason::RetryAfter));
    assert_eq!(shared.start(&mut one, set_back(61_001)), paused, "80,000 was named since");
    assert_eq!(shared.start(&mut one, set_back(79_999)), paused);
    assert!(shared.start(&mut one, set_back(121_001)).is_ok());
}

/// A node read the time, the clock was set forward, and the pause it then stored seemed over to all who read it.
#[test]
fn qu_26_a_pause_is_dated_when_it_is_stored() {
    let (mut shared, mut one, mut two) =
        (Shared::default(), Pacer::new(settings(1)), Pacer::new(settings(1)));
    let call = shared.start(&mut one, clock(0)).unwrap();
    let mut ending = one.clone();
    ending.end(clock(100), call, throttled(60), 0.0);
    let (mut pace, before) = (ending.pace().clone(), one.pace().version);
    let set_forward = |now_ms: u64| Clock { now: at(now_ms), wall: at(WALL_START_MS + now_ms + 3_600_000) };
    two.adopt(set_forward(110), Some(shared.0.clone()));
    assert!(pace.has_paused_since(before));
    pace.date_pause(before, set_forward(120).wall);
    shared.0 = pace.clone();
    assert_eq!(shared.start(&mut two, set_forward(60_119)), Err(Why::Paused(PauseReason::RetryAfter)));

    let dated = pace.pause;
    let before = pace.version;
    pace.start();
    pace.date_pause(before, at(0));
    assert!(!pace.has_paused_since(before));
    assert_eq!(pace.pause, dated, "only the change that began it dates it");
}

#[test]
fn qu_26_a_pause_is_not_begun_anew_by_a_restart() {
    let (mut shared, mut node) = (Shared::default(), Pacer::new(settings(1)));
    let call = shared.start(&mut node, clock(0)).unwrap();
    shared.end(&mut node, clock(0), call, throttled(600));
    let after_restart = |now_ms| skewed(now_ms, 123_456_789);
    let mut restarted = Pacer::new(settings(1));
    assert!(shared.start(&mut restarted, after_restart(500_000)).is_err());
    assert!(shared.start(&mut restarted, after_restart(599_999)).is_err());
    assert!(shared.start(&mut restarted, after_restart(601_000)).is_ok());
}

#[test]
fn qu_26_a_new_node_rests_one_interval_unless_nobody_has_called_yet() {
    let (mut shared, mut one, mut two) =
        (Shared::default(), Pacer::new(settings(1)), Pacer::new(settings(1)));
    let call = shared.start(&mut one, clock(0)).unwrap();
    shared.end(&mut one, clock(10), call, Signal::Answered);
    assert_eq!(shared.start(&mut two, clock(50_000)), Err(Why::Interval));
    assert!(shared.start(&mut two, clock(50_100)).is_ok());
}
