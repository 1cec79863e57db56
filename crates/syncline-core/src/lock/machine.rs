//! The project lock of one tab, as one machine: inputs in, wishes out.
//!
//! ```text
//!            acquire                    granted, record free
//!   Idle ──────────────▶ Requesting ───────────────────────────────▶ Holding ◀──▶ Renewing
//!    ▲ ▲                  ▲   │ refused, or not in time                ▲   │
//!    │ │             pause│   └─────────▶ Switching ───────────────────┘   │ release, page goes
//!    │ │                  │                │  record free                  ▼
//!    │ └─ abort ──── BackingOff ◀──────────┴─ record busy           Releasing ──▶ Idle
//!    │                    │ attempts used up                               │ failed
//!    └─ (acquire) ──── Faulted ◀───────────────────────────────────────────┘
//! ```
//!
//! **The record stands for the lease.** A Web Lock alone is never enough, because a tab without Web Locks could not see
//! it: whoever gets the Web Lock still has to find the record free or ended, and to write itself into it while nobody
//! else can. The Web Lock is there to be woken at once when the holder goes. It is stolen only after the ended lease of
//! its holder was taken over in the record, and never stolen back.
//!
//! Guarantees: at any moment at most one machine of an origin answers [`Machine::certain`] with yes; a dead or frozen
//! holder is followed within the lease and a second; each call is answered once; nothing is allocated without bound.
//!
//! Leaves to others: carrying out each [`Output`] and answering it, the two clocks, fresh random ids, and asking
//! [`Machine::certain`] right before each write (or writing under [`Input::Commit`], which also withstands a clock
//! that jumps forth and back).

mod attempt;
mod owner;
mod record;

use std::mem;
use std::time::Duration;

use crate::lock::machine::attempt::{Acquisition, WebLock};
use crate::lock::machine::owner::Hold;
use crate::lock::machine::record::Section;
use crate::lock::protocol::{Call, Event, EventKind, Input, Options, Output, Request, Setup, State};
use crate::lock::{Code, Lease, LeaseId, Moment, Ttl};
use crate::time::Timestamp;

/// Most calls that wait for a renewal or release to end.
const WAITING_MAX: usize = 16;

/// Storage counts as nearly full when less than this is left, or less than a twentieth of all.
const STORAGE_RESERVE: u64 = 8 * 1024 * 1024;

/// The lock of one tab.
#[derive(Debug, Clone, Hash)]
pub struct Machine {
    setup: Setup,
    /// The latest moment; its monotonic half never goes back.
    now: Moment,
    phase: Phase,
    /// What is going on with the record. It outlives the state that began it when that state is left in the middle.
    section: Option<Section>,
    /// The record is to be opened when the abandoned section is over.
    want_open: bool,
    /// Calls that came while a renewal or release was under way.
    waiting: Vec<Input>,
    hidden: bool,
    /// How to acquire when the page comes back.
    come_back: Option<Options>,
    /// The id for that.
    fresh: Option<LeaseId>,
    /// The last lease that ended without its owner giving it back.
    ended: Option<LeaseId>,
    requests: u32,
    storage_low: bool,
    out: Vec<Output>,
}

/// A state with what belongs to it.
#[derive(Debug, Clone, Copy, Hash)]
enum Phase {
    Idle,
    Requesting {
        acquisition: Acquisition,
        web: WebLock,
    },
    Switching {
        acquisition: Acquisition,
    },
    Holding {
        hold: Hold,
    },
    Renewing {
        hold: Hold,
        call: Option<Call>,
        ttl: Ttl,
        commit: bool,
    },
    BackingOff {
        acquisition: Acquisition,
        until: Timestamp,
    },
    Releasing {
        hold: Hold,
        call: Option<Call>,
    },
    /// With the lease whose release failed, which may be tried again.
    Faulted {
        hold: Option<Hold>,
    },
}

impl Machine {
    /// A lock that nobody wants yet.
    #[must_use]
    pub const fn new(setup: Setup) -> Self {
        Self {
            setup,
            now: Moment { mono: Timestamp::ZERO, wall: Timestamp::ZERO },
            phase: Phase::Idle,
            section: None,
            want_open: false,
            waiting: Vec::new(),
            hidden: false,
            come_back: None,
            fresh: None,
            ended: None,
            requests: 0,
            storage_low: false,
            out: Vec::new(),
        }
    }

    /// Takes one input and says what to do, in this order. A monotonic time before the last one counts as no time passed.
    pub fn handle(&mut self, now: Moment, input: Input) -> Vec<Output> {
        self.now = Moment { mono: self.now.mono.max(now.mono), wall: now.wall };
        // First of all, whatever the input: a resumed tab must not act on what it believed before.
        self.check_lease();
        self.take(input);
        while self.step() {}
        mem::take(&mut self.out)
    }

    /// The state.
    #[must_use]
    pub const fn state(&self) -> State {
        match self.phase {
            Phase::Idle => State::Idle,
            Phase::Requesting { .. } => State::Requesting,
            Phase::Switching { .. } => State::Switching,
            Phase::Holding { .. } => State::Holding,
            Phase::Renewing { .. } => State::Renewing,
            Phase::BackingOff { .. } => State::BackingOff,
            Phase::Releasing { .. } => State::Releasing,
            Phase::Faulted { .. } => State::Faulted,
        }
    }

    /// Whether its owner may act on the lease at this very moment. Ask right before each write.
    #[must_use]
    pub fn certain(&self, now: Moment) -> bool {
        self.hold().is_some_and(|hold| hold.validity.certain(now))
    }

    /// The lease that is held, certain or not.
    #[must_use]
    pub fn lease(&self) -> Option<Lease> {
        self.hold().map(|hold| hold.lease(self.setup.place))
    }

    /// The monotonic moment at which to bring [`Input::Timer`]. Replaces what was asked for before.
    #[must_use]
    pub fn wake_at(&self) -> Option<Timestamp> {
        let phase = match &self.phase {
            Phase::Requesting { web: WebLock::Waiting { until, .. }, .. } => Some(*until),
            Phase::BackingOff { until, .. } if !self.hidden => Some(*until),
            Phase::Holding { hold } => Some(hold.lost_at().min(hold.renew_at)),
            Phase::Renewing { hold, .. } => Some(hold.lost_at()),
            _ => None,
        };
        let section = self.section.as_ref().and_then(|section| section.wake_at(self.want_open));
        phase.into_iter().chain(section).min()
    }

    fn hold(&self) -> Option<&Hold> {
        match &self.phase {
            Phase::Holding { hold } | Phase::Renewing { hold, .. } => Some(hold),
            _ => None,
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Acquire { call, lease, options } => self.acquire(call, lease, options),
            Input::Renew { .. } | Input::Commit { .. } | Input::Release { .. } => self.ask_as_owner(input),
            Input::Abort(call) => self.abort(call),
            Input::Forget => self.forget(),
            Input::Timer => {}
            Input::Hide => self.hide(),
            Input::Show { lease } => self.show(lease),
            Input::Woken => self.wake(),
            Input::WebGranted(request) => self.web_granted(request),
            Input::WebRefused(request) => self.web_refused(request),
            Input::WebLost(request) => self.web_lost(request),
            Input::Opened(_)
            | Input::OpenBusy
            | Input::OpenFailed
            | Input::ReadFailed
            | Input::Written
            | Input::WriteFailed
            | Input::Committed => self.record_answered(input),
            Input::Storage { used, quota } => self.storage(used, quota),
            Input::StorageDenied => self.emit(EventKind::StorageDenied),
        }
    }

    /// Does one thing that is due; false when nothing is.
    fn step(&mut self) -> bool {
        let now = self.now.mono;
        if let Some(section) = self.section
            && section.wake_at(self.want_open).is_some_and(|at| at <= now)
        {
            self.section_due(section);
            return true;
        }
        let at_rest = match self.phase {
            Phase::Requesting { acquisition, web: WebLock::Waiting { request, until } } if until <= now => {
                self.out.push(Output::AbortWeb(request));
                self.switch(acquisition);
                return true;
            }
            Phase::BackingOff { acquisition, until } if until <= now && !self.hidden => {
                self.attempt(acquisition);
                return true;
            }
            Phase::Holding { hold } if self.hidden => {
                self.give_up_hidden(hold);
                return true;
            }
            Phase::Idle | Phase::Holding { .. } | Phase::Faulted { .. } => true,
            _ => false,
        };
        if at_rest && !self.waiting.is_empty() {
            let call = self.waiting.remove(0);
            self.take(call);
            return true;
        }
        match self.phase {
            Phase::Holding { hold } if hold.renew_at <= now => {
                self.renew(hold, None, hold.validity.ttl(), false);
            }
            Phase::Idle | Phase::Faulted { .. } if !self.hidden => return self.return_to_lock(),
            _ => return false,
        }
        true
    }

    /// Keeps a call for the moment when the record is free again.
    fn wait(&mut self, call: Call, input: Input) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push(input);
        } else {
            self.reject(Some(call), Code::FallbackWriteFailed);
        }
    }

    fn storage(&mut self, used: u64, quota: u64) {
        let left = quota.saturating_sub(used);
        let low = left < STORAGE_RESERVE.min(quota) || left < quota / 20;
        if low && !self.storage_low {
            self.emit(EventKind::StorageLow);
        }
        self.storage_low = low;
    }

    fn next_request(&mut self) -> Request {
        self.requests = self.requests.wrapping_add(1);
        Request(self.requests)
    }

    fn release_web(&mut self, web: Option<Request>) {
        self.out.extend(web.map(Output::ReleaseWeb));
    }

    fn emit(&mut self, kind: EventKind) {
        self.emit_event(Event { kind, lease: None, error: None, pause: None });
    }

    fn emit_event(&mut self, event: Event) {
        self.out.push(Output::Emit(event));
    }

    fn report(&mut self, code: Code) {
        self.out.push(Output::Report(code));
    }

    /// Refuses a call, if somebody waits for one.
    fn reject(&mut self, call: Option<Call>, code: Code) {
        self.report(code);
        self.out.extend(call.map(|call| Output::Reject { call, code }));
    }

    /// The monotonic moment at which the time of day will be just past `wall`.
    fn mono_after(&self, wall: Timestamp) -> Timestamp {
        self.now.mono + wall.saturating_since(self.now.wall) + Duration::from_millis(1)
    }
}
