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

/// One key and all that is known of it. Borrowed from a queue it is a `Record<&K, &Place<R>>`, on its way into
/// one a `Record<K, Place<R>>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record<K, P> {
    /// The key.
    pub key: K,
    /// Where it is.
    pub place: P,
    /// Its order among the keys in the same place, lowest first. No two waiting keys share one.
    pub rank: i64,
    /// Its order by how long it has been in line, lowest first. No two waiting keys share one.
    pub since: i64,
    /// Runs begun since it was enqueued.
    pub attempts: u32,
    /// It was enqueued as [`Kind::Priority`](super::Kind::Priority).
    pub priority: bool,
    /// The number of its group; 0 if it was never given one.
    #[serde(default)]
    pub group: u32,
}

impl<K: Clone, R: Clone> Record<&K, &Place<R>> {
    /// The same, no longer borrowed.
    #[must_use]
    pub fn cloned(&self) -> Record<K, Place<R>> {
        Record {
            key: self.key.clone(),
            place: self.place.clone(),
            rank: self.rank,
            since: self.since,
            attempts: self.attempts,
            priority: self.priority,
            group: self.group,
        }
    }
}

/// One row to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<'a, K, R> {
    /// Insert or replace the row of this key.
    Put(Record<&'a K, &'a Place<R>>),
    /// Delete the row of this key, if there is one.
    Remove(&'a K),
}

/// Why records do not make a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadRecord {
    /// The same key came twice.
    #[error("the key of the record with rank {rank} is there twice")]
    KeyTwice {
        /// The rank of the later one.
        rank: i64,
    },
    /// Two keys claim the same place in line, by rank or by age.
    #[error("two waiting keys share rank or age {order}")]
    OrderTwice {
        /// Which.
        order: i64,
    },
    /// A rank or age no queue can have reached.
    #[error("rank {rank} or age {since} is out of range")]
    OutOfRange {
        /// The rank.
        rank: i64,
        /// The age.
        since: i64,
    },
}
