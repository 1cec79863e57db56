//! What lanes, batches and uploads of one worker have in common: the store, the receiver, the settings and the counts.
//!
//! Guarantees that every failure of the store is counted and logged, and that an outcome which is known is offered to the
//! store until it has taken it, or until the worker stops.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use syncline_core::outbox::{Evidence, SenderId, Verdict};
use syncline_core::retry::Policy;
use syncline_store::Error;
use syncline_store::outbox::{ClaimId, Entry, Kind, Outbox};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::kind::FileKind;
use super::meters::Meters;
use super::sender::Sender;
use super::{Off, Settings};
use crate::store_retry;

/// What can be changed while the worker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) poll_interval: Duration,
    pub(super) batch_size: usize,
    pub(super) enabled: bool,
    pub(super) files_enabled: bool,
}

impl Live {
    pub(super) fn of(settings: &Settings) -> Live {
        let Settings { poll_interval, batch_size, .. } = settings;
        Live { poll_interval: *poll_interval, batch_size: *batch_size, enabled: true, files_enabled: true }
    }

    /// What is switched off.
    pub(super) fn off(self) -> Option<Off> {
        match (self.enabled, self.files_enabled) {
            (false, _) => Some(Off::All),
            (true, false) => Some(Off::Files),
            (true, true) => None,
        }
    }

    pub(super) fn sends(self, kind: Kind) -> bool {
        self.enabled && (kind == Kind::Change || self.files_enabled)
    }
}

/// What happened since the start.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) sent: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) dead: AtomicU64,
}

/// What lanes, batches and uploads have in common.
pub(super) struct Shared {
    /// The worker's name in claims.
    pub(super) name: String,
    pub(super) outbox: Arc<dyn Outbox>,
    /// The application's outbox, where `outbox` is a route's and gets its entries from there.
    pub(super) upstream: Option<Arc<dyn Outbox>>,
    pub(super) sender: Sender,
    pub(super) sender_id: SenderId,
    /// How entries are tried again.
    pub(super) policy: Policy,
    /// What the receiver took and failed on, of changes and of files.
    pub(super) evidence: [Mutex<Evidence>; 2],
    pub(super) timeout: Duration,
    pub(super) lease: Duration,
    pub(super) files: Vec<Arc<FileKind>>,
    pub(super) live: watch::Sender<Live>,
    /// When the database's settings were read last. Held while they are.
    pub(super) tuned_at: tokio::sync::Mutex<Option<tokio::time::Instant>>,
    /// Batches and uploads under way, of both lanes.
    pub(super) sends: AtomicUsize,
    /// The environment's values, for whatever the database's settings leave open.
    pub(super) usual: Live,
    pub(super) counts: Counts,
    pub(super) meters: Meters,
    /// Notified when a write found no room.
    pub(super) full: tokio::sync::Notify,
    /// Cancelled by a lane that drains and saw that nothing is pending, of either kind.
    pub(super) drained: CancellationToken,
}

impl Shared {
    /// Whether nothing is under way, and nothing is held back.
    pub(super) fn is_idle(&self) -> bool {
        self.sends.load(Ordering::Relaxed) == 0 && self.live.borrow().off().is_none()
    }

    /// What the receiver took and failed on. Files and changes are judged apart: it may have no room for files, or no table for
    /// changes.
    pub(super) fn evidence(&self, kind: Kind) -> MutexGuard<'_, Evidence> {
        let evidence = &self.evidence[usize::from(kind == Kind::File)];
        evidence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many entries the receiver does not have yet, those included that are still to be handed over to its route.
    pub(super) async fn pending(&self) -> Result<u64, Error> {
        // In this order: what is handed over in between is counted twice, and never missed.
        let waiting = match &self.upstream {
            Some(upstream) => self.count_store_errors("stats", upstream.stats()).await?.pending,
            None => 0,
        };
        Ok(waiting + self.count_store_errors("stats", self.outbox.stats()).await?.pending)
    }

    /// The kind of file that an entry stands for. An entry of a type that no kind declares is an ordinary one, whatever
    /// its name: it goes with the changes. A webhook carries no file.
    pub(super) fn file_kind(&self, entry: &Entry) -> Option<&Arc<FileKind>> {
        if self.sender.is_webhook() {
            return None;
        }
        self.files.iter().find(|kind| kind.entity_type == entry.entity_type)
    }

    /// Passes on what the store answered; counts and logs a failure.
    pub(super) async fn count_store_errors<T>(
        &self,
        what: &'static str,
        question: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let answer = question.await;
        if let Err(error) = &answer {
            self.meters.store_errors.increment(1);
            match error {
                Error::Unreachable { .. } => tracing::warn!(%error, what, "the database did not answer"),
                _ => tracing::warn!(%error, what, "the database could not do what was asked"),
            }
            if matches!(error, Error::Full { .. }) {
                self.full.notify_one();
            }
        }
        answer
    }

    /// Asks until the store has answered, for or against: a receipt must not be forgotten because a database restarts.
    pub(super) async fn ask_until_answered<T, F>(
        &self,
        what: &'static str,
        question: impl Fn() -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut failures = 0;
        loop {
            match self.count_store_errors(what, question()).await {
                Err(error) if error.retryable() => failures += 1,
                answer => return answer,
            }
            tokio::time::sleep(store_retry::pause(failures)).await;
        }
    }

    /// Renews a claim for as long as this is polled. Ends when all of it is lost to other workers.
    pub(super) async fn renew_claim(&self, claim: ClaimId, ids: &[i64]) {
        loop {
            tokio::time::sleep(self.lease / 3).await;
            // A store that does not answer now may do so before the lease ends.
            let renewing = self.outbox.renew(claim, ids, self.lease);
            if let Ok(held) = self.count_store_errors("renew", renewing).await
                && held.is_empty()
            {
                tracing::warn!(entries = ids.len(), "a claim was lost to another worker");
                return;
            }
        }
    }

    /// Settles until the store has taken it. A worker that stops leaves the rest to the end of the lease.
    pub(super) async fn settle(
        &self,
        claim: ClaimId,
        verdicts: &[(i64, Verdict)],
        give_up: &CancellationToken,
    ) {
        if verdicts.is_empty() {
            return;
        }
        let mut failures = 0;
        while self.count_store_errors("settle", self.outbox.settle(claim, verdicts)).await.is_err() {
            failures += 1;
            if give_up.run_until_cancelled(tokio::time::sleep(store_retry::pause(failures))).await.is_none() {
                return;
            }
        }
    }

    /// Counts and logs entries that the store could not read and has given up.
    pub(super) fn record_unreadable(&self, unreadable: &[(i64, String)]) {
        for (id, reason) in unreadable {
            self.count_failure();
            self.count_dead();
            tracing::error!(id, reason, "an entry cannot be read and is given up");
        }
    }

    /// Counts what becomes of an entry, and logs a failure.
    pub(super) fn record_outcome(&self, entry: &Entry, verdict: &Verdict) {
        let (id, kind, entity) = (entry.id, &entry.entity_type, &entry.entity_id);
        match verdict {
            Verdict::Done => {
                self.counts.sent.fetch_add(1, Ordering::Relaxed);
                self.meters.sent.increment(1);
            }
            Verdict::Retry { after, reason } | Verdict::Postpone { after, reason } => {
                self.count_failure();
                let after_ms = after.as_millis() as u64;
                tracing::debug!(id, kind, entity, after_ms, reason, "an entry failed and is tried again");
            }
            Verdict::Dead { reason } => {
                self.count_failure();
                self.count_dead();
                let message = "an entry is given up; `syncline outbox show` tells more";
                tracing::error!(id, kind, entity, reason, message);
            }
            Verdict::GiveBack => {}
        }
    }

    fn count_failure(&self) {
        self.counts.failed.fetch_add(1, Ordering::Relaxed);
        self.meters.failed.increment(1);
    }

    fn count_dead(&self) {
        self.counts.dead.fetch_add(1, Ordering::Relaxed);
        self.meters.died.increment(1);
    }
}
