//! Whether a job that is due should run, and why.
//!
//! Three steps in a fixed order, because each costs more than the one before: [`decide`] looks at the viewers,
//! [`Decision::claimed`] at who won the bucket, [`Decision::compared`] at whether the input changed. A skip
//! passes through later steps unchanged, so the first reason not to run is the one on record.
//!
//! In doubt about viewers the job runs (fail open: a run costs little, a missing picture is seen). In doubt about
//! the claim it runs once in each process for each bucket ([`Solo`]).

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Bucket;

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
pub enum Watch {
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
    Hand,
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
    pub watch: Watch,
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
    let Facts { trigger, gate, watch, running } = facts;
    let nobody = match (gate, watch) {
        (Gate::Viewers, Watch::Known { viewers, .. }) => viewers == 0,
        (Gate::VisibleViewers, Watch::Known { visible, .. }) => visible == 0,
        _ => false,
    };
    let reason = match (trigger, gate, watch) {
        (Trigger::Hand, ..) => Reason::ByHand,
        (_, Gate::Viewers | Gate::VisibleViewers, _) if nobody => Reason::NoViewer,
        (Trigger::Arrival, ..) => Reason::ViewerArrived,
        (Trigger::Tick, Gate::Always, _) => Reason::Always,
        (Trigger::Tick, _, Watch::Known { .. }) => Reason::Watched,
        (Trigger::Tick, _, Watch::Unreadable) => Reason::StoreUnreadable,
        (Trigger::Tick, _, Watch::NotConfigured) => Reason::NoStore,
    };
    if reason.runs() && running { Reason::StillRunning.into() } else { reason.into() }
}

impl Decision {
    /// The next step: `bucket` has been claimed with this outcome. `solo` is this process's memory for this job.
    #[must_use]
    pub fn claimed(self, claim: Claim, bucket: Bucket, solo: &mut Solo) -> Self {
        let Self::Run(reason) = self else { return self };
        // A bucket this process ran on its own word stays done when the store comes back within it.
        let done = solo.ran.contains(&bucket);
        match claim {
            Claim::Taken => Reason::AnotherNode.into(),
            Claim::Won | Claim::Unreadable | Claim::NotConfigured if done => Reason::AnotherNode.into(),
            Claim::Won => self,
            Claim::Unreadable => {
                solo.remember(bucket);
                Reason::StoreUnreadable.into()
            }
            Claim::NotConfigured => {
                solo.remember(bucket);
                reason.into()
            }
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

/// The buckets of one job that this process ran without the store's word, so that it runs none of them twice.
#[derive(Debug, Default)]
pub struct Solo {
    ran: VecDeque<Bucket>,
}

impl Solo {
    /// Buckets remembered: the 17 hours an every-minute job could be cut off from its store.
    pub const MAX: usize = 1_024;

    fn remember(&mut self, bucket: Bucket) {
        if self.ran.len() == Self::MAX {
            self.ran.pop_front();
        }
        self.ran.push_back(bucket);
    }
}

/// Why a job ran or did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Reason {
    /// Somebody is watching.
    Watched,
    /// The job does not ask for viewers.
    Always,
    /// The viewers or the claim could not be read.
    StoreUnreadable,
    /// There is no store to read viewers from.
    NoStore,
    /// It was asked for.
    ByHand,
    /// The first viewer came in.
    ViewerArrived,
    /// Nobody is watching.
    NoViewer,
    /// Another node has this bucket, or this one has already run it.
    AnotherNode,
    /// The result would be the same as last time.
    UnchangedInput,
    /// An earlier run has not ended yet.
    StillRunning,
}

impl Reason {
    /// Every reason, runs first.
    pub const ALL: [Self; 10] = [
        Self::Watched,
        Self::Always,
        Self::StoreUnreadable,
        Self::NoStore,
        Self::ByHand,
        Self::ViewerArrived,
        Self::NoViewer,
        Self::AnotherNode,
        Self::UnchangedInput,
        Self::StillRunning,
    ];

    /// The reason as logs, history, metrics and pages show it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Watched => "run: watched",
            Self::Always => "run: always",
            Self::StoreUnreadable => "run: store unreadable (fail open)",
            Self::NoStore => "run: no store configured",
            Self::ByHand => "run: by hand",
            Self::ViewerArrived => "run: viewer arrived",
            Self::NoViewer => "skip: no viewer",
            Self::AnotherNode => "skip: another node has this minute",
            Self::UnchangedInput => "skip: unchanged input",
            Self::StillRunning => "skip: still running",
        }
    }

    /// Whether it is a reason to run.
    #[must_use]
    pub const fn runs(self) -> bool {
        !matches!(self, Self::NoViewer | Self::AnotherNode | Self::UnchangedInput | Self::StillRunning)
    }

    /// Whether the price of a run was saved. Another node's minute was paid for there, and a run still going is
    /// being paid for here.
    #[must_use]
    pub const fn saves(self) -> bool {
        matches!(self, Self::NoViewer | Self::UnchangedInput)
    }
}

impl From<Reason> for Decision {
    fn from(reason: Reason) -> Self {
        if reason.runs() { Self::Run(reason) } else { Self::Skip(reason) }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(f)
    }
}

/// A word that names no gate or reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is unknown here")]
pub struct UnknownWord(String);

impl FromStr for Reason {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Self::ALL
            .into_iter()
            .find(|reason| reason.as_str() == text)
            .ok_or_else(|| UnknownWord(text.to_owned()))
    }
}

impl TryFrom<String> for Reason {
    type Error = UnknownWord;

    fn try_from(text: String) -> Result<Self, UnknownWord> {
        text.parse()
    }
}

impl From<Reason> for &'static str {
    fn from(reason: Reason) -> Self {
        reason.as_str()
    }
}
