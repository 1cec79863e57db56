//! Which of the nodes that share a database answer, and which stand still.
//!
//! A node says once a minute that it is there. While somebody looks at the nodes, the one that is asked calls the others every
//! [`CALL_EVERY`], and each that hears it says again that it is there. A node whose last word is older than a call of
//! [`ANSWER_WITHIN`] ago stands still. So a frozen node is known within seconds, and nodes that nobody looks at are left alone.
//!
//! Guarantees: a node that cannot hear calls is never judged by them, and a node that answers is never called still.
//! Leaves to others: how a call is made and how a word is written.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Timestamp;

/// How often the others are called while somebody looks.
pub const CALL_EVERY: Duration = Duration::from_secs(2);

/// How long calls go on after somebody has looked: pages look every five seconds.
pub const CALL_FOR: Duration = Duration::from_secs(15);

/// How soon a node has to answer.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// How old the last word of a node may be that cannot hear calls: it speaks once a minute.
pub const SILENT_MAX: Duration = Duration::from_secs(90);

/// A word that is older than a call by less than this may have been its answer: they are measured by two clocks.
const SLACK: Duration = Duration::from_millis(250);

/// Calls that are remembered: those that may still be answered, and the last one that may not.
const CALLS_MAX: usize = 4;

/// The calls of one node.
#[derive(Debug, Default)]
pub struct RollCall {
    looked_at: Option<Timestamp>,
    calls: VecDeque<Timestamp>,
}

impl RollCall {
    /// Somebody looks at the nodes.
    pub fn look(&mut self, now: Timestamp) {
        self.looked_at = Some(now);
    }

    /// How long until the others are to be called; `None` while nobody looks.
    #[must_use]
    pub fn next(&self, now: Timestamp) -> Option<Duration> {
        let looked_at = self.looked_at?;
        if now.saturating_since(looked_at) >= CALL_FOR {
            return None;
        }
        Some(
            self.calls
                .back()
                .map_or(Duration::ZERO, |last| CALL_EVERY.saturating_sub(now.saturating_since(*last))),
        )
    }

    /// The others were called. `at` is the moment before the call, so that no answer is older.
    pub fn called(&mut self, at: Timestamp) {
        if self.calls.len() == CALLS_MAX {
            self.calls.pop_front();
        }
        self.calls.push_back(at);
    }

    /// Whether a node stands still whose last word is `silent` old and that `hears` calls.
    #[must_use]
    pub fn stands_still(&self, now: Timestamp, silent: Duration, hears: bool) -> bool {
        let ages = self.calls.iter().rev().map(|at| now.saturating_since(*at));
        let unanswered = ages.into_iter().find(|age| *age >= ANSWER_WITHIN);
        silent > SILENT_MAX || (hears && unanswered.is_some_and(|age| silent > age + SLACK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(1_000_000 + ms)
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn cn_04_nobody_is_called_while_nobody_looks() {
        let mut calls = RollCall::default();
        assert_eq!(calls.next(at(0)), None);
        calls.look(at(0));
        assert_eq!(calls.next(at(0)), Some(Duration::ZERO));
        calls.called(at(0));
        assert_eq!(calls.next(at(500)), Some(ms(1_500)));
        assert_eq!(calls.next(at(14_900)), Some(Duration::ZERO));
        assert_eq!(calls.next(at(15_000)), None);
    }

    #[test]
    fn cn_04_a_node_that_does_not_answer_a_call_stands_still_and_one_that_answers_does_not() {
        let mut calls = RollCall::default();
        assert!(!calls.stands_still(at(0), ms(59_000), true), "nobody has called it");
        calls.called(at(0));
        assert!(!calls.stands_still(at(1_900), ms(30_000), true), "it has time to answer");
        assert!(calls.stands_still(at(2_000), ms(30_000), true));
        assert!(!calls.stands_still(at(2_000), ms(30_000), false), "it hears no calls");
        assert!(!calls.stands_still(at(2_000), ms(1_900), true), "it has answered");
        assert!(calls.stands_still(at(2_000), ms(91_000), false), "it has missed its minute");
        // It answered the first call after 100 ms and was frozen; every later call goes unanswered.
        for now in (2_000..=20_000).step_by(2_000) {
            calls.called(at(now));
            assert_eq!(calls.stands_still(at(now), ms(now - 100), true), now > 2_000, "{now}");
        }
    }

    #[test]
    fn cn_04_calls_of_long_ago_blame_nobody() {
        let mut calls = RollCall::default();
        (0..20_000).step_by(2_000).for_each(|ms| calls.called(at(ms)));
        // Since then it has spoken once a minute, as it does.
        assert!(!calls.stands_still(at(600_000), ms(59_000), true));
        calls.called(at(600_000));
        assert!(!calls.stands_still(at(600_100), ms(59_000), true));
    }
}
