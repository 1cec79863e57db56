//! What the queues promise, case by case; `queue_model` has the order of things.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use syncline_core::queue::{
    Answer, Breaker, Enqueued, Kind, Limits, Outcome, PauseReason, Place, Settings, Settled, Why,
};
use syncline_store::queue::{
    Claimed, Entry, GivenUp, KEY_MAX_BYTES, KEYS_MAX, LIST_BYTES_MAX, List, Queues, RESULT_MAX_BYTES, Rules,
    Run,
};
use syncline_store::{Error, Store};

use super::fixture::{Fixture, until};

const QUEUE: &str = "words";

pub(crate) async fn qu_01_twenty_enqueues_at_once_make_no_duplicate(fixture: &Fixture) {
    let stores = [fixture.store.clone(), fixture.another().await, fixture.another().await];
    let rules = unpaced();
    let enqueues = (0..20).map(|n: usize| {
        let queues = stores[n % stores.len()].queues();
        let keys: Vec<String> = (0..50).map(|key| format!("word {}", (key + n * 7) % 100)).collect();
        let kind = [Kind::New, Kind::Priority, Kind::Again, Kind::New][n % 4];
        tokio::spawn(async move { queues.enqueue(QUEUE, &rules, kind, &keys).await.unwrap() })
    });
    let told: Vec<Enqueued> = join_all(enqueues).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(told.iter().map(|told| told.added).sum::<usize>(), 100, "each key was new once");
    assert_eq!(fixture.rows("syncline.queue_keys").await, 100);
    let queues = stores[0].queues();
    assert_eq!(queues.status(QUEUE, &rules).await.unwrap().counts.waiting, 100);
    let listed: BTreeSet<String> = queues
        .list(QUEUE, List::Waiting, None, 1_000)
        .await
        .unwrap()
        .into_iter()
        .map(|entry| entry.key)
        .collect();
    assert_eq!(listed.len(), 100);

    // And nobody gets what another has.
    let claims = (0..20).map(|n: usize| {
        let queues = stores[n % stores.len()].queues();
        tokio::spawn(async move { queues.claim(QUEUE, &rules, 7).await.unwrap().runs })
    });
    let runs: Vec<Run> = join_all(claims).await.into_iter().flat_map(Result::unwrap).collect();
    assert_eq!(runs.len(), 100);
    assert_eq!(runs.iter().map(|run| &run.key).collect::<BTreeSet<_>>().len(), 100);
    assert_eq!(runs.iter().map(|run| run.call).collect::<BTreeSet<_>>().len(), 100);
}

pub(crate) async fn qu_02_outcomes_from_elsewhere_are_kept_for_queued_keys_alone(fixture: &Fixture) {
    let (queues, rules) = (fixture.store.queues(), unpaced());
    enqueue(&queues, &rules, Kind::New, &["a", "b"]).await;
    let run = claim(&queues, &rules, 1).await.runs.remove(0);
    let outcomes = ["a", "b", "stranger"].map(|key| (key.to_owned(), Outcome::Done(format!("{key}'s"))));
    assert_eq!(queues.dequeue(QUEUE, &rules, outcomes.to_vec()).await.unwrap(), 2);
    assert_eq!(place(&queues, "a").await, Some(Place::Done("a's".to_owned())));
    assert_eq!(place(&queues, "stranger").await, None);

    let late = queues.settle(QUEUE, &rules, vec![(run.call, Answer::Done("late".to_owned()))]).await.unwrap();
    assert_eq!(late, [], "nobody wants it any more");
    assert_eq!(place(&queues, "a").await, Some(Place::Done("a's".to_owned())));
    assert_eq!(queues.status(QUEUE, &rules).await.unwrap().in_flight, 0, "but its slot is free");
}

pub(crate) async fn qu_04_a_429_comes_back_after_the_delay_and_other_failures_end_empty(fixture: &Fixture) {
    let queues = fixture.store.queues();
    let delay = Duration::from_millis(150);
    let rules = Rules::from(Settings::new(10, Duration::ZERO, delay));
    enqueue(&queues, &rules, Kind::New, &["throttled", "refused"]).await;
    let runs = claim(&queues, &rules, 9).await.runs;
    let before = Instant::now();
    let answers = vec![
        (runs[0].call, Answer::Throttled { retry_after: None }),
        (runs[1].call, Answer::Refused { reason: "no such word".to_owned() }),
    ];
    let ended = queues.settle(QUEUE, &rules, answers).await.unwrap();
    assert!(matches!(ended[0].settled, Settled::Retrying { .. }), "{ended:?}");
    assert_eq!(ended[1].settled, Settled::Failed);
    assert_eq!(place(&queues, "refused").await, Some(Place::Failed("no such word".into())));
    let waiting = queues.entry(QUEUE, "throttled").await.unwrap().unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("too many requests"));

    let again = next_run(&queues, &rules).await;
    assert_eq!((again.key.as_str(), again.attempt), ("throttled", 2));
    assert!(before.elapsed() >= delay, "{:?}", before.elapsed());
}

pub(crate) async fn qu_20_what_is_enqueued_running_and_done_is_there_after_reopening(fixture: &Fixture) {
    let rules = unpaced();
    let first = Store::open(&fixture.url).await.unwrap();
    let queues = first.queues();
    enqueue(&queues, &rules, Kind::New, &["done", "running", "waiting"]).await;
    let runs = claim(&queues, &rules, 2).await.runs;
    settle(&queues, &rules, runs[0].call, Answer::Done("kept".to_owned())).await;
    first.close().await;

    let queues = fixture.another().await.queues();
    assert_eq!(place(&queues, "done").await, Some(Place::Done("kept".to_owned())));
    assert_eq!(place(&queues, "running").await, Some(Place::Running { again: false }));
    let told = enqueue(&queues, &rules, Kind::New, &["done", "running", "waiting"]).await;
    assert_eq!(told, Enqueued { ignored: 3, ..Enqueued::default() });
    assert_eq!(keys(&claim(&queues, &rules, 9).await), ["waiting"]);
    assert_eq!(queues.names().await.unwrap(), [QUEUE]);
    // Its call is known to all, so whoever has the answer may bring it.
    settle(&queues, &rules, runs[1].call, Answer::Done("late".to_owned())).await;
    assert_eq!(place(&queues, "running").await, Some(Place::Done("late".to_owned())));
}

/// The lease is the call's time and five seconds: this waits for it, as a worker would.
pub(crate) async fn qu_20_a_lost_call_is_made_again_and_its_late_answer_is_dropped(fixture: &Fixture) {
    let mut settings = Settings::new(1, Duration::ZERO, Duration::from_millis(1));
    settings.call_timeout = Duration::from_millis(1);
    let rules = Rules::from(settings);
    let (queues, others) = (fixture.store.queues(), fixture.another().await.queues());
    enqueue(&queues, &rules, Kind::New, &["a"]).await;
    let lost = claim(&queues, &rules, 1).await.runs.remove(0);
    let busy = claim(&others, &rules, 1).await;
    assert_eq!((busy.runs.len(), busy.lost.len()), (0, 0));

    let mut ended = Vec::new();
    let again = loop {
        let claimed = claim(&others, &rules, 1).await;
        ended.extend(claimed.lost);
        if let [run] = &claimed.runs[..] {
            break run.clone();
        }
        sleep_until(claimed.look_at.unwrap()).await;
    };
    assert_eq!((ended.len(), ended[0].call), (1, lost.call));
    assert_eq!((again.key.as_str(), again.attempt), ("a", 2));
    assert_ne!(again.call, lost.call);

    let late =
        queues.settle(QUEUE, &rules, vec![(lost.call, Answer::Done("late".to_owned()))]).await.unwrap();
    assert_eq!(late, []);
    assert_eq!(queues.renew(QUEUE, &rules, &[lost.call, again.call]).await.unwrap()[0], None);
    settle(&others, &rules, again.call, Answer::Done("right".to_owned())).await;
    assert_eq!(place(&queues, "a").await, Some(Place::Done("right".to_owned())));
}

pub(crate) async fn qu_20_a_renewed_call_has_a_later_deadline(fixture: &Fixture) {
    let (queues, rules) = (fixture.store.queues(), unpaced());
    enqueue(&queues, &rules, Kind::New, &["a"]).await;
    let run = claim(&queues, &rules, 1).await.runs.remove(0);
    until("time has passed", || async { Instant::now() > run.start_by - rules.settings.call_timeout }).await;
    let renewed = queues.renew(QUEUE, &rules, &[run.call, run.call + 1_000]).await.unwrap();
    assert!(renewed[0].unwrap() >= run.deadline);
    assert_eq!(renewed[1], None);
}

/// Several workers in several stores: what the API would see.
pub(crate) async fn qu_21_calls_of_all_stores_keep_one_interval(fixture: &Fixture) {
    for concurrency in [1, 3] {
        let interval = Duration::from_millis(20);
        let rules = Rules::from(Settings::new(concurrency, interval, Duration::from_millis(500)));
        let queue = format!("paced-{concurrency}");
        let keys: Vec<String> = (0..30).map(|n| format!("word {n}")).collect();
        fixture.store.queues().enqueue(&queue, &rules, Kind::New, &keys).await.unwrap();
        let stores = [fixture.store.clone(), fixture.another().await, fixture.another().await];
        let workers = stores.map(|store| {
            let queue = queue.clone();
            tokio::spawn(async move { drain(&store, &queue, &rules, Duration::from_millis(3)).await })
        });
        let mut calls: Vec<(Instant, Instant)> =
            join_all(workers).await.into_iter().flat_map(Result::unwrap).collect();
        calls.sort();
        assert_eq!(calls.len(), 30, "each key was called once");
        for pair in calls.windows(2) {
            let from = if concurrency == 1 { pair[0].1 } else { pair[0].0 };
            let gap = pair[1].0.saturating_duration_since(from);
            assert!(gap >= interval, "{gap:?} between calls at concurrency {concurrency}");
        }
    }
}

/// Works until nothing is left; tells when each call began and ended.
async fn drain(store: &Store, queue: &str, rules: &Rules, takes: Duration) -> Vec<(Instant, Instant)> {
    let queues = store.queues();
    let mut calls = Vec::new();
    loop {
        let claimed = queues.claim(queue, rules, 1).await.unwrap();
        for run in claimed.runs {
            let begun = Instant::now();
            if begun > run.start_by {
                queues.settle(queue, rules, vec![(run.call, Answer::NotMade)]).await.unwrap();
                continue;
            }
            tokio::time::sleep(takes).await;
            calls.push((begun, Instant::now()));
            queues.settle(queue, rules, vec![(run.call, Answer::Done(run.key))]).await.unwrap();
        }
        if queues.status(queue, rules).await.unwrap().counts.left() == 0 {
            return calls;
        }
        if let Some(at) = claimed.look_at {
            sleep_until(at.min(Instant::now() + Duration::from_millis(50))).await;
        }
    }
}

pub(crate) async fn qu_22_attempts_used_up_lead_to_the_dead_list_which_can_be_revived(fixture: &Fixture) {
    let mut settings = Settings::new(10, Duration::ZERO, Duration::from_millis(1));
    settings.retry.max_attempts = 2;
    settings.breaker_threshold = 100;
    let (queues, rules) = (fixture.store.queues(), Rules::from(settings));
    enqueue(&queues, &rules, Kind::New, &["a", "b"]).await;
    for _ in 0..4 {
        let run = next_run(&queues, &rules).await;
        let broken = Answer::Broken { reason: "no route".to_owned(), retry: true, away: false };
        settle(&queues, &rules, run.call, broken).await;
    }
    let dead = Place::Dead("given up after 2 attempts: no route".into());
    assert_eq!(place(&queues, "a").await, Some(dead));
    assert_eq!(enqueue(&queues, &rules, Kind::New, &["a"]).await.ignored, 1);
    assert_eq!(queues.revive(QUEUE, &["a".to_owned(), "stranger".to_owned()]).await.unwrap(), 1);
    assert_eq!(queues.revive_all(QUEUE, GivenUp::Dead).await.unwrap(), 1);
    let runs = claim(&queues, &rules, 9).await.runs;
    assert_eq!(
        runs.iter().map(|run| (run.key.as_str(), run.attempt)).collect::<Vec<_>>(),
        [("a", 1), ("b", 1)]
    );
}

pub(crate) async fn qu_22_an_api_that_keeps_failing_is_paused_for_all_and_probed(fixture: &Fixture) {
    let mut settings = Settings::new(5, Duration::ZERO, Duration::from_millis(1));
    settings.breaker_threshold = 3;
    settings.breaker.initial_delay = Duration::from_millis(200);
    settings.breaker.jitter = 0.0;
    let rules = Rules::from(settings);
    let (queues, others) = (fixture.store.queues(), fixture.another().await.queues());
    enqueue(&queues, &rules, Kind::New, &["a", "b", "c", "d", "e"]).await;
    let runs = claim(&queues, &rules, 3).await.runs;
    let broken =
        |run: &Run| (run.call, Answer::Broken { reason: "503".to_owned(), retry: false, away: false });
    let before = Instant::now();
    queues.settle(QUEUE, &rules, runs.iter().map(broken).collect()).await.unwrap();

    let paused = claim(&others, &rules, 5).await;
    assert_eq!((paused.runs.len(), paused.waits_for), (0, Some(Why::Paused(PauseReason::Breaker))));
    let status = others.status(QUEUE, &rules).await.unwrap();
    assert_eq!(status.breaker, Breaker::Open { trips: 1 });
    assert!(status.paused.is_some() && status.next_call_at.is_some());
    let probe = next_run(&others, &rules).await;
    assert!(before.elapsed() >= Duration::from_millis(200));
    let probing = claim(&queues, &rules, 5).await;
    assert_eq!((probing.runs.len(), probing.waits_for), (0, Some(Why::Probing)), "one call decides");
    settle(&others, &rules, probe.call, Answer::Done("well".to_owned())).await;
    assert_eq!(queues.status(QUEUE, &rules).await.unwrap().breaker, Breaker::default());
    // The one whose failure opened the breaker comes back; the two before it had no attempt left.
    assert_eq!(claim(&queues, &rules, 5).await.runs.len(), 2);
    assert_eq!(queues.status(QUEUE, &rules).await.unwrap().counts.failed, 2);
}

/// A worker looked for a retry that was due all the time, hundreds of times a second, while the queue was paused.
pub(crate) async fn qu_22_a_retry_that_is_due_is_not_looked_for_while_the_queue_is_paused(fixture: &Fixture) {
    let mut settings = Settings::new(1, Duration::ZERO, Duration::from_millis(1));
    settings.breaker_threshold = 1;
    settings.breaker.initial_delay = Duration::from_secs(30);
    settings.breaker.jitter = 0.0;
    let (queues, rules) = (fixture.store.queues(), Rules::from(settings));
    enqueue(&queues, &rules, Kind::New, &["a", "b"]).await;
    let run = claim(&queues, &rules, 1).await.runs.remove(0);
    let before = Instant::now();
    let broken = Answer::Broken { reason: "503".to_owned(), retry: true, away: false };
    settle(&queues, &rules, run.call, broken).await;
    until("its time has come", async || {
        let status = queues.status(QUEUE, &rules).await.unwrap();
        status.next_retry_at.is_some_and(|at| at <= Instant::now())
    })
    .await;
    let paused = claim(&queues, &rules, 1).await;
    assert_eq!((paused.runs.len(), paused.waits_for), (0, Some(Why::Paused(PauseReason::Breaker))));
    assert!(paused.look_at.unwrap() >= before + Duration::from_secs(29), "not before the pause ends");
}

pub(crate) async fn qu_25_again_while_running_causes_exactly_one_more_run(fixture: &Fixture) {
    let (queues, rules) = (fixture.store.queues(), unpaced());
    enqueue(&queues, &rules, Kind::New, &["a"]).await;
    let run = claim(&queues, &rules, 1).await.runs.remove(0);
    for _ in 0..3 {
        assert_eq!(enqueue(&queues, &rules, Kind::Again, &["a"]).await.again, 1);
    }
    let ended = settle(&queues, &rules, run.call, Answer::Done("old".to_owned())).await;
    assert_eq!(ended, Some(Settled::Again));
    let again = claim(&queues, &rules, 9).await;
    assert_eq!(keys(&again), ["a"]);
    assert_eq!(
        settle(&queues, &rules, again.runs[0].call, Answer::Done("new".to_owned())).await,
        Some(Settled::Done)
    );
    assert_eq!(claim(&queues, &rules, 9).await.runs, []);
    assert_eq!(place(&queues, "a").await, Some(Place::Done("new".to_owned())));
}

pub(crate) async fn qu_25_a_key_keeps_its_priority_through_a_retry(fixture: &Fixture) {
    let queues = fixture.store.queues();
    let rules = Rules::from(Settings::new(1, Duration::ZERO, Duration::from_millis(1)));
    enqueue(&queues, &rules, Kind::New, &["head", "b", "c"]).await;
    enqueue(&queues, &rules, Kind::Priority, &["urgent"]).await;
    let head = claim(&queues, &rules, 1).await.runs.remove(0);
    settle(&queues, &rules, head.call, Answer::Done(String::new())).await;
    let urgent = claim(&queues, &rules, 1).await.runs.remove(0);
    assert_eq!(urgent.key, "urgent");
    settle(&queues, &rules, urgent.call, Answer::Throttled { retry_after: None }).await;
    until("it comes back", || async {
        let status = queues.status(QUEUE, &rules).await.unwrap();
        status.next_retry_at.is_some_and(|at| at <= Instant::now())
    })
    .await;
    let head = next_run(&queues, &rules).await;
    settle(&queues, &rules, head.call, Answer::Done(String::new())).await;
    let next = next_run(&queues, &rules).await;
    assert_eq!((head.key.as_str(), next.key.as_str()), ("b", "urgent"), "right after the head");
    assert!(queues.entry(QUEUE, "urgent").await.unwrap().unwrap().priority);
}

pub(crate) async fn qu_26_a_pause_that_was_asked_for_holds_the_whole_queue_everywhere(fixture: &Fixture) {
    let rules = unpaced();
    let (queues, others) = (fixture.store.queues(), fixture.another().await.queues());
    enqueue(&queues, &rules, Kind::New, &["a", "b"]).await;
    let run = claim(&queues, &rules, 1).await.runs.remove(0);
    let pause = Duration::from_millis(300);
    let before = Instant::now();
    settle(&queues, &rules, run.call, Answer::Throttled { retry_after: Some(pause) }).await;
    for queues in [&queues, &others] {
        let paused = claim(queues, &rules, 1).await;
        assert_eq!((paused.runs.len(), paused.waits_for), (0, Some(Why::Paused(PauseReason::RetryAfter))));
        assert!(paused.look_at.unwrap() >= before + pause, "another key does not go either");
    }
    next_run(&others, &rules).await;
    assert!(before.elapsed() >= pause);
}

pub(crate) async fn qu_26_an_unreadable_pace_means_one_interval_and_loses_no_key(fixture: &Fixture) {
    let interval = Duration::from_millis(200);
    let rules = Rules::from(Settings::new(3, interval, Duration::from_millis(1)));
    let queues = fixture.store.queues();
    enqueue(&queues, &rules, Kind::New, &["a", "b"]).await;
    let run = claim(&queues, &rules, 1).await.runs.remove(0);
    fixture.execute("UPDATE syncline.queues SET pace = 'nonsense'").await;
    let before = Instant::now();
    let rest = claim(&queues, &rules, 1).await;
    assert_eq!((rest.runs.len(), rest.waits_for), (0, Some(Why::Interval)));
    assert_eq!(place(&queues, "a").await, Some(Place::Waiting), "what ran is in line again");
    let again = next_run(&queues, &rules).await;
    assert!(before.elapsed() >= interval);
    assert_eq!(again.key, "a");
    assert_eq!(settle(&queues, &rules, run.call, Answer::Done("late".to_owned())).await, None);
    settle(&queues, &rules, again.call, Answer::Done("right".to_owned())).await;
    assert_eq!(place(&queues, "a").await, Some(Place::Done("right".to_owned())));
}

pub(crate) async fn qu_20_calls_not_made_are_first_in_line_again_in_their_order(fixture: &Fixture) {
    let (queues, rules) = (fixture.store.queues(), unpaced());
    enqueue(&queues, &rules, Kind::New, &["a", "b", "c", "d", "e"]).await;
    let runs = claim(&queues, &rules, 3).await.runs;
    let answers = runs.iter().rev().map(|run| (run.call, Answer::NotMade)).collect();
    let ended = queues.settle(QUEUE, &rules, answers).await.unwrap();
    assert!(ended.iter().all(|ended| ended.settled == Settled::Waiting));
    let again = claim(&queues, &rules, 9).await;
    assert_eq!(keys(&again), ["a", "b", "c", "d", "e"]);
    assert!(again.runs.iter().all(|run| run.attempt == 1), "they do not count");
}

pub(crate) async fn qu_20_whoever_watches_hears_of_keys_and_results_from_elsewhere(fixture: &Fixture) {
    let (queues, others, rules) = (fixture.store.queues(), fixture.another().await.queues(), unpaced());
    let mut changes = queues.changes(QUEUE).unwrap();
    enqueue(&others, &rules, Kind::New, &["a"]).await;
    let run = loop {
        changes.changed().await.unwrap();
        if let Some(run) = claim(&queues, &rules, 1).await.runs.pop() {
            break run;
        }
    };
    let mut results = others.changes(QUEUE).unwrap();
    settle(&queues, &rules, run.call, Answer::Done("heard".to_owned())).await;
    while place(&others, "a").await != Some(Place::Done("heard".to_owned())) {
        results.changed().await.unwrap();
    }
}

pub(crate) async fn qu_20_a_result_that_cannot_be_kept_is_a_failure_that_says_so(fixture: &Fixture) {
    let (queues, rules) = (fixture.store.queues(), unpaced());
    let longest = "é".repeat(RESULT_MAX_BYTES / 2);
    let results = [
        longest.clone(),
        format!("{longest}!"),
        "zero \0 byte".to_owned(),
        r#"{"a":"\"'\u0000"}"#.to_owned(),
    ];
    let names: Vec<String> = (0..results.len()).map(|n| format!("key {n}")).collect();
    queues.enqueue(QUEUE, &rules, Kind::New, &names).await.unwrap();
    let runs = claim(&queues, &rules, 9).await.runs;
    let answers = runs.iter().zip(results.clone()).map(|(run, result)| (run.call, Answer::Done(result)));
    queues.settle(QUEUE, &rules, answers.collect()).await.unwrap();
    assert_eq!(place(&queues, "key 0").await, Some(Place::Done(longest)));
    assert_eq!(
        place(&queues, "key 1").await,
        Some(Place::Failed("the result has 262145 bytes; 262144 are the most".into()))
    );
    assert_eq!(place(&queues, "key 2").await, Some(Place::Failed("the result contains a zero byte".into())));
    assert_eq!(place(&queues, "key 3").await, Some(Place::Done(results[3].clone())));
}

pub(crate) async fn a_listing_of_long_results_is_cut_and_can_be_gone_on_with(fixture: &Fixture) {
    let (queues, rules) = (fixture.store.queues(), unpaced());
    let fit = LIST_BYTES_MAX / RESULT_MAX_BYTES;
    let names: Vec<String> = (0..fit + 3).map(|n| format!("key {n}")).collect();
    queues.enqueue(QUEUE, &rules, Kind::New, &names).await.unwrap();
    let runs = claim(&queues, &rules, 1_000).await.runs;
    let long = Answer::Done("x".repeat(RESULT_MAX_BYTES));
    let ended = queues
        .settle(QUEUE, &rules, runs.iter().map(|run| (run.call, long.clone())).collect())
        .await
        .unwrap();
    assert_eq!(ended.len(), fit + 3);
    let page: Vec<Entry> = queues.list(QUEUE, List::Done, None, 1_000).await.unwrap();
    assert_eq!(page.len(), fit);
    let after = page.last().map(|entry| entry.cursor);
    let rest = queues.list(QUEUE, List::Done, after, 1_000).await.unwrap();
    assert_eq!(rest.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["key 2", "key 1", "key 0"]);
}

pub(crate) async fn what_breaks_a_bound_of_a_queue_is_refused_and_changes_nothing(fixture: &Fixture) {
    let (queues, rules) = (fixture.store.queues(), unpaced());
    let refused = |told: Result<Enqueued, Error>| match told {
        Err(Error::Invalid { .. }) => {}
        other => panic!("{other:?}"),
    };
    let long = "k".repeat(KEY_MAX_BYTES + 1);
    for key in ["", "tab\t", "zero\0", "line\n", long.as_str()] {
        refused(queues.enqueue(QUEUE, &rules, Kind::New, &["good".to_owned(), key.to_owned()]).await);
    }
    let too_many = vec!["k".to_owned(); KEYS_MAX + 1];
    refused(queues.enqueue(QUEUE, &rules, Kind::New, &too_many).await);
    for name in ["", "with space", "a/b", &"n".repeat(65)] {
        refused(queues.enqueue(name, &rules, Kind::New, &["k".to_owned()]).await);
    }
    let zero = Rules { settings: Settings { concurrency: 0, ..rules.settings }, ..rules };
    let unfit = queues.claim(QUEUE, &zero, 1).await.unwrap_err();
    assert_eq!(unfit.to_string(), "concurrency is 0; it must be from 1 to 1000");
    assert!(queues.list(QUEUE, List::Done, None, 0).await.is_err());
    assert_eq!(queues.names().await.unwrap(), [""; 0]);

    let small = Rules { limits: Limits { max_keys: 2, ..Limits::default() }, ..rules };
    let keys = ["a", "b", "c"].map(str::to_owned);
    let full = queues.enqueue(QUEUE, &small, Kind::New, &keys).await.unwrap_err();
    assert!(matches!(full, Error::QueueFull(_)) && full.hint().is_some(), "{full:?}");
    assert_eq!(full.to_string(), "the queue holds 0 keys and would take 3 more; 2 is the most");
    assert_eq!(queues.status(QUEUE, &small).await.unwrap().counts.waiting, 0, "all or none");
    let longest = "é".repeat(KEY_MAX_BYTES / 2);
    queues.enqueue(QUEUE, &small, Kind::New, std::slice::from_ref(&longest)).await.unwrap();
    assert_eq!(place(&queues, &longest).await, Some(Place::Waiting));
}

/// Many at once and no interval.
fn unpaced() -> Rules {
    Rules::from(Settings::new(200, Duration::ZERO, Duration::from_millis(500)))
}

async fn enqueue(queues: &Arc<dyn Queues>, rules: &Rules, kind: Kind, keys: &[&str]) -> Enqueued {
    let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    queues.enqueue(QUEUE, rules, kind, &keys).await.unwrap()
}

async fn claim(queues: &Arc<dyn Queues>, rules: &Rules, max: usize) -> Claimed {
    queues.claim(QUEUE, rules, max).await.unwrap()
}

async fn settle(
    queues: &Arc<dyn Queues>,
    rules: &Rules,
    call: u64,
    answer: Answer<String>,
) -> Option<Settled> {
    let ended = queues.settle(QUEUE, rules, vec![(call, answer)]).await.unwrap();
    ended.first().map(|ended| ended.settled)
}

async fn place(queues: &Arc<dyn Queues>, key: &str) -> Option<Place<String>> {
    queues.entry(QUEUE, key).await.unwrap().map(|entry| entry.place)
}

/// Claims as a worker does, until there is something.
async fn next_run(queues: &Arc<dyn Queues>, rules: &Rules) -> Run {
    loop {
        let mut claimed = claim(queues, rules, 1).await;
        if let Some(run) = claimed.runs.pop() {
            return run;
        }
        sleep_until(claimed.look_at.expect("something is to come")).await;
    }
}

fn keys(claimed: &Claimed) -> Vec<&str> {
    claimed.runs.iter().map(|run| run.key.as_str()).collect()
}

async fn sleep_until(at: Instant) {
    tokio::time::sleep_until(at.into()).await;
}
