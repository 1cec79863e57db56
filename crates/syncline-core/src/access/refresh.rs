//! When a client asks its back end for a token, and how long it waits after one that was of no use.
//!
//! A token counts from its arrival, for as long as its own `exp - iat` says: the clock of a device may be wrong, and the time it
//! was asleep shows in no monotonic clock, so a node's word that it has ended counts as well. From [`EARLY`] before its end a
//! new connection asks for another one. A connection that stands is renewed at a moment drawn from that time, so that a thousand
//! clients whose tokens end together do not ask together. After a failure, or a token that a node calls expired, the next
//! question waits: any part of a pause that doubles (full jitter).
//!
//! Asking, holding the token, and keeping it to one question at a time are the caller's.

use std::time::Duration;

use crate::time::{Timestamp, whole_ms};

/// A token is not used for a new connection when it has less than this left; of a short one the second half.
pub const EARLY: Duration = Duration::from_secs(30);

/// Of that time, the last sixth is kept free: what is renewed then could come too late.
const LATEST_PARTS: u64 = 6;

/// The first pause; each is twice the one before.
const PAUSE_INITIAL: Duration = Duration::from_secs(1);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// What to do before a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The token that is held is good.
    Use,
    /// Ask for one.
    Ask,
    /// Look again at this moment.
    Wait(Timestamp),
}

/// What is known of a token that came.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// Up to when it serves new connections.
    good_until: Timestamp,
    /// When those that stand are renewed.
    renew_at: Timestamp,
    ends_at: Timestamp,
}

/// The schedule of one source of tokens. Times are monotonic.
#[derive(Debug, Clone, Default)]
pub struct Refresh {
    held: Option<Held>,
    /// Since a node last accepted a token: questions that failed, tokens that had ended.
    failures: u32,
    not_before: Timestamp,
}

impl Refresh {
    /// A schedule of somebody who has no token yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What to do before a connection.
    #[must_use]
    pub fn step(&self, now: Timestamp) -> Step {
        match self.held {
            Some(held) if now < held.good_until => Step::Use,
            _ if now < self.not_before => Step::Wait(self.not_before),
            _ => Step::Ask,
        }
    }

    /// When a connection that stands is to be renewed; `None`: nothing is held, or it has no end.
    #[must_use]
    pub fn renew_at(&self) -> Option<Timestamp> {
        self.held.map(|held| held.renew_at).filter(|renew_at| renew_at.as_ms() < u64::MAX)
    }

    /// A token came that counts for `lives`; `None`: it does not say. `random` is drawn for this call.
    pub fn arrived(&mut self, now: Timestamp, lives: Option<Duration>, random: u32) {
        let Some(lives_ms) = lives.map(whole_ms) else {
            let never = Timestamp::from_ms(u64::MAX);
            self.held = Some(Held { good_until: never, renew_at: never, ends_at: never });
            return;
        };
        let early_ms = whole_ms(EARLY).min(lives_ms / 2);
        let ends_at = now + Duration::from_millis(lives_ms);
        let good_until = ends_at.saturating_before(Duration::from_millis(early_ms));
        let drawn = Duration::from_millis(share(early_ms - early_ms / LATEST_PARTS, random));
        self.held = Some(Held { good_until, renew_at: good_until + drawn, ends_at });
    }

    /// The token that is held came again: its life goes on from its first arrival. It serves until a node says that it has ended,
    /// and is asked about ever more seldom.
    pub fn repeated(&mut self, now: Timestamp, random: u32) {
        let until = now + PAUSE_INITIAL + self.pause(random);
        if let Some(held) = &mut self.held {
            (held.good_until, held.renew_at) = (until, until);
        }
    }

    /// The question was not answered, or not with a token. The one that is held serves until its end.
    pub fn failed(&mut self, now: Timestamp, random: u32) {
        let until = now + self.pause(random);
        match &mut self.held {
            Some(held) if now < held.ends_at => {
                held.good_until = until.min(held.ends_at);
                held.renew_at = held.good_until;
            }
            _ => (self.held, self.not_before) = (None, until),
        }
    }

    /// A node says that the token that is held has ended.
    pub fn expired(&mut self, now: Timestamp, random: u32) {
        self.held = None;
        self.failed(now, random);
    }

    /// A node has accepted the token that is held.
    pub fn accepted(&mut self) {
        self.failures = 0;
    }

    /// The user says that things are different now: the next question is asked at once.
    pub fn reset(&mut self) {
        *self = Self::new();
    }

    /// Full jitter: any part of the pause, none included.
    fn pause(&mut self, random: u32) -> Duration {
        let most = PAUSE_INITIAL.saturating_mul(1 << self.failures.min(31)).min(PAUSE_MAX);
        self.failures = self.failures.saturating_add(1);
        Duration::from_millis(share(whole_ms(most), random))
    }
}

/// The part of `whole` that `random` stands for: nothing for 0, almost all for `u32::MAX`.
fn share(whole: u64, random: u32) -> u64 {
    whole.saturating_mul(u64::from(random)) >> 32
}

#[cfg(test)]
mod tests;
