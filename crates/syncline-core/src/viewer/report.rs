//! What a node tells the others: a promise that somebody watches (a lease, elsewhere), not a headcount alone.
//!
//! Heartbeats stay in the memory of the node that got them; the others see one [`Report`] for each node in the
//! shared store. A report says for how long, from its writing, somebody will still count as watching. So the minute
//! is not lost when the node dies right after: what it promised stands.
//!
//! The rule that makes this exact: a heartbeat is answered with success only after a report that covers it is in
//! the store. [`OwnReport`] says when that takes a new report. Each promise reaches [`SLACK`] beyond the newest beat,
//! so one write covers every beat of the next ten seconds: the store's load grows with nodes, not with viewers.

use std::hash::BuildHasher;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{SessionTable, Summary};
use crate::kv;
use crate::time::Timestamp;

/// Keys of reports begin with this; the writer's node id follows.
pub const REPORT_PREFIX: &str = "viewers:";

/// Time to live of a report in the store. Far longer than any promise, because it runs on the store's wall clock: only
/// a jump ahead of ten minutes makes the store forget a report early, and then its writer notices
/// ([`OwnReport::confirm_in_store`]). Short enough that a node which restarts in a loop leaves few reports behind.
pub const REPORT_TTL: Duration = Duration::from_secs(600);

/// A node through which somebody watches writes at least this often, so that the others know its headcount.
pub const REPORT_EVERY: Duration = Duration::from_secs(20);

/// A node through which nobody watches writes at least this often, so that the others know it.
const REPORT_EVERY_IDLE: Duration = Duration::from_secs(90);

/// Such a report may be renewed when it is this old, at a moment that suits the writer.
const RENEW_IDLE_AFTER: Duration = Duration::from_secs(30);

/// How long after its last report a node through which nobody watched counts as one of them.
pub(super) const LISTED_FOR_IDLE: Duration = Duration::from_secs(150);

/// How far beyond the newest heartbeat a promise reaches.
pub const SLACK: Duration = Duration::from_secs(10);

/// A report is renewed when the newest heartbeat is this much newer than at the last one: half of what a report covers in
/// advance, so that hardly any heartbeat has to wait for the store.
const RENEW_AFTER: Duration = Duration::from_secs(5);

/// One node's word to the others, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Grows with each report of the same process.
    pub seq: u64,
    /// How many were watching when it was written.
    #[serde(flatten)]
    pub summary: Summary,
    /// For how long from its writing somebody counts as watching.
    pub watched_for_ms: u64,
    /// The same for pages in sight.
    pub visible_for_ms: u64,
    /// When it was written, by the time of day of its writer; zero if it does not say.
    #[serde(default)]
    pub written_at_ms: u64,
    /// How old it was when it was read. Not part of what is stored.
    #[serde(skip)]
    pub age_ms: u64,
}

impl Report {
    /// The same as read from the store, where it has `ttl_left` to live, at this time of day. Of the two clocks that tell its
    /// age, the one that says less is believed: one that was set ahead must not take a promise back.
    #[must_use]
    pub fn read(self, ttl_left: Duration, wall: Timestamp) -> Self {
        let stored_for = REPORT_TTL.saturating_sub(ttl_left);
        let written_for = match self.written_at_ms {
            0 => stored_for,
            written_at_ms => wall.saturating_since(Timestamp::from_ms(written_at_ms)),
        };
        Self { age_ms: u64::try_from(stored_for.min(written_for).as_millis()).unwrap_or(u64::MAX), ..self }
    }
}

/// The key of the report of `node`, an id that no other process ever had, this node's former life included.
pub fn report_key(node: &str) -> Result<kv::Key, kv::Invalid> {
    kv::Key::new(format!("{REPORT_PREFIX}{node}"))
}

/// A node's own report: what it has written and whether that is still enough.
#[derive(Debug, Default)]
pub struct OwnReport {
    /// Reports drawn up, stored or not.
    seq: u64,
    stored: Option<Promise>,
    /// The newest heartbeat that the last draft knew of, as its expiry.
    drafted_until: Option<Timestamp>,
    /// A report is to be written even though the last one covers everything.
    wanted: bool,
}

/// A report on its way to the store. Hand it to [`OwnReport::record_stored`] once it is there.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Draft {
    /// What to store.
    pub report: Report,
    promise: Promise,
}

#[derive(Debug, Clone, Copy)]
struct Promise {
    seq: u64,
    made_at: Timestamp,
    watched_until: Option<Timestamp>,
    visible_until: Option<Timestamp>,
}

impl OwnReport {
    /// Whether the stored report covers every heartbeat in `sessions`. If not, no heartbeat may be answered with
    /// success before a new report is stored.
    #[must_use]
    pub fn covers<S: BuildHasher>(&self, now: Timestamp, sessions: &SessionTable<S>) -> bool {
        let (watched, visible) = (sessions.watched_until(now), sessions.visible_until(now));
        match self.stored {
            Some(promise) => watched <= promise.watched_until && visible <= promise.visible_until,
            None => watched.is_none(),
        }
    }

    /// Whether a report should be written now: because one was asked for, to cover a heartbeat, before one is left uncovered, or
    /// because the last report is old.
    #[must_use]
    pub fn due<S: BuildHasher>(&self, now: Timestamp, sessions: &SessionTable<S>) -> bool {
        let old = self.stored.is_none_or(|promise| {
            let every = if promise.watched_until.is_some() { REPORT_EVERY } else { REPORT_EVERY_IDLE };
            now.saturating_since(promise.made_at) >= every
        });
        let ms = |until: Option<Timestamp>| until.map_or(0, Timestamp::as_ms);
        let newer_ms = ms(sessions.watched_until(now)).saturating_sub(ms(self.drafted_until));
        let renew = u128::from(newer_ms) >= RENEW_AFTER.as_millis();
        self.wanted || renew || old || !self.covers(now, sessions)
    }

    /// Whether this is a good moment to write a report though none is due: nobody watches, and the last one is not new. Who writes
    /// then, together with other things that it asks the store for, disturbs the store less.
    #[must_use]
    pub fn may_renew(&self, now: Timestamp) -> bool {
        self.stored.is_some_and(|promise| {
            promise.watched_until.is_none() && now.saturating_since(promise.made_at) >= RENEW_IDLE_AFTER
        })
    }

    /// Asks for a report although the last one covers everything: the last viewer has gone.
    pub fn want(&mut self) {
        self.wanted = true;
    }

    /// Draws up the next report. Drafts are to be stored one after the other, in this order.
    pub fn draft<S: BuildHasher>(&mut self, now: Timestamp, sessions: &SessionTable<S>) -> Draft {
        self.seq += 1;
        (self.wanted, self.drafted_until) = (false, sessions.watched_until(now));
        let promise = Promise {
            seq: self.seq,
            made_at: now,
            watched_until: sessions.watched_until(now).map(|until| until + SLACK),
            visible_until: sessions.visible_until(now).map(|until| until + SLACK),
        };
        let left_ms =
            |until: Option<Timestamp>| until.map_or(0, |until| until.as_ms().saturating_sub(now.as_ms()));
        let report = Report {
            seq: self.seq,
            summary: sessions.counts(now),
            watched_for_ms: left_ms(promise.watched_until),
            visible_for_ms: left_ms(promise.visible_until),
            written_at_ms: 0,
            age_ms: 0,
        };
        Draft { report, promise }
    }

    /// The store has confirmed `draft`.
    pub fn record_stored(&mut self, draft: Draft) {
        if self.stored.is_none_or(|stored| stored.seq < draft.promise.seq) {
            self.stored = Some(draft.promise);
        }
    }

    /// The store did not take a draft, or did not say so.
    pub fn record_failed(&mut self) {
        self.wanted = true;
    }

    /// The number of the stored report, zero for none: to be noted before a reading of the store.
    #[must_use]
    pub fn stored_seq(&self) -> u64 {
        self.stored.map_or(0, |promise| promise.seq)
    }

    /// A reading begun when [`stored_seq`](Self::stored_seq) was `expected_seq` found this node's own report with number
    /// `found_seq`, or none. A report that was lost in the store, or overwritten by an older one that came late, no longer
    /// counts.
    pub fn confirm_in_store(&mut self, expected_seq: u64, found_seq: Option<u64>) {
        if found_seq.unwrap_or(0) < expected_seq {
            self.stored = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use super::*;
    use crate::viewer::{SessionId, TTL};

    type TestTable = SessionTable<BuildHasherDefault<DefaultHasher>>;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_ms(seconds * 1_000)
    }

    fn beat(sessions: &mut TestTable, seconds: u64, visible: bool) {
        sessions.beat(at(seconds), &SessionId::new("s").unwrap(), visible);
    }

    fn publish(own_report: &mut OwnReport, seconds: u64, sessions: &TestTable) -> Report {
        let draft = own_report.draft(at(seconds), sessions);
        own_report.record_stored(draft);
        draft.report
    }

    #[test]
    fn vw_21_one_report_covers_the_beats_of_the_next_ten_seconds() {
        let (mut sessions, mut own_report) = (TestTable::new(9, Default::default()), OwnReport::default());
        assert!(own_report.covers(at(0), &sessions));
        beat(&mut sessions, 100, false);
        assert!(!own_report.covers(at(100), &sessions));
        let report = publish(&mut own_report, 101, &sessions);
        assert_eq!((report.seq, report.summary.viewers), (1, 1));
        assert_eq!((report.watched_for_ms, report.visible_for_ms), (69_000, 0));
        beat(&mut sessions, 110, false);
        assert!(own_report.covers(at(110), &sessions));
        beat(&mut sessions, 111, false);
        assert!(!own_report.covers(at(111), &sessions));
    }

    #[test]
    fn vw_23_a_promise_counts_only_once_it_is_stored() {
        let (mut sessions, mut own_report) = (TestTable::new(9, Default::default()), OwnReport::default());
        beat(&mut sessions, 0, true);
        let lost = own_report.draft(at(0), &sessions);
        assert!(!own_report.covers(at(0), &sessions));
        let second = own_report.draft(at(1), &sessions);
        assert_eq!(second.report.seq, 2);
        own_report.record_stored(second);
        // Confirmed late, the first draft does not shrink what the second promised.
        own_report.record_stored(lost);
        assert!(own_report.covers(at(1), &sessions));
    }

    #[test]
    fn vw_23_a_report_lost_in_the_store_is_written_again() {
        let (mut sessions, mut own_report) = (TestTable::new(9, Default::default()), OwnReport::default());
        beat(&mut sessions, 0, true);
        publish(&mut own_report, 0, &sessions);
        publish(&mut own_report, 1, &sessions);
        assert_eq!(own_report.stored_seq(), 2);
        own_report.confirm_in_store(2, Some(2));
        // A reading that was under way when the second was stored may still show the first.
        own_report.confirm_in_store(1, Some(1));
        assert!(own_report.covers(at(1), &sessions));
        own_report.confirm_in_store(2, Some(1));
        assert!(!own_report.covers(at(1), &sessions));
        publish(&mut own_report, 2, &sessions);
        own_report.confirm_in_store(3, None);
        assert!(!own_report.covers(at(2), &sessions));
    }

    #[test]
    fn vw_24_coming_into_sight_takes_a_promise_of_its_own() {
        let (mut sessions, mut own_report) = (TestTable::new(9, Default::default()), OwnReport::default());
        beat(&mut sessions, 0, false);
        publish(&mut own_report, 0, &sessions);
        beat(&mut sessions, 1, true);
        assert!(!own_report.covers(at(1), &sessions));
        let report = publish(&mut own_report, 1, &sessions);
        assert_eq!((report.watched_for_ms, report.visible_for_ms), (70_000, 70_000));
    }

    #[test]
    fn vw_21_an_idle_node_reports_now_and_then_and_withdraws_what_is_over() {
        let (mut sessions, mut own_report) = (TestTable::new(9, Default::default()), OwnReport::default());
        assert!(own_report.due(at(0), &sessions));
        publish(&mut own_report, 0, &sessions);
        assert!(!own_report.may_renew(at(29)) && !own_report.due(at(89), &sessions));
        assert!(own_report.may_renew(at(30)) && own_report.due(at(90), &sessions));
        beat(&mut sessions, 90, true);
        publish(&mut own_report, 90, &sessions);
        // Somebody watches: the others are to know how many.
        assert!(!own_report.may_renew(at(109)) && !own_report.due(at(109), &sessions));
        assert!(own_report.due(at(110), &sessions));
        sessions.expire(at(90) + TTL);
        assert_eq!(publish(&mut own_report, 150, &sessions).watched_for_ms, 0);
    }

    #[test]
    fn hs_07_a_report_is_renewed_before_a_heartbeat_has_to_wait_for_one() {
        let (mut sessions, mut own_report) = (TestTable::new(9, Default::default()), OwnReport::default());
        beat(&mut sessions, 0, true);
        publish(&mut own_report, 0, &sessions);
        beat(&mut sessions, 4, true);
        assert!(!own_report.due(at(4), &sessions));
        beat(&mut sessions, 5, true);
        assert!(own_report.covers(at(5), &sessions) && own_report.due(at(5), &sessions));
        // Drawn up is not stored, but another one would say the same.
        let draft = own_report.draft(at(5), &sessions);
        assert!(!own_report.due(at(5), &sessions));
        own_report.record_failed();
        assert!(own_report.due(at(5), &sessions));
        own_report.record_stored(draft);
        publish(&mut own_report, 5, &sessions);
        assert!(!own_report.due(at(6), &sessions));
        own_report.want();
        assert!(own_report.due(at(6), &sessions));
    }

    #[test]
    fn vw_21_reports_are_not_mistaken_for_sessions() {
        let key = report_key("n-1").unwrap();
        assert_eq!(key.as_str(), "viewers:n-1");
        assert!(!key.as_str().starts_with("viewer:"));
    }
}
