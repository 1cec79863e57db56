//! The words between the machine of a project lock and the page that carries out its wishes.
//!
//! [`Input`] is what happened, [`Output`] is what to do. Everything is a small plain value; nothing is formatted here.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use crate::lock::{Code, Held, LeaseId, Ttl};
use crate::retry::Policy;
use crate::time::Timestamp;

/// Longest time for which one Web Lock request waits, whatever the caller allows: a request that was queued before a
/// navigation can hang for ever, a new one does not.
pub const ASK_AGAIN: Duration = Duration::from_secs(5);

/// What this context can do. It is a property of the origin, the same for all its tabs: two places of the record would
/// be two locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Setup {
    /// The Web Locks API exists.
    pub web_locks: bool,
    /// Where the record lies.
    pub place: Place,
}

/// Where the record of the lease lies. In both, what is written replaces what was read at [`Output::Open`], or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// `project/.lock` in the origin's private file system, replaced as a whole where it is what was read.
    File,
    /// One read-write transaction of IndexedDB, where there is no such file system (plain `http://` on a LAN).
    Idb,
}

/// By which means a lease is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The Web Lock, and the record.
    WebLock,
    /// The record in the file alone.
    OpfsLock,
    /// The record in IndexedDB alone.
    IdbLock,
}

/// A lease as its owner sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Its id, the same in the record.
    pub id: LeaseId,
    /// When it ends unless renewed, in time of day.
    pub expires_at: Timestamp,
    /// By which means it is held.
    pub source: Source,
}

/// How to acquire, and what to do with the lease then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// How long one Web Lock request may wait before the record is tried without it; at most [`ASK_AGAIN`].
    pub max_wait: Duration,
    /// The pauses between attempts, and how many there are. Its jitter counts as none: the pauses are promised.
    pub retry: Policy,
    /// How long the lease lasts when it is not renewed; at most [`Ttl::BROWSER_MAX`].
    pub ttl: Ttl,
    /// Renew by itself until released. The owner is then told of the loss when the lease stops being certain;
    /// otherwise when it has ended.
    pub keep: bool,
    /// Ask again by itself when the page comes back after [`Input::Hide`] made it give the lock up.
    pub come_back: bool,
}

/// The caller's number for one of its requests, by which it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Call(pub u32);

/// The machine's number for one Web Lock request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request(pub u32);

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Hash)]
pub enum Input {
    /// The application wants the lock. `lease` is a fresh random id.
    Acquire {
        /// Answered by `Resolve` or `Reject`.
        call: Call,
        /// The id that the lease will have.
        lease: LeaseId,
        /// How.
        options: Options,
    },
    /// The application extends its lease.
    Renew {
        /// Answered by `Resolve` or `Reject`.
        call: Call,
        /// Which lease.
        lease: LeaseId,
        /// To last this long from now; at most [`Ttl::BROWSER_MAX`].
        ttl: Ttl,
    },
    /// The application wants to do one short thing that nobody else can be doing: the lease is renewed, and before the
    /// record is closed again [`Output::Commit`] says that now is the moment.
    Commit {
        /// Answered by `Commit`, then by `Resolve`; or by `Reject`.
        call: Call,
        /// Which lease.
        lease: LeaseId,
    },
    /// What [`Output::Commit`] allowed is over, well or not.
    Committed,
    /// The application gives its lease back.
    Release {
        /// Answered by `Resolve` or `Reject`.
        call: Call,
        /// Which lease.
        lease: LeaseId,
    },
    /// The signal of an `Acquire` was aborted.
    Abort(Call),
    /// Nobody wants the lock any more that the page asks for by itself when it comes back.
    Forget,
    /// The moment of [`Machine::wake_at`](super::Machine::wake_at) has come, or may have come unnoticed.
    Timer,
    /// The page goes (`pagehide`, `freeze`).
    Hide,
    /// The page is back (`pageshow`, `resume`). `lease` is a fresh random id, used if the lock is asked for again.
    Show {
        /// The id that the next lease would have.
        lease: LeaseId,
    },
    /// Another tab said that the lock is free.
    Woken,
    /// A Web Lock request, or a steal, was granted.
    WebGranted(Request),
    /// A Web Lock request, or a steal, cannot be granted: not supported, or forbidden.
    WebRefused(Request),
    /// A granted Web Lock was stolen.
    WebLost(Request),
    /// The record is open and nobody else can open it: what it says. Empty or missing is `None`; what cannot be
    /// understood is [`Held::UNREADABLE`].
    Opened(Option<Held>),
    /// Somebody else has it open just now.
    OpenBusy,
    /// It cannot be opened at all.
    OpenFailed,
    /// It was opened and could not be read; it is closed again.
    ReadFailed,
    /// The write or removal is done.
    Written,
    /// The write or removal failed; the record is still open.
    WriteFailed,
    /// What the browser estimates of the origin's storage.
    Storage {
        /// Bytes in use.
        used: u64,
        /// Bytes allowed.
        quota: u64,
    },
    /// Storage is forbidden here.
    StorageDenied,
}

/// What to do. `Open`, `Write`, `Commit` are answered by exactly one input each, and only one of them is under way at a
/// time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Output {
    /// Request the Web Lock; answered by `WebGranted` or `WebRefused`, unless aborted before.
    RequestWeb(Request),
    /// Abort that request. It needs no answer; a grant that was on its way is answered with `ReleaseWeb`.
    AbortWeb(Request),
    /// Take the Web Lock from a holder whose lease has ended; answered as `RequestWeb`.
    StealWeb(Request),
    /// Let go of that Web Lock.
    ReleaseWeb(Request),
    /// Read the record.
    Open,
    /// Replace the record, unless it is no longer what was read; `None` empties it.
    Write(Option<Held>),
    /// Unless the record was replaced by another since: do what `Input::Commit` asked for. Then bring `Committed`.
    Commit(Call),
    /// Close the record.
    Close,
    /// Tell the other tabs that the lock is free.
    Announce,
    /// The request succeeded. A release has no lease.
    Resolve {
        /// Whose.
        call: Call,
        /// The lease as it is now.
        lease: Option<Lease>,
    },
    /// The request failed.
    Reject {
        /// Whose.
        call: Call,
        /// Why.
        code: Code,
    },
    /// Tell the listeners.
    Emit(Event),
    /// The lease is gone and its owner did not give it back: fire its abort signal.
    Lost {
        /// Which.
        lease: LeaseId,
        /// How.
        loss: Loss,
    },
    /// Log this failure, at [`Code::level`].
    Report(Code),
}

/// How a lease was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// It could not be renewed in time.
    Expired,
    /// Somebody else has it now.
    TakenOver,
    /// The page went away and gave it up.
    Hidden,
}

/// News for the listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The lease in question.
    pub lease: Option<Lease>,
    /// Why, where something failed.
    pub error: Option<Code>,
    /// For `Backoff`: which attempt failed and how long the pause is.
    pub pause: Option<Pause>,
}

/// The pause after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pause {
    /// Which attempt failed, counted from 1.
    pub attempt: u32,
    /// How long the pause is. A release, or the end of the other's lease, cuts it short.
    pub delay: Duration,
}

/// The kinds of news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The lock is held.
    Acquired,
    /// It will not be held: given up, or aborted.
    AcquireFailed,
    /// The lease was extended.
    Renewed,
    /// The lease has ended without a release.
    Expired,
    /// The lock was given back.
    Released,
    /// Giving it back failed; it ends by itself.
    ReleaseFailed,
    /// An attempt failed; the next one comes after a pause.
    Backoff,
    /// The Web Lock is not to be had: the record alone is tried.
    SwitchToFallback,
    /// The record made no sense and counts as held for one longest lease.
    RecordDoubtful,
    /// Storage is nearly full.
    StorageLow,
    /// Storage is forbidden.
    StorageDenied,
}

/// The states of the machine, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing is held or wanted.
    Idle,
    /// The Web Lock is asked for, or granted and the record being taken.
    Requesting,
    /// The record is being taken without the Web Lock.
    Switching,
    /// The lease is held.
    Holding,
    /// It is held and being extended.
    Renewing,
    /// The next attempt waits.
    BackingOff,
    /// The lease is being given back.
    Releasing,
    /// Acquiring was given up, or giving back failed. A new request begins anew.
    Faulted,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_wait: Duration::from_secs(5),
            retry: Policy {
                initial_delay: Duration::from_millis(200),
                max_delay: Duration::from_secs(5),
                multiplier: 2.0,
                max_attempts: u32::MAX,
                jitter: 0.0,
            },
            ttl: Ttl::DEFAULT,
            keep: false,
            come_back: false,
        }
    }
}

/// So that states of the machine can be counted; the numbers in a policy are not compared otherwise.
impl Hash for Options {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Policy { initial_delay, max_delay, multiplier, max_attempts, jitter } = self.retry;
        (self.max_wait, initial_delay, max_delay, max_attempts, self.ttl, self.keep, self.come_back)
            .hash(state);
        (multiplier.to_bits(), jitter.to_bits()).hash(state);
    }
}

impl Source {
    /// The word in the JavaScript API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WebLock => "web-lock",
            Self::OpfsLock => "opfs-lock",
            Self::IdbLock => "idb-lock",
        }
    }

    /// Whether the Web Lock was not part of it.
    #[must_use]
    pub const fn did_fallback(self) -> bool {
        !matches!(self, Self::WebLock)
    }
}

impl EventKind {
    /// The word in the JavaScript API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::AcquireFailed => "acquire-failed",
            Self::Renewed => "renewed",
            Self::Expired => "expired",
            Self::Released => "released",
            Self::ReleaseFailed => "release-failed",
            Self::Backoff => "backoff",
            Self::SwitchToFallback => "switch-to-fallback",
            Self::RecordDoubtful => "record-doubtful",
            Self::StorageLow => "storage-low",
            Self::StorageDenied => "storage-denied",
        }
    }
}

impl State {
    /// The word for pages and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Requesting => "requesting",
            Self::Switching => "switching",
            Self::Holding => "holding",
            Self::Renewing => "renewing",
            Self::BackingOff => "backing-off",
            Self::Releasing => "releasing",
            Self::Faulted => "faulted",
        }
    }
}
