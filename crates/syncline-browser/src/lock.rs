//! The project lock for JavaScript: [`syncline_core::lock::Machine`] with plain numbers and words at its edges.
//!
//! Made for a worker that owns the timer, the Web Lock and the record (`js/lock-worker.js`). It tells what happened by one
//! method for each [`Input`], then asks [`next`](LockMachine::next) until there is nothing left to do; the details of what
//! to do are read from the getters. A queue instead of returned objects, so that nothing has to be freed by hand. Every
//! method is total: whatever JavaScript passes, the answer is a value.

use std::collections::VecDeque;
use std::time::Duration;

use syncline_core::lock::protocol::{Call, Event, Loss, Options, Place, Request, Setup};
use syncline_core::lock::{Code, Held, Input, Lease, LeaseId, Level, Machine, Moment, Output, Ttl};
use syncline_core::time::Timestamp;
use wasm_bindgen::prelude::wasm_bindgen;

/// The lock of one project in one page.
#[wasm_bindgen]
#[derive(Debug)]
pub struct LockMachine {
    machine: Machine,
    now: Moment,
    waiting: VecDeque<Output>,
    current: Option<Output>,
}

/// What to do now. The details are in the getters of [`LockMachine`], until the next call of any method.
#[wasm_bindgen]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockDo {
    /// Nothing more.
    Nothing,
    /// Request the Web Lock `number`.
    RequestWeb,
    /// Abort the request `number`.
    AbortWeb,
    /// Take the Web Lock as `number` from whoever has it.
    StealWeb,
    /// Let go of the Web Lock `number`.
    ReleaseWeb,
    /// Open the record.
    Open,
    /// Write `leaseId` and `expiresAt` into it, or nothing where there is no `leaseId`.
    Write,
    /// Do what the call `number` waits for.
    Commit,
    /// Close the record.
    Close,
    /// Tell the other tabs that the lock is free.
    Announce,
    /// The call `number` succeeded, with a lease or without.
    Resolve,
    /// The call `number` failed with `code`.
    Reject,
    /// Tell the listeners of `event`.
    Emit,
    /// The lease `leaseId` was lost, by `loss`.
    Lost,
    /// Log `code`.
    Report,
}

/// How to acquire; filled in field by field.
#[wasm_bindgen]
#[derive(Debug, Clone, Copy)]
pub struct AcquireOptions {
    /// See [`Options::max_wait`].
    #[wasm_bindgen(js_name = maxWaitMs)]
    pub max_wait_ms: f64,
    /// See [`Options::retry`].
    #[wasm_bindgen(js_name = initialDelayMs)]
    pub initial_delay_ms: f64,
    /// See [`Options::retry`].
    #[wasm_bindgen(js_name = maxDelayMs)]
    pub max_delay_ms: f64,
    /// See [`Options::retry`].
    pub multiplier: f64,
    /// See [`Options::retry`]; `Infinity` for no end.
    #[wasm_bindgen(js_name = maxAttempts)]
    pub max_attempts: f64,
    /// See [`Options::ttl`].
    #[wasm_bindgen(js_name = leaseMs)]
    pub lease_ms: f64,
    /// See [`Options::keep`].
    pub keep: bool,
    /// See [`Options::come_back`].
    #[wasm_bindgen(js_name = comeBack)]
    pub come_back: bool,
}

#[wasm_bindgen]
impl AcquireOptions {
    /// The defaults of the API.
    #[wasm_bindgen(constructor)]
    #[must_use]
    #[expect(clippy::new_without_default, reason = "JavaScript has constructors and no traits")]
    pub fn new() -> Self {
        let Options { max_wait, retry, ttl, keep, come_back } = Options::default();
        Self {
            max_wait_ms: ms_of(max_wait),
            initial_delay_ms: ms_of(retry.initial_delay),
            max_delay_ms: ms_of(retry.max_delay),
            multiplier: retry.multiplier,
            max_attempts: f64::INFINITY,
            lease_ms: ms_of(ttl.duration()),
            keep,
            come_back,
        }
    }
}

impl AcquireOptions {
    fn options(self) -> Options {
        let mut options = Options {
            max_wait: duration(self.max_wait_ms),
            ttl: ttl(self.lease_ms),
            keep: self.keep,
            come_back: self.come_back,
            ..Options::default()
        };
        options.retry.initial_delay = duration(self.initial_delay_ms);
        options.retry.max_delay = duration(self.max_delay_ms);
        options.retry.multiplier = self.multiplier;
        // The cast saturates: no end is as many attempts as can be counted.
        options.retry.max_attempts = self.max_attempts as u32;
        options
    }
}

/// What happened: first the clocks, then the event.
#[wasm_bindgen]
impl LockMachine {
    /// A lock that nobody wants yet, in a page with or without Web Locks, with files or with IndexedDB alone.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(web_locks: bool, files: bool) -> Self {
        let place = if files { Place::File } else { Place::Idb };
        Self {
            machine: Machine::new(Setup { web_locks, place }),
            now: Moment::default(),
            waiting: VecDeque::new(),
            current: None,
        }
    }

    /// The present, by `performance.now()` and `Date.now()`; to be told before everything else.
    pub fn clock(&mut self, mono_ms: f64, wall_ms: f64) {
        self.now = Moment { mono: timestamp(mono_ms), wall: timestamp(wall_ms) };
    }

    /// See [`Input::Acquire`]. The 128 random bits become the lease's id.
    pub fn acquire(&mut self, call: u32, random_high: u64, random_low: u64, options: &AcquireOptions) {
        let lease = random_lease(random_high, random_low);
        self.take(Input::Acquire { call: Call(call), lease, options: options.options() });
    }

    /// See [`Input::Renew`]; false: that is no lease id.
    pub fn renew(&mut self, call: u32, lease_id: &str, extend_by_ms: f64) -> bool {
        let Ok(lease) = LeaseId::parse(lease_id) else { return false };
        self.take(Input::Renew { call: Call(call), lease, ttl: ttl(extend_by_ms) });
        true
    }

    /// See [`Input::Commit`]; false: that is no lease id.
    pub fn commit(&mut self, call: u32, lease_id: &str) -> bool {
        let Ok(lease) = LeaseId::parse(lease_id) else { return false };
        self.take(Input::Commit { call: Call(call), lease });
        true
    }

    /// See [`Input::Release`]; false: that is no lease id.
    pub fn release(&mut self, call: u32, lease_id: &str) -> bool {
        let Ok(lease) = LeaseId::parse(lease_id) else { return false };
        self.take(Input::Release { call: Call(call), lease });
        true
    }

    /// See [`Input::Abort`].
    pub fn abort(&mut self, call: u32) {
        self.take(Input::Abort(Call(call)));
    }

    /// See [`Input::Show`].
    pub fn show(&mut self, random_high: u64, random_low: u64) {
        self.take(Input::Show { lease: random_lease(random_high, random_low) });
    }

    /// See [`Input::Opened`]. No id: the record is empty; an id that is none: it makes no sense.
    pub fn opened(&mut self, lease_id: Option<String>, expires_at_ms: f64) {
        self.take(Input::Opened(lease_id.map(|id| match LeaseId::parse(&id) {
            Ok(lease) if expires_at_ms >= 0.0 => Held { lease, expires_at: timestamp(expires_at_ms) },
            _ => Held::UNREADABLE,
        })));
    }

    /// See [`Input::WebGranted`].
    #[wasm_bindgen(js_name = webGranted)]
    pub fn web_granted(&mut self, request: u32) {
        self.take(Input::WebGranted(Request(request)));
    }

    /// See [`Input::WebRefused`].
    #[wasm_bindgen(js_name = webRefused)]
    pub fn web_refused(&mut self, request: u32) {
        self.take(Input::WebRefused(Request(request)));
    }

    /// See [`Input::WebLost`].
    #[wasm_bindgen(js_name = webLost)]
    pub fn web_lost(&mut self, request: u32) {
        self.take(Input::WebLost(Request(request)));
    }

    /// See [`Input::Storage`].
    pub fn storage(&mut self, used: f64, quota: f64) {
        self.take(Input::Storage { used: used as u64, quota: quota as u64 });
    }

    /// One of the events that need no more than their name.
    pub fn happened(&mut self, what: LockNews) {
        self.take(match what {
            LockNews::Timer => Input::Timer,
            LockNews::Forget => Input::Forget,
            LockNews::Hide => Input::Hide,
            LockNews::Woken => Input::Woken,
            LockNews::OpenBusy => Input::OpenBusy,
            LockNews::OpenFailed => Input::OpenFailed,
            LockNews::ReadFailed => Input::ReadFailed,
            LockNews::Written => Input::Written,
            LockNews::WriteFailed => Input::WriteFailed,
            LockNews::Committed => Input::Committed,
            LockNews::StorageDenied => Input::StorageDenied,
        });
    }
}

/// An [`Input`] without details.
#[wasm_bindgen]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockNews {
    /// See [`Input::Timer`].
    Timer,
    /// See [`Input::Forget`].
    Forget,
    /// See [`Input::Hide`].
    Hide,
    /// See [`Input::Woken`].
    Woken,
    /// See [`Input::OpenBusy`].
    OpenBusy,
    /// See [`Input::OpenFailed`].
    OpenFailed,
    /// See [`Input::ReadFailed`].
    ReadFailed,
    /// See [`Input::Written`].
    Written,
    /// See [`Input::WriteFailed`].
    WriteFailed,
    /// See [`Input::Committed`].
    Committed,
    /// See [`Input::StorageDenied`].
    StorageDenied,
}

/// What to do.
#[wasm_bindgen]
impl LockMachine {
    /// The next thing to do; its details are in the getters.
    #[expect(clippy::should_implement_trait, reason = "JavaScript has no iterator of ours")]
    pub fn next(&mut self) -> LockDo {
        self.current = self.waiting.pop_front();
        match self.current {
            None => LockDo::Nothing,
            Some(Output::RequestWeb(_)) => LockDo::RequestWeb,
            Some(Output::AbortWeb(_)) => LockDo::AbortWeb,
            Some(Output::StealWeb(_)) => LockDo::StealWeb,
            Some(Output::ReleaseWeb(_)) => LockDo::ReleaseWeb,
            Some(Output::Open) => LockDo::Open,
            Some(Output::Write(_)) => LockDo::Write,
            Some(Output::Commit(_)) => LockDo::Commit,
            Some(Output::Close) => LockDo::Close,
            Some(Output::Announce) => LockDo::Announce,
            Some(Output::Resolve { .. }) => LockDo::Resolve,
            Some(Output::Reject { .. }) => LockDo::Reject,
            Some(Output::Emit(_)) => LockDo::Emit,
            Some(Output::Lost { .. }) => LockDo::Lost,
            Some(Output::Report(_)) => LockDo::Report,
        }
    }

    /// When to bring [`LockNews::Timer`]; `undefined`: no timer is needed.
    #[wasm_bindgen(getter, js_name = wakeAt)]
    #[must_use]
    pub fn wake_at(&self) -> Option<f64> {
        self.machine.wake_at().map(|at| at.as_ms() as f64)
    }

    /// Whether the holder may act on its lease at the moment that [`clock`](Self::clock) told last.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn certain(&self) -> bool {
        self.machine.certain(self.now)
    }

    /// The state by its name.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn state(&self) -> String {
        self.machine.state().as_str().to_owned()
    }

    /// The number of the Web Lock request or of the call; 0 where there is none.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn number(&self) -> u32 {
        match self.current {
            Some(
                Output::RequestWeb(Request(number))
                | Output::AbortWeb(Request(number))
                | Output::StealWeb(Request(number))
                | Output::ReleaseWeb(Request(number))
                | Output::Commit(Call(number))
                | Output::Resolve { call: Call(number), .. }
                | Output::Reject { call: Call(number), .. },
            ) => number,
            _ => 0,
        }
    }

    /// The id of the lease.
    #[wasm_bindgen(getter, js_name = leaseId)]
    #[must_use]
    pub fn lease_id(&self) -> Option<String> {
        let id = match self.current {
            Some(Output::Write(held)) => held?.lease,
            Some(Output::Lost { lease, .. }) => lease,
            _ => self.lease()?.id,
        };
        Some(id.text())
    }

    /// When the lease ends.
    #[wasm_bindgen(getter, js_name = expiresAt)]
    #[must_use]
    pub fn expires_at(&self) -> Option<f64> {
        let at = match self.current {
            Some(Output::Write(held)) => held?.expires_at,
            _ => self.lease()?.expires_at,
        };
        Some(at.as_ms() as f64)
    }

    /// By which means the lease is held.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn source(&self) -> Option<String> {
        Some(self.lease()?.source.as_str().to_owned())
    }

    /// Whether the Web Lock is no part of it.
    #[wasm_bindgen(getter, js_name = didFallback)]
    #[must_use]
    pub fn did_fallback(&self) -> bool {
        self.lease().is_some_and(|lease| lease.source.did_fallback())
    }

    /// How long before its end a lease that was just granted or renewed stops being certain.
    #[wasm_bindgen(getter, js_name = marginMs)]
    #[must_use]
    pub fn margin_ms(&self) -> f64 {
        let left = self.lease().map(|lease| lease.expires_at.saturating_since(self.now.wall));
        left.map_or(0.0, |left| ms_of(ttl(ms_of(left)).margin()))
    }

    /// The failure.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn code(&self) -> Option<String> {
        Some(self.failure()?.as_str().to_owned())
    }

    /// Whether the same call may succeed later.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn retryable(&self) -> bool {
        self.failure().is_some_and(Code::retryable)
    }

    /// How loudly the failure is logged: the name of a method of `console`.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn level(&self) -> Option<String> {
        let level = match self.failure()?.level() {
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        };
        Some(level.to_owned())
    }

    /// The name of the news.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn event(&self) -> Option<String> {
        Some(self.news()?.kind.as_str().to_owned())
    }

    /// Which attempt failed.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn attempt(&self) -> Option<u32> {
        Some(self.news()?.pause?.attempt)
    }

    /// How long the pause after it is.
    #[wasm_bindgen(getter, js_name = delayMs)]
    #[must_use]
    pub fn delay_ms(&self) -> Option<f64> {
        Some(ms_of(self.news()?.pause?.delay))
    }

    /// How the lease was lost.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn loss(&self) -> Option<String> {
        let Some(Output::Lost { loss, .. }) = self.current else { return None };
        let word = match loss {
            Loss::Expired => "expired",
            Loss::TakenOver => "taken-over",
            Loss::Hidden => "hidden",
        };
        Some(word.to_owned())
    }
}

impl LockMachine {
    fn take(&mut self, input: Input) {
        self.waiting.extend(self.machine.handle(self.now, input));
    }

    fn lease(&self) -> Option<Lease> {
        match self.current {
            Some(Output::Resolve { lease, .. } | Output::Emit(Event { lease, .. })) => lease,
            _ => None,
        }
    }

    fn news(&self) -> Option<Event> {
        match self.current {
            Some(Output::Emit(event)) => Some(event),
            _ => None,
        }
    }

    fn failure(&self) -> Option<Code> {
        match self.current {
            Some(Output::Reject { code, .. } | Output::Report(code)) => Some(code),
            _ => self.news()?.error,
        }
    }
}

fn random_lease(high: u64, low: u64) -> LeaseId {
    LeaseId::from_random((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
}

/// The cast saturates and makes NaN zero.
fn timestamp(ms: f64) -> Timestamp {
    Timestamp::from_ms(ms as u64)
}

fn duration(ms: f64) -> Duration {
    Duration::from_millis(ms as u64)
}

/// The nearest length that a lease in a browser may have.
fn ttl(ms: f64) -> Ttl {
    let bounded = (ms as u64).clamp(Ttl::MIN.as_ms(), Ttl::BROWSER_MAX.as_ms());
    Ttl::from_ms(bounded).unwrap_or(Ttl::DEFAULT)
}

fn ms_of(duration: Duration) -> f64 {
    duration.as_millis() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(machine: &mut LockMachine) -> Vec<LockDo> {
        std::iter::from_fn(|| Some(machine.next()).filter(|next| *next != LockDo::Nothing)).collect()
    }

    #[test]
    fn lk_04_the_words_of_the_machine_reach_javascript_and_its_answers_the_machine() {
        let mut lock = LockMachine::new(true, true);
        lock.clock(10.0, 1_000_000.0);
        lock.acquire(7, 1, 2, &AcquireOptions::new());
        assert_eq!(
            (lock.next(), lock.number(), lock.state().as_str()),
            (LockDo::RequestWeb, 1, "requesting")
        );
        lock.web_granted(1);
        assert_eq!(drain(&mut lock), [LockDo::Open]);
        lock.opened(None, 0.0);
        assert_eq!(lock.next(), LockDo::Write);
        assert_eq!(lock.lease_id().as_deref(), Some("00000000-0000-4001-8000-000000000002"));
        assert_eq!(lock.expires_at(), Some(1_015_000.0));
        lock.happened(LockNews::Written);
        assert_eq!((lock.next(), lock.next()), (LockDo::Close, LockDo::Emit));
        assert_eq!((lock.event().as_deref(), lock.source().as_deref()), (Some("acquired"), Some("web-lock")));
        assert_eq!((lock.next(), lock.number(), lock.did_fallback()), (LockDo::Resolve, 7, false));
        assert_eq!((lock.margin_ms(), lock.certain()), (1_500.0, true));
        assert_eq!((lock.next(), lock.wake_at()), (LockDo::Nothing, Some(15_010.0)));
        lock.clock(15_010.0, 1_015_000.0);
        assert!(!lock.certain());
    }

    #[test]
    fn lk_25_whatever_the_record_says_the_answer_is_a_value() {
        let id = || Some("0f8fad5b-d9cb-469f-a165-70867728950e".to_owned());
        for (lease_id, expires_at_ms) in [
            (Some(String::new()), 0.0),
            (Some("?".to_owned()), 5.0),
            (id(), f64::NAN),
            (id(), -1.0),
            (id(), f64::INFINITY),
        ] {
            let mut lock = LockMachine::new(false, true);
            lock.clock(0.0, 1_000.0);
            lock.acquire(1, 1, 2, &AcquireOptions::new());
            drain(&mut lock);
            lock.opened(lease_id, expires_at_ms);
            assert!(drain(&mut lock).contains(&LockDo::Write), "held by somebody unknown, for a minute");
            assert_eq!(lock.state(), "switching");
        }
    }

    #[test]
    fn lk_01_what_is_no_lease_id_is_told_from_one_that_is_not_held() {
        let mut lock = LockMachine::new(false, false);
        assert!(!lock.renew(1, "x", 15_000.0) && !lock.release(2, "") && !lock.commit(3, "7"));
        assert!(lock.release(4, "0f8fad5b-d9cb-469f-a165-70867728950e"));
        assert_eq!(drain(&mut lock), [LockDo::Report, LockDo::Reject]);
    }
}
