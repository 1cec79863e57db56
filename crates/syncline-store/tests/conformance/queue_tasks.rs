//! What keys carry, leases of one's own, and control: case by case.

use std::sync::Arc;
use std::time::Duration;

use syncline_core::queue::{Answer, Kind, Place, Settings, Settled};
use syncline_store::Error;
use syncline_store::queue::{INPUT_MAX_BYTES, List, NewTask, Next, Queues, Rules, Run};

use super::fixture::{Fixture, until};

const QUEUE: &str = "work";

fn rules() -> Rules {
    Rules::from(Settings::new(200, Duration::ZERO, Duration::from_millis(1)))
}

fn next_queue() -> Next {
    Next { queue: "next".to_owned(), rules: rules(), group: None }
}

fn task(key: &str, input: &str) -> NewTask {
    NewTask { input: Some(input.to_owned()), ..NewTask::from(key.to_owned()) }
}

async fn add(queues: &Arc<dyn Queues>, kind: Kind, tasks: Vec<NewTask>) {
    queues.enqueue_tasks(QUEUE, &rules(), kind, tasks).await.unwrap();
}

async fn claim(queues: &Arc<dyn Queues>, max: usize) -> Vec<Run> {
    queues.claim(QUEUE, &rules(), max).await.unwrap().runs
}

fn carried(runs: &[Run]) -> Vec<(&str, Option<&str>)> {
    runs.iter().map(|run| (run.key.as_str(), run.input.as_deref())).collect()
}

async fn settle(queues: &Arc<dyn Queues>, run: &Run, answer: Answer<String>) -> Option<Settled> {
    let ended = queues.settle(QUEUE, &rules(), vec![(run.call, answer)]).await.unwrap();
    ended.first().map(|ended| ended.settled)
}

async fn place(queues: &Arc<dyn Queues>, key: &str) -> Option<Place<String>> {
    queues.entry(QUEUE, key).await.unwrap().map(|entry| entry.place)
}

pub(crate) async fn qu_30_a_key_carries_its_newest_input_until_it_runs_and_keeps_it_for_the_next_time(
    fixture: &Fixture,
) {
    let (queues, others) = (fixture.store.queues(), fixture.another().await.queues());
    add(&queues, Kind::New, vec![task("a", "1"), NewTask::from("b".to_owned()), task("c", "{\"x\":\"ü\"}")])
        .await;
    add(&others, Kind::New, vec![task("a", "2"), NewTask::from("c".to_owned()), task("a", "3")]).await;
    let runs = claim(&others, 9).await;
    assert_eq!(carried(&runs), [("a", Some("3")), ("b", None), ("c", Some("{\"x\":\"ü\"}"))]);
    assert_eq!(queues.entry(QUEUE, "a").await.unwrap().unwrap().input.as_deref(), Some("3"));

    // While it runs only `again` has a run ahead of it that a new input is for.
    add(&queues, Kind::New, vec![task("a", "4")]).await;
    add(&queues, Kind::Again, vec![task("b", "5")]).await;
    for run in &runs {
        settle(&queues, run, Answer::Done("done".to_owned())).await;
    }
    assert_eq!(carried(&claim(&queues, 9).await), [("b", Some("5"))]);
    add(&queues, Kind::New, vec![task("a", "6")]).await;
    add(&queues, Kind::Again, vec![NewTask::from("a".to_owned()), task("c", "7")]).await;
    let again = claim(&queues, 9).await;
    assert_eq!(carried(&again), [("a", Some("3")), ("c", Some("7"))], "known keys keep what they have");

    // What is tried again, and what is revived, has its input still.
    settle(&queues, &again[0], Answer::Refused { reason: "no".to_owned() }).await;
    settle(&queues, &again[1], Answer::NotMade).await;
    assert_eq!(queues.revive(QUEUE, &["a".to_owned()]).await.unwrap(), 1);
    assert_eq!(carried(&claim(&queues, 9).await), [("c", Some("7")), ("a", Some("3"))]);
}

pub(crate) async fn qu_30_inputs_are_bounded_and_a_refused_batch_changes_nothing(fixture: &Fixture) {
    let queues = fixture.store.queues();
    let longest = format!("\"{}\"", "x".repeat(INPUT_MAX_BYTES - 2));
    for input in [format!("{longest} "), "\"\0\"".to_owned()] {
        let told =
            queues.enqueue_tasks(QUEUE, &rules(), Kind::New, vec![task("a", "1"), task("b", &input)]).await;
        assert!(matches!(told, Err(Error::Invalid { .. })), "{told:?}");
    }
    assert_eq!(queues.names().await.unwrap(), [""; 0]);
    add(&queues, Kind::New, vec![task("b", &longest)]).await;
    assert_eq!(carried(&claim(&queues, 9).await), [("b", Some(longest.as_str()))]);
}

/// The lease is a second, and five for the answer to arrive; the queue's own would be a minute.
pub(crate) async fn qu_31_a_claim_with_a_lease_of_its_own_is_lost_by_that_and_its_late_answer_is_refused(
    fixture: &Fixture,
) {
    let (queues, others) = (fixture.store.queues(), fixture.another().await.queues());
    let mut rules = rules();
    rules.settings.call_timeout = Duration::from_secs(60);
    add(&queues, Kind::New, vec![task("a", "1")]).await;
    let lease = Some(Duration::from_secs(1));
    let lost = queues.claim_for(QUEUE, &rules, 1, lease).await.unwrap().runs.remove(0);
    let (mut given_up, mut again) = (Vec::new(), None);
    while again.is_none() {
        let claimed = others.claim_for(QUEUE, &rules, 1, lease).await.unwrap();
        given_up.extend(claimed.lost);
        again = claimed.runs.into_iter().next();
        if again.is_none() {
            tokio::time::sleep_until(claimed.look_at.unwrap().into()).await;
        }
    }
    let again = again.unwrap();
    assert_eq!((given_up.len(), given_up[0].call), (1, lost.call));
    assert_eq!((again.attempt, again.input.as_deref()), (2, Some("1")));
    assert_eq!(settle(&queues, &lost, Answer::Done("late".to_owned())).await, None);
    assert_eq!(settle(&others, &again, Answer::Done("right".to_owned())).await, Some(Settled::Done));
    assert_eq!(place(&queues, "a").await, Some(Place::Done("right".to_owned())));
}

pub(crate) async fn qu_31_a_claim_whose_key_was_removed_cannot_be_extended(fixture: &Fixture) {
    let queues = fixture.store.queues();
    add(&queues, Kind::New, vec![task("a", "1"), task("b", "2")]).await;
    let calls: Vec<u64> = claim(&queues, 9).await.iter().map(|run| run.call).collect();
    assert_eq!(queues.remove(QUEUE, &["a".to_owned()]).await.unwrap(), 1);
    let lease = Some(Duration::from_secs(3_600));
    let extended = queues.renew_for(QUEUE, &rules(), &calls, lease).await.unwrap();
    assert!(extended[0].is_none() && extended[1].is_some(), "{extended:?}");
}

pub(crate) async fn qu_33_nothing_starts_while_a_queue_is_paused_and_all_does_afterwards(fixture: &Fixture) {
    let (queues, others) = (fixture.store.queues(), fixture.another().await.queues());
    add(&queues, Kind::New, vec![task("a", "1"), task("b", "1"), task("c", "1")]).await;
    let first = claim(&queues, 1).await.remove(0);
    others.pause(QUEUE).await.unwrap();
    for queues in [&queues, &others] {
        let claimed = queues.claim(QUEUE, &rules(), 9).await.unwrap();
        assert!(claimed.runs.is_empty() && claimed.waits_for.is_none(), "{claimed:?}");
        assert!(queues.status(QUEUE, &rules()).await.unwrap().held);
    }
    assert_eq!(
        settle(&others, &first, Answer::Done("r".to_owned())).await,
        Some(Settled::Done),
        "what runs ends"
    );
    add(&queues, Kind::Priority, vec![task("d", "1")]).await;
    assert_eq!(claim(&queues, 9).await, [], "neither does what comes meanwhile");
    queues.resume(QUEUE, &rules()).await.unwrap();
    assert_eq!(claim(&others, 9).await.len(), 3);

    // A pause that an API asked for is lifted, too.
    add(&queues, Kind::New, vec![task("e", "1"), task("f", "1")]).await;
    let run = claim(&queues, 1).await.remove(0);
    settle(&queues, &run, Answer::Throttled { retry_after: Some(Duration::from_secs(3_600)) }).await;
    assert_eq!(claim(&others, 9).await, []);
    others.resume(QUEUE, &rules()).await.unwrap();
    until("the others may start", || async { !claim(&queues, 9).await.is_empty() }).await;
}

pub(crate) async fn qu_33_a_key_does_not_start_before_its_time(fixture: &Fixture) {
    let queues = fixture.store.queues();
    let delay = Duration::from_millis(300);
    let later = |key: &str| NewTask { delay: Some(delay), ..task(key, "1") };
    add(&queues, Kind::New, vec![task("known", "1")]).await;
    let before = std::time::Instant::now();
    add(&queues, Kind::New, vec![later("a"), task("now", "1"), later("known")]).await;
    let counts = queues.status(QUEUE, &rules()).await.unwrap().counts;
    assert_eq!((counts.waiting, counts.retrying), (2, 1));
    assert_eq!(
        claim(&queues, 9).await.iter().map(|run| run.key.as_str()).collect::<Vec<_>>(),
        ["known", "now"]
    );
    let mut late = Vec::new();
    while late.is_empty() {
        let claimed = queues.claim(QUEUE, &rules(), 9).await.unwrap();
        late = claimed.runs;
        if late.is_empty() {
            tokio::time::sleep_until(claimed.look_at.unwrap().into()).await;
        }
    }
    assert!(before.elapsed() >= delay, "{:?}", before.elapsed());
    assert_eq!((carried(&late), late[0].attempt), (vec![("a", Some("1"))], 1));
}

pub(crate) async fn qu_33_a_key_that_has_expired_fails_and_takes_no_part_of_the_pace(fixture: &Fixture) {
    let queues = fixture.store.queues();
    // With this interval one expired key that took part would cost an hour.
    let rules = Rules::from(Settings::new(1, Duration::from_secs(3_600), Duration::from_millis(1)));
    let dead_on_arrival =
        |n: usize| NewTask { expires_in: Some(Duration::ZERO), ..task(&format!("late {n}"), "1") };
    let mut tasks: Vec<NewTask> = (0..3).map(dead_on_arrival).collect();
    tasks.push(NewTask { expires_in: Some(Duration::from_secs(3_600)), ..task("good", "1") });
    queues.enqueue_tasks(QUEUE, &rules, Kind::New, tasks).await.unwrap();
    let runs = queues.claim(QUEUE, &rules, 9).await.unwrap().runs;
    assert_eq!(carried(&runs), [("good", Some("1"))]);
    let status = queues.status(QUEUE, &rules).await.unwrap();
    assert_eq!((status.counts.failed, status.counts.running, status.counts.waiting), (3, 1, 0));
    assert_eq!(place(&queues, "late 1").await, Some(Place::Failed("not started before it expired".into())));
}

pub(crate) async fn qu_33_a_state_can_be_emptied_and_what_runs_stays(fixture: &Fixture) {
    let queues = fixture.store.queues();
    let tasks: Vec<NewTask> = (0..2_500).map(|n| NewTask::from(format!("key {n}"))).collect();
    add(&queues, Kind::New, tasks).await;
    let runs = claim(&queues, 3).await;
    settle(&queues, &runs[0], Answer::Done("r".to_owned())).await;
    assert_eq!(queues.clear(QUEUE, List::Waiting).await.unwrap(), 2_497);
    assert_eq!(queues.clear(QUEUE, List::Done).await.unwrap(), 1);
    assert!(matches!(queues.clear(QUEUE, List::Running).await, Err(Error::Invalid { .. })));
    let counts = queues.status(QUEUE, &rules()).await.unwrap().counts;
    assert_eq!((counts.waiting, counts.running, counts.done), (0, 2, 0));
    assert_eq!(fixture.rows("syncline.queue_keys").await, 2);
    assert_eq!(settle(&queues, &runs[1], Answer::Done("r".to_owned())).await, Some(Settled::Done));
}

pub(crate) async fn qu_35_a_key_with_a_result_is_in_the_next_queue_in_the_same_moment(fixture: &Fixture) {
    let (queues, others) = (fixture.store.queues(), fixture.another().await.queues());
    let mut changes = others.changes("next").unwrap();
    add(&queues, Kind::New, ["done", "failed", "again"].map(|key| task(key, "1")).to_vec()).await;
    let runs = claim(&queues, 9).await;
    add(&queues, Kind::Again, vec![task("again", "2")]).await;
    let answers = vec![
        (runs[0].call, Answer::Done("{\"pages\":3}".to_owned())),
        (runs[1].call, Answer::Refused { reason: "no".to_owned() }),
        (runs[2].call, Answer::Done("old".to_owned())),
    ];
    changes.mark_unchanged();
    queues.settle_then(QUEUE, &rules(), answers.clone(), Some(&next_queue())).await.unwrap();
    assert_eq!(queues.settle_then(QUEUE, &rules(), answers, Some(&next_queue())).await.unwrap(), [], "once");
    tokio::time::timeout(Duration::from_secs(20), changes.changed()).await.unwrap().unwrap();
    let next = others.claim("next", &rules(), 9).await.unwrap().runs;
    assert_eq!(
        carried(&next),
        [("done", Some("{\"pages\":3}"))],
        "what is out of date or failed is not passed on"
    );

    // A newer result leads to one more run there.
    others.settle("next", &rules(), vec![(next[0].call, Answer::Done("1".to_owned()))]).await.unwrap();
    let again = claim(&queues, 9).await;
    assert_eq!(carried(&again), [("again", Some("2"))]);
    queues
        .settle_then(
            QUEUE,
            &rules(),
            vec![(again[0].call, Answer::Done("new".to_owned()))],
            Some(&next_queue()),
        )
        .await
        .unwrap();
    let next = others.claim("next", &rules(), 9).await.unwrap().runs;
    assert_eq!(carried(&next), [("again", Some("new"))]);
}
