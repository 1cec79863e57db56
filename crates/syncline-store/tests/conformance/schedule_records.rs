//! What becomes of runs: endings, history, totals, dead nodes, trimming.

use std::collections::BTreeMap;
use std::time::Duration;

use syncline_core::schedule::{Cost, Reason};
use syncline_store::schedule::{
    Claim, DETAIL_MAX_BYTES, Dead, Ending, Filter, HISTORY_MAX, Intent, Keep, Nodes, Outcome, Run, RunId,
    Show, State, Totals,
};

use super::fixture::{Fixture, minute};
use super::schedule::{COST, LOCK, lock_of, unwatched, watched, win};

fn outcome(ending: Ending, detail: &str) -> Outcome {
    Outcome { ending, attempts: 2, detail: detail.to_owned(), cost: COST }
}

pub(crate) async fn a_run_ends_once_and_says_how(fixture: &Fixture) {
    let schedule = fixture.store.schedule();
    let done = win(&*schedule, "render", "a", minute(0)).await;
    let run = schedule.finish(done, &outcome(Ending::Done, "page 1")).await.unwrap().unwrap();
    assert_eq!((run.state, run.attempts, run.detail.as_str()), (State::Done, 2, "page 1"));
    assert!(run.finished_at.unwrap() >= run.started_at);
    assert_eq!(schedule.run(done).await.unwrap().unwrap(), run);

    let again = outcome(Ending::Failed, "too late");
    assert_eq!(schedule.finish(done, &again).await.unwrap(), None);
    assert_eq!(schedule.finish(RunId(i64::MAX), &again).await.unwrap(), None);
    assert_eq!(schedule.run(done).await.unwrap().unwrap(), run);

    let failed = win(&*schedule, "render", "a", minute(1)).await;
    let long = format!("zero \0 {}", "長".repeat(DETAIL_MAX_BYTES));
    let twice = Outcome { cost: COST.times(2), ..outcome(Ending::Failed, &long) };
    let run = schedule.finish(failed, &twice).await.unwrap().unwrap();
    assert_eq!((run.state, run.cost), (State::Failed, COST.times(2)));
    assert!(run.detail.len() <= DETAIL_MAX_BYTES && run.detail.starts_with("zero \u{fffd} 長"));

    let totals = schedule.totals(Some("render")).await.unwrap();
    let runs = BTreeMap::from([("run: watched".to_owned(), 2)]);
    assert_eq!(totals, Totals { runs, failed: 1, spent: COST.times(3), ..Totals::default() });
    assert!(schedule.running(None).await.unwrap().is_empty());
}

pub(crate) async fn vw_08_a_claimed_run_whose_input_is_unchanged_counts_as_a_skip(fixture: &Fixture) {
    let schedule = fixture.store.schedule();
    let run = win(&*schedule, "render", "a", minute(0)).await;
    let unchanged = outcome(Ending::Skipped(Reason::UnchangedInput), "");
    let run = schedule.finish(run, &unchanged).await.unwrap().unwrap();
    assert_eq!((run.state, run.reason.as_str()), (State::Skipped, "skip: unchanged input"));
    let totals = schedule.totals(None).await.unwrap();
    let skips = BTreeMap::from([("skip: unchanged input".to_owned(), 1)]);
    assert_eq!(totals, Totals { skips, saved: COST, ..Totals::default() });
    // The lock still stands, so nobody else looks at the same input again in this minute.
    let claim = schedule.claim(&watched("render", "b"), minute(0), LOCK).await.unwrap();
    assert_eq!(claim, Claim::Taken { by: "a".to_owned() });
}

pub(crate) async fn history_pages_newest_first_and_filters(fixture: &Fixture) {
    let schedule = fixture.store.schedule();
    for n in 0..30 {
        if n % 3 == 0 {
            win(&*schedule, "render", "a", minute(n)).await;
        } else {
            schedule.record_skip(&unwatched("render", "a"), minute(n)).await.unwrap();
        }
        schedule.record_skip(&unwatched("report", "a"), minute(n)).await.unwrap();
    }
    let pages = async |filter: Filter<'_>, limit: usize| {
        let mut all: Vec<Run> = Vec::new();
        loop {
            let page = schedule.history(filter, all.last().map(|run| run.id), limit).await.unwrap();
            assert!(page.len() <= limit);
            if page.is_empty() {
                return all;
            }
            all.extend(page);
        }
    };
    let all = pages(Filter::default(), 7).await;
    assert_eq!(all.len(), 60);
    assert!(all.windows(2).all(|pair| pair[0].id > pair[1].id), "newest first, none twice");
    assert_eq!(all, schedule.history(Filter::default(), None, HISTORY_MAX).await.unwrap());

    let render = Filter { job: Some("render"), show: Show::All };
    assert_eq!(pages(render, 4).await.len(), 30);
    let runs = pages(Filter { show: Show::Runs, ..render }, 4).await;
    assert_eq!(runs.len(), 10);
    assert!(runs.iter().all(|run| !run.is_skip()));
    let skips = pages(Filter { job: None, show: Show::Skips }, 9).await;
    assert_eq!(skips.len(), 50);
    assert!(skips.iter().all(Run::is_skip));
    assert!(pages(Filter { job: Some("pict%"), show: Show::All }, 4).await.is_empty());
    assert!(schedule.history(render, None, 0).await.unwrap().is_empty());
}

pub(crate) async fn vw_09_totals_are_what_a_recount_of_history_gives(fixture: &Fixture) {
    let schedule = fixture.store.schedule();
    // A fixed walk through everything that moves the totals.
    for n in 0..120 {
        let (job, bucket) = (["render", "report"][n as usize % 2], minute(n));
        let cost = Cost::from_micro_usd(1_000 + n);
        let skip = Intent { cost, ..unwatched(job, "a") };
        let run = Intent { cost, ..watched(job, "b") };
        if n % 5 < 3 {
            schedule.record_skip(&skip, bucket).await.unwrap().unwrap();
        }
        if n % 5 > 1
            && let Claim::Won { run_id } = schedule.claim(&run, bucket, LOCK).await.unwrap()
        {
            let ending = match n % 4 {
                0 => Ending::Done,
                1 => Ending::Failed,
                2 => Ending::Skipped(Reason::UnchangedInput),
                _ => continue,
            };
            let end = Outcome { cost: Cost::from_micro_usd(3_000 - n), ..outcome(ending, "") };
            schedule.finish(run_id, &end).await.unwrap().unwrap();
        }
    }
    let history = schedule.history(Filter::default(), None, HISTORY_MAX).await.unwrap();
    assert_eq!(history.len(), 120);
    for job in [None, Some("render"), Some("report"), Some("nothing")] {
        let recount = recount(history.iter().filter(|run| job.is_none_or(|job| run.job == job)));
        assert_eq!(schedule.totals(job).await.unwrap(), recount, "{job:?}");
    }
    assert!(schedule.totals(None).await.unwrap().failed > 0);
}

fn recount<'a>(history: impl Iterator<Item = &'a Run>) -> Totals {
    let mut totals = Totals::default();
    for run in history {
        let (by_reason, money) = if run.is_skip() {
            (&mut totals.skips, &mut totals.saved)
        } else {
            (&mut totals.runs, &mut totals.spent)
        };
        *by_reason.entry(run.reason.clone()).or_default() += 1;
        *money = Cost::from_micro_usd(money.as_micro_usd() + run.cost.as_micro_usd());
        totals.failed += u64::from(run.state == State::Failed);
        totals.abandoned += u64::from(run.state == State::Abandoned);
    }
    totals
}

pub(crate) async fn runs_of_dead_nodes_are_abandoned_and_those_of_live_ones_are_not(fixture: &Fixture) {
    let schedule = fixture.store.schedule();
    let ended = win(&*schedule, "render", "dead", minute(0)).await;
    schedule.finish(ended, &outcome(Ending::Done, "")).await.unwrap();
    let left = win(&*schedule, "render", "dead", minute(1)).await;
    let alive = win(&*schedule, "render", "alive", minute(2)).await;
    let gone = win(&*schedule, "report", "gone", minute(2)).await;

    let recent = Dead { nodes: Nodes::AllBut(&[]), older_than: Duration::from_secs(3_600) };
    assert!(schedule.abandon(recent).await.unwrap().is_empty(), "too recent to judge");
    let now = Duration::ZERO;
    let only = Dead { nodes: Nodes::Only(&["dead", "unheard of"]), older_than: now };
    let abandoned = schedule.abandon(only).await.unwrap();
    assert_eq!(abandoned.iter().map(|run| run.id).collect::<Vec<_>>(), [left]);
    assert_eq!(abandoned[0], schedule.run(left).await.unwrap().unwrap());
    assert_eq!(abandoned[0].state, State::Abandoned);
    assert!(abandoned[0].finished_at.is_some());
    assert!(schedule.abandon(only).await.unwrap().is_empty(), "once is enough");

    let others = Dead { nodes: Nodes::AllBut(&["alive"]), older_than: now };
    let abandoned = schedule.abandon(others).await.unwrap();
    assert_eq!(abandoned.iter().map(|run| run.id).collect::<Vec<_>>(), [gone]);
    assert_eq!(schedule.running(None).await.unwrap()[0].id, alive);
    assert_eq!(schedule.run(ended).await.unwrap().unwrap().state, State::Done);

    let totals = schedule.totals(None).await.unwrap();
    assert_eq!((totals.runs_total(), totals.abandoned, totals.failed), (4, 2, 0));
    // The minute of a dead node stays its own: it may have done the work.
    let claim = schedule.claim(&watched("render", "alive"), minute(1), LOCK).await.unwrap();
    assert_eq!(claim, Claim::Taken { by: "dead".to_owned() });
}

pub(crate) async fn a_run_given_up_too_early_can_still_end(fixture: &Fixture) {
    let schedule = fixture.store.schedule();
    let run = win(&*schedule, "render", "slow", minute(0)).await;
    let dead = Dead { nodes: Nodes::Only(&["slow"]), older_than: Duration::ZERO };
    assert_eq!(schedule.abandon(dead).await.unwrap().len(), 1);
    let run = schedule.finish(run, &outcome(Ending::Done, "late")).await.unwrap().unwrap();
    assert_eq!((run.state, run.detail.as_str()), (State::Done, "late"));
    let totals = schedule.totals(None).await.unwrap();
    assert_eq!((totals.runs_total(), totals.abandoned, totals.spent), (1, 0, COST));
}

pub(crate) async fn old_history_is_trimmed_in_steps_and_totals_stay(fixture: &Fixture) {
    let schedule = fixture.store.schedule();
    let oldest = win(&*schedule, "render", "a", minute(0)).await;
    for n in 1..40 {
        schedule.record_skip(&unwatched("render", "a"), minute(n)).await.unwrap();
        schedule.record_skip(&unwatched("report", "a"), minute(n)).await.unwrap();
    }
    let before = schedule.totals(Some("render")).await.unwrap();
    let render = Filter { job: Some("render"), show: Show::All };
    let left = async || schedule.history(render, None, HISTORY_MAX).await.unwrap();

    assert_eq!(schedule.trim("render", Keep::default(), 100).await.unwrap(), 0, "nothing is old or too much");
    let newest_30 = Keep { rows_max: 30, rows_min: 5, age_max: Duration::from_secs(3_600) };
    let mut steps = Vec::new();
    for _ in 0..3 {
        steps.push(schedule.trim("render", newest_30, 6).await.unwrap());
    }
    assert_eq!(steps, [6, 3, 0], "39 skips and a run that still runs: 30 newest stay");
    assert!(left().await.iter().any(|run| run.id == oldest), "what runs stays");

    let newest_5 = Keep { age_max: Duration::ZERO, ..newest_30 };
    // Rows of this very millisecond are not older than now.
    super::fixture::until("all is older than now", async || {
        schedule.trim("render", newest_5, 1_000).await.unwrap();
        left().await.len() == 6
    })
    .await;
    let kept: Vec<_> = left().await.into_iter().filter_map(|run| run.bucket).collect();
    let expected: Vec<_> = [39, 38, 37, 36, 35, 0].map(|n| minute(n).to_string()).to_vec();
    assert_eq!(kept, expected);
    assert_eq!(schedule.totals(Some("render")).await.unwrap(), before);
    assert_eq!(fixture.rows("syncline.schedule_runs").await, 6 + 39, "other jobs are left alone");
    assert!(fixture.store.locks().look(&lock_of(minute(0))).await.unwrap().is_some());
}
