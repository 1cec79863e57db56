//! A batch on its way into the tables: what can be decided before they are asked, and what their answers mean.
//!
//! ```text
//! check each ─▶ which entries are known? ─▶ of each entity the newest ─▶ written unless something newer is there
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};

use syncline_core::outbox::{
    EntityType, EntryResult, LATEST, SenderId, Stamp, check_entity_id, check_payload_size,
};

use super::{Arrival, BATCH_MAX, unknown_type};
use crate::Error;

/// A batch while it is being decided.
pub(crate) struct Batch {
    sender: Option<SenderId>,
    arrivals: Vec<Arrival>,
    results: Vec<Option<EntryResult>>,
    /// For each type and entity the place of its newest change, and the places of those it covers.
    newest: BTreeMap<(String, String), (usize, Vec<usize>)>,
}

/// The numbers under which a batch's entries are known, with digests of their contents; ascending.
#[derive(Default)]
pub(crate) struct Numbers {
    pub(crate) entries: Vec<i64>,
    pub(crate) digests: Vec<i64>,
}

/// What is to be written into one table; by id, ascending, so that two batches never wait for each other in a circle.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) ids: Vec<String>,
    pub(crate) payloads: Vec<String>,
    pub(crate) entries: Vec<i64>,
    pub(crate) changed_us: Vec<i64>,
}

impl Batch {
    /// Checks what needs no table. `known` says which types have one.
    pub(crate) fn new(
        sender: Option<SenderId>,
        arrivals: Vec<Arrival>,
        known: &[EntityType],
    ) -> Result<Self, Error> {
        if arrivals.len() > BATCH_MAX {
            let reason = format!("are {}; at most {BATCH_MAX} are allowed", arrivals.len());
            return Err(Error::invalid("entries", reason));
        }
        if sender.is_some() && arrivals.iter().any(|arrival| arrival.entry.is_none()) {
            return Err(Error::invalid("entries", "of a sender with a name must have their numbers"));
        }
        let known: HashSet<&str> = known.iter().map(EntityType::as_str).collect();
        let results = arrivals.iter().map(|arrival| refuse(arrival, &known)).collect();
        Ok(Self { sender, arrivals, results, newest: BTreeMap::new() })
    }

    /// The sender's name; empty where it gives none.
    pub(crate) fn sender(&self) -> &str {
        self.sender.as_ref().map_or("", SenderId::as_str)
    }

    /// The numbers that are to be known from now on; `None` where the sender gives none. An entry that is there twice is
    /// asked for once.
    pub(crate) fn numbers(&mut self) -> Option<Numbers> {
        self.sender.as_ref()?;
        let mut digests: BTreeMap<i64, i64> = BTreeMap::new();
        for (place, arrival) in self.arrivals.iter().enumerate() {
            let (None, Some(entry)) = (&self.results[place], arrival.entry) else { continue };
            let digest = digest(arrival);
            match digests.get(&entry) {
                None => drop(digests.insert(entry, digest)),
                Some(first) if *first == digest => self.results[place] = Some(EntryResult::Duplicate),
                Some(_) => self.results[place] = Some(reused(entry)),
            }
        }
        Some(Numbers { entries: digests.keys().copied().collect(), digests: digests.into_values().collect() })
    }

    /// Takes note of the numbers that were known before, with the digests they were known by.
    pub(crate) fn known_before(&mut self, known: &[(i64, i64)]) {
        let known: HashMap<i64, i64> = known.iter().copied().collect();
        for (place, arrival) in self.arrivals.iter().enumerate() {
            let (None, Some(entry)) = (&self.results[place], arrival.entry) else { continue };
            if let Some(before) = known.get(&entry) {
                let same = *before == digest(arrival);
                self.results[place] = Some(if same { EntryResult::Duplicate } else { reused(entry) });
            }
        }
    }

    /// What is to be written: of each entity its newest change in this batch, by type.
    pub(crate) fn rows(&mut self) -> BTreeMap<String, Rows> {
        for (place, arrival) in self.arrivals.iter().enumerate() {
            if self.results[place].is_some() {
                continue;
            }
            let entity = (arrival.entity_type.clone(), arrival.entity_id.clone());
            match self.newest.get_mut(&entity) {
                None => drop(self.newest.insert(entity, (place, Vec::new()))),
                Some((newest, covered)) => {
                    let (new, held) = (&self.arrivals[place], &self.arrivals[*newest]);
                    let sender = self.sender.as_ref();
                    if stamp(sender, new).supersedes(&stamp(sender, held)) {
                        covered.push(*newest);
                        *newest = place;
                    } else {
                        self.results[place] = Some(EntryResult::Stale);
                    }
                }
            }
        }
        let mut rows: BTreeMap<String, Rows> = BTreeMap::new();
        for ((entity_type, entity_id), (place, _)) in &self.newest {
            let arrival = &self.arrivals[*place];
            let rows = rows.entry(entity_type.clone()).or_default();
            rows.ids.push(entity_id.clone());
            rows.payloads.push(arrival.payload.clone());
            rows.entries.push(arrival.entry.unwrap_or(0));
            rows.changed_us.push(arrival.created_at.as_us());
        }
        rows
    }

    /// Takes note of what became of the rows of a type: the ids that were written, and those that were there just so.
    pub(crate) fn written(&mut self, entity_type: &str, written: &[String], same: &[String]) {
        let written: HashSet<&str> = written.iter().map(String::as_str).collect();
        let same: HashSet<&str> = same.iter().map(String::as_str).collect();
        for ((of, entity_id), (place, covered)) in &self.newest {
            if of != entity_type {
                continue;
            }
            let result = match (written.contains(entity_id.as_str()), same.contains(entity_id.as_str())) {
                (true, _) => EntryResult::Applied,
                (false, true) => EntryResult::Duplicate,
                (false, false) => EntryResult::Stale,
            };
            for place in covered.iter().chain([place]) {
                self.results[*place] = Some(result.clone());
            }
        }
    }

    /// The result of each entry.
    pub(crate) fn results(self) -> Vec<EntryResult> {
        let undecided = || EntryResult::Refused { reason: "it was not decided on".to_owned() };
        self.results.into_iter().map(|result| result.unwrap_or_else(undecided)).collect()
    }
}

fn refuse(arrival: &Arrival, known: &HashSet<&str>) -> Option<EntryResult> {
    let refused = |reason: String| Some(EntryResult::Refused { reason });
    if !known.contains(arrival.entity_type.as_str()) {
        return refused(unknown_type(&arrival.entity_type));
    }
    if let Err(error) = check_entity_id(&arrival.entity_id) {
        return refused(error.to_string());
    }
    if let Err(error) = check_payload_size(arrival.payload.len()) {
        return refused(error.to_string());
    }
    if arrival.created_at > LATEST {
        return refused(format!("createdAt is {}: the sender's clock is wrong", arrival.created_at));
    }
    match arrival.payload.contains('\0') {
        true => refused("payload has a zero character".to_owned()),
        false => None,
    }
}

fn reused(entry: i64) -> EntryResult {
    let reason = format!(
        "entry {entry} of this sender is known with another content; was its database copied, or set back to an earlier state? \
         There, `syncline outbox sender --new` gives it a name of its own"
    );
    EntryResult::Refused { reason }
}

fn stamp(sender: Option<&SenderId>, arrival: &Arrival) -> Stamp {
    Stamp { sender: sender.cloned(), entry: arrival.entry.unwrap_or(0), at: arrival.created_at }
}

/// FNV-1a of all of an entry: enough to notice that a number was given twice.
fn digest(arrival: &Arrival) -> i64 {
    let created = arrival.created_at.as_us().to_le_bytes();
    let parts =
        [arrival.entity_type.as_bytes(), arrival.entity_id.as_bytes(), arrival.payload.as_bytes(), &created];
    let bytes = parts.into_iter().flat_map(|part| part.iter().copied().chain([0xff]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash.cast_signed()
}
