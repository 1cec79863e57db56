//! One batch on its way: sent whole, and split when that fails until the poisonous entry stands alone.
//!
//! ```
//! use syncline_core::outbox::{Answer, Delivery, POLICY, Verdict};
//!
//! // Each entry by its entity and by how often it has failed before.
//! let mut delivery = Delivery::new(["a", "b", "a"].map(|entity| (entity, 0)));
//! while let Some(request) = delivery.next() {
//!     // The receiver cannot stand the first entry.
//!     let poisonous = request.contains(&0);
//!     delivery.answered(match poisonous {
//!         true => Answer::Refused { reason: "422".to_owned() },
//!         false => Answer::Accepted,
//!     });
//! }
//! let (verdicts, _) = delivery.finish(&POLICY, || 0.0);
//! assert!(matches!(verdicts[0], Verdict::Retry { .. }));
//! assert_eq!(verdicts[1], Verdict::Done);
//! assert_eq!(verdicts[2], Verdict::GiveBack, "a later change of the same entity waits for the first");
//! ```
//!
//! Guarantees: entries are sent in their order; after an entry has failed, no later one of its entity is sent; a receiver
//! that fails on everything is asked a bounded number of times. Sending, and when to send again, is the caller's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Answer, EntryResult, Verdict};
use crate::retry::Policy;

/// So many entries may fail alone, with nothing taken meanwhile, before the receiver is believed to be down.
pub const PROBES_MAX: usize = 3;

/// What a batch showed of the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverState {
    /// It answered, and took what it could.
    Up {
        /// Whether requests had to be split although no entry was at fault: they were too large for it.
        too_large: bool,
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
    /// Each entry's entity, as a number.
    entities: Vec<usize>,
    /// How often each entry has failed before.
    attempts: Vec<u32>,
    /// Entries that the receiver took.
    taken: BTreeSet<usize>,
    /// Entries that failed, each with the reason and with how long the receiver asked to be left alone.
    failed: BTreeMap<usize, (String, Option<Duration>)>,
    /// Requests still to be made; the last is next.
    open: Vec<Vec<usize>>,
    under_way: Option<Vec<usize>>,
    /// Entities of which an entry has failed.
    stuck: BTreeSet<usize>,
    /// The receiver took something, or refused something for a reason.
    proven: bool,
    split: bool,
    /// How many entries failed alone.
    failed_alone: usize,
    down: Option<(String, Option<Duration>)>,
}

impl Delivery {
    /// A batch of entries, in the order in which they are to be sent: the entity of each, and how often it has failed before.
    pub fn new<K: Ord>(entries: impl IntoIterator<Item = (K, u32)>) -> Self {
        let mut numbers = BTreeMap::new();
        let (mut entities, mut attempts) = (Vec::new(), Vec::new());
        for (entity, failures) in entries {
            let next = numbers.len();
            entities.push(*numbers.entry(entity).or_insert(next));
            attempts.push(failures);
        }
        Self {
            open: vec![(0..entities.len()).collect()],
            entities,
            attempts,
            taken: BTreeSet::new(),
            failed: BTreeMap::new(),
            under_way: None,
            stuck: BTreeSet::new(),
            proven: false,
            split: false,
            failed_alone: 0,
            down: None,
        }
    }

    /// The entries of the next request, by their place in the batch; `None` when there is no more to send.
    #[allow(clippy::should_implement_trait, reason = "each request must be answered before the next")]
    pub fn next(&mut self) -> Option<Vec<usize>> {
        if self.down.is_some() {
            return None;
        }
        loop {
            let mut request = self.open.pop()?;
            request.retain(|place| !self.stuck.contains(&self.entities[*place]));
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
                self.proven = true;
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
                self.proven = true;
                self.fail(request[0], reason, None);
            }
            Answer::Failed { reason, retry_after } => {
                self.failed_alone += 1;
                if self.failed_alone >= PROBES_MAX && !self.proven {
                    self.down = Some((reason.clone(), retry_after));
                }
                self.fail(request[0], reason, retry_after);
            }
        }
    }

    /// What becomes of each entry, and what the batch showed of the receiver. `random` gives fresh numbers from 0 to 1.
    pub fn finish(
        mut self,
        policy: &Policy,
        mut random: impl FnMut() -> f64,
    ) -> (Vec<Verdict>, ReceiverState) {
        // A lone entry cannot wait for another to prove anything.
        let proven = self.proven || self.attempts.len() == 1;
        let too_large = self.split && self.failed.is_empty();
        let verdicts =
            self.attempts.iter().enumerate().map(|(place, attempts)| match self.failed.remove(&place) {
                Some((reason, retry_after)) => {
                    Verdict::of_failure(policy, *attempts, reason, retry_after, proven, random())
                }
                None if self.taken.contains(&place) => Verdict::Done,
                None => Verdict::GiveBack,
            });
        let verdicts = verdicts.collect();
        let receiver = match self.down {
            Some((reason, retry_after)) => ReceiverState::Down { reason, retry_after },
            None => ReceiverState::Up { too_large },
        };
        (verdicts, receiver)
    }

    fn note_results(&mut self, request: &[usize], results: Vec<EntryResult>) {
        self.proven = true;
        for (place, result) in request.iter().zip(results) {
            match result {
                EntryResult::Refused { reason } => self.fail(*place, reason, None),
                EntryResult::Applied | EntryResult::Duplicate | EntryResult::Stale => {
                    self.taken.insert(*place);
                }
            }
        }
    }

    fn fail(&mut self, place: usize, reason: String, retry_after: Option<Duration>) {
        self.stuck.insert(self.entities[place]);
        self.failed.insert(place, (reason, retry_after));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::POLICY;
    use super::*;

    fn delivery(ids: &[String]) -> Delivery {
        Delivery::new(ids.iter().map(|id| (id, 9)))
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
        let (verdicts, receiver) = delivery.finish(&POLICY, || 0.0);
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
    fn ss_08_a_receiver_that_fails_on_everything_is_left_alone_soon_and_nothing_dies() {
        let (verdicts, receiver, requests) = drive(delivery(&ids(1_000)), |_| failed());
        assert!(matches!(receiver, ReceiverState::Down { .. }));
        assert!(requests <= 16, "{requests}");
        let count = |which: fn(&Verdict) -> bool| verdicts.iter().filter(|verdict| which(verdict)).count();
        assert_eq!(count(|verdict| matches!(verdict, Verdict::Retry { .. })), PROBES_MAX);
        assert_eq!(count(|verdict| *verdict == Verdict::GiveBack), 1_000 - PROBES_MAX);
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
    fn ss_23_a_lone_entry_that_keeps_failing_dies() {
        let (verdicts, ..) = drive(delivery(&ids(1)), |_| failed());
        assert!(matches!(verdicts[0], Verdict::Dead { .. }), "{verdicts:?}");
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
