//! Which firings of one job are due, given nothing but the time of day.
//!
//! The time of day jumps: machines sleep, clocks are set. Whatever it does, a ticker names no firing twice. Firings
//! passed over collapse to the newest one, so that waking from a night's sleep starts one run and not five
//! hundred. A clock set back repeats nothing that was done, and a clock that had been wrong by years and is put
//! right resumes at once. Other processes are not known here; competing with them is the claim's business.

use std::time::Duration;

use super::{Bucket, Cron};
use crate::time::Timestamp;

/// How far back a process that starts, or whose clock is set back, still looks for a firing it may have missed.
const CATCH_UP: Duration = Duration::from_secs(60);

/// Stretches of firings remembered; a new one begins only where firings were passed over or the clock jumped.
const STRETCHES_MAX: usize = 64;

/// The firings of one job in this process.
#[derive(Debug)]
pub struct Ticker {
    cron: Cron,
    /// Firings up to here have been looked at.
    seen: Timestamp,
    /// The first firing after `seen`.
    next: Option<Timestamp>,
    /// Firings named so far, as stretches of consecutive ones, the current stretch last.
    named: Vec<Stretch>,
}

#[derive(Debug, Clone, Copy)]
struct Stretch {
    first: Timestamp,
    last: Timestamp,
}

impl Ticker {
    /// A ticker that starts at `wall`. A firing of the last minute is still due: a node that restarts must not
    /// drop the minute it restarted in.
    #[must_use]
    pub fn new(cron: Cron, wall: Timestamp) -> Self {
        let mut ticker = Self { cron, seen: Timestamp::ZERO, next: None, named: Vec::new() };
        ticker.look_from(wall.saturating_before(CATCH_UP));
        ticker
    }

    /// The newest firing that is due at `wall`, if any. Never the same one twice.
    pub fn due(&mut self, wall: Timestamp) -> Option<Bucket> {
        if wall < self.seen {
            self.look_from(wall.saturating_before(CATCH_UP));
        }
        if self.next.is_none_or(|next| wall < next) {
            return None;
        }
        let newest = self.cron.last_at(wall)?;
        self.look_from(wall);
        self.name(newest).then(|| self.cron.bucket(newest))
    }

    /// The firing whose time it is at `wall`, due or not: the bucket that an arriving viewer's run belongs to.
    #[must_use]
    pub fn current(&self, wall: Timestamp) -> Option<Bucket> {
        self.cron.last_at(wall).map(|fired| self.cron.bucket(fired))
    }

    /// When to ask again.
    #[must_use]
    pub fn next_at(&self) -> Option<Timestamp> {
        self.next
    }

    /// The expression it follows.
    #[must_use]
    pub fn cron(&self) -> &Cron {
        &self.cron
    }

    fn look_from(&mut self, seen: Timestamp) {
        self.seen = seen;
        self.next = self.cron.next_after(seen);
    }

    /// Remembers `fired`; false when it was remembered already.
    fn name(&mut self, fired: Timestamp) -> bool {
        if self.named.iter().any(|stretch| (stretch.first..=stretch.last).contains(&fired)) {
            return false;
        }
        match self.named.last_mut() {
            Some(current) if self.cron.next_after(current.last) == Some(fired) => current.last = fired,
            _ => {
                if self.named.len() == STRETCHES_MAX {
                    self.named.remove(0);
                }
                self.named.push(Stretch { first: fired, last: fired });
            }
        }
        true
    }
}
