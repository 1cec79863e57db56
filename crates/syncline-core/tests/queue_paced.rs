//! The queue and its pace together, step by step.

use std::hash::RandomState;
use std::time::Duration;

use syncline_core::queue::{
    Answer, Breaker, Change, Clock, Kind, Limits, Outcome, Pace, Paced, PauseReason, Place, Record, Settings,
    Settled, Setup, Start, Step, Why,
};
use syncline_core::time::Timestamp;

type Work = Paced<&'static str, u32>;
type Row = Record<&'static str, Place<u32>>;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms)
}

fn clock(now_ms: u64) -> Clock {
    Clock { now: at(now_ms), wall: at(1_762_819_200_000 + now_ms) }
}

fn setup(concurrency: u32) -> Setup {
    let mut settings = Settings::new(concurrency, Duration::from_millis(100), Duration::from_millis(500));
    settings.retry.max_attempts = 3;
    Setup { settings, limits: Limits::default(), groups: None, hasher: RandomState::default(), seed: 7 }
}

fn work(concurrency: u32, keys: &[&'static str]) -> Work {
    let mut work = Paced::new(setup(concurrency), at(0));
    work.enqueue(Kind::New, keys.to_vec()).expect("there is room");
    work
}

fn start(work: &mut Work, now_ms: u64) -> Start<&'static str> {
    match work.poll(clock(now_ms)) {
        Step::Start(start) => start,
        other => panic!("at {now_ms}: {other:?}"),
    }
}

fn throttled(seconds: Option<u64>) -> Answer<u32> {
    Answer::Throttled { retry_after: seconds.map(Duration::from_secs) }
}

fn broken() -> Answer<u32> {
    Answer::Broken { reason: "no route".to_owned(), retry: true, away: false }
}

#[test]
fn qu_03_calls_follow_one_another_an_interval_apart_and_then_nothing_is_left() {
    let mut work = work(1, &["a", "b"]);
    let first = start(&mut work, 0);
    assert_eq!((first.key, first.attempt, first.deadline), ("a", 1, at(20_000)));
    assert_eq!(work.poll(clock(10)), Step::Wait(Some(at(25_000))), "until it ends, or is lost");
    assert_eq!(work.settle(clock(200), first.call, Answer::Done(1)), Some(("a", Settled::Done)));
    assert_eq!(work.poll(clock(200)), Step::Wait(Some(at(300))));
    let second = start(&mut work, 300);
    work.settle(clock(400), second.call, Answer::Refused { reason: "404".to_owned() });
    assert_eq!(work.poll(clock(10_000)), Step::Wait(None));
    let counts = work.queue().counts();
    assert_eq!((counts.done, counts.failed, counts.left()), (1, 1, 0));
}

#[test]
fn qu_04_a_429_lets_the_next_key_go_and_comes_back_after_the_delay() {
    let mut work = work(1, &["a", "b", "c"]);
    let first = start(&mut work, 0);
    let settled = work.settle(clock(50), first.call, throttled(None));
    assert_eq!(settled, Some(("a", Settled::Retrying { due: at(550) })));
    let second = start(&mut work, 150);
    assert_eq!(second.key, "b");
    work.settle(clock(460), second.call, Answer::Done(2));
    let third = start(&mut work, 560);
    assert_eq!((third.key, third.attempt), ("c", 1), "c was the head when the retry came due");
    work.settle(clock(560), third.call, Answer::Done(3));
    let retry = start(&mut work, 660);
    assert_eq!((retry.key, retry.attempt), ("a", 2));
}

#[test]
fn qu_26_retry_after_holds_every_key() {
    let mut work = work(1, &["a", "b"]);
    let first = start(&mut work, 0);
    work.settle(clock(50), first.call, throttled(Some(30)));
    assert_eq!(work.poll(clock(100)), Step::Wait(Some(at(30_050))));
    assert_eq!(work.poll(clock(30_049)), Step::Wait(Some(at(30_050))));
    let status = work.status(at(100));
    assert_eq!(status.paused, Some((at(30_050), PauseReason::RetryAfter)));
    assert_eq!(status.next_call_at, Some(at(30_050)));
    assert_eq!(status.waits_for, Some(Why::Paused(PauseReason::RetryAfter)));
    assert_eq!(start(&mut work, 30_050).key, "b");
}

#[test]
fn qu_22_a_key_out_of_attempts_is_dead_until_revived() {
    let mut work = work(1, &["a"]);
    let mut now_ms = 0;
    for attempt in 1..=3 {
        let start = start(&mut work, now_ms);
        assert_eq!(start.attempt, attempt);
        let settled = work.settle(clock(now_ms), start.call, broken());
        assert_eq!(settled == Some(("a", Settled::Dead)), attempt == 3, "{settled:?}");
        now_ms += 10_000;
    }
    assert_eq!(work.poll(clock(now_ms)), Step::Wait(None));
    let dead: Vec<_> = work.queue().dead().map(|record| record.cloned()).collect();
    let reason = "given up after 3 attempts: no route".into();
    assert_eq!((dead[0].key, &dead[0].place), ("a", &Place::Dead(reason)));
    assert!(work.revive("a"));
    assert_eq!(start(&mut work, now_ms).attempt, 1);
}

#[test]
fn qu_22_a_failing_api_is_left_alone_and_then_probed_once() {
    let mut work = work(3, &["a", "b", "c", "d", "e", "f", "g", "h"]);
    let mut now_ms = 0;
    while work.status(at(now_ms)).paused.is_none() {
        let start = start(&mut work, now_ms);
        work.settle(clock(now_ms), start.call, broken());
        now_ms += 125;
    }
    let status = work.status(at(now_ms));
    let (until, reason) = status.paused.unwrap();
    assert_eq!((status.breaker, reason), (Breaker::Open { trips: 1 }, PauseReason::Breaker));
    let probe = start(&mut work, until.as_ms());
    let status = work.status(until);
    assert_eq!((status.breaker, status.waits_for), (Breaker::HalfOpen { trips: 1 }, Some(Why::Probing)));
    assert_eq!((status.next_call_at, status.progress.running), (None, 1));
    assert!(matches!(work.poll(clock(until.as_ms() + 1_000)), Step::Wait(_)), "one probe only");
    work.settle(clock(until.as_ms() + 1_000), probe.call, Answer::Done(1));
    assert_eq!(work.status(at(0)).breaker, Breaker::Closed { failures: 0 });
    start(&mut work, until.as_ms() + 1_100);
}

#[test]
fn qu_20_a_call_nothing_is_heard_of_is_lost_and_its_late_answer_not_kept() {
    let mut work = work(1, &["a", "b"]);
    let lost = start(&mut work, 0);
    let Step::Lost { key: "a", call, settled: Settled::Retrying { .. } } = work.poll(clock(25_000)) else {
        panic!("the lease is over")
    };
    assert_eq!(call, lost.call);
    assert_eq!(work.settle(clock(25_001), lost.call, Answer::Done(1)), None);
    let second = start(&mut work, 25_101);
    assert_eq!(second.key, "b");
    assert_eq!(work.renew(at(40_000), second.call), Some(at(60_000)));
    assert_eq!(work.settle(clock(59_000), second.call, Answer::Done(2)), Some(("b", Settled::Done)));
    assert_eq!(work.renew(at(60_000), second.call), None);
}

#[test]
fn qu_03_a_call_that_was_not_made_in_time_goes_first_again_and_counts_for_nothing() {
    let mut work = work(2, &["a", "b"]);
    let late = start(&mut work, 0);
    assert_eq!(late.start_by, at(25));
    assert_eq!(work.settle(clock(26), late.call, Answer::NotMade), Some(("a", Settled::Waiting)));
    let again = start(&mut work, 126);
    assert_eq!((again.key, again.attempt), ("a", 1));
}

#[test]
fn qu_25_again_during_a_call_is_one_more_call() {
    let mut work = work(1, &["a"]);
    let first = start(&mut work, 0);
    work.enqueue(Kind::Again, vec!["a", "a"]).unwrap();
    assert_eq!(work.settle(clock(10), first.call, Answer::Done(1)), Some(("a", Settled::Again)));
    let second = start(&mut work, 110);
    assert_eq!((second.key, second.attempt), ("a", 1));
    assert_eq!(work.settle(clock(120), second.call, Answer::Done(2)), Some(("a", Settled::Done)));
    assert_eq!(work.poll(clock(1_000)), Step::Wait(None));
}

#[test]
fn qu_02_a_result_from_elsewhere_makes_a_call_unwanted_but_not_unpaced() {
    let mut work = work(1, &["a", "b"]);
    let call = start(&mut work, 0).call;
    assert_eq!(work.dequeue(at(10), [("a", Outcome::Done(7)), ("nobody", Outcome::Done(8))]), 1);
    assert!(matches!(work.poll(clock(500)), Step::Wait(_)), "its call still takes the slot");
    assert_eq!(work.settle(clock(600), call, Answer::Done(1)), None);
    assert_eq!(work.queue().record("a").map(|record| record.place), Some(&Place::Done(7)));
    let call = start(&mut work, 700).call;
    assert_eq!(work.remove("b"), Some(Place::Running { again: false }));
    assert_eq!(work.settle(clock(800), call, Answer::Done(1)), None);
    assert_eq!(work.status(at(800)).progress.done, 1);
}

/// What a store keeps of a queue.
#[derive(Default, Clone)]
struct Kept {
    rows: std::collections::BTreeMap<&'static str, Row>,
    pace: Option<Pace>,
}

impl Kept {
    fn write(&mut self, work: &mut Work) {
        work.drain_changes(|change| match change {
            Change::Put(record) => drop(self.rows.insert(record.key, record.cloned())),
            Change::Remove(key) => drop(self.rows.remove(key)),
        });
        self.pace = Some(work.pace().clone());
    }

    fn restore(&self, clock: Clock) -> Work {
        Paced::restore(setup(2), clock, self.rows.values().cloned(), self.pace.clone(), [])
            .expect("rows of a queue")
    }
}

/// A clock of another life.
fn reborn(now_ms: u64) -> Clock {
    Clock { now: at(now_ms + 987_654_321), wall: clock(now_ms).wall }
}

#[test]
fn qu_20_after_a_crash_what_ran_goes_first_and_what_waited_for_a_retry_waits_its_delay() {
    let mut kept = Kept { pace: Some(Pace::default()), ..Kept::default() };
    let mut work = kept.restore(clock(0));
    work.enqueue(Kind::New, vec!["a", "b", "c", "d", "e"]).unwrap();
    let first = start(&mut work, 0);
    work.settle(clock(0), first.call, throttled(None));
    let second = start(&mut work, 125);
    work.settle(clock(125), second.call, Answer::Done(2));
    assert_eq!((start(&mut work, 250).key, start(&mut work, 375).key), ("c", "d"));
    kept.write(&mut work);

    let mut restored = kept.restore(reborn(1_000));
    let line: Vec<_> = restored.queue().line().map(|record| *record.key).collect();
    assert_eq!(line, ["c", "d", "e"]);
    assert_eq!(restored.queue().record("b").map(|record| record.place), Some(&Place::Done(2)));
    let now = reborn(1_000).now;
    assert_eq!(restored.queue().next_due(), Some(now + Duration::from_millis(500)));
    assert_eq!(restored.poll(reborn(1_000)), Step::Wait(Some(now + Duration::from_millis(125))));
    let Step::Start(start) = restored.poll(reborn(1_125)) else { panic!("one interval is enough") };
    assert_eq!((start.key, start.attempt), ("c", 2));
    kept.write(&mut restored);
    assert_eq!(kept.rows["c"].place, Place::Running { again: false });
    assert_eq!(kept.rows["d"].place, Place::Waiting);
}

#[test]
fn qu_20_a_key_whose_every_run_ends_the_process_ends_on_the_dead_list() {
    let mut kept = Kept { pace: Some(Pace::default()), ..Kept::default() };
    let mut work = kept.restore(clock(0));
    work.enqueue(Kind::New, vec!["poison"]).unwrap();
    for life in 1..=3 {
        let Step::Start(start) = work.poll(reborn(life * 1_000)) else { panic!("in life {life}") };
        assert_eq!(u64::from(start.attempt), life);
        kept.write(&mut work);
        work = kept.restore(reborn(life * 1_000 + 800));
    }
    assert_eq!(work.queue().counts().dead, 1);
    let reason = "given up after 3 attempts: the process ended during the last".into();
    assert_eq!(work.queue().record("poison").map(|record| record.place), Some(&Place::Dead(reason)));
}

#[test]
fn qu_26_a_pause_outlives_a_restart_and_a_lost_pace_means_one_interval() {
    let mut kept = Kept { pace: Some(Pace::default()), ..Kept::default() };
    let mut work = kept.restore(clock(0));
    work.enqueue(Kind::New, vec!["a", "b"]).unwrap();
    let first = start(&mut work, 0);
    work.settle(clock(0), first.call, throttled(Some(60)));
    kept.write(&mut work);

    let mut restored = kept.restore(reborn(20_000));
    assert!(matches!(restored.poll(reborn(59_999)), Step::Wait(Some(_))));
    assert!(matches!(restored.poll(reborn(61_000)), Step::Start(_)));

    kept.pace = None;
    let mut restored = kept.restore(reborn(20_000));
    let until = reborn(20_100).now;
    assert_eq!(restored.poll(reborn(20_000)), Step::Wait(Some(until)));
    assert!(matches!(restored.poll(reborn(20_100)), Step::Start(_)));
}

#[test]
fn qu_24_the_status_says_what_the_next_call_waits_for() {
    let mut work = work(1, &["a"]);
    let idle = Paced::<&str, u32>::new(setup(1), at(0)).status(at(0));
    assert_eq!(
        (idle.next_call_at, idle.waits_for, idle.progress.time_left),
        (None, None, Some(Duration::ZERO))
    );
    assert_eq!(work.status(at(0)).next_call_at, Some(at(0)));
    let first = start(&mut work, 0);
    work.enqueue(Kind::New, vec!["b"]).unwrap();
    let busy = work.status(at(0));
    assert_eq!((busy.waits_for, busy.next_call_at), (Some(Why::Busy), None));
    work.settle(clock(10), first.call, throttled(None));
    let spaced = work.status(at(10));
    assert_eq!((spaced.waits_for, spaced.next_call_at), (Some(Why::Interval), Some(at(110))));
    assert_eq!((spaced.next_retry_at, spaced.progress.retrying), (Some(at(510)), 1));
    let second = start(&mut work, 110);
    work.settle(clock(120), second.call, Answer::Done(1));
    assert_eq!(work.status(at(120)).next_call_at, Some(at(510)), "when the retry is due");
}

#[test]
fn the_same_seed_makes_the_same_choices() {
    let run = |seed| {
        let mut work: Work = Paced::new(Setup { seed, ..setup(1) }, at(0));
        work.enqueue(Kind::New, vec!["a"]).expect("there is room");
        let mut dues = Vec::new();
        for now_ms in [0, 10_000] {
            let start = start(&mut work, now_ms);
            dues.push(work.settle(clock(now_ms), start.call, throttled(None)));
        }
        dues
    };
    assert_eq!(run(1), run(1));
    assert!((2..20).any(|seed| run(seed) != run(1)), "jitter comes from the seed");
}

/// An API that is away for an hour of virtual time, for thirty keys that each have three attempts.
#[test]
fn qu_34_an_api_that_is_away_for_an_hour_fails_no_key() {
    const AWAY: std::ops::Range<u64> = 1_000..3_601_000;
    let keys: Vec<&'static str> = (0..30).map(|n| &*Box::leak(format!("k{n}").into_boxed_str())).collect();
    let mut work = work(2, &keys);
    let (mut now_ms, mut calls_while_away, mut done_at) = (0, 0, None);
    while done_at.is_none() {
        match work.poll(clock(now_ms)) {
            Step::Start(start) => {
                let is_away = AWAY.contains(&now_ms);
                calls_while_away += u64::from(is_away);
                let no_route = Answer::Broken { reason: "no route".to_owned(), retry: true, away: true };
                let answer = if is_away { no_route } else { Answer::Done(1) };
                now_ms += 5;
                work.settle(clock(now_ms), start.call, answer);
            }
            Step::Lost { .. } => panic!("every call ends"),
            Step::Wait(Some(at)) => now_ms = at.as_ms(),
            Step::Wait(None) => done_at = Some(now_ms),
        }
    }
    let counts = work.queue().counts();
    assert_eq!((counts.done, counts.failed, counts.dead, counts.left()), (30, 0, 0, 0));
    let (done_at, back_at) = (done_at.unwrap(), AWAY.end);
    println!(
        "{calls_while_away} calls while it was away; all done {} ms after it was back",
        done_at - back_at
    );
    assert!(calls_while_away > 50, "it was looked for");
    // A pause of the breaker is a minute at most, with a fifth of jitter, and then the keys go at their pace.
    assert!((back_at..back_at + 120_000).contains(&done_at), "{done_at}");
}
