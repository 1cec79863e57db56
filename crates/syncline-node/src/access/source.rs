//! Where a principal comes from: one key or one issuer as the node knows it now, and when it was last shown.
//!
//! A source stands until its key is removed or its issuer is changed. Whoever holds a principal for longer than a request,
//! such as a stream of events, asks whether its source still stands.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use syncline_core::time::Timestamp;

/// A key or an issuer, as long as it counts.
#[derive(Debug, Default)]
pub(crate) struct Source {
    ended: AtomicBool,
    shown: Mutex<Shown>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Shown {
    last: Option<(Timestamp, Option<IpAddr>)>,
    saved: Option<Timestamp>,
}

impl Source {
    /// Notes that it was shown.
    pub(crate) fn note(&self, wall: Timestamp, from: Option<IpAddr>) {
        self.shown().last = Some((wall, from));
    }

    /// When it was last shown to this node, and from where.
    pub(super) fn last_shown(&self) -> Option<(Timestamp, Option<IpAddr>)> {
        self.shown().last
    }

    /// The same, if nobody has asked for it since.
    pub(super) fn take_unsaved(&self) -> Option<(Timestamp, Option<IpAddr>)> {
        let mut shown = self.shown();
        let last = shown.last.filter(|(at, _)| shown.saved.is_none_or(|saved| saved < *at))?;
        shown.saved = Some(last.0);
        Some(last)
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    pub(super) fn stands(&self) -> bool {
        !self.ended.load(Ordering::Acquire)
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Source {
    /// Two that stand alike are alike: tests compare principals by what they may do.
    fn eq(&self, other: &Source) -> bool {
        self.stands() == other.stands()
    }
}

impl Eq for Source {}
