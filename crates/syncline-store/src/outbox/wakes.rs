//! Who wants to hear of new entries in this process, and who follows what other processes insert.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;
use tokio::task::JoinSet;

/// What all outbox ports of one engine share.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    changes: watch::Sender<u64>,
    /// How many claims have found something.
    found: AtomicU64,
    /// The task that follows what other processes insert. It goes with the engine, closed or not.
    following: Mutex<JoinSet<()>>,
}

impl Wakes {
    /// Something may be there to claim.
    pub(crate) fn wake(&self) {
        self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// A claim has found something.
    pub(crate) fn note_found(&self) {
        self.found.fetch_add(1, Ordering::Relaxed);
    }

    /// How many claims have.
    pub(crate) fn found(&self) -> u64 {
        self.found.load(Ordering::Relaxed)
    }

    /// To hear of it.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Ends what follows other processes; its connection is closed then.
    pub(crate) async fn stop(&self) {
        let mut following =
            std::mem::take(&mut *self.following.lock().unwrap_or_else(PoisonError::into_inner));
        following.shutdown().await;
    }

    /// Starts what follows other processes, unless that was done. It must not keep the engine alive.
    pub(crate) fn follow<F>(&self, follower: impl FnOnce() -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        if following.is_empty() {
            following.spawn(follower());
        }
    }
}
