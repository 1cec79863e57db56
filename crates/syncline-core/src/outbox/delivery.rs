//! One batch on its way: sent whole, and split when that fails until the poisonous entry stands alone.
//!
//! ```
//! use syncline_core::outbox::{Answer, Candidate, Delivery, Evidence, POLICY, Verdict};
//! use syncline_core::time::Timestamp;
//!
//! let candidate = |id, entity| Candidate { id, entity, attempts: 0, failed_before: false };
//! let mut delivery = Delivery::new([candidate(1, "a"), candidate(2, "b"), candidate(3, "a")]);
//! while let Some(request) = delivery.next() {
//!     // The receiver cannot stand the first entry.
//!     let poisonous = request.contains(&0);
//!     delivery.answered(match poisonous {
//!         true => Answer::Refused { reason: "422".to_owned() },
//!         false => Answer::Accepted,
//!     });
//! }
//! let (verdicts, _) = delivery.finish(&POLICY, &mut Evidence::default(), Timestamp::ZERO, || 0.0);
//! assert!(matches!(verdicts[0], Verdict::Retry { .. }));
//! assert_eq!(verdicts[1], Verdict::Done);
//! assert_eq!(verdicts[2], Verdict::GiveBack, "a later change of the same entity waits for the first");
//! ```
//!
//! Guarantees: entries of one entity are sent in their order; after one has failed, no later one of its entity is sent; entries
//! that have never failed go first and are never in a request with one that has; each entry is sent alone once at most. A
//! receiver that fails on everything is in doubt, not down: every entry has been tried alone by then, so one that it can take
//! has arrived. Sending, and when to send again, is the caller's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Answer, EntryResult, Evidence, Verdict};
use crate::retry::Policy;
use crate::time::Timestamp;

/// After so many entries in a row have failed alone, the next one is tried alone at once: splitting would take twice the
/// requests.
const STREAK: usize = 3;

/// An entry that is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<K> {
    /// Its number.
    pub id: i64,
    /// What it is a change of.
    pub entity: K,
    /// How often it has failed by its own fault.
    pub attempts: u32,
    /// Whether it has failed at all.
    pub failed_before: bool,
}

/// What a batch showed of the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverState {
    /// It answered, and took what it could.
    Up {
        /// Whether requests had to be split although no entry was at fault: they were too large for it.
        too_large: bool,
    },
    /// It failed on everything it was sent. It may be down, or these entries may be poisonous.
    Doubtful {
        /// What was seen.
        reason: String,
    },
    /// It is down, or refuses the sender.
    Down {
        /// What was seen.
        reason: String,
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
    },
}

/// A batch on its way. Entries are known by their place in it.
#[derive(Debug)]
pub struct Delivery {
    /// Each entry, with its entity as a number.
    entries: Vec<Candidate<usize>>,
    /// Entries that the receiver took.
    taken: BTreeSet<usize>,
    failed: BTreeMap<usize, Failure>,
    /// Requests still to be made; the last is next.
    open: Vec<Vec<usize>>,
    under_way: Option<Vec<usize>>,
    /// Entities of which an entry has failed.
    stuck: BTreeSet<usize>,
    split: bool,
    /// Whether each entry is a request of its own.
    one_by_one: bool,
    /// How many entries in a row have failed alone.
    streak: usize,
    down: Option<(String, Option<Duration>)>,
}

/// Why an entry was not taken.
#[derive(Debug)]
struct Failure {
    reason: String,
    retry_after: Option<Duration>,
    /// Whether the receiver has read the entry and refuses it. Otherwise it may be the receiver that failed.
    refused: bool,
}

impl Delivery {
    /// A batch of entries, in the order in which they were written.
    pub fn new<K: Ord>(entries: impl IntoIterator<Item = Candidate<K>>) -> Self {
        let mut numbers = BTreeMap::new();
        let mut numbered = Vec::new();
        for Candidate { id, entity, attempts, failed_before } in entries {
            let next = numbers.len();
            let entity = *numbers.entry(entity).or_insert(next);
            numbered.push(Candidate { id, entity, attempts, failed_before });
        }
        Self {
            open: fresh_last(&numbered),
            entries: numbered,
            taken: BTreeSet::new(),
            failed: BTreeMap::new(),
            under_way: None,
            stuck: BTreeSet::new(),
            split: false,
            one_by_one: false,
            streak: 0,
            down: None,
        }
    }

    /// The same entries, each of them in a request of its own.
    #[must_use]
    pub fn one_by_one(mut self) -> Self {
        self.one_by_one = true;
        self
    }

    /// The entries of the next request, by their place in the batch; `None` when there is no more to send.
    #[allow(clippy::should_implement_trait, reason = "each request must be answered before the next")]
    pub fn next(&mut self) -> Option<Vec<usize>> {
        if self.down.is_some() {
            return None;
        }
        loop {
            let mut request = self.open.pop()?;
            request.retain(|place| !self.stuck.contains(&self.entries[*place].entity));
            if (self.one_by_one || self.streak >= STREAK) && request.len() > 1 {
                let rest = request.split_off(1);
                self.open.push(rest);
            }
            if !request.is_empty() {
                self.under_way = Some(request.clone());
                return Some(request);
            }
        }
    }

    /// Takes note of the answer to the last request.
    pub fn answered(&mut self, answer: Answer) {
        let Some(mut request) = self.under_way.take() else { return };
        match answer {
            Answer::Accepted => {
                self.streak = 0;
                self.taken.extend(request);
            }
            Answer::Each(results) => self.note_results(&request, results),
            Answer::Unavailable { reason, retry_after } => self.down = Some((reason, retry_after)),
            Answer::Refused { .. } | Answer::Failed { .. } if request.len() > 1 => {
                self.split = true;
                let rest = request.split_off(request.len() / 2);
                self.open.extend([rest, request]);
            }
            Answer::Refused { reason } => {
                self.streak += 1;
                self.fail(request[0], Failure { reason, retry_after: None, refused: true });
            }
            Answer::Failed { reason, retry_after } => {
                self.streak += 1;
                self.fail(request[0], Failure { reason, retry_after, refused: false });
            }
        }
    }

    /// What becomes of each entry, and what the batch showed of the receiver. `evidence` is what is known of this receiver,
    /// `now` is monotonic, `random` gives fresh numbers from 0 to 1.
    pub fn finish(
        self,
        policy: &Policy,
        evidence: &mut Evidence,
        now: Timestamp,
        mut random: impl FnMut() -> f64,
    ) -> (Vec<Verdict>, ReceiverState) {
        let receiver = self.receiver();
        if !self.taken.is_empty() {
            evidence.note_taken(now);
        }
        let Self { entries, taken, mut failed, .. } = self;
        let verdicts = entries.iter().enumerate().map(|(place, entry)| match failed.remove(&place) {
            Some(Failure { reason, retry_after, refused }) => {
                // Heard in any case: it remembers the failure.
                let own_fault = evidence.note_failed(entry.id, !taken.is_empty(), now) || refused;
                Verdict::of_failure(policy, entry.attempts, reason, retry_after, own_fault, random())
            }
            None if taken.contains(&place) => Verdict::Done,
            None => Verdict::GiveBack,
        });
        let verdicts: Vec<Verdict> = verdicts.collect();
        for (entry, verdict) in entries.iter().zip(&verdicts) {
            if matches!(verdict, Verdict::Done | Verdict::Dead { .. }) {
                evidence.forget(entry.id);
            }
        }
        (verdicts, receiver)
    }

    fn receiver(&self) -> ReceiverState {
        let refused = self.failed.values().any(|failure| failure.refused);
        match (&self.down, self.failed.values().next()) {
            (Some((reason, retry_after)), _) => {
                ReceiverState::Down { reason: reason.clone(), retry_after: *retry_after }
            }
            (None, Some(failure)) if self.taken.is_empty() && !refused => {
                ReceiverState::Doubtful { reason: failure.reason.clone() }
            }
            (None, failure) => ReceiverState::Up { too_large: self.split && failure.is_none() },
        }
    }

    fn note_results(&mut self, request: &[usize], results: Vec<EntryResult>) {
        self.streak = 0;
        for (place, result) in request.iter().zip(results) {
            match result {
                EntryResult::Refused { reason } => {
                    self.fail(*place, Failure { reason, retry_after: None, refused: true });
                }
                EntryResult::Applied | EntryResult::Duplicate | EntryResult::Stale => {
                    self.taken.insert(*place);
                }
            }
        }
    }

    fn fail(&mut self, place: usize, failure: Failure) {
        self.stuck.insert(self.entries[place].entity);
        self.failed.insert(place, failure);
    }
}

/// The first requests, the last one to be made first: entries that have never failed, and behind them those that have, with
/// whatever follows them of the same entity.
fn fresh_last(entries: &[Candidate<usize>]) -> Vec<Vec<usize>> {
    let mut suspects = BTreeSet::new();
    let (mut fresh, mut suspect) = (Vec::new(), Vec::new());
    for (place, entry) in entries.iter().enumerate() {
        if entry.failed_before {
            suspects.insert(entry.entity);
        }
        if suspects.contains(&entry.entity) { suspect.push(place) } else { fresh.push(place) }
    }
    vec![suspect, fresh]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::POLICY;
    use super::*;

    /// Entries that have one attempt left.
    fn delivery(ids: &[String]) -> Delivery {
        Delivery::new(candidates(ids))
    }

    fn candidates(ids: &[String]) -> Vec<Candidate<&String>> {
        let numbered = ids.iter().zip(1..);
        numbered.map(|(entity, id)| Candidate { id, entity, attempts: 9, failed_before: false }).collect()
    }

    fn ids(n: usize) -> Vec<String> {
        (0..n).map(|n| n.to_string()).collect()
    }

    /// Answers every request by `answer` and counts them.
    fn drive(
        mut delivery: Delivery,
        mut answer: impl FnMut(&[usize]) -> Answer,
    ) -> (Vec<Verdict>, ReceiverState, usize) {
        let mut requests = 0;
        while let Some(request) = delivery.next() {
            requests += 1;
            delivery.answered(answer(&request));
        }
        let (verdicts, receiver) =
            delivery.finish(&POLICY, &mut Evidence::default(), Timestamp::ZERO, || 0.0);
        (verdicts, receiver, requests)
    }

    fn failed() -> Answer {
        Answer::Failed { reason: "500".to_owned(), retry_after: None }
    }

    #[test]
    fn ss_21_a_batch_that_is_taken_is_one_request() {
        let (verdicts, receiver, requests) = drive(delivery(&ids(100)), |_| Answer::Accepted);
        assert_eq!((verdicts, requests), (vec![Verdict::Done; 100], 1));
        assert_eq!(receiver, ReceiverState::Up { too_large: false });
    }

    #[test]
    fn ss_21_the_poisonous_entry_is_found_in_few_requests_and_alone_dies() {
        for poison in [0, 17, 99] {
            let answer =
                |request: &[usize]| if request.contains(&poison) { failed() } else { Answer::Accepted };
            let (verdicts, receiver, requests) = drive(delivery(&ids(100)), answer);
            for (place, verdict) in verdicts.iter().enumerate() {
                assert_eq!(matches!(verdict, Verdict::Dead { .. }), place == poison, "{place} {verdict:?}");
                assert_eq!(*verdict == Verdict::Done, place != poison);
            }
            assert_eq!(receiver, ReceiverState::Up { too_large: false });
            assert!(requests <= 15, "{requests}");
        }
    }

    #[test]
    fn ss_32_a_receiver_that_fails_on_everything_gets_each_entry_once_alone_and_nothing_dies() {
        let mut alone: Vec<usize> = Vec::new();
        let (verdicts, receiver, requests) = drive(delivery(&ids(1_000)), |request| {
            alone.extend(request.first().filter(|_| request.len() == 1));
            failed()
        });
        assert_eq!(receiver, ReceiverState::Doubtful { reason: "500".to_owned() });
        assert_eq!(alone, (0..1_000).collect::<Vec<_>>());
        assert!(requests <= 1_000 + 16, "{requests}");
        assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Postpone { .. })));
    }

    #[test]
    fn ss_32_whatever_is_poisonous_the_rest_of_the_batch_arrives() {
        // From one healthy entry at any place to one poisonous entry in ten.
        for healthy in [&[0][..], &[57], &[99], &[3, 50, 51, 98], &[10, 20, 30, 40, 50, 60, 70, 80, 90]] {
            for turned in [false, true] {
                let good = |place: &usize| healthy.contains(place) != turned;
                let (verdicts, receiver, _) =
                    drive(delivery(&ids(100)), |request| match request.iter().all(good) {
                        true => Answer::Accepted,
                        false => failed(),
                    });
                assert_eq!(receiver, ReceiverState::Up { too_large: false });
                for (place, verdict) in verdicts.iter().enumerate() {
                    assert_eq!(*verdict == Verdict::Done, good(&place), "{place} {verdict:?}");
                }
            }
        }
    }

    #[test]
    fn ss_35_a_webhook_is_a_request_of_its_own() {
        let mut sizes = Vec::new();
        let (verdicts, ..) = drive(delivery(&ids(5)).one_by_one(), |request| {
            sizes.push(request.len());
            Answer::Accepted
        });
        assert_eq!((sizes, verdicts), (vec![1; 5], vec![Verdict::Done; 5]));
    }

    #[test]
    fn ss_32_entries_that_have_failed_go_last_and_never_with_others() {
        let ids: Vec<String> = ["a", "b", "a", "c"].map(str::to_owned).to_vec();
        let mut entries = candidates(&ids);
        entries[0].failed_before = true;
        let mut sent = Vec::new();
        drive(Delivery::new(entries), |request| {
            sent.push(request.to_vec());
            Answer::Accepted
        });
        assert_eq!(sent, [vec![1, 3], vec![0, 2]], "the change behind one that failed stays behind it");
    }

    #[test]
    fn ss_08_an_outage_is_no_entrys_fault() {
        let unavailable = || Answer::Unavailable {
            reason: "refused".to_owned(),
            retry_after: Some(Duration::from_secs(7)),
        };
        let (verdicts, receiver, requests) = drive(delivery(&ids(3)), |_| unavailable());
        assert_eq!((verdicts, requests), (vec![Verdict::GiveBack; 3], 1));
        let retry_after = Some(Duration::from_secs(7));
        assert_eq!(receiver, ReceiverState::Down { reason: "refused".to_owned(), retry_after });
    }

    #[test]
    fn ss_32_a_lone_entry_dies_when_others_were_taken_since_it_failed_and_not_before() {
        let mut evidence = Evidence::default();
        let mut send = |id: usize, answer: Answer| {
            let ids = ids(id + 1);
            let mut delivery = Delivery::new(candidates(&ids).into_iter().skip(id));
            delivery.next();
            delivery.answered(answer);
            delivery.finish(&POLICY, &mut evidence, Timestamp::ZERO, || 0.0).0.remove(0)
        };
        for _ in 0..100 {
            assert!(matches!(send(0, failed()), Verdict::Postpone { .. }));
        }
        assert_eq!(send(1, Answer::Accepted), Verdict::Done);
        assert!(matches!(send(0, failed()), Verdict::Dead { .. }));
    }

    #[test]
    fn ss_23_a_lone_entry_that_is_refused_with_a_reason_dies() {
        let (verdicts, receiver, _) =
            drive(delivery(&ids(1)), |_| Answer::Refused { reason: "422".to_owned() });
        assert!(matches!(verdicts[0], Verdict::Dead { .. }), "{verdicts:?}");
        assert_eq!(receiver, ReceiverState::Up { too_large: false });
    }

    #[test]
    fn ss_21_results_per_entry_end_a_batch_in_one_request() {
        let refused = EntryResult::Refused { reason: "unknown type".to_owned() };
        let results = vec![EntryResult::Applied, refused, EntryResult::Duplicate, EntryResult::Stale];
        let (verdicts, _, requests) = drive(delivery(&ids(4)), |_| Answer::Each(results.clone()));
        assert_eq!(requests, 1);
        assert!(matches!(verdicts[1], Verdict::Dead { .. }));
        assert_eq!(verdicts.iter().filter(|verdict| **verdict == Verdict::Done).count(), 3);
    }

    #[test]
    fn ss_21_a_request_too_large_is_split_and_said_to_be() {
        let answer = |request: &[usize]| match request.len() {
            0..=30 => Answer::Accepted,
            _ => Answer::Refused { reason: "413".to_owned() },
        };
        let (verdicts, receiver, _) = drive(delivery(&ids(100)), answer);
        assert_eq!(verdicts, vec![Verdict::Done; 100]);
        assert_eq!(receiver, ReceiverState::Up { too_large: true });
    }

    proptest! {
        /// Whatever is poisonous: the rest of other entities arrives, and each entity's entries in order without gaps.
        #[test]
        fn ss_22_order_per_entity_is_kept_whatever_fails(
            entities in prop::collection::vec(0..6_usize, 1..60), poison in prop::collection::btree_set(0..60_usize, 0..6),
        ) {
            let ids: Vec<String> = entities.iter().map(ToString::to_string).collect();
            let mut sent: Vec<usize> = Vec::new();
            let (verdicts, ..) = drive(delivery(&ids), |request| {
                if request.iter().any(|place| poison.contains(place)) {
                    return Answer::Refused { reason: "422".to_owned() };
                }
                sent.extend(request);
                Answer::Accepted
            });
            prop_assert!(sent.is_sorted());
            for (place, verdict) in verdicts.iter().enumerate() {
                let before = (0..place).any(|other| entities[other] == entities[place] && poison.contains(&other));
                match verdict {
                    Verdict::Done => prop_assert!(!before && !poison.contains(&place)),
                    Verdict::GiveBack => prop_assert!(before),
                    _ => prop_assert!(!before && poison.contains(&place)),
                }
            }
        }
    }
}
