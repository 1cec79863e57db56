//! The queue's order and results, rule by rule.

use std::hash::RandomState;

use syncline_core::queue::{
    BadRecord, Change, Enqueued, Full, Kind, Limits, Outcome, Place, Queue, Record, Settled,
};
use syncline_core::time::Timestamp;

type Line = Queue<String, u32>;

fn queue(limits: Limits) -> Line {
    Queue::new(limits, RandomState::default())
}

/// A queue in which `keys` wait.
fn waiting(keys: &str) -> Line {
    let mut queue = queue(Limits::default());
    enqueue(&mut queue, Kind::New, keys);
    queue
}

fn enqueue(queue: &mut Line, kind: Kind, keys: &str) -> Enqueued {
    queue.enqueue(kind, words(keys)).expect("there is room")
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The keys in line; those that run have a star.
fn line(queue: &Line) -> String {
    let keys: Vec<String> = queue
        .line()
        .map(|record| match record.place {
            Place::Running { .. } => format!("*{}", record.key),
            _ => record.key.clone(),
        })
        .collect();
    keys.join(" ")
}

fn start(queue: &mut Line) -> String {
    queue.start().expect("somebody waits").key.clone()
}

fn done(result: u32) -> Outcome<u32> {
    Outcome::Done(result)
}

fn later(due_ms: u64) -> Outcome<u32> {
    Outcome::Retrying { due: Timestamp::from_ms(due_ms) }
}

fn dead() -> Outcome<u32> {
    Outcome::Dead("given up".to_owned())
}

fn result_of(queue: &Line, key: &str) -> Option<u32> {
    match queue.record(key)?.place {
        Place::Done(result) => Some(*result),
        _ => None,
    }
}

#[test]
fn qu_01_new_goes_to_the_tail_if_it_has_no_result_and_is_not_queued() {
    let mut queue = waiting("a b");
    assert_eq!(
        enqueue(&mut queue, Kind::New, "b c c a d"),
        Enqueued { added: 2, ignored: 3, ..Enqueued::default() }
    );
    assert_eq!(line(&queue), "a b c d");

    start(&mut queue);
    queue.settle("a", done(1));
    enqueue(&mut queue, Kind::New, "a b");
    assert_eq!(line(&queue), "b c d", "a has a result");
}

#[test]
fn qu_01_retry_goes_right_after_the_head_if_its_result_is_retrying() {
    let mut queue = waiting("a b c d");
    assert_eq!((start(&mut queue), start(&mut queue)), ("a".to_owned(), "b".to_owned()));
    queue.dequeue([("a".to_owned(), later(500)), ("b".to_owned(), done(2))]);
    assert_eq!(line(&queue), "c d");

    enqueue(&mut queue, Kind::Retry, "b c x a a");
    assert_eq!(line(&queue), "c a d", "b has a result, c waits, x is unknown");
    enqueue(&mut queue, Kind::Retry, "a");
    assert_eq!(line(&queue), "c a d", "the retry has replaced the result");
}

#[test]
fn qu_01_priority_goes_right_after_the_head_and_moves_a_queued_key_up() {
    let mut queue = waiting("a b c d");
    assert_eq!(
        enqueue(&mut queue, Kind::Priority, "x d a x"),
        Enqueued { added: 1, moved: 1, ignored: 2, ..Enqueued::default() }
    );
    assert_eq!(line(&queue), "a x d b c", "in the order they were given, behind the head, which stays");

    start(&mut queue);
    enqueue(&mut queue, Kind::Priority, "c a y");
    assert_eq!(line(&queue), "*a c y x d b", "the head runs: it is not moved");

    queue.settle("a", done(1));
    enqueue(&mut queue, Kind::Priority, "a");
    assert_eq!(line(&queue), "c y x d b", "a has a result");
    assert!(queue.record("y").is_some_and(|record| record.priority));
    assert!(queue.record("b").is_some_and(|record| !record.priority));
}

#[test]
fn qu_01_nothing_is_put_in_front_of_what_runs() {
    let mut queue = waiting("a b c");
    start(&mut queue);
    start(&mut queue);
    enqueue(&mut queue, Kind::Priority, "p");
    assert_eq!(line(&queue), "*a *b p c");
    enqueue(&mut queue, Kind::Priority, "b");
    assert_eq!(line(&queue), "*a *b p c");
}

#[test]
fn qu_01_express_kinds_fill_an_empty_queue_in_order() {
    let mut queue = queue(Limits::default());
    enqueue(&mut queue, Kind::Priority, "a b c");
    assert_eq!(line(&queue), "a b c");
    enqueue(&mut queue, Kind::Priority, "d e");
    assert_eq!(line(&queue), "a d e b c");
}

#[test]
fn qu_01_whoever_enqueues_at_once_no_key_stands_twice() {
    let mut queue = waiting("a b c");
    for kind in [Kind::New, Kind::Priority, Kind::Retry, Kind::Again, Kind::Priority] {
        enqueue(&mut queue, kind, "c b a c z z");
        let mut keys: Vec<String> = queue.line().map(|record| record.key.clone()).collect();
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count, "{kind:?}: {}", line(&queue));
    }
}

#[test]
fn qu_02_results_are_kept_only_for_queued_keys_which_leave_the_queue() {
    let mut queue = waiting("a b c");
    start(&mut queue);
    let kept = queue.dequeue([
        ("a".to_owned(), done(1)),
        ("c".to_owned(), Outcome::Failed("empty".to_owned())),
        ("nobody".to_owned(), done(9)),
        ("a".to_owned(), done(8)),
    ]);
    assert_eq!((kept, line(&queue).as_str()), (2, "b"));
    assert_eq!((result_of(&queue, "a"), result_of(&queue, "nobody")), (Some(1), None));
    assert!(matches!(queue.record("c").unwrap().place, Place::Failed(reason) if &**reason == "empty"));

    queue.settle("b", later(500));
    assert_eq!(queue.settle("b", done(7)), None, "a retrying key is not queued");
    enqueue(&mut queue, Kind::Retry, "b");
    assert_eq!(queue.settle("b", done(7)), Some(Settled::Done), "the retry's result replaces it");
    assert_eq!(result_of(&queue, "b"), Some(7));
}

#[test]
fn qu_02_a_run_that_is_over_cannot_settle_a_later_run_of_its_key() {
    let mut queue = waiting("a");
    let first = queue.start().unwrap().id;
    queue.remove("a");
    enqueue(&mut queue, Kind::New, "a");
    let second = queue.start().unwrap().id;
    assert_eq!(queue.settle_run(first, done(1)), None);
    assert_eq!(queue.run(second).map(|run| run.key.as_str()), Some("a"));
    assert_eq!(queue.settle_run(second, done(2)), Some(Settled::Done));
    assert_eq!(queue.settle_run(second, done(3)), None);
    assert_eq!(result_of(&queue, "a"), Some(2));
}

#[test]
fn qu_25_again_while_running_causes_exactly_one_more_run() {
    let mut queue = waiting("a b");
    start(&mut queue);
    for _ in 0..3 {
        assert_eq!(enqueue(&mut queue, Kind::Again, "a").again, 1);
    }
    assert_eq!(queue.settle("a", done(1)), Some(Settled::Again));
    assert_eq!(line(&queue), "b a");
    assert_eq!(result_of(&queue, "a"), None, "what the first run brought is out of date");

    enqueue(&mut queue, Kind::Again, "a");
    assert_eq!(line(&queue), "b a", "a run is ahead of it: no pile-up");
    assert_eq!((start(&mut queue), start(&mut queue)), ("b".to_owned(), "a".to_owned()));
    assert_eq!(queue.settle("a", done(2)), Some(Settled::Done));
    assert_eq!(result_of(&queue, "a"), Some(2));
}

#[test]
fn qu_25_again_is_one_more_run_wherever_the_key_is() {
    let mut queue = waiting("a b");
    start(&mut queue);
    enqueue(&mut queue, Kind::Again, "a");
    queue.settle("a", later(500));
    assert_eq!(queue.enqueue_due(Timestamp::from_ms(500)), 1);
    assert_eq!((start(&mut queue), start(&mut queue)), ("b".to_owned(), "a".to_owned()));
    assert_eq!(queue.settle("a", done(1)), Some(Settled::Done), "the retry was the one more run");

    queue.settle("b", dead());
    enqueue(&mut queue, Kind::Again, "x a b");
    assert_eq!(line(&queue), "x a b", "unknown, done and dead keys run once more");
    assert_eq!(queue.record("b").unwrap().attempts, 0);

    start(&mut queue);
    enqueue(&mut queue, Kind::Again, "x");
    assert_eq!(queue.settle("x", dead()), Some(Settled::Again), "whatever the first run ends with");
}

#[test]
fn qu_25_a_key_keeps_its_priority_through_a_retry() {
    let mut queue = waiting("a b c");
    start(&mut queue);
    enqueue(&mut queue, Kind::Priority, "p");
    queue.settle("a", done(1));
    assert_eq!(start(&mut queue), "p");
    queue.settle("p", later(500));
    start(&mut queue);
    enqueue(&mut queue, Kind::New, "d e");
    queue.enqueue_due(Timestamp::from_ms(500));
    assert_eq!(line(&queue), "*b p c d e");
    assert!(queue.record("p").unwrap().priority);

    start(&mut queue);
    queue.settle("p", dead());
    assert!(queue.revive("p"));
    assert_eq!(line(&queue), "*b p c d e", "and through the dead list");
}

#[test]
fn qu_22_retries_come_back_when_due_first_to_fail_first() {
    let mut queue = waiting("a b c d e");
    for (key, due_ms) in [("a", 300), ("b", 200), ("c", 200), ("d", 900)] {
        start(&mut queue);
        queue.settle(key, later(due_ms));
    }
    assert_eq!(queue.next_due(), Some(Timestamp::from_ms(200)));
    assert_eq!(queue.enqueue_due(Timestamp::from_ms(199)), 0);
    assert_eq!(queue.enqueue_due(Timestamp::from_ms(300)), 3);
    assert_eq!(line(&queue), "e b c a");
    assert_eq!(queue.next_due(), Some(Timestamp::from_ms(900)));
}

#[test]
fn qu_22_the_dead_list_can_be_retried_with_all_attempts() {
    let mut queue = waiting("a b c");
    for key in ["a", "b"] {
        assert_eq!(queue.start().unwrap().attempt, 1);
        queue.settle(key, dead());
    }
    assert!(queue.dead().map(|record| record.key.as_str()).eq(["b", "a"]));
    enqueue(&mut queue, Kind::New, "a");
    enqueue(&mut queue, Kind::Priority, "a");
    enqueue(&mut queue, Kind::Retry, "a");
    assert_eq!(line(&queue), "c", "a dead key comes back only when it is revived");
    assert!(queue.revive("a") && !queue.revive("c") && !queue.revive("nobody"));
    assert_eq!((line(&queue).as_str(), queue.counts().dead), ("c a", 1));
    queue.settle("c", Outcome::Failed("500".to_owned()));
    assert!(queue.revive("c"), "and so does one that failed");
    assert_eq!((line(&queue).as_str(), queue.counts().failed), ("a c", 0));
    start(&mut queue);
    assert_eq!(queue.start().unwrap().attempt, 1);
}

#[test]
fn qu_20_a_lost_run_is_first_in_line_again_and_counts_as_an_attempt() {
    let mut queue = waiting("a b");
    start(&mut queue);
    enqueue(&mut queue, Kind::Priority, "p");
    assert!(queue.release("a") && !queue.release("a") && !queue.release("b"));
    assert_eq!(line(&queue), "a p b");
    assert_eq!(queue.start().unwrap().attempt, 2);
}

#[test]
fn a_full_queue_takes_all_of_a_batch_or_nothing() {
    let mut queue = queue(Limits { max_keys: 3, ..Limits::default() });
    enqueue(&mut queue, Kind::New, "a b");
    let refused = queue.enqueue(Kind::New, words("c d a"));
    assert_eq!(refused, Err(Full { held: 2, asked: 2, limit: 3 }));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the queue holds 2 keys and would take 2 more; 3 is the most"
    );
    assert_eq!(line(&queue), "a b");
    enqueue(&mut queue, Kind::Priority, "c b");
    assert_eq!(line(&queue), "a c b");
    enqueue(&mut queue, Kind::Priority, "b c");
    assert_eq!(line(&queue), "a b c", "keys that are in it can still move");

    for (key, outcome) in [("a", later(1)), ("b", dead()), ("c", done(1))] {
        start(&mut queue);
        queue.settle(key, outcome);
    }
    assert_eq!(queue.counts().left(), 1);
    enqueue(&mut queue, Kind::New, "d");
    assert!(queue.enqueue(Kind::New, words("e")).is_err(), "what is retrying or dead takes room");
    assert!(queue.enqueue(Kind::Again, words("c")).is_err(), "so does a result that runs again");
}

#[test]
fn beyond_the_limit_the_oldest_result_goes() {
    let mut queue = queue(Limits { max_results: 2, ..Limits::default() });
    enqueue(&mut queue, Kind::New, "a b c");
    for (key, result) in [("b", 1), ("a", 2), ("c", 3)] {
        queue.settle(key, done(result));
    }
    assert_eq!(result_of(&queue, "b"), None);
    assert_eq!((result_of(&queue, "a"), result_of(&queue, "c")), (Some(2), Some(3)));
    assert!(queue.results().map(|record| record.key.as_str()).eq(["c", "a"]));
    enqueue(&mut queue, Kind::New, "b");
    assert_eq!(line(&queue), "b", "it may be asked for again");
}

/// Under a constant load of priority keys, each of which also comes back for a retry, the old keys start within the
/// bound that the queue states.
#[test]
fn qu_25_a_low_priority_key_waits_at_most_the_stated_bound() {
    const OVERTAKES: usize = 4;
    let mut queue = queue(Limits { max_overtakes: OVERTAKES as u32, ..Limits::default() });
    let old: Vec<String> = (0..50).map(|number| format!("old{number}")).collect();
    queue.enqueue(Kind::New, old.clone()).unwrap();
    let (mut starts, mut started_at) = (0, vec![None; old.len()]);
    for round in 0_u64..2_000 {
        enqueue(&mut queue, Kind::Priority, &format!("fresh{round} fresher{round}"));
        queue.enqueue_due(Timestamp::from_ms(round));
        let run = queue.start().unwrap();
        let (key, attempt) = (run.key.clone(), run.attempt);
        starts += 1;
        if let Some(number) = key.strip_prefix("old") {
            let older: usize = number.parse().unwrap();
            started_at[older].get_or_insert(starts);
            queue.settle(key.as_str(), done(0));
        } else {
            let outcome = if attempt == 1 { later(round + 3) } else { done(0) };
            queue.settle(key.as_str(), outcome);
        }
    }
    for (older, started_at) in started_at.into_iter().enumerate() {
        let bound = (older + 1) * (OVERTAKES + 1);
        assert!(started_at.is_some_and(|at| at <= bound), "{older} older: {started_at:?} of at most {bound}");
    }
}

#[test]
fn qu_25_within_the_bound_the_order_is_the_line() {
    let mut queue = waiting("a b c");
    let fresh: Vec<String> = (0..32).map(|number| format!("p{number}")).collect();
    queue.enqueue(Kind::Priority, fresh.clone()).unwrap();
    assert_eq!(start(&mut queue), "a");
    for key in fresh {
        assert_eq!(start(&mut queue), key);
    }
    assert_eq!((start(&mut queue), start(&mut queue)), ("b".to_owned(), "c".to_owned()));
}

#[test]
fn qu_20_one_row_is_written_per_changed_key() {
    let mut queue = waiting("a b c d e");
    queue.keep_changes();
    let written = |queue: &mut Line| {
        let mut rows = Vec::new();
        queue.drain_changes(|change| {
            rows.push(match change {
                Change::Put(record) => format!("+{}", record.key),
                Change::Remove(key) => format!("-{key}"),
            });
        });
        rows.sort();
        rows.join(" ")
    };
    start(&mut queue);
    queue.settle("a", done(1));
    assert_eq!(written(&mut queue), "+a", "two changes of one key are one row");
    enqueue(&mut queue, Kind::New, "a f");
    assert_eq!(written(&mut queue), "+f");
    enqueue(&mut queue, Kind::Priority, "e p");
    assert_eq!(written(&mut queue), "+b +e +p", "and the head's new rank");
    start(&mut queue);
    enqueue(&mut queue, Kind::Priority, "d");
    assert_eq!(written(&mut queue), "+b +d", "a head that runs keeps its rank");
    queue.remove("c");
    enqueue(&mut queue, Kind::New, "c");
    queue.remove("f");
    assert_eq!(written(&mut queue), "+c -c -f");
    assert_eq!(written(&mut queue), "");
}

#[test]
fn qu_20_records_that_make_no_queue_are_refused() {
    let record = |key: &str, rank, since| Record {
        key: key.to_owned(),
        place: Place::<u32>::Waiting,
        rank,
        since,
        attempts: 0,
        priority: false,
        group: 0,
    };
    let restore = |records: Vec<Record<String, Place<u32>>>| {
        Queue::restore(Limits::default(), RandomState::default(), records).map(|queue| line(&queue))
    };
    assert_eq!(restore(vec![record("b", 5, 2), record("a", -5, 9)]), Ok("a b".to_owned()));
    assert_eq!(restore(vec![record("a", 1, 1), record("a", 2, 2)]), Err(BadRecord::KeyTwice { rank: 2 }));
    assert_eq!(restore(vec![record("a", 1, 1), record("b", 1, 2)]), Err(BadRecord::OrderTwice { order: 1 }));
    assert_eq!(restore(vec![record("a", 1, 7), record("b", 2, 7)]), Err(BadRecord::OrderTwice { order: 7 }));
    for wild in [i64::MIN, i64::MAX, 1 << 53] {
        assert_eq!(restore(vec![record("a", wild, 1)]), Err(BadRecord::OutOfRange { rank: wild, since: 1 }));
        assert_eq!(restore(vec![record("a", 1, wild)]), Err(BadRecord::OutOfRange { rank: 1, since: wild }));
    }
}

#[test]
fn qu_20_more_keys_than_the_limit_are_restored_all_the_same() {
    let mut large = waiting("a b c d");
    large.settle("d", done(4));
    large.settle("c", done(3));
    let records: Vec<_> = large.records().map(|record| record.cloned()).collect();
    let small = Limits { max_keys: 1, max_results: 1, ..Limits::default() };
    let mut restored = Queue::restore(small, RandomState::default(), records).unwrap();
    assert_eq!((line(&restored).as_str(), restored.counts().done), ("a b", 1));
    assert!(restored.enqueue(Kind::New, words("e")).is_err());
}

#[test]
fn qu_01_a_key_that_takes_the_slot_of_a_removed_one_is_in_line() {
    // The slot of the last key that went to the front was used again, and the new key was put behind itself.
    let mut queue = queue(Limits::default());
    enqueue(&mut queue, Kind::Priority, "p");
    queue.remove("p");
    enqueue(&mut queue, Kind::Priority, "q");
    enqueue(&mut queue, Kind::New, "r");
    assert_eq!((line(&queue).as_str(), start(&mut queue).as_str()), ("q r", "q"));
}
