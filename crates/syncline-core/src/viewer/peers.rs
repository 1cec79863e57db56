//! What this node knows of the others.
//!
//! Promises expire on this node's monotonic clock, counted from the first time it read them. No wall clock, neither the
//! writer's nor the store's, decides how long a promise stands; reading late can only extend one, and in doubt somebody is
//! watching. There is one exception: the first [`Report`] of a node that was never heard of before may have been there for
//! long. A reader that has just started finds such reports, those of its own former life included. Such a report is as
//! old as the store says; else the viewers of a dead node would come back with every restart.
//!
//! Read the store right before a decision and every few seconds besides: the time between a report's writing and
//! its first reading is the time by which its promise is stretched. Then ask for the moment the job fell due, not for
//! the moment the reading was done: a process may be stopped in between for as long as it pleases the machine.

use std::collections::BTreeMap;
use std::time::Duration;

use super::report::LISTED_FOR_IDLE;
use super::{Report, SLACK, Summary, TTL};
use crate::kv;
use crate::time::Timestamp;

/// The other nodes as far as their reports tell.
#[derive(Debug)]
pub struct Peers {
    own: String,
    /// At most [`kv::LIST_MAX`], as one reading brings no more.
    by_node: BTreeMap<String, Peer>,
    /// When the store was read last.
    read_at: Timestamp,
}

#[derive(Debug, Default)]
struct Peer {
    /// The number of its last report.
    seq: u64,
    /// When that was seen last.
    listed_at: Timestamp,
    /// What its reports promised, the last one last: who asks for a moment of the past wants what was known then, and
    /// whatever was heard since.
    promises: Vec<Promise>,
}

#[derive(Debug, Clone, Copy)]
struct Promise {
    summary: Summary,
    /// When its report was first seen.
    heard_at: Timestamp,
    watched_until: Timestamp,
    visible_until: Timestamp,
}

/// Promises kept of one node: more than it makes between the moment a job falls due and the reading for it.
const PROMISES_MAX: usize = 8;

impl Peers {
    /// Knows nobody yet; reports of `own` will be left out, for the session table knows better.
    #[must_use]
    pub fn new(own: impl Into<String>) -> Self {
        Self { own: own.into(), by_node: BTreeMap::new(), read_at: Timestamp::ZERO }
    }

    /// Takes in one complete reading of the store: node ids and their reports.
    ///
    /// A report that has vanished keeps its promise: the store's idea of time may have jumped.
    pub fn observe<'a>(&mut self, now: Timestamp, reports: impl IntoIterator<Item = (&'a str, Report)>) {
        let mut former = std::mem::take(&mut self.by_node);
        // What stood at the last reading may still be asked for: a job may have fallen due since.
        let read_before = std::mem::replace(&mut self.read_at, now);
        for (node, report) in reports.into_iter().take(kv::LIST_MAX).filter(|(node, _)| *node != self.own) {
            let known = former.remove(node);
            let age = if known.is_some() { Duration::ZERO } else { Duration::from_millis(report.age_ms) };
            let mut peer = known.unwrap_or_default();
            peer.listed_at = now;
            // The same number is the same report, and a lower one was overtaken on its way.
            if peer.promises.is_empty() || peer.seq < report.seq {
                if peer.promises.len() == PROMISES_MAX {
                    peer.promises.remove(0);
                }
                peer.promises.push(Promise::new(now, age, report));
                peer.seq = report.seq;
            }
            self.by_node.insert(node.to_owned(), peer);
        }
        // An older reading may come after this one: a report that is gone here must not pass for news in it.
        let kept = former.into_iter().filter(|(_, peer)| {
            let stands = peer.promises.iter().any(|promise| promise.watched_until > read_before);
            stands || now.saturating_since(peer.listed_at) < TTL
        });
        let room = kv::LIST_MAX.saturating_sub(self.by_node.len());
        self.by_node.extend(kept.take(room));
    }

    /// How many watch through the other nodes, at `now` or at a moment not long past.
    #[must_use]
    pub fn total(&self, now: Timestamp) -> Summary {
        let mut total = Summary::default();
        for peer in self.by_node.values() {
            let Summary { viewers, visible } = peer.promised(now);
            total.viewers = total.viewers.saturating_add(viewers);
            total.visible = total.visible.saturating_add(visible);
        }
        total
    }

    /// The other nodes that have reported lately, and how many watch through each: within the [`TTL`], or a little longer where nobody
    /// watched, because such a node reports seldom.
    pub fn live(&self, now: Timestamp) -> impl Iterator<Item = (&str, Summary)> {
        let recent = self.by_node.iter().filter(move |(_, peer)| {
            peer.promises.last().is_some_and(|last| {
                let listed_for = if last.summary.viewers > 0 { TTL } else { LISTED_FOR_IDLE };
                now.saturating_since(last.heard_at) < listed_for
            })
        });
        recent.map(move |(node, peer)| (node.as_str(), peer.promised(now)))
    }
}

impl Peer {
    /// The reported headcount at a moment, held to the promises: at least one while one stands, none afterwards.
    fn promised(&self, at: Timestamp) -> Summary {
        let mut most = Summary::default();
        for promise in self.promises.iter().rev() {
            let Summary { viewers, visible } = promise.kept(at);
            most = Summary { viewers: most.viewers.max(viewers), visible: most.visible.max(visible) };
            // Whatever came before was replaced by then.
            if promise.heard_at <= at {
                break;
            }
        }
        most
    }
}

impl Promise {
    fn new(now: Timestamp, age: Duration, report: Report) -> Self {
        let until = |ms| match Duration::from_millis(ms).min(TTL + SLACK).saturating_sub(age) {
            // No promise, not even for a moment before it was heard.
            Duration::ZERO => Timestamp::ZERO,
            // No honest promise is longer than that; a garbled one must not keep the gate open for ever.
            left => now + left,
        };
        let (watched_until, visible_until) = (until(report.watched_for_ms), until(report.visible_for_ms));
        Self { summary: report.summary, heard_at: now, watched_until, visible_until }
    }

    fn kept(&self, at: Timestamp) -> Summary {
        let held = |until: Timestamp, count: u64| if at < until { count.max(1) } else { 0 };
        let Summary { viewers, visible } = self.summary;
        Summary { viewers: held(self.watched_until, viewers), visible: held(self.visible_until, visible) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viewer::REPORT_TTL;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_ms(seconds * 1_000)
    }

    fn report(seq: u64, viewers: u64, watched_for_s: u64) -> Report {
        let summary = Summary { viewers, visible: 0 };
        Report {
            seq,
            summary,
            watched_for_ms: watched_for_s * 1_000,
            visible_for_ms: 0,
            written_at_ms: 0,
            age_ms: 0,
        }
    }

    #[test]
    fn vw_24_a_promise_runs_on_the_readers_clock_from_its_first_reading() {
        let mut peers = Peers::new("me");
        peers.observe(at(1_000), [("a", report(1, 3, 50))]);
        // Reading the same report again does not renew it.
        peers.observe(at(1_040), [("a", report(1, 3, 50))]);
        assert_eq!(peers.total(at(1_049)).viewers, 3);
        assert_eq!(peers.total(at(1_050)).viewers, 0);
        peers.observe(at(1_060), [("a", report(2, 1, 70))]);
        assert_eq!(peers.total(at(1_129)).viewers, 1);
        assert_eq!(peers.total(at(1_130)).viewers, 0);
    }

    /// A node that was restarted a hundred seconds after its former life had died counted that life's viewer again, for a
    /// minute, and so did the next restart and the one after it, until the report had expired.
    #[test]
    fn vw_02_a_dead_nodes_viewers_do_not_come_back_with_a_restart() {
        let left = |seconds| REPORT_TTL - Duration::from_secs(seconds);
        for (age_s, wall_s, counted) in
            [(0, 0, 1), (40, 40, 1), (69, 69, 1), (71, 71, 0), (100, 100, 0), (590, 590, 0)]
        {
            let mut restarted = Peers::new("me-2");
            let found = Report { written_at_ms: 1, ..report(812, 1, 70) }.read(left(age_s), at(wall_s));
            restarted.observe(at(5), [("me-1", found)]);
            assert_eq!(restarted.total(at(5)).viewers, counted, "{age_s} s old");
        }
        // A clock that was set ahead, the store's or ours, takes nothing back.
        for (stored_s, wall_s) in [(300, 10), (10, 300)] {
            let mut restarted = Peers::new("me-2");
            let found = Report { written_at_ms: 1, ..report(812, 1, 70) }.read(left(stored_s), at(wall_s));
            restarted.observe(at(5), [("me-1", found)]);
            assert_eq!(restarted.total(at(60)).viewers, 1);
            assert_eq!(restarted.total(at(66)).viewers, 0);
        }
    }

    #[test]
    fn vw_23_a_fresh_reader_counts_what_it_finds_until_its_promise_is_over() {
        let mut restarted = Peers::new("me-2");
        restarted.observe(at(5), [("me-1", report(812, 2, 41))]);
        assert_eq!(restarted.total(at(45)).viewers, 2);
        assert_eq!(restarted.total(at(46)).viewers, 0);
        // Still listed long after: not news.
        restarted.observe(at(90), [("me-1", report(812, 2, 41))]);
        assert_eq!(restarted.total(at(90)).viewers, 0);
    }

    #[test]
    fn vw_24_a_moment_of_the_past_is_judged_by_what_was_known_then() {
        let mut peers = Peers::new("me");
        peers.observe(at(0), [("a", report(1, 2, 50))]);
        // The last viewer went just after the job fell due, and that is what the reading for it brings.
        peers.observe(at(31), [("a", report(2, 0, 0))]);
        assert_eq!((peers.total(at(30)).viewers, peers.total(at(31)).viewers), (2, 0));
        // A goodbye that was known then counts, whatever was promised before.
        peers.observe(at(41), [("a", report(3, 0, 0))]);
        assert_eq!(peers.total(at(40)).viewers, 0);
        peers.observe(at(51), [("a", report(4, 1, 60))]);
        assert_eq!(
            (peers.total(at(40)).viewers, peers.total(at(51)).viewers),
            (1, 1),
            "heard late, written before"
        );
        for second in 52..100 {
            peers.observe(at(second), [("a", report(second, 1, 60))]);
        }
        assert_eq!(peers.by_node["a"].promises.len(), PROMISES_MAX);
    }

    #[test]
    fn vw_24_a_reading_that_was_overtaken_brings_nobody_back() {
        let mut peers = Peers::new("me");
        peers.observe(at(0), [("a", report(1, 1, 48))]);
        peers.observe(at(599), [("a", report(1, 1, 48))]);
        peers.observe(at(600), []);
        peers.observe(at(601), [("a", report(1, 1, 48))]);
        assert_eq!(peers.total(at(601)).viewers, 0);
        // It is forgotten in the end, so that memory is bounded.
        peers.observe(at(700), []);
        assert!(peers.by_node.is_empty());
    }

    #[test]
    fn vw_24_a_report_that_vanishes_keeps_its_promise() {
        let mut peers = Peers::new("me");
        peers.observe(at(0), [("a", report(1, 4, 60))]);
        peers.observe(at(10), []);
        assert_eq!(peers.total(at(59)).viewers, 4);
        peers.observe(at(60), []);
        assert_eq!((peers.total(at(59)).viewers, peers.total(at(60)).viewers), (4, 0));
        peers.observe(at(70), []);
        assert!(peers.by_node.is_empty());
    }

    #[test]
    fn vw_21_a_withdrawn_promise_is_over_at_once_and_an_overtaken_one_is_ignored() {
        let mut peers = Peers::new("me");
        peers.observe(at(0), [("a", report(7, 1, 60))]);
        peers.observe(at(1), [("a", report(6, 0, 0))]);
        assert_eq!(peers.total(at(1)).viewers, 1);
        peers.observe(at(2), [("a", report(8, 0, 0))]);
        assert_eq!(peers.total(at(2)).viewers, 0);
    }

    #[test]
    fn vw_06_the_answer_for_the_moment_a_job_fell_due_outlives_the_reading() {
        let mut peers = Peers::new("me");
        peers.observe(at(0), [("a", report(1, 1, 50))]);
        // Due at 40 s; the reading's answer is handled at 90 s, for the process was stopped.
        peers.observe(at(90), [("a", report(1, 1, 50)), ("b", report(1, 0, 0))]);
        assert_eq!(peers.total(at(40)).viewers, 1);
        assert_eq!(peers.total(at(90)).viewers, 0);
    }

    #[test]
    fn vw_21_a_node_is_listed_until_it_has_missed_a_report() {
        let mut peers = Peers::new("me");
        peers.observe(at(100), [("busy", report(1, 2, 60)), ("idle", report(1, 0, 0))]);
        let listed = |seconds| peers.live(at(seconds)).map(|(node, _)| node.to_owned()).collect::<Vec<_>>();
        assert_eq!(listed(159), ["busy", "idle"]);
        assert_eq!(listed(160), ["idle"], "one through which somebody watches reports every 20 s");
        assert_eq!(listed(249), ["idle"]);
        assert_eq!(listed(250), [""; 0]);
    }

    #[test]
    fn vw_21_own_reports_are_left_out_and_others_added_up() {
        let mut peers = Peers::new("me");
        let seen = Report {
            summary: Summary { viewers: 5, visible: 2 },
            visible_for_ms: 30_000,
            written_at_ms: 0,
            age_ms: 0,
            ..report(1, 5, 60)
        };
        peers.observe(at(0), [("me", report(9, 100, 60)), ("a", report(1, 2, 60)), ("b", seen)]);
        assert_eq!(peers.total(at(29)), Summary { viewers: 7, visible: 2 });
        assert_eq!(peers.total(at(30)), Summary { viewers: 7, visible: 0 });
        let heard: Vec<_> = peers.live(at(30)).map(|(node, summary)| (node, summary.viewers)).collect();
        assert_eq!(heard, [("a", 2), ("b", 5)]);
        assert_eq!(peers.live(at(60)).count(), 0);
    }

    #[test]
    fn vw_21_a_garbled_promise_ends_and_memory_is_bounded() {
        let mut peers = Peers::new("me");
        peers.observe(at(0), [("a", report(1, 1, u64::MAX / 1_000))]);
        assert_eq!(peers.total(at(70)).viewers, 0);
        for round in 0..3 {
            let names: Vec<_> = (0..kv::LIST_MAX + 5).map(|node| format!("{round}-{node}")).collect();
            peers.observe(at(100), names.iter().map(|name| (name.as_str(), report(1, 1, 60))));
            assert_eq!(peers.by_node.len(), kv::LIST_MAX);
        }
    }
}
