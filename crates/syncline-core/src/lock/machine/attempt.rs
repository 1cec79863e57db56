//! Getting the lock: the Web Lock first, the record always, a pause after each failure.

use std::time::Duration;

use super::owner::Hold;
use super::{Doing, Machine};
use crate::lock::protocol::{ASK_AGAIN, Call, Event, EventKind, Input, Options, Output, Pause, Request};
use crate::lock::{Acquired, Code, Held, LeaseId, Moment, Slot, Token, Ttl, Validity};
use crate::time::Timestamp;

/// How long a Web Lock that should be free by now may take to be granted.
const GRACE: Duration = Duration::from_millis(250);

/// Somebody wants the lock.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct Wish {
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

impl Wish {
    fn ttl(&self) -> Ttl {
        self.options.ttl.min(Ttl::BROWSER_MAX)
    }
}

/// Where a Web Lock request stands.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) enum Web {
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
        match self.doing {
            Doing::Idle | Doing::Faulted { .. } => {
                self.come_back = None;
                self.begin(Some(call), lease, options);
            }
            Doing::Releasing { .. } => {
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
        let wish = Wish {
            call,
            lease,
            options,
            attempt: 1,
            switched: false,
            refused: false,
            end: None,
            woken: false,
        };
        self.attempt(wish);
    }

    pub(super) fn attempt(&mut self, wish: Wish) {
        let wish = Wish { woken: false, ..wish };
        if self.hidden {
            // A request left in the queue of a page that is put aside may hang for ever.
            self.doing = Doing::BackingOff { wish, until: Timestamp::from_ms(u64::MAX) };
        } else if self.setup.web_locks {
            let now = self.now.mono;
            let request = self.next_request();
            let limit = now + wish.options.max_wait.min(ASK_AGAIN);
            let until = wish.end.map_or(limit, |end| end.max(now + GRACE).min(limit));
            self.doing = Doing::Requesting { wish, web: Web::Waiting { request, until } };
            self.out.push(Output::RequestWeb(request));
        } else {
            self.switch(Wish { refused: true, ..wish });
        }
    }

    /// Goes for the record without the Web Lock.
    pub(super) fn switch(&mut self, mut wish: Wish) {
        if !wish.switched {
            wish.switched = true;
            self.report(Code::WebLockUnavailable);
            self.emit_failure(EventKind::SwitchToFallback, Code::WebLockUnavailable);
        }
        self.doing = Doing::Switching { wish };
        self.open_record();
    }

    pub(super) fn web_granted(&mut self, request: Request) {
        match self.doing {
            Doing::Requesting { wish, web: Web::Waiting { request: asked, .. } } if asked == request => {
                self.doing = Doing::Requesting { wish, web: Web::Granted(Some(request)) };
                self.open_record();
            }
            Doing::Switching { wish } if self.stealing() == Some(request) => self.finish(wish, Some(request)),
            // It came after we had stopped waiting.
            _ => self.release_web(Some(request)),
        }
    }

    pub(super) fn web_refused(&mut self, request: Request) {
        match self.doing {
            Doing::Requesting { wish, web: Web::Waiting { request: asked, .. } } if asked == request => {
                self.switch(Wish { refused: true, ..wish });
            }
            Doing::Switching { wish } if self.stealing() == Some(request) => self.finish(wish, None),
            _ => {}
        }
    }

    /// The record is open and says `held`.
    pub(super) fn decide_grant(&mut self, wish: Wish, held: Option<Held>) {
        let slot = Slot { token: Token::NONE, held };
        let now = self.now;
        match slot.acquire(now.wall, wish.lease, wish.ttl(), Ttl::BROWSER_MAX) {
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
        let (Doing::Switching { wish } | Doing::Requesting { wish, .. }) = self.doing else {
            unreachable!("only an attempt writes a grant");
        };
        if !Validity::new(fresh.asked, wish.ttl()).certain(self.now) {
            self.abandon_section();
            self.fail(Code::FallbackWriteFailed, None);
            return;
        }
        match self.doing {
            Doing::Switching { wish } if took_over && !wish.refused => {
                let request = self.next_request();
                self.steal(request, fresh, self.now.mono + GRACE);
                self.out.push(Output::StealWeb(request));
            }
            Doing::Switching { wish } => self.hold_it(wish, fresh, None),
            Doing::Requesting { wish, web: Web::Granted(web) } => self.hold_it(wish, fresh, web),
            _ => unreachable!("only an attempt writes a grant"),
        }
    }

    pub(super) fn hold_it(&mut self, wish: Wish, fresh: Fresh, web: Option<Request>) {
        self.close_record();
        let hold = Hold::new(wish.lease, wish.options, fresh.asked, wish.ttl(), fresh.held.expires_at, web);
        let lease = Some(hold.lease(self.setup.place));
        self.doing = Doing::Holding { hold };
        self.emit_event(Event { kind: EventKind::Acquired, lease, error: None, pause: None });
        self.out.extend(wish.call.map(|call| Output::Resolve { call, lease }));
    }

    /// The attempt under way has failed; the record is closed, or abandoned.
    pub(super) fn fail(&mut self, code: Code, busy_until: Option<Timestamp>) {
        let (Doing::Requesting { mut wish, .. } | Doing::Switching { mut wish }) = self.doing else {
            unreachable!("only an attempt fails");
        };
        self.drop_web();
        if code != Code::WebLockUnavailable {
            self.report(code);
        }
        let pause = if code.retryable() { wish.options.retry.delay(wish.attempt, 0.0) } else { None };
        let Some(delay) = pause else {
            self.doing = Doing::Faulted { hold: None };
            self.emit_failure(EventKind::AcquireFailed, code);
            self.out.extend(wish.call.map(|call| Output::Reject { call, code }));
            return;
        };
        let pause = Some(Pause { attempt: wish.attempt, delay });
        self.emit_event(Event { kind: EventKind::Backoff, lease: None, error: Some(code), pause });
        wish.end = busy_until.map(|wall| self.mono_after(wall));
        wish.attempt = wish.attempt.saturating_add(1);
        let until = if wish.woken { self.now.mono } else { self.now.mono + delay };
        self.doing = Doing::BackingOff { wish, until: wish.end.map_or(until, |end| end.min(until)) };
    }

    pub(super) fn abort(&mut self, call: Call) {
        let (Doing::Requesting { wish, .. } | Doing::Switching { wish } | Doing::BackingOff { wish, .. }) =
            self.doing
        else {
            return self.abort_waiting(call);
        };
        if wish.call == Some(call) {
            self.drop_web();
            self.abandon_section();
            self.doing = Doing::Idle;
            self.aborted(call);
        }
    }

    /// Nobody wants what the page asked for again by itself, or would ask for when it is back.
    pub(super) fn forget(&mut self) {
        self.come_back = None;
        if let Doing::Requesting { wish, .. } | Doing::Switching { wish } | Doing::BackingOff { wish, .. } =
            self.doing
            && wish.call.is_none()
        {
            self.drop_web();
            self.abandon_section();
            self.doing = Doing::Idle;
        }
    }

    /// Another tab gave the lock back.
    pub(super) fn wake(&mut self) {
        let soon = self.now.mono + GRACE;
        match &mut self.doing {
            Doing::BackingOff { wish, .. } if !self.hidden => {
                let wish = *wish;
                self.attempt(wish);
            }
            // The grant is on its way; if it is not, the queue hangs, and the record is free.
            Doing::Requesting { web: Web::Waiting { until, .. }, .. } => *until = soon.min(*until),
            Doing::Requesting { wish, .. } | Doing::Switching { wish } => wish.woken = true,
            _ => {}
        }
    }

    /// The page goes: whoever waits stops waiting, and goes on when the page is back.
    pub(super) fn hide(&mut self) {
        self.hidden = true;
        if let Doing::Requesting { wish, .. } | Doing::Switching { wish } = self.doing {
            self.drop_web();
            self.abandon_section();
            self.attempt(wish);
        }
    }

    pub(super) fn show(&mut self, lease: LeaseId) {
        self.hidden = false;
        self.fresh = Some(lease);
        if let Doing::BackingOff { wish, .. } = self.doing {
            self.attempt(wish);
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
        match self.doing {
            Doing::Requesting { web: Web::Waiting { request, .. }, .. } => {
                self.out.push(Output::AbortWeb(request));
            }
            Doing::Requesting { web: Web::Granted(web), .. } => self.release_web(web),
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
