//! What enqueuing a key means: one table for everybody who keeps a queue.
//!
//! [`Kind::decide`] knows nothing of lists or rows; the queue in memory and the one in SQL ask it the same
//! question and carry out the same answer.

use serde::{Deserialize, Serialize};

/// How a key asks to be put into the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// At the tail, unless the key is known.
    New,
    /// Right after the head, if the key is waiting for its retry.
    Retry,
    /// Right after the head, also for a key that waits further back.
    Priority,
    /// One more run that starts after this moment: an answer that is there already does not count.
    Again,
}

/// Where a key stands at the moment somebody enqueues it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Not in the queue and without a result.
    Unknown,
    /// First in line, with nothing running before it.
    Head,
    /// In line behind the head.
    Waiting,
    /// Being worked on.
    Running,
    /// Asked to come back later; its result is "retrying".
    Retrying,
    /// It has a result, which may be an empty one.
    Settled,
    /// Given up after too many attempts.
    Dead,
}

/// What to do with an enqueued key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Move {
    /// To the tail; what it had before, result and attempts, makes way.
    Append,
    /// Right after the head: behind whatever runs, or behind the first in line when nothing does.
    AfterHead,
    /// Leave it running and append it when that run is over.
    RunAgain,
    /// Nothing: it is where it should be.
    Ignore,
}

impl Kind {
    /// What enqueuing a key that stands at `standing` does.
    #[must_use]
    pub const fn decide(self, standing: Standing) -> Move {
        match (self, standing) {
            (Self::New, Standing::Unknown)
            | (Self::Again, Standing::Unknown | Standing::Settled | Standing::Dead) => Move::Append,
            (Self::Retry, Standing::Retrying) | (Self::Priority, Standing::Unknown | Standing::Waiting) => {
                Move::AfterHead
            }
            (Self::Again, Standing::Running) => Move::RunAgain,
            // A waiting or retrying key has a run ahead of it, which is all that `Again` asks for.
            _ => Move::Ignore,
        }
    }

    /// Whether a key that stands at `standing` takes over the input it is enqueued with: it does where a run is ahead of
    /// it that has not begun, so that of several inputs the newest counts.
    #[must_use]
    pub const fn takes_input(self, standing: Standing) -> bool {
        match standing {
            Standing::Head | Standing::Waiting | Standing::Retrying => true,
            _ => !matches!(self.decide(standing), Move::Ignore),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Kind::*;
    use super::Move::*;
    use super::*;

    #[test]
    fn qu_01_qu_25_every_kind_at_every_standing() {
        let standings = [
            Standing::Unknown,
            Standing::Head,
            Standing::Waiting,
            Standing::Running,
            Standing::Retrying,
            Standing::Settled,
            Standing::Dead,
        ];
        let table = [
            (New, [Append, Ignore, Ignore, Ignore, Ignore, Ignore, Ignore]),
            (Retry, [Ignore, Ignore, Ignore, Ignore, AfterHead, Ignore, Ignore]),
            (Priority, [AfterHead, Ignore, AfterHead, Ignore, Ignore, Ignore, Ignore]),
            (Again, [Append, Ignore, Ignore, RunAgain, Ignore, Append, Append]),
        ];
        for (kind, moves) in table {
            for (standing, expected) in standings.into_iter().zip(moves) {
                assert_eq!(kind.decide(standing), expected, "{kind:?} at {standing:?}");
            }
        }
    }

    #[test]
    fn qu_30_the_newest_input_counts_until_a_run_begins() {
        for kind in [New, Retry, Priority, Again] {
            for standing in [Standing::Head, Standing::Waiting, Standing::Retrying] {
                assert!(kind.takes_input(standing), "{kind:?} at {standing:?}");
            }
        }
        assert!(!New.takes_input(Standing::Running) && Again.takes_input(Standing::Running));
        assert!(!New.takes_input(Standing::Settled) && Again.takes_input(Standing::Settled));
        assert!(New.takes_input(Standing::Unknown) && !Retry.takes_input(Standing::Unknown));
    }
}
