//! Who gets to run a bucket.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use syncline_core::lock::{LeaseId, Name, Ttl};
use syncline_core::schedule::{Bucket, Cost, Reason};
use syncline_store::lock::{Acquired, Request};
use syncline_store::schedule::{
    Claim, Control, Dead, Ending, Filter, HISTORY_MAX, Intent, Keep, Nodes, Outcome, STEP_MAX, Schedule,
    Show, State, Totals,
};
use syncline_store::{Error, Store};

use super::fixture::{Fixture, minute, until};

pub(crate) const LOCK: Duration = Duration::from_secs(55);
pub(crate) const COST: Cost = Cost::DEFAULT;

pub(crate) fn watched<'a>(job: &'a str, node: &'a str) -> Intent<'a> {
    Intent { job, node, reason: Reason::Watched, cost: COST }
}

pub(crate) fn unwatched<'a>(job: &'a str, node: &'a str) -> Intent<'a> {
    Intent { job, node, reason: Reason::NoViewer, cost: COST }
}

/// The lock of a bucket of the job `render`.
pub(crate) fn lock_of(bucket: Bucket) -> Name {
    Name::new(format!("genlock:{bucket}:render")).unwrap()
}

/// Claims a bucket that is known to be free.
pub(crate) async fn win(
    schedule: &dyn Schedule,
    job: &str,
    node: &str,
    bucket: Bucket,
) -> syncline_store::schedule::RunId {
    match schedule.claim(&watched(job, node), bucket, LOCK).await.unwrap() {
        Claim::Won { run_id } => run_id,
        Claim::Taken { by } => panic!("{bucket} is taken by {by}"),
    }
}

pub(crate) async fn vw_07_of_many_claims_of_a_bucket_one_wins(fixture: &Fixture) {
    let stores: Vec<Store> = vec![fixture.store.clone(), fixture.another().await, fixture.another().await];
    for n in 0..8 {
        let bucket = minute(n);
        let claims = join_all((0..9).map(|contender| {
            let schedule = stores[contender % stores.len()].schedule();
            tokio::spawn(async move {
                let node = format!("node-{contender}");
                (schedule.claim(&watched("render", &node), bucket, LOCK).await.unwrap(), node)
            })
        }))
        .await;
        let mut winner = None;
        let mut takers = Vec::new();
        for claim in claims {
            match claim.unwrap() {
                (Claim::Won { run_id }, node) => {
                    assert_eq!(winner.replace((run_id, node)), None, "two winners");
                }
                (Claim::Taken { by }, _) => takers.push(by),
            }
        }
        let (run_id, node) = winner.expect("somebody wins");
        assert!(takers.iter().all(|by| *by == node), "{takers:?} but {node} won");
        let lock = fixture.store.locks().look(&lock_of(bucket)).await.unwrap().unwrap();
        assert_eq!(lock.holder, node);
        assert!(lock.left <= LOCK);
        let run = fixture.store.schedule().run(run_id).await.unwrap().unwrap();
        assert_eq!((run.state, run.node, run.bucket), (State::Running, node, Some(bucket.to_string())));
    }
    assert_eq!(fixture.rows("syncline.schedule_runs").await, 8);
    assert_eq!(fixture.store.schedule().totals(Some("render")).await.unwrap().runs_total(), 8);
}

pub(crate) async fn vw_07_a_run_bucket_stays_taken_when_its_lock_is_gone(fixture: &Fixture) {
    let (locks, schedule) = (fixture.store.locks(), fixture.store.schedule());
    let claim = schedule.claim(&watched("render", "a"), minute(0), Duration::from_millis(50)).await.unwrap();
    assert!(matches!(claim, Claim::Won { .. }));
    let lock = lock_of(minute(0));
    until("the lock has expired", async || locks.look(&lock).await.unwrap().is_none()).await;
    for node in ["a", "b"] {
        let claim = schedule.claim(&watched("render", node), minute(0), LOCK).await.unwrap();
        assert_eq!(claim, Claim::Taken { by: "a".to_owned() });
    }
    assert_eq!(locks.look(&lock).await.unwrap(), None, "a claim that lost leaves no lock behind");
    // Another job, and another minute, are free.
    win(&*schedule, "report", "b", minute(0)).await;
    win(&*schedule, "render", "b", minute(1)).await;
}

pub(crate) async fn vw_07_a_lock_held_by_another_takes_the_bucket(fixture: &Fixture) {
    let (locks, schedule) = (fixture.store.locks(), fixture.store.schedule());
    let lease = LeaseId::from_random([1; 16]);
    let (name, ttl) = (lock_of(minute(0)), Ttl::from_ms(55_000).unwrap());
    let held = Request { name: &name, lease, holder: "elsewhere", ttl, waits: false };
    assert!(matches!(locks.acquire(held).await.unwrap(), Acquired::Granted { .. }));
    let claim = schedule.claim(&watched("render", "a"), minute(0), LOCK).await.unwrap();
    assert_eq!(claim, Claim::Taken { by: "elsewhere".to_owned() });
    assert_eq!(fixture.rows("syncline.schedule_runs").await, 0);
    assert_eq!(schedule.totals(None).await.unwrap(), Totals::default());
    // Given back, it is anybody's.
    locks.release(&name, lease).await.unwrap().unwrap();
    win(&*schedule, "render", "a", minute(0)).await;
}

pub(crate) async fn a_bucket_skipped_by_several_nodes_has_one_record(fixture: &Fixture) {
    let other = fixture.another().await;
    let skips = join_all((0..8).map(|n| {
        let schedule = if n % 2 == 0 { fixture.store.schedule() } else { other.schedule() };
        tokio::spawn(async move {
            let node = format!("node-{n}");
            schedule.record_skip(&unwatched("render", &node), minute(0)).await.unwrap()
        })
    }))
    .await;
    let recorded: Vec<_> = skips.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(recorded.len(), 1);
    let run = fixture.store.schedule().run(recorded[0]).await.unwrap().unwrap();
    assert_eq!((run.state, run.reason.as_str()), (State::Skipped, "skip: no viewer"));
    assert_eq!(run.finished_at, Some(run.started_at));
    let totals = fixture.store.schedule().totals(Some("render")).await.unwrap();
    assert_eq!(totals.skips, BTreeMap::from([("skip: no viewer".to_owned(), 1)]));
    assert_eq!((totals.saved, totals.spent), (COST, Cost::default()));
}

pub(crate) async fn vw_07_a_skipped_bucket_can_still_be_won_and_the_totals_follow(fixture: &Fixture) {
    let schedule = fixture.store.schedule();
    let skipped = schedule.record_skip(&unwatched("render", "a"), minute(0)).await.unwrap().unwrap();
    let won = win(&*schedule, "render", "b", minute(0)).await;
    assert_eq!(won, skipped, "the record becomes that of the run");
    assert_eq!(schedule.record_skip(&unwatched("render", "c"), minute(0)).await.unwrap(), None);
    let claim = schedule.claim(&watched("render", "c"), minute(0), LOCK).await.unwrap();
    assert_eq!(claim, Claim::Taken { by: "b".to_owned() });

    let run = schedule.run(won).await.unwrap().unwrap();
    assert_eq!((run.state, run.node.as_str(), run.reason.as_str()), (State::Running, "b", "run: watched"));
    assert_eq!(run.finished_at, None);
    assert_eq!(fixture.rows("syncline.schedule_runs").await, 1);
    let totals = schedule.totals(None).await.unwrap();
    let runs = BTreeMap::from([("run: watched".to_owned(), 1)]);
    assert_eq!(totals, Totals { runs, spent: COST, ..Totals::default() });
}

pub(crate) async fn vw_07_skips_racing_with_claims_never_stop_the_one_run(fixture: &Fixture) {
    let stores = [fixture.store.clone(), fixture.another().await];
    for n in 0..12 {
        let bucket = minute(n);
        let nodes = join_all((0..6).map(|contender| {
            let schedule = stores[contender % 2].schedule();
            tokio::spawn(async move {
                let node = format!("node-{contender}");
                if contender < 3 {
                    schedule.record_skip(&unwatched("render", &node), bucket).await.unwrap();
                    return false;
                }
                let claim = schedule.claim(&watched("render", &node), bucket, LOCK).await.unwrap();
                matches!(claim, Claim::Won { .. })
            })
        }))
        .await;
        assert_eq!(nodes.into_iter().filter(|won| *won.as_ref().unwrap()).count(), 1, "{bucket}");
    }
    let schedule = fixture.store.schedule();
    let history = schedule.history(Filter::default(), None, HISTORY_MAX).await.unwrap();
    assert_eq!(history.len(), 12);
    assert!(history.iter().all(|run| run.state == State::Running));
    let totals = schedule.totals(None).await.unwrap();
    assert_eq!((totals.runs_total(), totals.skips.len(), totals.spent), (12, 0, COST.times(12)));
}

pub(crate) async fn runs_by_hand_compete_with_nothing(fixture: &Fixture) {
    let schedule = fixture.store.schedule();
    win(&*schedule, "render", "a", minute(0)).await;
    let by_hand = Intent { reason: Reason::ByHand, ..watched("render", "a") };
    let first = schedule.start(&by_hand).await.unwrap();
    let second = schedule.start(&by_hand).await.unwrap();
    assert!(first < second);
    let run = schedule.run(second).await.unwrap().unwrap();
    assert_eq!((run.state, run.bucket, run.reason.as_str()), (State::Running, None, "run: by hand"));
    assert_eq!(schedule.running(Some("render")).await.unwrap().len(), 3);
    assert_eq!(schedule.running(Some("report")).await.unwrap().len(), 0);
    assert_eq!(schedule.running(None).await.unwrap().len(), 3);
    assert_eq!(schedule.totals(None).await.unwrap().runs["run: by hand"], 2);
}

pub(crate) async fn bad_names_reasons_and_limits_are_refused(fixture: &Fixture) {
    let schedule = fixture.store.schedule();
    let refused = |result: Result<(), Error>, field: &str| match result {
        Err(Error::Invalid { field: named, .. }) => assert_eq!(named, field),
        other => panic!("{field}: {other:?}"),
    };
    let long = "j".repeat(129);
    for bad in ["", "a\0b", "a\nb", long.as_str()] {
        refused(schedule.start(&watched(bad, "a")).await.map(drop), "job");
        refused(schedule.start(&watched("render", bad)).await.map(drop), "node");
    }
    refused(schedule.start(&unwatched("render", "a")).await.map(drop), "reason");
    refused(schedule.record_skip(&watched("render", "a"), minute(0)).await.map(drop), "reason");
    let dear = Intent { cost: Cost::from_micro_usd(u64::MAX), ..watched("render", "a") };
    refused(schedule.claim(&dear, minute(0), LOCK).await.map(drop), "cost");
    refused(schedule.claim(&watched("render", "a"), minute(0), Duration::ZERO).await.map(drop), "ttl");
    let page = schedule.history(Filter::default(), None, HISTORY_MAX + 1).await;
    refused(page.map(drop), "limit");
    refused(schedule.trim("render", Keep::default(), STEP_MAX + 1).await.map(drop), "limit");
    let keep = Keep { rows_min: 2, rows_max: 1, ..Keep::default() };
    refused(schedule.trim("render", keep, 1).await.map(drop), "keep");

    assert_eq!(fixture.rows("syncline.schedule_runs").await, 0);
    assert_eq!(fixture.rows("syncline.kv").await, 0);
    let run = schedule.start(&watched("render", "a")).await.unwrap();
    let ending = Ending::Skipped(Reason::Watched);
    let outcome = Outcome { ending, attempts: 1, detail: String::new(), cost: COST };
    refused(schedule.finish(run, &outcome).await.map(drop), "reason");
    let nobody = Dead { nodes: Nodes::Only(&[]), older_than: Duration::ZERO };
    assert!(schedule.abandon(nobody).await.unwrap().is_empty());
    let shown = schedule.history(Filter { show: Show::Runs, job: None }, None, 10).await.unwrap();
    assert_eq!(shown[0].state, State::Running);
}

pub(crate) async fn vw_31_pausing_resuming_and_cancelling_are_seen_by_every_node(fixture: &Fixture) {
    let (here, there) = (fixture.store.schedule(), fixture.another().await.schedule());
    assert_eq!(there.control("render").await.unwrap(), Control::default());
    here.pause("render").await.unwrap();
    let paused_at = there.control("render").await.unwrap().paused_at;
    assert!(paused_at.is_some());
    there.pause("render").await.unwrap();
    assert_eq!(here.control("render").await.unwrap().paused_at, paused_at, "since the first time");
    let run = here.start(&Intent { reason: Reason::ByHand, ..watched("render", "a") }).await.unwrap();
    there.cancel("render", run).await.unwrap();
    assert_eq!(here.control("render").await.unwrap(), Control { paused_at, cancelled: Some(run) });
    here.resume("render").await.unwrap();
    here.resume("another").await.unwrap();
    assert_eq!(there.control("render").await.unwrap(), Control { paused_at: None, cancelled: Some(run) });
    assert!(here.pause("a\nb").await.is_err());
}

pub(crate) async fn vw_31_the_newest_firing_on_record_is_known_after_an_outage(fixture: &Fixture) {
    let schedule = fixture.store.schedule();
    assert_eq!(schedule.last_bucket("render").await.unwrap(), None);
    schedule.start(&Intent { reason: Reason::ByHand, ..watched("render", "a") }).await.unwrap();
    assert_eq!(schedule.last_bucket("render").await.unwrap(), None, "a run by hand is no firing");
    win(&*schedule, "render", "a", minute(7)).await;
    schedule.record_skip(&unwatched("render", "a"), minute(9)).await.unwrap();
    win(&*schedule, "render", "a", minute(8)).await;
    win(&*schedule, "another", "a", minute(20)).await;
    assert_eq!(schedule.last_bucket("render").await.unwrap(), Some(minute(9)));
}
