//! Whether a job that is due should run, and why.
//!
//! Three steps in a fixed order, because each costs more than the one before: [`decide`] looks at the viewers,
//! [`Decision::claimed`] at who won the bucket, [`Decision::compared`] at whether the input changed. A skip
//! passes through later steps unchanged, so the first reason not to run is the one on record.
//!
//! In doubt about viewers the job runs (fail open: a run costs little, a missing result is seen). In doubt about
//! the claim it runs once in each process for each bucket ([`LocalRuns`]).

use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Bucket, Reason};
use crate::viewer::Summary;

/// What a job asks of its audience.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// Run while anybody watches.
    #[default]
    Viewers,
    /// Run while anybody watches with the page in sight.
    VisibleViewers,
    /// Run whoever watches.
    Always,
}

/// What is known about viewers, all nodes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// The count could be made.
    Known {
        /// Live sessions.
        viewers: u64,
        /// Those whose page is in sight.
        visible: u64,
    },
    /// The store that nodes share did not answer, and nobody is known to watch without it.
    Unreadable,
    /// There is no such store.
    NotConfigured,
}

/// What made the job due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Its cron expression.
    Tick,
    /// A person or program that asked for it.
    Manual,
    /// The first viewer coming in.
    Arrival,
}

/// What [`decide`] looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// What made the job due.
    pub trigger: Trigger,
    /// What it asks of its audience.
    pub gate: Gate,
    /// Who is there.
    pub audience: Audience,
    /// An earlier run of the job has not ended yet.
    pub running: bool,
}

/// How the competition for a bucket ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// This node has it.
    Won,
    /// Another has it.
    Taken,
    /// The store did not answer.
    Unreadable,
    /// There is no store to compete in.
    NotConfigured,
}

/// To run or not to run. Made from a [`Reason`], which implies which of the two it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Do the work.
    Run(Reason),
    /// Leave it.
    Skip(Reason),
}

/// Decides by trigger and audience. What runs must still be [`claimed`](Decision::claimed) and
/// [`compared`](Decision::compared).
#[must_use]
pub fn decide(facts: Facts) -> Decision {
    let Facts { trigger, gate, audience, running } = facts;
    let reason = match (trigger, gate, audience) {
        (Trigger::Manual, ..) => Reason::ByHand,
        (_, _, Audience::Known { viewers, visible }) if !gate.opens_for(Summary { viewers, visible }) => {
            Reason::NoViewer
        }
        (Trigger::Arrival, ..) => Reason::ViewerArrived,
        (Trigger::Tick, Gate::Always, _) => Reason::Always,
        (Trigger::Tick, _, Audience::Known { .. }) => Reason::Watched,
        (Trigger::Tick, _, Audience::Unreadable) => Reason::StoreUnreadable,
        (Trigger::Tick, _, Audience::NotConfigured) => Reason::NoStore,
    };
    if reason.runs() && running { Reason::StillRunning.into() } else { reason.into() }
}

impl Gate {
    /// Whether these viewers are audience enough.
    #[must_use]
    pub fn opens_for(self, seen: Summary) -> bool {
        match self {
            Self::Viewers => seen.viewers > 0,
            Self::VisibleViewers => seen.visible > 0,
            Self::Always => true,
        }
    }

    /// What is known when `seen` are the viewers found, in this node's memory or in earlier readings too, and
    /// `complete` says whether the store could be read this time. A viewer found is a viewer, whatever else
    /// could not be read.
    #[must_use]
    pub fn audience(self, seen: Summary, complete: bool) -> Audience {
        if complete || self.opens_for(seen) {
            Audience::Known { viewers: seen.viewers, visible: seen.visible }
        } else {
            Audience::Unreadable
        }
    }

    /// The gate as configuration and pages write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewers => "viewers",
            Self::VisibleViewers => "visible-viewers",
            Self::Always => "always",
        }
    }
}

impl Decision {
    /// The next step: `bucket` has been claimed with this outcome. `local_runs` is this process's own memory for this job.
    #[must_use]
    pub fn claimed(self, claim: Claim, bucket: Bucket, local_runs: &mut LocalRuns) -> Self {
        let Self::Run(reason) = self else { return self };
        let runs = match (claim, local_runs.of(bucket)) {
            (Claim::Taken, _) | (_, Some(LocalRun::Ran)) => false,
            // Of two claims by this process at once the loser may be heard of first.
            (Claim::Won, _) => true,
            (Claim::Unreadable | Claim::NotConfigured, known) => known.is_none(),
        };
        local_runs.note(bucket, if runs { LocalRun::Ran } else { LocalRun::Left });
        match claim {
            _ if !runs => Reason::AnotherNode.into(),
            Claim::Unreadable => Reason::StoreUnreadable.into(),
            _ => reason.into(),
        }
    }

    /// The same for a job that somebody has paused, if it is. Who asks by hand gets a run either way.
    #[must_use]
    pub fn unless_paused(self, paused: bool) -> Self {
        match self {
            Self::Run(reason) if paused && reason != Reason::ByHand => Reason::Paused.into(),
            decided => decided,
        }
    }

    /// The last step: the work's input was looked at. Who asks by hand gets a run either way.
    #[must_use]
    pub fn compared(self, unchanged: bool) -> Self {
        match self {
            Self::Run(reason) if unchanged && reason != Reason::ByHand => Reason::UnchangedInput.into(),
            decided => decided,
        }
    }

    /// Whether the work is to be done.
    #[must_use]
    pub fn runs(self) -> bool {
        matches!(self, Self::Run(_))
    }

    /// Why.
    #[must_use]
    pub fn reason(self) -> Reason {
        match self {
            Self::Run(reason) | Self::Skip(reason) => reason,
        }
    }
}

/// What this process knows without the store: the buckets of one job that it ran or left to others.
///
/// The store may be silent when the same bucket comes up again, for a viewer who arrives after the tick, or speak again
/// after this process ran the bucket on its own word. Neither is leave to run it twice.
#[derive(Debug, Default)]
pub struct LocalRuns {
    buckets: VecDeque<(Bucket, LocalRun)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LocalRun {
    Ran,
    Left,
}

impl LocalRuns {
    /// Buckets remembered: 17 hours of an every-minute job.
    pub const MAX: usize = 1_024;

    fn of(&self, bucket: Bucket) -> Option<LocalRun> {
        self.buckets.iter().rev().find(|(known, _)| *known == bucket).map(|(_, run)| *run)
    }

    /// Remembers what became of `bucket`; what was run stays run.
    fn note(&mut self, bucket: Bucket, run: LocalRun) {
        match self.buckets.iter_mut().rev().find(|(known, _)| *known == bucket) {
            Some((_, LocalRun::Ran)) => {}
            Some((_, known)) => *known = run,
            None => {
                if self.buckets.len() == Self::MAX {
                    self.buckets.pop_front();
                }
                self.buckets.push_back((bucket, run));
            }
        }
    }
}

impl From<Reason> for Decision {
    fn from(reason: Reason) -> Self {
        if reason.runs() { Self::Run(reason) } else { Self::Skip(reason) }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(f)
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    const NOBODY: Audience = Audience::Known { viewers: 0, visible: 0 };
    const HIDDEN: Audience = Audience::Known { viewers: 2, visible: 0 };
    const SEEN: Audience = Audience::Known { viewers: 2, visible: 1 };

    fn tick(gate: Gate, audience: Audience) -> Facts {
        Facts { trigger: Trigger::Tick, gate, audience, running: false }
    }

    fn bucket(minute: u64) -> Bucket {
        Bucket::minute(Timestamp::from_ms(minute * 60_000))
    }

    #[test]
    fn vw_06_a_tick_runs_for_viewers_and_in_doubt() {
        for (gate, audience, reason) in [
            (Gate::Viewers, SEEN, Reason::Watched),
            (Gate::Viewers, HIDDEN, Reason::Watched),
            (Gate::Viewers, NOBODY, Reason::NoViewer),
            (Gate::Viewers, Audience::Unreadable, Reason::StoreUnreadable),
            (Gate::Viewers, Audience::NotConfigured, Reason::NoStore),
            (Gate::VisibleViewers, SEEN, Reason::Watched),
            (Gate::VisibleViewers, HIDDEN, Reason::NoViewer),
            (Gate::VisibleViewers, Audience::Unreadable, Reason::StoreUnreadable),
            (Gate::Always, NOBODY, Reason::Always),
            (Gate::Always, Audience::Unreadable, Reason::Always),
        ] {
            assert_eq!(decide(tick(gate, audience)).reason(), reason, "{gate} {audience:?}");
        }
    }

    #[test]
    fn vw_20_a_hand_needs_no_viewer() {
        for audience in [NOBODY, SEEN, Audience::Unreadable, Audience::NotConfigured] {
            let decision = decide(Facts { trigger: Trigger::Manual, ..tick(Gate::Viewers, audience) });
            assert_eq!(decision.compared(true), Decision::Run(Reason::ByHand));
        }
    }

    #[test]
    fn vw_25_an_arrival_runs_unless_the_gate_asks_for_more() {
        let arrival =
            |gate, audience| decide(Facts { trigger: Trigger::Arrival, ..tick(gate, audience) }).reason();
        assert_eq!(arrival(Gate::Viewers, HIDDEN), Reason::ViewerArrived);
        assert_eq!(arrival(Gate::VisibleViewers, HIDDEN), Reason::NoViewer);
        assert_eq!(arrival(Gate::VisibleViewers, SEEN), Reason::ViewerArrived);
        // Come and gone before the decision.
        assert_eq!(arrival(Gate::Viewers, NOBODY), Reason::NoViewer);
        assert_eq!(arrival(Gate::Viewers, Audience::Unreadable), Reason::ViewerArrived);
    }

    #[test]
    fn vw_20_runs_of_one_job_do_not_overlap() {
        let still =
            |trigger, audience| decide(Facts { running: true, trigger, ..tick(Gate::Viewers, audience) });
        assert_eq!(still(Trigger::Tick, SEEN), Decision::Skip(Reason::StillRunning));
        assert_eq!(still(Trigger::Manual, NOBODY), Decision::Skip(Reason::StillRunning));
        assert_eq!(still(Trigger::Tick, NOBODY), Decision::Skip(Reason::NoViewer));
    }

    #[test]
    fn vw_07_whoever_wins_the_bucket_runs() {
        let (mut local_runs, watched) = (LocalRuns::default(), decide(tick(Gate::Viewers, SEEN)));
        assert_eq!(watched.claimed(Claim::Won, bucket(1), &mut local_runs).reason(), Reason::Watched);
        assert_eq!(watched.claimed(Claim::Taken, bucket(2), &mut local_runs).reason(), Reason::AnotherNode);
        let nobody = decide(tick(Gate::Viewers, NOBODY));
        assert_eq!(nobody.claimed(Claim::Taken, bucket(3), &mut local_runs).reason(), Reason::NoViewer);
        // A skip is no attempt.
        assert_eq!(
            watched.claimed(Claim::Unreadable, bucket(3), &mut local_runs).reason(),
            Reason::StoreUnreadable
        );
    }

    #[test]
    fn vw_07_without_the_stores_word_a_process_runs_a_bucket_once() {
        let (mut local_runs, watched) = (LocalRuns::default(), decide(tick(Gate::Viewers, SEEN)));
        let mut claimed = |minute, claim| watched.claimed(claim, bucket(minute), &mut local_runs).reason();
        assert_eq!(claimed(1, Claim::Unreadable), Reason::StoreUnreadable);
        assert_eq!(claimed(1, Claim::Unreadable), Reason::AnotherNode);
        // The store is back within the minute: still once.
        assert_eq!(claimed(1, Claim::Won), Reason::AnotherNode);
        assert_eq!(claimed(3, Claim::NotConfigured), Reason::Watched);
        assert_eq!(claimed(3, Claim::NotConfigured), Reason::AnotherNode);
    }

    /// The simulated world found this: the tick won the minute and ran, the store went away, a viewer arrived in
    /// the same minute, and the claim that could not be read was taken for leave to run it again.
    #[test]
    fn vw_07_a_bucket_settled_by_the_store_is_not_run_again_when_the_store_goes_silent() {
        let (mut local_runs, watched) = (LocalRuns::default(), decide(tick(Gate::Viewers, SEEN)));
        let mut claimed = |minute, claim| watched.claimed(claim, bucket(minute), &mut local_runs).reason();
        assert_eq!(claimed(1, Claim::Won), Reason::Watched);
        assert_eq!(claimed(1, Claim::Unreadable), Reason::AnotherNode);
        assert_eq!(claimed(2, Claim::Taken), Reason::AnotherNode);
        assert_eq!(claimed(2, Claim::Unreadable), Reason::AnotherNode);
    }

    /// The simulated world found this too: tick and arrival claimed the same minute at once, the arrival won, the
    /// tick's defeat was heard of first, and nobody ran.
    #[test]
    fn vw_07_a_won_bucket_runs_though_another_claim_of_this_process_lost_it() {
        let (mut local_runs, watched) = (LocalRuns::default(), decide(tick(Gate::Viewers, SEEN)));
        let mut claimed = |claim| watched.claimed(claim, bucket(1), &mut local_runs).reason();
        assert_eq!(claimed(Claim::Taken), Reason::AnotherNode);
        assert_eq!(claimed(Claim::Won), Reason::Watched);
        assert_eq!(claimed(Claim::Won), Reason::AnotherNode);
    }

    #[test]
    fn vw_07_the_memory_of_buckets_is_bounded() {
        let (mut local_runs, watched) = (LocalRuns::default(), decide(tick(Gate::Viewers, SEEN)));
        for minute in 0..3 * LocalRuns::MAX as u64 {
            assert!(watched.claimed(Claim::Unreadable, bucket(minute), &mut local_runs).runs());
        }
        assert_eq!(local_runs.buckets.len(), LocalRuns::MAX);
    }

    #[test]
    fn vw_08_an_unchanged_input_is_skipped_as_such() {
        let watched = decide(tick(Gate::Viewers, SEEN));
        assert_eq!(watched.compared(false), watched);
        assert_eq!(watched.compared(true), Decision::Skip(Reason::UnchangedInput));
        let nobody = decide(tick(Gate::Viewers, NOBODY));
        assert_eq!(nobody.compared(true), nobody);
    }

    #[test]
    fn vw_31_a_paused_job_runs_by_hand_alone() {
        let watched = decide(tick(Gate::Viewers, SEEN));
        assert_eq!(watched.unless_paused(false), watched);
        assert_eq!(watched.unless_paused(true), Decision::Skip(Reason::Paused));
        let by_hand = decide(Facts { trigger: Trigger::Manual, ..tick(Gate::Viewers, NOBODY) });
        assert_eq!(by_hand.unless_paused(true), by_hand);
        let nobody = decide(tick(Gate::Viewers, NOBODY));
        assert_eq!(nobody.unless_paused(true), nobody, "the first reason not to run is on record");
    }

    #[test]
    fn vw_06_a_viewer_found_is_a_viewer_whatever_else_could_not_be_read() {
        let (none, hidden) = (Summary::default(), Summary { viewers: 1, visible: 0 });
        assert_eq!(Gate::Viewers.audience(none, true), NOBODY);
        assert_eq!(Gate::Viewers.audience(none, false), Audience::Unreadable);
        assert_eq!(Gate::Viewers.audience(hidden, false), Audience::Known { viewers: 1, visible: 0 });
        assert_eq!(Gate::VisibleViewers.audience(hidden, false), Audience::Unreadable);
    }
}
