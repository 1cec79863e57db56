//! The paced queue for JavaScript: [`syncline_core::queue::Paced`] with numbers at its edges.
//!
//! Keys and results stay in JavaScript (`js/queue-engine.js`). [`KeyNumbers`] gives each key a small number; all
//! else here is numbers, their order and the pace. One call carries many of them: [`turn`](PacedQueue::turn) ends all calls that are
//! over and starts all that may start. That is what makes a task cost less than a microsecond.
//!
//! Every method is total: whatever JavaScript passes, the answer is a value. Keeping the rows is left to JavaScript.

mod flat;
mod numbers;

use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

pub use numbers::KeyNumbers;
use syncline_core::queue::{self, Answer, Change, Clock, Kind, Paced, Place, Setup, Step, retry_after};
use wasm_bindgen::prelude::wasm_bindgen;

/// A queue of numbered keys with its pace. Times are milliseconds: `now_ms` of `performance.now()`, `wall_ms` of
/// `Date.now()`.
#[wasm_bindgen]
#[derive(Debug)]
pub struct PacedQueue {
    paced: Paced<u32, (), InOrder>,
    /// Where JavaScript writes the calls that ended before a [`turn`](Self::turn); as long as there can be calls.
    ended: Vec<f64>,
    /// Where it reads what the turn told. Never longer than at first, so that both stay where they are.
    told: Vec<f64>,
}

/// How a call ended that brought no result.
#[wasm_bindgen]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The API wants fewer calls.
    Throttled,
    /// The API is not well; worth another attempt.
    Broken,
    /// Asking again would not help.
    Refused,
    /// The call was not made after all.
    NotMade,
}

#[wasm_bindgen]
impl PacedQueue {
    /// A queue of nothing yet, kept nowhere. `settings` in the order of `flat::setup`.
    #[must_use]
    pub fn fresh(settings: &[f64], seed: f64, now_ms: f64) -> Self {
        let setup = setup(settings, seed);
        let calls = setup.settings.concurrency;
        let mut paced = Paced::new(setup, flat::time(now_ms));
        // JavaScript takes their numbers back.
        paced.keep_removals();
        Self::of(paced, calls)
    }

    /// The queue that these rows were kept of. `settings` in the order of `flat::setup`, `rows` as from
    /// [`changes`](Self::changes), `pace` as from [`pace`](Self::pace) or empty if nobody has called yet, `groups`
    /// as from [`group_changes`](Self::group_changes). `undefined`: the rows are not of one queue.
    #[must_use]
    pub fn open(
        settings: &[f64],
        seed: f64,
        now_ms: f64,
        wall_ms: f64,
        rows: &[f64],
        pace: &[f64],
        groups: &[f64],
    ) -> Option<Self> {
        let setup = setup(settings, seed);
        let calls = setup.settings.concurrency;
        let pace = if pace.is_empty() { Some(queue::Pace::default()) } else { flat::read_pace(pace) };
        let (clock, records) = (clock(now_ms, wall_ms), flat::records(rows)?);
        let paced = Paced::restore(setup, clock, records, pace, flat::groups(groups)).ok()?;
        Some(Self::of(paced, calls))
    }

    /// Puts keys into the line. `[added, moved, again, ignored]`, or if they do not fit `[held, asked, limit]`.
    ///
    /// `groups` are the numbers of their groups, in the same order, or empty where no key is given one. One that cannot be is none.
    pub fn enqueue(&mut self, kind: u8, keys: Vec<u32>, groups: &[u32]) -> Vec<f64> {
        let groups: Vec<Option<u32>> = groups.iter().map(|&group| flat::group_number(group)).collect();
        let kind = match kind {
            1 => Kind::Retry,
            2 => Kind::Priority,
            3 => Kind::Again,
            _ => Kind::New,
        };
        match self.paced.enqueue_in(kind, keys, &groups) {
            Ok(told) => [told.added, told.moved, told.again, told.ignored].map(|count| count as f64).to_vec(),
            Err(full) => vec![full.held as f64, full.asked as f64, f64::from(full.limit)],
        }
    }

    /// Where in the module's memory to write ids of calls for [`turn`](Self::turn).
    #[wasm_bindgen(getter, js_name = endedAt)]
    #[must_use]
    pub fn ended_at(&self) -> usize {
        self.ended.as_ptr().addr()
    }

    /// Where in the module's memory a [`turn`](Self::turn) leaves what it tells.
    #[wasm_bindgen(getter, js_name = toldAt)]
    #[must_use]
    pub fn told_at(&self) -> usize {
        self.told.as_ptr().addr()
    }

    /// Ends the first `ended` calls written, which all brought a result, and, if `start`, begins what may begin.
    ///
    /// Tells in so many numbers what became of each key that ended, then when to come back (not a number: no need
    /// to), then how many calls were lost, with key and what became of it for each, then key, call and attempt of each
    /// call to make. Numbers in memory instead of lists: this is called for every few tasks, and a list costs more
    /// than a task.
    pub fn turn(&mut self, now_ms: f64, wall_ms: f64, ended: usize, start: bool) -> usize {
        let clock = clock(now_ms, wall_ms);
        self.told.clear();
        for &call in self.ended.iter().take(ended) {
            let settled = self.paced.settle(clock, call as u64, Answer::Done(()));
            self.told.push(flat::settled(settled.map(|(_, settled)| settled)));
        }
        let head = self.told.len();
        self.told.extend([f64::NAN, 0.0]);
        let mut waits = false;
        while start && !waits {
            match self.paced.poll(clock) {
                Step::Wait(until) => {
                    self.told[head] = flat::moment(until);
                    waits = true;
                }
                // What is lost is told before anything begins.
                Step::Lost { key, settled, .. } => {
                    self.told.extend([f64::from(key), flat::settled(Some(settled))]);
                    self.told[head + 1] += 1.0;
                }
                Step::Start(begun) => {
                    self.told.extend([f64::from(begun.key), begun.call as f64, f64::from(begun.attempt)]);
                }
            }
        }
        self.told.len()
    }

    /// Ends a call that brought no result; tells what became of its key.
    pub fn fail(
        &mut self,
        now_ms: f64,
        wall_ms: f64,
        call: f64,
        failure: Failure,
        retry_after_ms: Option<f64>,
        reason: String,
    ) -> f64 {
        let answer = match failure {
            Failure::Throttled => {
                Answer::Throttled { retry_after: retry_after_ms.map(|ms| Duration::from_millis(ms as u64)) }
            }
            Failure::Broken => Answer::Broken { reason, retry: true, away: false },
            Failure::Refused => Answer::Refused { reason },
            Failure::NotMade => Answer::NotMade,
        };
        let settled = self.paced.settle(clock(now_ms, wall_ms), call as u64, answer);
        flat::settled(settled.map(|(_, settled)| settled))
    }

    /// Ends keys that are in line by results from elsewhere; what became of each.
    pub fn dequeue(&mut self, now_ms: f64, keys: &[u32]) -> Vec<u8> {
        let now = flat::time(now_ms);
        let end = |&key| u8::from(self.paced.dequeue(now, [(key, queue::Outcome::Done(()))]) == 1);
        keys.iter().map(end).collect()
    }

    /// Gives a dead key all its attempts once more; false if it is not dead.
    pub fn revive(&mut self, key: u32) -> bool {
        self.paced.revive(&key)
    }

    /// Forgets a key; tells where it was.
    pub fn remove(&mut self, key: u32) -> u8 {
        self.paced.remove(&key).map_or(0, |place| flat::place(&place))
    }

    /// Where a key is.
    #[must_use]
    pub fn place(&self, key: u32) -> u8 {
        self.paced.queue().record(&key).map_or(0, |record| flat::place(record.place))
    }

    /// Runs begun for a key since it was enqueued.
    #[must_use]
    pub fn attempts(&self, key: u32) -> u32 {
        self.paced.queue().record(&key).map_or(0, |record| record.attempts)
    }

    /// Why a key failed or is dead.
    #[must_use]
    pub fn reason(&self, key: u32) -> Option<String> {
        match self.paced.queue().record(&key)?.place {
            Place::Failed(reason) | Place::Dead(reason) => Some(reason.to_string()),
            _ => None,
        }
    }

    /// Up to `limit` keys in this place, those in line in their order, the others newest first.
    #[must_use]
    pub fn list(&self, place: u8, limit: u32) -> Vec<u32> {
        let queue = self.paced.queue();
        let all: Box<dyn Iterator<Item = _>> = match place {
            flat::RETRYING => Box::new(queue.retrying()),
            flat::DONE | flat::FAILED => Box::new(queue.results()),
            flat::DEAD => Box::new(queue.dead()),
            _ => Box::new(queue.line()),
        };
        all.filter(|record| flat::place(record.place) == place)
            .take(limit as usize)
            .map(|record| *record.key)
            .collect()
    }

    /// A call began only now, later than [`turn`](Self::turn) allowed it: the next of its group counts from here.
    #[wasm_bindgen(js_name = beginLate)]
    pub fn begin_late(&mut self, now_ms: f64, call: f64) {
        self.paced.begin_late(flat::time(now_ms), call as u64);
    }

    /// The number of a key's group; 0 if it was given none.
    #[must_use]
    pub fn group(&self, key: u32) -> u32 {
        self.paced.queue().record(&key).map_or(0, |record| record.group)
    }

    /// Whether anything is known of a group, or of a key in it.
    #[wasm_bindgen(js_name = knowsGroup)]
    #[must_use]
    pub fn knows_group(&self, group: u32) -> bool {
        self.paced.knows_group(group)
    }

    /// Starts nothing of a group any more, or starts again.
    #[wasm_bindgen(js_name = holdGroup)]
    pub fn hold_group(&mut self, now_ms: f64, group: u32, held: bool) {
        if let Some(group) = flat::group_number(group) {
            self.paced.hold_group(flat::time(now_ms), group, held);
        }
    }

    /// Up to `limit` groups that have something to do or a reason to wait, in the order of `flat::group_status`.
    #[must_use]
    pub fn groups(&self, limit: u32) -> Vec<f64> {
        self.paced.groups().take(limit as usize).flat_map(|group| flat::group_status(&group)).collect()
    }

    /// What has changed of groups since the last time, to keep with the rows: five numbers each, in the order of `flat::groups`. Where
    /// nothing is to be kept of one, the second is not a number.
    #[wasm_bindgen(js_name = groupChanges)]
    pub fn group_changes(&mut self, now_ms: f64, wall_ms: f64) -> Vec<f64> {
        let mut numbers = Vec::new();
        let write = |group, record| flat::write_group(&mut numbers, group, record);
        self.paced.drain_group_changes(clock(now_ms, wall_ms), write);
        numbers
    }

    /// Groups that nothing is known of any more since the last time.
    #[wasm_bindgen(js_name = takeFreedGroups)]
    pub fn take_freed_groups(&mut self) -> Vec<u32> {
        self.paced.take_forgotten_groups()
    }

    /// Keys that are known no more since the last time, for a queue that is not kept.
    #[wasm_bindgen(js_name = takeFreed)]
    pub fn take_freed(&mut self) -> Vec<u32> {
        let mut freed = Vec::new();
        self.paced.drain_changes(|change| {
            if let Change::Remove(key) = change {
                freed.push(*key);
            }
        });
        freed
    }

    /// The rows to write since the last time, seven numbers each. A row to delete has the place 0.
    pub fn changes(&mut self) -> Vec<f64> {
        let mut rows = Vec::new();
        self.paced.drain_changes(|change| flat::write_change(&mut rows, &change));
        rows
    }

    /// The pace, to keep with the rows.
    #[must_use]
    pub fn pace(&self) -> Vec<f64> {
        flat::write_pace(self.paced.pace())
    }

    /// How it looks, in the order of `flat::status`.
    #[must_use]
    pub fn status(&self, now_ms: f64) -> Vec<f64> {
        flat::status(&self.paced.status(flat::time(now_ms)))
    }
}

impl PacedQueue {
    fn of(paced: Paced<u32, (), InOrder>, calls: u32) -> Self {
        let calls = calls as usize;
        Self { paced, ended: vec![0.0; calls], told: Vec::with_capacity(6 * calls + 2) }
    }
}

fn setup(settings: &[f64], seed: f64) -> Setup<InOrder> {
    let (settings, limits, groups) = flat::setup(settings);
    Setup { settings, limits, groups, hasher: InOrder(0), seed: seed.to_bits() }
}

/// How long a `Retry-After` header asks to wait, in milliseconds; `undefined` if it cannot be understood.
#[wasm_bindgen(js_name = retryAfterMs)]
#[must_use]
pub fn retry_after_ms(header: &str, wall_ms: f64) -> Option<f64> {
    Some(retry_after::parse(header, flat::time(wall_ms))?.as_millis() as f64)
}

fn clock(now_ms: f64, wall_ms: f64) -> Clock {
    Clock { now: flat::time(now_ms), wall: flat::time(wall_ms) }
}

/// Puts the numbers that JavaScript gives its keys, one after the other, side by side into the table: neighbours in line are
/// neighbours in memory, and no two share a place as long as no number is skipped. Nobody outside picks them.
#[derive(Debug, Clone, Copy)]
struct InOrder(u64);

impl BuildHasher for InOrder {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        *self
    }
}

impl Hasher for InOrder {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        // The table takes the place from the low bits and tells neighbours apart by the seven highest, of 32 or of 64.
        let number = u64::from(number);
        self.0 ^= number ^ number << 25 ^ number << 57;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests;
