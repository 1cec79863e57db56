//! One lane of a worker: when to claim entries, how many, and how long to leave a receiver alone that is down.
//!
//! ```text
//!   ┌─▶ claim ─▶ send each claim ─▶ wait for: the end of a send, a wake, the time to look, the stop ─┐
//!   └───────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Changes and files have a lane each, so that an hour of upload holds no change up. Entries that have failed come back in one
//! send at a time, so that any number of them leaves room for those that have not. On stop, sends get some seconds to finish;
//! entries that are still under way then are given back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use syncline_core::outbox::{Health, PAUSE, ReceiverState};
use syncline_store::minute_before;
use syncline_store::outbox::{Claimed, Kind, Wanted};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::Until;
use super::batch::send_batch;
use super::chores::tune_if_old;
use super::shared::{Live, Shared};
use super::upload::upload_file;
use crate::store_retry;

/// Requests under way at a time. More than one keeps the front end busy while the store settles; many would only wait.
const BATCHES_AT_ONCE: usize = 4;
const UPLOADS_AT_ONCE: usize = 2;
/// Webhooks are a request each, one after the other within a batch: small batches, and more of them.
const WEBHOOK_BATCHES_AT_ONCE: usize = 16;
const WEBHOOK_BATCH_MAX: usize = 20;

/// How long sends may take to finish when the worker stops.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// How often a drain that has nothing to do looks: other workers finish their entries without a word.
const DRAIN_POLL: Duration = Duration::from_secs(1);

/// How long a receiver may be down before a drain is given up.
const DOWN_MAX: Duration = Duration::from_secs(60);

pub(super) struct Lane {
    kind: Kind,
    shared: Arc<Shared>,
    health: Health,
    /// Batches and uploads under way; each ends with what it showed, and with whether entries in it had failed before.
    sends: JoinSet<(ReceiverState, bool)>,
    /// How many of them have such entries.
    retrying: usize,
    wakes: watch::Receiver<u64>,
    live: watch::Receiver<Live>,
    /// Nothing is claimed before this.
    not_before: Instant,
    /// Nothing that has failed is claimed before this.
    retries_not_before: Instant,
    /// Since when the receiver takes nothing, and why.
    down: Option<(Instant, String)>,
    /// Claims in a row that the store failed.
    store_failures: u32,
    give_up: CancellationToken,
}

/// When to look at the outbox again.
struct NextLook {
    /// At the latest then, wake or no wake.
    at: Instant,
    /// Nothing can be done before that or a wake.
    idle: bool,
}

impl Lane {
    pub(super) fn new(kind: Kind, shared: Arc<Shared>) -> Lane {
        let live = shared.live.subscribe();
        let batch = if kind == Kind::File { 1 } else { live.borrow().batch_size };
        Lane {
            kind,
            health: Health::new(PAUSE, batch),
            sends: JoinSet::new(),
            retrying: 0,
            wakes: shared.outbox.wakes(),
            live,
            not_before: Instant::now(),
            retries_not_before: Instant::now(),
            down: None,
            store_failures: 0,
            give_up: CancellationToken::new(),
            shared,
        }
    }

    /// Works until done or stopped; why the receiver was down in the end, if it was.
    pub(super) async fn run(mut self, until: Until, stop: CancellationToken) -> Option<String> {
        while !stop.is_cancelled() {
            let next = self.claim_and_send().await;
            if self.sends.is_empty()
                && (self.shared.drained.is_cancelled() || next.idle && self.is_done(until).await)
            {
                break;
            }
            self.wait(next.at, until, &stop).await;
        }
        self.finish_in_flight().await;
        self.down.map(|(_, reason)| reason)
    }

    /// Claims entries and starts to send them, as many as may be under way.
    async fn claim_and_send(&mut self) -> NextLook {
        // Every insert and every setting from here on is news.
        self.wakes.mark_unchanged();
        tune_if_old(&self.shared).await;
        let live = *self.live.borrow_and_update();
        let usual = minute_before((Instant::now() + live.poll_interval).into()).into();
        if !live.sends(self.kind) {
            return NextLook { at: usual, idle: true };
        }
        if self.kind == Kind::Change {
            let webhooks = self.shared.sender.is_webhook();
            let most = if webhooks { live.batch_size.min(WEBHOOK_BATCH_MAX) } else { live.batch_size };
            self.health.set_batch_max(most);
        }
        while self.sends.len() < self.sends_max() {
            if Instant::now() < self.not_before {
                return NextLook { at: self.not_before.min(usual), idle: self.down.is_some() };
            }
            let (worker, lease) = (&self.shared.name, self.shared.lease);
            let newest_first = self.health.newest_first();
            let retries = if newest_first { 0 } else { self.retries() };
            let limit = self.health.batch().max(retries);
            let wanted = Wanted { kind: self.kind, limit, retries, newest_first, lease };
            let claiming = self.shared.outbox.claim_with(worker, wanted);
            match self.shared.count_store_errors("claim", claiming).await {
                Ok(claimed) => {
                    self.store_failures = 0;
                    self.shared.record_unreadable(&claimed.unreadable);
                    let (look_in, none) = (claimed.look_in, claimed.entries.is_empty());
                    self.start_sends(claimed);
                    if look_in != Some(Duration::ZERO) {
                        let mut at = look_in.map_or(usual, |wait| usual.min(Instant::now() + wait));
                        // The end of a send that is under way is a reason to look by itself.
                        if retries == 0 && self.retrying == 0 {
                            at = at.min(self.retries_not_before);
                        }
                        return NextLook { at, idle: none };
                    }
                }
                Err(_) => {
                    self.store_failures = self.store_failures.saturating_add(1);
                    let at = Instant::now() + store_retry::pause(self.store_failures);
                    return NextLook { at, idle: false };
                }
            }
        }
        NextLook { at: usual, idle: false }
    }

    fn sends_max(&self) -> usize {
        match self.kind {
            Kind::Change if self.shared.sender.is_webhook() => self.health.sends(WEBHOOK_BATCHES_AT_ONCE),
            Kind::Change => self.health.sends(BATCHES_AT_ONCE),
            Kind::File => self.health.sends(UPLOADS_AT_ONCE).min(UPLOADS_AT_ONCE),
        }
    }

    /// How many entries that have failed may be claimed now.
    fn retries(&self) -> usize {
        match self.retrying {
            0 if Instant::now() >= self.retries_not_before => self.health.retries(),
            _ => 0,
        }
    }

    /// Sends files of declared kinds one by one, and all other entries of the claim as one batch.
    fn start_sends(&mut self, claimed: Claimed) {
        let Claimed { claim, entries, .. } = claimed;
        let mut batch = Vec::new();
        for entry in entries {
            let (shared, give_up) = (Arc::clone(&self.shared), self.give_up.clone());
            match self.shared.file_kind(&entry).cloned() {
                Some(kind) => {
                    let retried = entry.failed_before;
                    self.start(upload_file(shared, claim, kind, entry, give_up), retried);
                }
                None => batch.push(entry),
            }
        }
        if !batch.is_empty() {
            let retried = batch.iter().any(|entry| entry.failed_before);
            let (shared, give_up) = (Arc::clone(&self.shared), self.give_up.clone());
            self.start(send_batch(shared, self.kind, claim, batch, give_up), retried);
        }
    }

    /// Starts a send; `retried` tells whether entries in it have failed before.
    fn start(&mut self, send: impl Future<Output = ReceiverState> + Send + 'static, retried: bool) {
        self.shared.sends.fetch_add(1, Ordering::Relaxed);
        self.retrying += usize::from(retried);
        self.sends.spawn(async move { (send.await, retried) });
    }

    /// Waits until there is a reason to look again.
    async fn wait(&mut self, at: Instant, until: Until, stop: &CancellationToken) {
        // A wake is no reason while the receiver is to be left alone, or while enough is under way.
        let hears = Instant::now() >= self.not_before && self.sends.len() < self.sends_max();
        let at = match until {
            Until::Drained => at.min(Instant::now() + DRAIN_POLL),
            Until::Stopped | Until::Idle => at,
        };
        tokio::select! {
            () = stop.cancelled() => {}
            Some(ended) = self.sends.join_next() => self.observe(ended),
            _ = self.wakes.changed(), if hears => {}
            _ = self.live.changed() => {}
            () = self.shared.drained.cancelled(), if self.sends.is_empty() => {}
            () = tokio::time::sleep_until(at.into()) => {}
        }
        while let Some(ended) = self.sends.try_join_next() {
            self.observe(ended);
        }
    }

    /// Takes note of what a send showed of the receiver.
    fn observe(&mut self, ended: Result<(ReceiverState, bool), JoinError>) {
        self.shared.sends.fetch_sub(1, Ordering::Relaxed);
        let (receiver, retried) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                tracing::error!(%error, "a send failed inside; its entries come back when their lease ends");
                // Which of them it was is not known: better a group too many than none any more.
                self.retrying = 0;
                return;
            }
        };
        self.retrying = self.retrying.saturating_sub(usize::from(retried));
        let pauses = self.health.observe(&receiver, rand::random());
        self.not_before = Instant::now() + pauses.all;
        self.retries_not_before = Instant::now() + pauses.retries;
        self.down = match receiver {
            ReceiverState::Down { reason, .. } | ReceiverState::Doubtful { reason } => {
                Some((self.down.take().map_or_else(Instant::now, |(since, _)| since), reason))
            }
            ReceiverState::Up { .. } => None,
        };
        self.shared.meters.down.set(if self.down.is_some() { 1.0 } else { 0.0 });
    }

    async fn is_done(&self, until: Until) -> bool {
        match until {
            Until::Stopped => false,
            Until::Idle => true,
            Until::Drained if !self.live.borrow().sends(self.kind) => true,
            Until::Drained if self.down.as_ref().is_some_and(|(since, _)| since.elapsed() > DOWN_MAX) => true,
            Until::Drained => {
                let drained = self.shared.pending().await.is_ok_and(|pending| pending == 0);
                if drained {
                    self.shared.drained.cancel();
                }
                drained
            }
        }
    }

    /// Lets sends finish, and gives back the entries of those that do not in time.
    async fn finish_in_flight(&mut self) {
        let give_up = self.give_up.clone();
        if self.kind == Kind::File {
            give_up.cancel();
        }
        let patience = tokio::spawn(async move {
            tokio::time::sleep(STOP_GRACE).await;
            give_up.cancel();
        });
        while let Some(ended) = self.sends.join_next().await {
            self.observe(ended);
        }
        patience.abort();
    }
}
