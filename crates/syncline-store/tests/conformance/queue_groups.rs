//! Groups within a queue: turns, paces, control, and queues that had none before.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use syncline_core::queue::{Answer, GroupSettings, Kind, Outcome, Place, Settings, Settled};
use syncline_store::Error;
use syncline_store::queue::{GROUP_MAX_BYTES, GroupStatus, NewTask, Next, Queues, Rules, Run, SetPace};

use super::fixture::{Fixture, until};

const QUEUE: &str = "pages";

fn rules(concurrency: u32, interval_ms: u64) -> Rules {
    let settings = Settings::new(500, Duration::ZERO, Duration::from_millis(1));
    let groups = GroupSettings { concurrency, interval: Duration::from_millis(interval_ms) };
    Rules { groups: Some(groups), ..Rules::from(settings) }
}

fn task(group: &str, n: usize) -> NewTask {
    NewTask { group: Some(group.to_owned()), ..NewTask::from(format!("{group}/{n}")) }
}

fn tasks(group: &str, count: usize) -> Vec<NewTask> {
    (0..count).map(|n| task(group, n)).collect()
}

async fn add(queues: &Arc<dyn Queues>, rules: &Rules, tasks: Vec<NewTask>) {
    queues.enqueue_tasks(QUEUE, rules, Kind::New, tasks).await.unwrap();
}

async fn claim(queues: &Arc<dyn Queues>, rules: &Rules, max: usize) -> Vec<Run> {
    queues.claim(QUEUE, rules, max).await.unwrap().runs
}

async fn end(queues: &Arc<dyn Queues>, rules: &Rules, runs: &[Run], answer: Answer<String>) -> Vec<Settled> {
    let answers = runs.iter().map(|run| (run.call, answer.clone())).collect();
    let ended = queues.settle(QUEUE, rules, answers).await.unwrap();
    ended.iter().map(|ended| ended.settled).collect()
}

fn done() -> Answer<String> {
    Answer::Done("r".to_owned())
}

/// How many runs there are of each group.
fn groups_of(runs: &[Run]) -> BTreeMap<String, usize> {
    let mut groups = BTreeMap::new();
    for run in runs {
        *groups.entry(run.group.clone().unwrap_or_default()).or_default() += 1;
    }
    groups
}

async fn group(queues: &Arc<dyn Queues>, name: &str) -> Option<GroupStatus> {
    queues.groups(QUEUE, None, 1_000).await.unwrap().into_iter().find(|group| group.name == name)
}

pub(crate) async fn qu_32_groups_take_turns_and_a_long_one_delays_no_other(fixture: &Fixture) {
    let (queues, others, rules) = (fixture.store.queues(), fixture.another().await.queues(), rules(2, 0));
    add(&queues, &rules, tasks("big", 2_000)).await;
    for n in 0..30 {
        add(&others, &rules, tasks(&format!("small {n:02}"), 2)).await;
    }
    let first = claim(&others, &rules, 31).await;
    assert_eq!(groups_of(&first).len(), 31, "each once before any twice: {:?}", groups_of(&first));
    let second = claim(&queues, &rules, 100).await;
    assert_eq!(groups_of(&second), groups_of(&first), "two of each at once, and no more");
    assert_eq!(claim(&others, &rules, 100).await, []);
    end(&queues, &rules, &first, done()).await;
    end(&others, &rules, &second, done()).await;
    assert_eq!(groups_of(&claim(&queues, &rules, 100).await), BTreeMap::from([("big".to_owned(), 2)]));

    // One that comes now is served before the long one is again.
    add(&queues, &rules, tasks("late", 1)).await;
    assert_eq!(groups_of(&claim(&others, &rules, 1).await), BTreeMap::from([("late".to_owned(), 1)]));
    let status = queues.status(QUEUE, &rules).await.unwrap();
    assert_eq!((status.counts.waiting, status.counts.running, status.has_groups), (1_996, 3, true));
    let big = group(&others, "big").await.unwrap();
    assert_eq!((big.waiting, big.running, big.held), (1_996, 2, false));
}

pub(crate) async fn qu_32_no_group_exceeds_its_interval_on_two_nodes(fixture: &Fixture) {
    let nodes = [fixture.store.queues(), fixture.another().await.queues()];
    let (rules, interval) = (rules(1, 40), Duration::from_millis(40));
    for n in 0..6 {
        add(&nodes[0], &rules, tasks(&format!("g{n}"), 6)).await;
    }
    let mut ends: HashMap<String, Instant> = HashMap::new();
    let mut seen = BTreeSet::new();
    for round in 0.. {
        let claimed = nodes[round % 2].claim(QUEUE, &rules, 50).await.unwrap();
        let now = Instant::now();
        for run in &claimed.runs {
            let group = run.group.clone().unwrap();
            let gap = ends.get(&group).map(|end| now - *end);
            assert!(gap.is_none_or(|gap| gap >= interval), "{group}: {gap:?}");
            assert!(seen.insert(run.key.clone()), "{} ran twice", run.key);
        }
        if seen.len() == 36 {
            break;
        }
        for run in &claimed.runs {
            ends.insert(run.group.clone().unwrap(), Instant::now());
        }
        end(&nodes[(round + 1) % 2], &rules, &claimed.runs, done()).await;
        if claimed.runs.is_empty() {
            let look_at = claimed.look_at.expect("a group has keys");
            tokio::time::sleep_until(look_at.into()).await;
        }
    }
}

pub(crate) async fn qu_32_starts_of_one_group_side_by_side_keep_the_interval(fixture: &Fixture) {
    let (queues, rules) = (fixture.store.queues(), rules(3, 40));
    add(&queues, &rules, tasks("one", 6)).await;
    let mut last: Option<Instant> = None;
    let mut running = Vec::new();
    while running.len() < 3 {
        let asked = Instant::now();
        let claimed = queues.claim(QUEUE, &rules, 10).await.unwrap();
        assert!(claimed.runs.len() <= 1, "one at each interval");
        for run in claimed.runs {
            // The earliest that this one can start, against the latest that the one before may have.
            assert!(last.is_none_or(|last| Instant::now() - last >= Duration::from_millis(40)), "{last:?}");
            assert!(run.start_by >= asked);
            last = Some(run.start_by);
            running.push(run);
        }
        if let Some(look_at) = claimed.look_at.filter(|_| running.len() < 3) {
            tokio::time::sleep_until(look_at.into()).await;
        }
    }
    // Longer than the interval, so that it is not what keeps the next from starting.
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(claim(&queues, &rules, 10).await, [], "three at once");
}

pub(crate) async fn qu_32_a_group_is_held_and_let_go_and_no_other_notices(fixture: &Fixture) {
    let (queues, others, rules) = (fixture.store.queues(), fixture.another().await.queues(), rules(1, 0));
    queues.pause_group(QUEUE, "a").await.unwrap();
    for name in ["a", "b"] {
        add(&queues, &rules, tasks(name, 2)).await;
    }
    assert_eq!(groups_of(&claim(&others, &rules, 9).await), BTreeMap::from([("b".to_owned(), 1)]));
    assert!(group(&others, "a").await.unwrap().held);
    others.resume_group(QUEUE, &rules, "a").await.unwrap();
    let a = claim(&queues, &rules, 9).await;
    assert_eq!(groups_of(&a), BTreeMap::from([("a".to_owned(), 1)]));

    // An API that asks for quiet holds its own group until somebody lets it go.
    end(&queues, &rules, &a, Answer::Throttled { retry_after: Some(Duration::from_secs(600)) }).await;
    assert_eq!(claim(&others, &rules, 9).await, []);
    assert!(
        group(&others, "a").await.unwrap().next_call_at.unwrap() > Instant::now() + Duration::from_secs(500)
    );
    assert_eq!(queues.status(QUEUE, &rules).await.unwrap().paused, None);
    queues.resume_group(QUEUE, &rules, "a").await.unwrap();
    assert_eq!(groups_of(&claim(&others, &rules, 9).await), BTreeMap::from([("a".to_owned(), 1)]));

    // A group of which nothing is left is forgotten, and a paused one is not.
    queues.pause_group(QUEUE, "later").await.unwrap();
    assert!(group(&queues, "later").await.unwrap().held);
    for bad in ["x".repeat(GROUP_MAX_BYTES + 1), "a\nb".to_owned()] {
        assert!(matches!(queues.pause_group(QUEUE, &bad).await, Err(Error::Invalid { .. })));
    }
}

pub(crate) async fn qu_32_a_key_keeps_its_group_through_retries_removal_revival_and_release(
    fixture: &Fixture,
) {
    let (queues, mut rules) = (fixture.store.queues(), rules(1, 0));
    rules.settings.retry.max_attempts = 2;
    add(&queues, &rules, tasks("a", 4)).await;
    let first = claim(&queues, &rules, 9).await;
    assert_eq!(end(&queues, &rules, &first, Answer::NotMade).await, [Settled::Waiting]);
    let again = claim(&queues, &rules, 9).await;
    assert_eq!((again[0].key.as_str(), again.len()), ("a/0", 1), "given back, it is first in its group");
    let failed = Answer::Returned { reason: "no".to_owned(), retry_after: Some(Duration::from_millis(1)) };
    end(&queues, &rules, &again, failed.clone()).await;

    // A key that is removed while it runs keeps its group busy until its call ends.
    let second = claim(&queues, &rules, 9).await;
    assert_eq!(second.len(), 1);
    assert_eq!(
        queues.abandoned(QUEUE, &[second[0].call]).await.unwrap(),
        Vec::<u64>::new(),
        "nobody has removed it"
    );
    assert_eq!(queues.remove(QUEUE, &[second[0].key.clone()]).await.unwrap(), 1);
    assert_eq!(queues.abandoned(QUEUE, &[second[0].call]).await.unwrap(), [second[0].call]);
    assert_eq!(claim(&queues, &rules, 9).await, []);
    assert_eq!(end(&queues, &rules, &second, done()).await, []);

    let mut keys = BTreeSet::new();
    until("all keys of the group ran", async || {
        let runs = claim(&queues, &rules, 9).await;
        assert!(runs.len() <= 1 && runs.iter().all(|run| run.group.as_deref() == Some("a")));
        keys.extend(runs.iter().map(|run| run.key.clone()));
        end(&queues, &rules, &runs, failed.clone()).await;
        queues.status(QUEUE, &rules).await.unwrap().counts.dead == 3
    })
    .await;
    assert_eq!(queues.revive_all(QUEUE, syncline_store::queue::GivenUp::Dead).await.unwrap(), 3);
    let revived = claim(&queues, &rules, 9).await;
    assert_eq!(groups_of(&revived), BTreeMap::from([("a".to_owned(), 1)]));
    let outcome = vec![("a/3".to_owned(), Outcome::Done("elsewhere".to_owned()))];
    queues.dequeue(QUEUE, &rules, outcome).await.unwrap();
    assert_eq!(group(&queues, "a").await.map(|group| group.waiting + group.running), Some(2));
    assert_eq!(queues.entry(QUEUE, "a/3").await.unwrap().unwrap().group.as_deref(), Some("a"));
}

pub(crate) async fn qu_32_keys_that_were_in_line_before_there_were_groups_are_put_into_theirs(
    fixture: &Fixture,
) {
    let (queues, rules) = (fixture.store.queues(), rules(50, 0));
    let plain = Rules { groups: None, ..rules };
    let keys: Vec<String> = (0..2_300).map(|n| format!("old {n}")).collect();
    queues.enqueue(QUEUE, &plain, Kind::New, &keys).await.unwrap();
    let old = claim(&queues, &plain, 3).await;
    add(&queues, &rules, tasks("new", 5)).await;
    end(&queues, &rules, &old[..1], done()).await;
    end(&queues, &rules, &old[1..2], Answer::NotMade).await;
    let mut ran = BTreeSet::from([old[0].key.clone(), old[2].key.clone()]);
    until("all keys ran", async || {
        let runs = claim(&queues, &rules, 100).await;
        for run in &runs {
            assert!(ran.insert(run.key.clone()), "{} ran twice", run.key);
        }
        end(&queues, &rules, &runs, done()).await;
        queues.status(QUEUE, &rules).await.unwrap().counts.waiting == 0
    })
    .await;
    assert_eq!(ran.len(), 2_305);
    let counts = queues.status(QUEUE, &rules).await.unwrap().counts;
    assert_eq!((counts.running, counts.done), (1, 2_304));
}

pub(crate) async fn qu_32_an_unreadable_pace_loses_no_key_of_any_group(fixture: &Fixture) {
    let (queues, rules) = (fixture.store.queues(), rules(2, 0));
    for name in ["a", "b", "held"] {
        add(&queues, &rules, tasks(name, 4)).await;
    }
    queues.pause_group(QUEUE, "held").await.unwrap();
    assert_eq!(claim(&queues, &rules, 9).await.len(), 4);
    fixture.execute("UPDATE syncline.queues SET pace = 'nonsense'").await;
    let mut ran = BTreeSet::new();
    until("all keys that may ran", async || {
        let runs = claim(&queues, &rules, 9).await;
        assert!(groups_of(&runs).values().all(|count| *count <= 2), "{runs:?}");
        ran.extend(runs.iter().map(|run| run.key.clone()));
        end(&queues, &rules, &runs, done()).await;
        ran.len() == 8
    })
    .await;
    assert_eq!(claim(&queues, &rules, 9).await, []);
    assert!(group(&queues, "held").await.unwrap().held);
}

pub(crate) async fn qu_35_a_key_that_goes_on_is_in_the_group_that_the_next_queue_says(fixture: &Fixture) {
    let (queues, rules) = (fixture.store.queues(), rules(1, 0));
    let plain = Rules { groups: None, ..rules };
    queues.enqueue(QUEUE, &plain, Kind::New, &["a".to_owned(), "b".to_owned()]).await.unwrap();
    let runs = claim(&queues, &plain, 9).await;
    let answers = runs.iter().map(|run| (run.call, Answer::Done("\"x\"".to_owned()))).collect();
    let group =
        Arc::new(|key: &str, input: Option<&str>| Some(format!("{key} {}", input.unwrap_or_default())));
    let next = Next { queue: "next".to_owned(), rules, group: Some(group) };
    queues.settle_then(QUEUE, &plain, answers, Some(&next)).await.unwrap();
    let runs = queues.claim("next", &rules, 9).await.unwrap().runs;
    let groups: Vec<_> = runs.iter().map(|run| run.group.as_deref()).collect();
    assert_eq!(groups, [Some("a \"x\""), Some("b \"x\"")]);
}

pub(crate) async fn qu_33_a_pace_that_is_set_counts_on_all_nodes_at_once_until_it_is_given_back(
    fixture: &Fixture,
) {
    let (queues, others) = (fixture.store.queues(), fixture.another().await.queues());
    let plain = Rules { groups: None, ..rules(1, 0) };
    let keys: Vec<String> = (0..100).map(|n| format!("key {n}")).collect();
    queues.enqueue(QUEUE, &plain, Kind::New, &keys).await.unwrap();
    assert_eq!(claim(&others, &plain, 2).await.len(), 2);
    let two = SetPace { concurrency: Some(5), ..SetPace::default() };
    queues.set_pace(QUEUE, &plain, Some(two)).await.unwrap();
    assert_eq!(claim(&others, &plain, 100).await.len(), 3);
    let status = others.status(QUEUE, &plain).await.unwrap();
    assert_eq!((status.rules.settings.concurrency, status.is_set), (5, true));
    let none = SetPace { concurrency: Some(0), ..SetPace::default() };
    assert!(queues.set_pace(QUEUE, &plain, Some(none)).await.is_err());
    queues.set_pace(QUEUE, &plain, None).await.unwrap();
    assert_eq!(claim(&queues, &plain, 100).await.len(), 95);
}

pub(crate) async fn qu_33_results_go_when_their_time_is_over_and_their_keys_run_again(fixture: &Fixture) {
    let queues = fixture.store.queues();
    let rules = Rules { groups: None, result_ttl: Some(Duration::from_millis(50)), ..rules(1, 0) };
    let keys: Vec<String> = (0..1_500).map(|n| format!("key {n}")).collect();
    queues.enqueue(QUEUE, &rules, Kind::New, &keys).await.unwrap();
    let outcomes: Vec<_> = keys.iter().map(|key| (key.clone(), Outcome::Done("r".to_owned()))).collect();
    queues.dequeue(QUEUE, &rules, outcomes).await.unwrap();
    until("all results are forgotten", async || {
        queues.forget_old_results(QUEUE, &rules).await.unwrap();
        queues.status(QUEUE, &rules).await.unwrap().counts.done == 0
    })
    .await;
    assert_eq!(fixture.rows("syncline.queue_keys").await, 0);
    assert_eq!(queues.dropped(QUEUE), 0, "that is no surprise to anybody");
    let told = queues.enqueue(QUEUE, &rules, Kind::New, &keys[..2]).await.unwrap();
    assert_eq!(told.added, 2);
    assert_eq!(queues.entry(QUEUE, "key 1").await.unwrap().unwrap().place, Place::Waiting);
}
