//! The waiters for locks in this process, woken when a lock is released.
//!
//! A release wakes the waiter that has waited longest: the others could not have the lock anyway, and asking costs. A waiter
//! that goes away wakes the next. Every waiter also looks again by itself after a while, because a release in another process
//! may not be announced, and an expired lease is not.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use syncline_core::lock::Name;
use tokio::sync::Notify;

/// The waiting, by name.
#[derive(Debug, Default)]
pub(crate) struct ReleaseWaiters {
    by_name: Mutex<HashMap<String, Waiter>>,
}

/// The signal for one name, and how many wait for it.
#[derive(Debug, Default)]
struct Waiter {
    notify: Arc<Notify>,
    listeners: usize,
}

/// One waiter for one name. A release between its making and [`ReleaseWatch::freed`] counts.
pub struct ReleaseWatch {
    name: String,
    notify: Arc<Notify>,
    waiters: Arc<ReleaseWaiters>,
    look_every: Duration,
}

impl ReleaseWaiters {
    /// A waiter for `name`, which looks for itself every `look_every`.
    pub(crate) fn watch(self: &Arc<Self>, name: &Name, look_every: Duration) -> ReleaseWatch {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let waiter = by_name.entry(name.as_str().to_owned()).or_default();
        waiter.listeners += 1;
        let notify = Arc::clone(&waiter.notify);
        ReleaseWatch { name: name.as_str().to_owned(), notify, waiters: Arc::clone(self), look_every }
    }

    /// `name` is free, or may be.
    pub(crate) fn notify_one(&self, name: &str) {
        let by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiter) = by_name.get(name) {
            waiter.notify.notify_one();
        }
    }

    /// Something may have been missed.
    pub(crate) fn notify_all(&self) {
        for waiter in self.by_name.lock().unwrap_or_else(PoisonError::into_inner).values() {
            waiter.notify.notify_one();
        }
    }
}

impl ReleaseWatch {
    /// Ends when the lock was given back, when it is time to look again, or after `at_most`.
    pub async fn freed(&mut self, at_most: Duration) {
        // Out of time means the same as having heard something: look again.
        let _ = tokio::time::timeout(at_most.min(self.look_every), self.notify.notified()).await;
    }
}

impl Drop for ReleaseWatch {
    fn drop(&mut self) {
        let mut by_name = self.waiters.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(waiter) = by_name.get_mut(&self.name) else { return };
        waiter.listeners -= 1;
        if waiter.listeners == 0 {
            by_name.remove(&self.name);
        } else {
            // It may have been woken and gone away without asking.
            waiter.notify.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    #[tokio::test(start_paused = true)]
    async fn lk_21_a_release_between_asking_and_waiting_is_heard() {
        let waiters = Arc::new(ReleaseWaiters::default());
        let name = Name::new("project").unwrap();
        let mut watch = waiters.watch(&name, LONG);
        waiters.notify_one("project");
        let start = Instant::now();
        watch.freed(LONG).await;
        assert!(start.elapsed() < Duration::from_secs(1));
        waiters.notify_one("another");
        watch.freed(Duration::from_secs(2)).await;
        assert!(start.elapsed() >= Duration::from_secs(2), "and now there is nothing to hear");
        drop(watch);
        assert!(waiters.by_name.lock().unwrap().is_empty(), "nobody listens, nothing is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn lk_21_one_is_woken_at_a_time_and_one_that_goes_away_passes_it_on() {
        let waiters = Arc::new(ReleaseWaiters::default());
        let name = Name::new("project").unwrap();
        let [mut one, mut two, mut three] = [0; 3].map(|_| waiters.watch(&name, LONG));
        let mut first = Box::pin(one.freed(LONG));
        let mut second = Box::pin(two.freed(LONG));
        let mut third = Box::pin(three.freed(LONG));
        assert!(futures::poll!(&mut first).is_pending());
        assert!(futures::poll!(&mut second).is_pending());
        assert!(futures::poll!(&mut third).is_pending());
        waiters.notify_one("project");
        assert!(futures::poll!(&mut second).is_pending() && futures::poll!(&mut third).is_pending());
        // The first goes away before it has even noticed.
        drop(first);
        drop(one);
        assert!(futures::poll!(&mut second).is_ready());
        drop(second);
        // The second has noticed, and goes away without having asked.
        drop(two);
        assert!(futures::poll!(&mut third).is_ready());
    }
}
