//! Having the lock: renewing, committing, giving back, losing.

use std::time::Duration;

use super::{Machine, Phase};
use crate::lock::protocol::{
    Call, Event, EventKind, Input, Lease, Loss, Options, Output, Place, Request, Source,
};
use crate::lock::{Code, Held, LeaseId, Moment, Refused, Slot, Token, Ttl, Validity};
use crate::time::Timestamp;

/// Pause before a renewal that failed is tried again.
const RENEW_RETRY: Duration = Duration::from_secs(1);

/// A lease in hand.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct Hold {
    pub(super) lease: LeaseId,
    pub(super) validity: Validity,
    expires_at: Timestamp,
    /// The Web Lock, where there is one.
    pub(super) web: Option<Request>,
    options: Options,
    /// When to renew; never, where the owner does so.
    pub(super) renew_at: Timestamp,
}

impl Hold {
    pub(super) fn new(
        lease: LeaseId,
        options: Options,
        asked: Moment,
        ttl: Ttl,
        expires_at: Timestamp,
        web: Option<Request>,
    ) -> Self {
        let never = Timestamp::from_ms(u64::MAX);
        let renew_at = if options.keep { asked.mono + ttl.renew_every() } else { never };
        Self { lease, validity: Validity::new(asked, ttl), expires_at, web, options, renew_at }
    }

    pub(super) fn lease(&self, place: Place) -> Lease {
        let source = match (self.web, place) {
            (Some(_), _) => Source::WebLock,
            (None, Place::File) => Source::OpfsLock,
            (None, Place::Idb) => Source::IdbLock,
        };
        Lease { id: self.lease, expires_at: self.expires_at, source }
    }

    /// The monotonic moment at which the lease counts as lost. Work that runs under it must have stopped before it ends;
    /// an owner who renews by hand may do so to the end.
    pub(super) fn lost_at(&self) -> Timestamp {
        if self.options.keep { self.validity.certain_until() } else { self.validity.ends_at() }
    }

    fn lost(&self, now: Moment) -> bool {
        if self.options.keep { !self.validity.certain(now) } else { self.validity.ended(now) }
    }
}

impl Machine {
    /// Notices that the lease has ended, on either clock.
    pub(super) fn check_lease(&mut self) {
        if self.hold().is_some_and(|hold| hold.lost(self.now)) {
            self.lose(Loss::Expired);
        }
    }

    pub(super) fn ask_as_owner(&mut self, input: Input) {
        let (Input::Renew { call, lease, .. }
        | Input::Commit { call, lease }
        | Input::Release { call, lease }) = input
        else {
            unreachable!("only owners ask here");
        };
        match self.phase {
            Phase::Holding { hold } if hold.lease == lease => match input {
                Input::Renew { ttl, .. } => self.renew(hold, Some(call), ttl.min(Ttl::BROWSER_MAX), false),
                Input::Commit { .. } => self.renew(hold, Some(call), hold.validity.ttl(), true),
                _ => self.release(hold, Some(call)),
            },
            Phase::Renewing { hold, .. } | Phase::Releasing { hold, .. } if hold.lease == lease => {
                self.wait(call, input);
            }
            Phase::Faulted { hold: Some(hold) } if hold.lease == lease => match input {
                Input::Release { .. } if !hold.validity.ended(self.now) => self.release(hold, Some(call)),
                _ => self.refuse_ended(call, lease),
            },
            _ if self.ended == Some(lease) => self.refuse_ended(call, lease),
            _ => self.reject(Some(call), Code::LeaseMismatch),
        }
    }

    pub(super) fn renew(&mut self, hold: Hold, call: Option<Call>, ttl: Ttl, commit: bool) {
        self.phase = Phase::Renewing { hold, call, ttl, commit };
        self.open_record();
    }

    pub(super) fn release(&mut self, hold: Hold, call: Option<Call>) {
        self.phase = Phase::Releasing { hold, call };
        self.open_record();
    }

    /// The page goes: better to give the lock back now than to keep everybody waiting from inside the cache.
    pub(super) fn give_up_hidden(&mut self, hold: Hold) {
        self.come_back = hold.options.come_back.then_some(hold.options);
        self.fresh = None;
        self.ended = Some(hold.lease);
        self.out.push(Output::Lost { lease: hold.lease, loss: Loss::Hidden });
        self.release(hold, None);
    }

    /// The record is open for a renewal and says `held`.
    pub(super) fn decide_renew(&mut self, held: Option<Held>) {
        let Phase::Renewing { hold, ttl, .. } = &mut self.phase else {
            unreachable!("only a renewal decides here");
        };
        let slot = Slot { token: Token::NONE, held };
        match slot.renew(self.now.wall, hold.lease, *ttl) {
            Ok(Slot { held: Some(held), .. }) => {
                let validity = Validity::new(self.now, *ttl);
                // A shorter lease counts from the moment it may be in the record, a longer one when it is.
                if validity.ends_at() < hold.validity.ends_at() {
                    hold.validity = validity;
                }
                self.write_renewal(validity, held);
            }
            Ok(Slot { held: None, .. }) => unreachable!("what is renewed is held"),
            Err(refused) => {
                self.close_record();
                let other = refused == Refused::NotHolder && held.is_some();
                self.lose(if other { Loss::TakenOver } else { Loss::Expired });
            }
        }
    }

    /// The record is written and still open.
    pub(super) fn renewed(&mut self, validity: Validity, held: Held) {
        let Phase::Renewing { mut hold, call, commit, .. } = self.phase else {
            unreachable!("only a renewal ends here");
        };
        let every = validity.ttl().renew_every();
        hold.validity = validity;
        hold.expires_at = held.expires_at;
        if hold.options.keep {
            hold.renew_at = self.now.mono + every;
        }
        if hold.lost(self.now) {
            self.lose(Loss::Expired);
            return;
        }
        let lease = Some(hold.lease(self.setup.place));
        self.emit_event(Event { kind: EventKind::Renewed, lease, error: None, pause: None });
        if let (true, Some(call)) = (commit, call) {
            self.phase = Phase::Renewing { hold, call: Some(call), ttl: validity.ttl(), commit };
            self.begin_commit();
            self.out.push(Output::Commit(call));
        } else {
            self.close_record();
            self.phase = Phase::Holding { hold };
            self.out.extend(call.map(|call| Output::Resolve { call, lease }));
        }
    }

    pub(super) fn committed(&mut self) {
        self.close_record();
        if let Phase::Renewing { hold, call, .. } = self.phase {
            let lease = Some(hold.lease(self.setup.place));
            self.phase = Phase::Holding { hold };
            self.out.extend(call.map(|call| Output::Resolve { call, lease }));
        }
    }

    /// The record could not be changed this time; the lease lasts as long as it did.
    pub(super) fn renew_failed(&mut self, code: Code) {
        if let Phase::Renewing { mut hold, call, .. } = self.phase {
            if hold.options.keep {
                hold.renew_at = self.now.mono + RENEW_RETRY;
            }
            self.phase = Phase::Holding { hold };
            self.reject(call, code);
        }
    }

    /// The record is open for a release and says `held`.
    pub(super) fn decide_release(&mut self, held: Option<Held>) {
        let Phase::Releasing { hold, call } = self.phase else { unreachable!("only a release decides here") };
        if (Slot { token: Token::NONE, held }).release(self.now.wall, hold.lease).is_ok() {
            self.write_removal();
            return;
        }
        self.close_record();
        self.release_web(hold.web);
        self.phase = Phase::Idle;
        self.ended = Some(hold.lease);
        match call {
            Some(call) => self.refuse_ended(call, hold.lease),
            None => self.emit_expired(hold.lease(self.setup.place)),
        }
    }

    pub(super) fn released(&mut self) {
        self.close_record();
        if let Phase::Releasing { hold, call } = self.phase {
            self.release_web(hold.web);
            self.phase = Phase::Idle;
            self.out.push(Output::Announce);
            let lease = Some(hold.lease(self.setup.place));
            self.emit_event(Event { kind: EventKind::Released, lease, error: None, pause: None });
            self.out.extend(call.map(|call| Output::Resolve { call, lease: None }));
        }
    }

    pub(super) fn release_failed(&mut self) {
        if let Phase::Releasing { hold, call } = self.phase {
            let code = Code::FallbackWriteFailed;
            let lease = Some(hold.lease(self.setup.place));
            self.release_web(hold.web);
            self.phase = Phase::Faulted { hold: Some(Hold { web: None, ..hold }) };
            self.emit_event(Event { kind: EventKind::ReleaseFailed, lease, error: Some(code), pause: None });
            self.reject(call, code);
        }
    }

    /// A Web Lock was taken from us. Whoever did so had taken over the record before.
    pub(super) fn web_lost(&mut self, request: Request) {
        use super::attempt::WebLock;
        match &mut self.phase {
            Phase::Holding { hold } | Phase::Renewing { hold, .. } if hold.web == Some(request) => {
                hold.web = None;
                self.lose(Loss::TakenOver);
            }
            // An attempt goes on without it: the record decides.
            Phase::Requesting { web: WebLock::Granted(web), .. } if *web == Some(request) => *web = None,
            Phase::Releasing { hold, .. } if hold.web == Some(request) => hold.web = None,
            _ => {}
        }
    }

    /// The lease is gone: the owner is told, the Web Lock let go, what is under way with the record called off.
    fn lose(&mut self, loss: Loss) {
        let (hold, call) = match self.phase {
            Phase::Holding { hold } => (hold, None),
            Phase::Renewing { hold, call, .. } => (hold, call),
            _ => return,
        };
        self.abandon_section();
        self.release_web(hold.web);
        self.phase = Phase::Idle;
        self.ended = Some(hold.lease);
        self.emit_expired(hold.lease(self.setup.place));
        self.out.push(Output::Lost { lease: hold.lease, loss });
        self.reject(call, Code::LeaseExpired);
    }

    /// Somebody operates on a lease that has ended.
    fn refuse_ended(&mut self, call: Call, lease: LeaseId) {
        let told = |output: &Output| matches!(output, Output::Emit(Event { kind: EventKind::Expired, lease: Some(told), .. }) if told.id == lease);
        if !self.out.iter().any(told) {
            self.emit_failure(EventKind::Expired, Code::LeaseExpired);
        }
        self.reject(Some(call), Code::LeaseExpired);
    }

    fn emit_expired(&mut self, lease: Lease) {
        let error = Some(Code::LeaseExpired);
        self.emit_event(Event { kind: EventKind::Expired, lease: Some(lease), error, pause: None });
    }
}
