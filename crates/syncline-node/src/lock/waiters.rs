//! Those who wait on this node, by name, in order of arrival.
//!
//! A fair mutex for each name keeps the order: the waiter that has it is the first. A waiter that is dropped, at whatever
//! moment, leaves, and the last one to leave takes the mutex along.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use syncline_core::lock::Name;
use tokio::sync::{Mutex as FairMutex, MutexGuard};

use super::WAITING_MAX;

#[derive(Debug, Default)]
pub(super) struct Waiters {
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    by_name: HashMap<Name, (Arc<FairMutex<()>>, usize)>,
    all: usize,
}

/// One who waits for one name.
#[derive(Debug)]
pub(super) struct Waiter {
    name: Name,
    order: Arc<FairMutex<()>>,
    counts: Arc<Mutex<Counts>>,
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
        Some(Waiter { name: name.clone(), order: Arc::clone(order), counts: Arc::clone(&self.counts) })
    }
}

impl Waiter {
    /// Ends when this is the first waiter, which it stays until what is returned is dropped.
    pub(super) async fn first(&self) -> MutexGuard<'_, ()> {
        self.order.lock().await
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
        let [one, two, three] = [0; 3].map(|_| waiters.join(&name).unwrap());
        let first = one.first().await;
        let mut second = Box::pin(two.first());
        assert!(futures::poll!(&mut second).is_pending());
        let mut third = Box::pin(three.first());
        assert!(futures::poll!(&mut third).is_pending());
        // The second goes away while it waits, and the third moves up.
        drop(second);
        drop(two);
        drop(first);
        drop(one);
        assert!(futures::poll!(&mut third).is_ready());
        assert!(waiters.has(&name));
        drop(third);
        drop(three);
        assert!(!waiters.has(&name) && waiters.counts.lock().unwrap().by_name.is_empty());
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
