//! One tab of the model: the real machine, what it has asked the browser for, and what it has not heard yet.

use std::collections::VecDeque;
use std::time::Duration;

use syncline_core::lock::protocol::{Call, Options, Place, Request, Setup, State};
use syncline_core::lock::{Input, LeaseId, Machine, Moment, Output};
use syncline_core::retry::Policy;
use syncline_core::time::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Life {
    Running,
    Frozen,
    Crashed,
}

#[derive(Debug, Clone, Hash)]
pub(crate) struct Tab {
    pub(crate) machine: Machine,
    pub(crate) setup: Setup,
    pub(crate) life: Life,
    pub(crate) hidden: bool,
    /// How far its monotonic clock is ahead of the others'.
    pub(crate) ahead_ms: u64,
    /// The one thing it wants of the record.
    pub(crate) wants: Option<Output>,
    /// What it will hear, in this order.
    pub(crate) inbox: VecDeque<Input>,
    /// Web Locks granted to it.
    pub(crate) web: Option<Request>,
    pub(crate) calls: u32,
    pub(crate) answers: u32,
}

impl Tab {
    pub(crate) fn new(web_locks: bool, place: Place) -> Self {
        let setup = Setup { web_locks, place };
        Self {
            machine: Machine::new(setup),
            setup,
            life: Life::Running,
            hidden: false,
            ahead_ms: 0,
            wants: None,
            inbox: VecDeque::new(),
            web: None,
            calls: 0,
            answers: 0,
        }
    }

    /// The next acquisition of tab number `index`.
    pub(crate) fn wish(&mut self, index: usize) -> Input {
        self.calls += 1;
        // Steady pauses, so that the number of attempts does not multiply the states.
        let retry = Policy {
            initial_delay: Duration::from_secs(4),
            max_delay: Duration::from_secs(4),
            ..Options::default().retry
        };
        let options = Options { keep: true, come_back: true, retry, ..Options::default() };
        Input::Acquire { call: Call(self.calls), lease: fresh(index, self.calls), options }
    }

    pub(crate) fn moment(&self, mono_ms: u64, wall_ms: u64) -> Moment {
        Moment { mono: Timestamp::from_ms(mono_ms + self.ahead_ms), wall: Timestamp::from_ms(wall_ms) }
    }

    /// When its timer is due, on the common clock.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        let at = self.machine.wake_at()?;
        (self.life == Life::Running).then(|| at.as_ms().saturating_sub(self.ahead_ms))
    }

    /// It runs, is in sight, and waits for the lock.
    pub(crate) fn waits(&self) -> bool {
        let state = self.machine.state();
        let wants = matches!(state, State::Requesting | State::Switching | State::BackingOff);
        self.life == Life::Running && !self.hidden && wants
    }

    /// Nothing is on its way to it or from it.
    pub(crate) fn quiet(&self) -> bool {
        self.life != Life::Running || self.wants.is_none() && self.inbox.is_empty()
    }
}

pub(crate) fn fresh(index: usize, number: u32) -> LeaseId {
    let mut random = [index as u8 + 1; 16];
    random[15] = number as u8;
    LeaseId::from_random(random)
}
