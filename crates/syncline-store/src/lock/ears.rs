//! Who waits for which lock in this process, and how they hear that it was given back.
//!
//! A release wakes one of them, the one that has waited longest: the others could not have it anyway, and asking costs.
//! One that goes away passes on what it may have heard. Hearing is a courtesy: whoever waits looks again by itself after
//! a while, because a release elsewhere may not be heard and an expired lease makes no sound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use syncline_core::lock::Name;
use tokio::sync::Notify;

/// The waiting, by name.
#[derive(Debug, Default)]
pub(crate) struct Ears {
    by_name: Mutex<HashMap<String, Bell>>,
}

/// What rings for one name, and how many listen.
#[derive(Debug, Default)]
struct Bell {
    rings: Arc<Notify>,
    listeners: usize,
}

/// An ear on one name. What is said between its making and [`Watch::freed`] is heard.
pub struct Watch {
    name: String,
    rings: Arc<Notify>,
    ears: Arc<Ears>,
    look_every: Duration,
}

impl Ears {
    /// An ear on `name`, which looks for itself every `look_every`.
    pub(crate) fn watch(self: &Arc<Self>, name: &Name, look_every: Duration) -> Watch {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let bell = by_name.entry(name.as_str().to_owned()).or_default();
        bell.listeners += 1;
        let rings = Arc::clone(&bell.rings);
        Watch { name: name.as_str().to_owned(), rings, ears: Arc::clone(self), look_every }
    }

    /// `name` is free, or may be.
    pub(crate) fn tell(&self, name: &str) {
        let by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bell) = by_name.get(name) {
            bell.rings.notify_one();
        }
    }

    /// Something may have been missed.
    pub(crate) fn tell_all(&self) {
        for bell in self.by_name.lock().unwrap_or_else(PoisonError::into_inner).values() {
            bell.rings.notify_one();
        }
    }
}

impl Watch {
    /// Ends when the lock was given back, when it is time to look again, or after `at_most`.
    pub async fn freed(&mut self, at_most: Duration) {
        // Out of time means the same as having heard something: look again.
        let _ = tokio::time::timeout(at_most.min(self.look_every), self.rings.notified()).await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut by_name = self.ears.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(bell) = by_name.get_mut(&self.name) else { return };
        bell.listeners -= 1;
        if bell.listeners == 0 {
            by_name.remove(&self.name);
        } else {
            // It may have been woken and gone away without asking.
            bell.rings.notify_one();
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
        let ears = Arc::new(Ears::default());
        let name = Name::new("project").unwrap();
        let mut watch = ears.watch(&name, LONG);
        ears.tell("project");
        let start = Instant::now();
        watch.freed(LONG).await;
        assert!(start.elapsed() < Duration::from_secs(1));
        ears.tell("another");
        watch.freed(Duration::from_secs(2)).await;
        assert!(start.elapsed() >= Duration::from_secs(2), "and now there is nothing to hear");
        drop(watch);
        assert!(ears.by_name.lock().unwrap().is_empty(), "nobody listens, nothing is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn lk_21_one_is_woken_at_a_time_and_one_that_goes_away_passes_it_on() {
        let ears = Arc::new(Ears::default());
        let name = Name::new("project").unwrap();
        let [mut one, mut two, mut three] = [0; 3].map(|_| ears.watch(&name, LONG));
        let mut first = Box::pin(one.freed(LONG));
        let mut second = Box::pin(two.freed(LONG));
        let mut third = Box::pin(three.freed(LONG));
        assert!(futures::poll!(&mut first).is_pending());
        assert!(futures::poll!(&mut second).is_pending());
        assert!(futures::poll!(&mut third).is_pending());
        ears.tell("project");
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
