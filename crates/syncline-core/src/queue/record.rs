//! A queue as plain values: what a store keeps, row by row.
//!
//! A [`Record`] is all there is to know about one key. [`Queue::records`](super::Queue::records) gives them all;
//! [`Queue::drain_changes`](super::Queue::drain_changes) gives those that changed since the last time, each
//! once, so a durable queue writes one row per changed key and never the whole. Storing them is left to others.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Where a key is. It is in one place only: a key in line has no result, a key with a result is not in line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place<R> {
    /// In line.
    Waiting,
    /// Being worked on.
    Running {
        /// One more run was asked for meanwhile.
        again: bool,
    },
    /// Comes back to the line, right after the head.
    Retrying {
        /// When, on the monotonic clock of the process that wrote this.
        due: Timestamp,
    },
    /// Answered.
    Done(R),
    /// Ended without an answer, for this reason.
    Failed(Box<str>),
    /// Given up after too many attempts, the last of which ended for this reason. Can be revived.
    Dead(Box<str>),
}

impl<R> Place<R> {
    pub(super) const fn as_ref(&self) -> Place<&R>
    where
        Box<str>: Sized,
    {
        match self {
            Self::Waiting => Place::Waiting,
            Self::Running { again } => Place::Running { again: *again },
            Self::Retrying { due } => Place::Retrying { due: *due },
            Self::Done(result) => Place::Done(result),
            Self::Failed(_) | Self::Dead(_) => Place::Waiting,
        }
    }
}
