//! Why a job ran or did not: one list of sentences for logs, history, metrics and pages.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

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
    /// Somebody has paused the job.
    Paused,
}

impl Reason {
    /// Every reason, runs first.
    pub const ALL: [Self; 11] = [
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
        Self::Paused,
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
            Self::Paused => "skip: paused",
        }
    }

    /// Whether it is a reason to run.
    #[must_use]
    pub const fn runs(self) -> bool {
        !matches!(
            self,
            Self::NoViewer | Self::AnotherNode | Self::UnchangedInput | Self::StillRunning | Self::Paused
        )
    }

    /// Whether the price of a run was saved. Another node's minute was paid for there, and a run still going is
    /// being paid for here.
    #[must_use]
    pub const fn saves(self) -> bool {
        matches!(self, Self::NoViewer | Self::UnchangedInput)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is no reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a reason to run or to skip")]
pub struct UnknownReason(String);

impl FromStr for Reason {
    type Err = UnknownReason;

    fn from_str(text: &str) -> Result<Self, UnknownReason> {
        Self::ALL
            .into_iter()
            .find(|reason| reason.as_str() == text)
            .ok_or_else(|| UnknownReason(text.to_owned()))
    }
}

impl TryFrom<String> for Reason {
    type Error = UnknownReason;

    fn try_from(text: String) -> Result<Self, UnknownReason> {
        text.parse()
    }
}

impl From<Reason> for &'static str {
    fn from(reason: Reason) -> Self {
        reason.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vw_06_reasons_read_back_and_say_what_they_do() {
        for (position, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, position);
            assert_eq!(reason.as_str().parse(), Ok(reason));
            assert_eq!(reason.as_str().starts_with("run: "), reason.runs());
        }
        assert!("run: because".parse::<Reason>().is_err());
    }
}
