//! Who waits for which lock in this process, and how they hear that it was given back.
//!
//! Hearing is a courtesy: whoever waits looks again by itself after a while, because a release elsewhere may not be
//! heard and an expired lease makes no sound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use syncline_core::lock::Name;
use tokio::sync::watch;

/// The waiting, by name.
#[derive(Debug, Default)]
pub(crate) struct Ears {
    by_name: Mutex<HashMap<String, watch::Sender<()>>>,
}

/// An ear on one name. What is said between its making and [`Watch::freed`] is heard.
pub struct Watch {
    name: String,
    heard: watch::Receiver<()>,
    ears: Arc<Ears>,
    look_every: Duration,
}

impl Ears {
    /// An ear on `name`, which looks for itself every `look_every`.
    pub(crate) fn watch(self: &Arc<Self>, name: &Name, look_every: Duration) -> Watch {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = by_name.entry(name.as_str().to_owned()).or_insert_with(|| watch::Sender::new(()));
        let heard = sender.subscribe();
        Watch { name: name.as_str().to_owned(), heard, ears: Arc::clone(self), look_every }
    }

    /// `name` is free, or may be.
    pub(crate) fn tell(&self, name: &str) {
        let by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = by_name.get(name) {
            sender.send_replace(());
        }
    }

    /// Something may have been missed.
    pub(crate) fn tell_all(&self) {
        for sender in self.by_name.lock().unwrap_or_else(PoisonError::into_inner).values() {
            sender.send_replace(());
        }
    }
}

impl Watch {
    /// Ends when the lock was given back, when it is time to look again, or after `at_most`.
    pub async fn freed(&mut self, at_most: Duration) {
        // Out of time and the sender's end both mean: look again.
        let _ = tokio::time::timeout(at_most.min(self.look_every), self.heard.changed()).await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut by_name = self.ears.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        // This ear still counts as one.
        if by_name.get(&self.name).is_some_and(|sender| sender.receiver_count() <= 1) {
            by_name.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    #[tokio::test(start_paused = true)]
    async fn lk_21_a_release_between_asking_and_waiting_is_heard() {
        let ears = Arc::new(Ears::default());
        let name = Name::new("project").unwrap();
        let (mut one, mut two) = (ears.watch(&name, LONG), ears.watch(&name, LONG));
        ears.tell("project");
        let start = tokio::time::Instant::now();
        one.freed(LONG).await;
        two.freed(LONG).await;
        assert!(start.elapsed() < Duration::from_secs(1), "both were told");
        ears.tell("another");
        one.freed(Duration::from_secs(2)).await;
        assert!(start.elapsed() >= Duration::from_secs(2), "and now there is nothing to hear");
        drop(one);
        ears.tell_all();
        two.freed(LONG).await;
        assert!(start.elapsed() < LONG);
        drop(two);
        assert!(ears.by_name.lock().unwrap().is_empty(), "nobody listens, nothing is kept");
    }
}
