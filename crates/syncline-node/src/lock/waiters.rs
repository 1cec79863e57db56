//! Those who wait on this node, by name, in order of arrival.
//!
//! A fair mutex for each name keeps the order: the waiter that has it is the first. A waiter that is dropped, at whatever
//! moment, leaves, and the last one to leave takes the mutex along.
//!
//! A request waits for a while and is asked again. So that who asks on does not begin at the end of the line each time, its place is
//! kept for [`PLACE_KEPT`] under the id of the lease that it asks for.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use syncline_core::lock::{LeaseId, Name};
use tokio::sync::{Mutex as FairMutex, OwnedMutexGuard};

use super::WAITING_MAX;

#[derive(Debug, Default)]
pub(super) struct Waiters {
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    by_name: HashMap<Name, (Arc<FairMutex<()>>, usize)>,
    all: usize,
    /// Places of those who asked and may ask on.
    kept: HashMap<LeaseId, Waiter>,
    /// Grows with each place that is kept, so that a later one is not given up for an earlier.
    last_kept: u64,
}

/// How long a place in line is kept between two requests.
pub(super) const PLACE_KEPT: Duration = Duration::from_secs(5);

/// One who waits for one name.
pub(super) struct Waiter {
    name: Name,
    turn: Turn,
    counts: Arc<Mutex<Counts>>,
    kept_as: u64,
}

/// Where a waiter stands.
enum Turn {
    Waiting(Pin<Box<dyn Future<Output = OwnedMutexGuard<()>> + Send>>),
    /// Until it is dropped.
    First(#[allow(dead_code, reason = "it is held")] OwnedMutexGuard<()>),
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiter").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Waiters {
    /// Whether anybody waits for `name`.
    pub(super) fn has(&self, name: &Name) -> bool {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all > 0 && counts.by_name.contains_key(name)
    }

    /// Adds a waiter behind all others for `name`; `None` when too many wait already.
    pub(super) fn join(&self, name: &Name) -> Option<Waiter> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.all >= WAITING_MAX {
            return None;
        }
        counts.all += 1;
        let (order, count) = counts.by_name.entry(name.clone()).or_default();
        *count += 1;
        let turn = Turn::Waiting(Box::pin(Arc::clone(order).lock_owned()));
        Some(Waiter { name: name.clone(), turn, counts: Arc::clone(&self.counts), kept_as: 0 })
    }

    /// The place that was kept for who asks for this lease, if it still is.
    pub(super) fn take_kept(&self, name: &Name, lease: LeaseId) -> Option<Waiter> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.kept.get(&lease).is_none_or(|waiter| waiter.name != *name) {
            return None;
        }
        counts.kept.remove(&lease)
    }

    /// Keeps a place for a while, for who asks for this lease again.
    pub(super) fn keep(&self, lease: LeaseId, mut waiter: Waiter) {
        let (given_up, number) = {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            counts.last_kept += 1;
            waiter.kept_as = counts.last_kept;
            (counts.kept.insert(lease, waiter), counts.last_kept)
        };
        // Two requests asked for one lease at once: one place is enough. Dropped here, where the lock is free again.
        drop(given_up);
        let counts = Arc::downgrade(&self.counts);
        tokio::spawn(async move {
            tokio::time::sleep(PLACE_KEPT).await;
            let Some(counts) = counts.upgrade() else { return };
            let mut locked = counts.lock().unwrap_or_else(PoisonError::into_inner);
            let is_ours = locked.kept.get(&lease).is_some_and(|waiter| waiter.kept_as == number);
            let given_up = if is_ours { locked.kept.remove(&lease) } else { None };
            drop(locked);
            drop(given_up);
        });
    }

    /// How many wait for `name`.
    pub(super) fn count(&self, name: &Name) -> usize {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.by_name.get(name).map_or(0, |(_, count)| *count)
    }
}

impl Waiter {
    /// Ends when this is the first waiter, which it stays until it is dropped.
    pub(super) async fn first(&mut self) {
        if let Turn::Waiting(turn) = &mut self.turn {
            let guard = turn.await;
            self.turn = Turn::First(guard);
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all -= 1;
        if let Some((_, count)) = counts.by_name.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                counts.by_name.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lk_21_waiters_are_first_in_order_and_leave_nothing_behind() {
        let (waiters, name) = (Waiters::default(), Name::new("project").unwrap());
        assert!(!waiters.has(&name));
        let [mut one, mut two, mut three] = [0; 3].map(|_| waiters.join(&name).unwrap());
        one.first().await;
        let mut second = Box::pin(two.first());
        assert!(futures::poll!(&mut second).is_pending());
        let mut third = Box::pin(three.first());
        assert!(futures::poll!(&mut third).is_pending());
        // The second goes away while it waits, and the third moves up.
        drop(second);
        drop(two);
        drop(one);
        assert!(futures::poll!(&mut third).is_ready());
        assert!(waiters.has(&name));
        drop(third);
        drop(three);
        assert!(!waiters.has(&name) && waiters.counts.lock().unwrap().by_name.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn lk_33_who_asks_on_keeps_its_place_and_who_does_not_gives_it_up() {
        let (waiters, name) = (Waiters::default(), Name::new("project").unwrap());
        let lease = LeaseId::from_random([7; 16]);
        let mut holder = waiters.join(&name).unwrap();
        holder.first().await;
        let mut second = waiters.join(&name).unwrap();
        assert!(tokio::time::timeout(Duration::from_secs(20), second.first()).await.is_err());
        waiters.keep(lease, second);
        let mut third = waiters.join(&name).unwrap();
        assert!(futures::poll!(Box::pin(third.first())).is_pending());
        drop(holder);
        assert!(waiters.take_kept(&Name::new("other").unwrap(), lease).is_none());
        let mut again = waiters.take_kept(&name, lease).unwrap();
        again.first().await;
        let mut behind = Box::pin(third.first());
        assert!(futures::poll!(&mut behind).is_pending(), "it is still before the third");
        waiters.keep(lease, again);
        // Nobody asks on: after a while the next one moves up.
        behind.await;
        assert!(waiters.take_kept(&name, lease).is_none());
        assert_eq!(waiters.count(&name), 1);
    }

    #[tokio::test]
    async fn the_number_of_waiters_is_bounded() {
        let (waiters, name) = (Waiters::default(), Name::new("project").unwrap());
        let waiting: Vec<_> = (0..WAITING_MAX).map(|_| waiters.join(&name).unwrap()).collect();
        assert!(waiters.join(&Name::new("other").unwrap()).is_none());
        drop(waiting);
        assert!(waiters.join(&name).is_some());
    }
}
