//! Getting the lock: the Web Lock first, the record always, a pause after each failure.

use std::time::Duration;

use super::owner::Hold;
use super::{Machine, Phase};
use crate::lock::protocol::{ASK_AGAIN, Call, Event, EventKind, Input, Options, Output, Pause, Request};
use crate::lock::{Acquired, Code, Held, LeaseId, Moment, Slot, Token, Ttl, Validity};
use crate::time::Timestamp;

/// How long a Web Lock that should be free by now may take to be granted.
const GRACE: Duration = Duration::from_millis(250);

/// Somebody wants the lock.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct Acquisition {
    /// Who is told; nobody when the page came back by itself.
    pub(super) call: Option<Call>,
    pub(super) lease: LeaseId,
    pub(super) options: Options,
    /// Counted from 1.
    pub(super) attempt: u32,
    /// The listeners know that the Web Lock was not to be had.
    switched: bool,
    /// The browser refuses Web Locks here, so there is nothing to steal either.
    refused: bool,
    /// When the other's lease ends, as far as known: the record is to be looked at then.
    end: Option<Timestamp>,
    /// Another tab gave the lock back during this attempt, which may be what it fails for.
    woken: bool,
}

impl Acquisition {
    fn ttl(&self) -> Ttl {
        self.options.ttl.min(Ttl::BROWSER_MAX)
    }
}

/// Where a Web Lock request stands.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) enum WebLock {
    Waiting {
        request: Request,
        until: Timestamp,
    },
    /// Granted, and perhaps stolen since; the record is being taken.
    Granted(Option<Request>),
}

/// A record that was just written in our favour.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct Fresh {
    pub(super) asked: Moment,
    pub(super) held: Held,
}

impl Machine {
    pub(super) fn acquire(&mut self, call: Call, lease: LeaseId, options: Options) {
        match self.phase {
            Phase::Idle | Phase::Faulted { .. } => {
                self.come_back = None;
                self.begin(Some(call), lease, options);
            }
            Phase::Releasing { .. } => {
                self.wait(call, Input::Acquire { call, lease, options });
            }
            // Asking twice from one tab would wait for itself.
            _ => {
                self.emit_failure(EventKind::AcquireFailed, Code::LeaseMismatch);
                self.reject(Some(call), Code::LeaseMismatch);
            }
        }
    }

    /// Begins anew, with all attempts left.
    pub(super) fn begin(&mut self, call: Option<Call>, lease: LeaseId, options: Options) {
        let acquisition = Acquisition {
            call,
            lease,
            options,
            attempt: 1,
            switched: false,
            refused: false,
            end: None,
            woken: false,
        };
        self.attempt(acquisition);
    }

    pub(super) fn attempt(&mut self, acquisition: Acquisition) {
        let acquisition = Acquisition { woken: false, ..acquisition };
        if self.hidden {
            // A request left in the queue of a page that is put aside may hang for ever.
            self.phase = Phase::BackingOff { acquisition, until: Timestamp::from_ms(u64::MAX) };
        } else if self.setup.web_locks {
            let now = self.now.mono;
            let request = self.next_request();
            let limit = now + acquisition.options.max_wait.min(ASK_AGAIN);
            let until = acquisition.end.map_or(limit, |end| end.max(now + GRACE).min(limit));
            self.phase = Phase::Requesting { acquisition, web: WebLock::Waiting { request, until } };
            self.out.push(Output::RequestWeb(request));
        } else {
            self.switch(Acquisition { refused: true, ..acquisition });
        }
    }

    /// Goes for the record without the Web Lock.
    pub(super) fn switch(&mut self, mut acquisition: Acquisition) {
        if !acquisition.switched {
            acquisition.switched = true;
            self.report(Code::WebLockUnavailable);
            self.emit_failure(EventKind::SwitchToFallback, Code::WebLockUnavailable);
        }
        self.phase = Phase::Switching { acquisition };
        self.open_record();
    }

    pub(super) fn web_granted(&mut self, request: Request) {
        match self.phase {
            Phase::Requesting { acquisition, web: WebLock::Waiting { request: asked, .. } }
                if asked == request =>
            {
                self.phase = Phase::Requesting { acquisition, web: WebLock::Granted(Some(request)) };
                self.open_record();
            }
            Phase::Switching { acquisition } if self.stealing() == Some(request) => {
                self.finish(acquisition, Some(request));
            }
            // It came after we had stopped waiting.
            _ => self.release_web(Some(request)),
        }
    }

    pub(super) fn web_refused(&mut self, request: Request) {
        match self.phase {
            Phase::Requesting { acquisition, web: WebLock::Waiting { request: asked, .. } }
                if asked == request =>
            {
                self.switch(Acquisition { refused: true, ..acquisition });
            }
            Phase::Switching { acquisition } if self.stealing() == Some(request) => {
                self.finish(acquisition, None);
            }
            _ => {}
        }
    }

    /// The record is open and says `held`.
    pub(super) fn decide_grant(&mut self, acquisition: Acquisition, held: Option<Held>) {
        let slot = Slot { token: Token::NONE, held };
        let now = self.now;
        match slot.acquire(now.wall, acquisition.lease, acquisition.ttl(), Ttl::BROWSER_MAX) {
            Acquired::Granted { slot: Slot { held: Some(held), .. }, took_over } => {
                self.write_grant(Fresh { asked: now, held }, took_over);
            }
            Acquired::Doubtful { slot, until } => {
                self.report(Code::FallbackReadFailed);
                self.emit_failure(EventKind::RecordDoubtful, Code::FallbackReadFailed);
                self.write_repair(slot.held, until);
            }
            Acquired::Busy { until } => {
                self.close_record();
                self.fail(Code::WebLockUnavailable, Some(until));
            }
            Acquired::Granted { slot: Slot { held: None, .. }, .. } => {
                unreachable!("what is granted is held");
            }
        }
    }

    /// The record is written in our favour, and still open.
    pub(super) fn granted(&mut self, fresh: Fresh, took_over: bool) {
        // The write may have taken longer than the lease: then it is not worth having.
        let (Phase::Switching { acquisition } | Phase::Requesting { acquisition, .. }) = self.phase else {
            unreachable!("only an attempt writes a grant");
        };
        if !Validity::new(fresh.asked, acquisition.ttl()).certain(self.now) {
            self.abandon_section();
            self.fail(Code::FallbackWriteFailed, None);
            return;
        }
        match self.phase {
            Phase::Switching { acquisition } if took_over && !acquisition.refused => {
                let request = self.next_request();
                self.steal(request, fresh, self.now.mono + GRACE);
                self.out.push(Output::StealWeb(request));
            }
            Phase::Switching { acquisition } => self.hold_it(acquisition, fresh, None),
            Phase::Requesting { acquisition, web: WebLock::Granted(web) } => {
                self.hold_it(acquisition, fresh, web);
            }
            _ => unreachable!("only an attempt writes a grant"),
        }
    }

    pub(super) fn hold_it(&mut self, acquisition: Acquisition, fresh: Fresh, web: Option<Request>) {
        self.close_record();
        let hold = Hold::new(
            acquisition.lease,
            acquisition.options,
            fresh.asked,
            acquisition.ttl(),
            fresh.held.expires_at,
            web,
        );
        let lease = Some(hold.lease(self.setup.place));
        self.phase = Phase::Holding { hold };
        self.emit_event(Event { kind: EventKind::Acquired, lease, error: None, pause: None });
        self.out.extend(acquisition.call.map(|call| Output::Resolve { call, lease }));
    }

    /// The attempt under way has failed; the record is closed, or abandoned.
    pub(super) fn fail(&mut self, code: Code, busy_until: Option<Timestamp>) {
        let (Phase::Requesting { mut acquisition, .. } | Phase::Switching { mut acquisition }) = self.phase
        else {
            unreachable!("only an attempt fails");
        };
        self.drop_web();
        if code != Code::WebLockUnavailable {
            self.report(code);
        }
        let pause =
            if code.retryable() { acquisition.options.retry.delay(acquisition.attempt, 0.0) } else { None };
        let Some(delay) = pause else {
            self.phase = Phase::Faulted { hold: None };
            self.emit_failure(EventKind::AcquireFailed, code);
            self.out.extend(acquisition.call.map(|call| Output::Reject { call, code }));
            return;
        };
        let pause = Some(Pause { attempt: acquisition.attempt, delay });
        self.emit_event(Event { kind: EventKind::Backoff, lease: None, error: Some(code), pause });
        acquisition.end = busy_until.map(|wall| self.mono_after(wall));
        acquisition.attempt = acquisition.attempt.saturating_add(1);
        let until = if acquisition.woken { self.now.mono } else { self.now.mono + delay };
        self.phase =
            Phase::BackingOff { acquisition, until: acquisition.end.map_or(until, |end| end.min(until)) };
    }

    pub(super) fn abort(&mut self, call: Call) {
        let (Phase::Requesting { acquisition, .. }
        | Phase::Switching { acquisition }
        | Phase::BackingOff { acquisition, .. }) = self.phase
        else {
            return self.abort_waiting(call);
        };
        if acquisition.call == Some(call) {
            self.drop_web();
            self.abandon_section();
            self.phase = Phase::Idle;
            self.aborted(call);
        }
    }

    /// Nobody wants what the page asked for again by itself, or would ask for when it is back.
    pub(super) fn forget(&mut self) {
        self.come_back = None;
        if let Phase::Requesting { acquisition, .. }
        | Phase::Switching { acquisition }
        | Phase::BackingOff { acquisition, .. } = self.phase
            && acquisition.call.is_none()
        {
            self.drop_web();
            self.abandon_section();
            self.phase = Phase::Idle;
        }
    }

    /// Another tab gave the lock back.
    pub(super) fn wake(&mut self) {
        let soon = self.now.mono + GRACE;
        match &mut self.phase {
            Phase::BackingOff { acquisition, .. } if !self.hidden => {
                let acquisition = *acquisition;
                self.attempt(acquisition);
            }
            // The grant is on its way; if it is not, the queue hangs, and the record is free.
            Phase::Requesting { web: WebLock::Waiting { until, .. }, .. } => *until = soon.min(*until),
            Phase::Requesting { acquisition, .. } | Phase::Switching { acquisition } => {
                acquisition.woken = true;
            }
            _ => {}
        }
    }

    /// The page goes: whoever waits stops waiting, and goes on when the page is back.
    pub(super) fn hide(&mut self) {
        self.hidden = true;
        if let Phase::Requesting { acquisition, .. } | Phase::Switching { acquisition } = self.phase {
            self.drop_web();
            self.abandon_section();
            self.attempt(acquisition);
        }
    }

    pub(super) fn show(&mut self, lease: LeaseId) {
        self.hidden = false;
        self.fresh = Some(lease);
        if let Phase::BackingOff { acquisition, .. } = self.phase {
            self.attempt(acquisition);
        }
    }

    /// Asks again for what the page gave up when it went; false when there is nothing.
    pub(super) fn return_to_lock(&mut self) -> bool {
        let (Some(options), Some(lease)) = (self.come_back, self.fresh) else { return false };
        self.come_back = None;
        self.fresh = None;
        self.begin(None, lease, options);
        true
    }

    pub(super) fn emit_failure(&mut self, kind: EventKind, code: Code) {
        self.emit_event(Event { kind, lease: None, error: Some(code), pause: None });
    }

    /// Lets go of the Web Lock of an attempt, granted or not.
    fn drop_web(&mut self) {
        match self.phase {
            Phase::Requesting { web: WebLock::Waiting { request, .. }, .. } => {
                self.out.push(Output::AbortWeb(request));
            }
            Phase::Requesting { web: WebLock::Granted(web), .. } => self.release_web(web),
            _ => {}
        }
    }

    fn abort_waiting(&mut self, call: Call) {
        let its = |input: &Input| matches!(input, Input::Acquire { call: other, .. } if *other == call);
        if let Some(at) = self.waiting.iter().position(its) {
            self.waiting.remove(at);
            self.aborted(call);
        }
    }

    fn aborted(&mut self, call: Call) {
        self.emit_failure(EventKind::AcquireFailed, Code::WebLockAborted);
        self.reject(Some(call), Code::WebLockAborted);
    }
}
