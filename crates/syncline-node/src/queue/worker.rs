//! One queue's worker in this process: claim what the pace allows, do it, settle what came of it.
//!
//! ```text
//!   ┌─▶ claim ─▶ a task for each run ─▶ wait for: an end, a change, the time to look, the stop ─┐
//!   │                                                                                          │
//!   └───────────────────────── settle all that ended, together ◀───────────────────────────────┘
//! ```
//!
//! Guarantees: a run that is late to start is not made; one that does not end in time is ended or, if it waits for other
//! queues, renewed; an answer is settled until the store has taken it; nothing that a work does, a panic included,
//! stops the queue. On stop calls under way get some seconds to end, and what is left is given back.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use syncline_core::queue::{Answer, CONCURRENCY_MAX};
use syncline_store::queue::{Claimed, Run};
use syncline_store::{MINUTE, minute_before};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::handle::QueueHandle;
use super::{Task, Work};
use crate::store_retry;

/// A queue with something to do is looked at this often, whatever was heard. One with nothing to do, once a minute.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// How long calls under way may take to end when the node stops.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Least time between two looks for calls whose keys were removed.
const CANCEL_EVERY: Duration = Duration::from_millis(500);

/// A run that has ended.
type Answered = (u64, Answer<String>);

/// Works on the queue until told to stop.
pub(super) async fn run(handle: Arc<QueueHandle>, work: Arc<dyn Work>, stop: CancellationToken) {
    let changes = match handle.store.changes(handle.name()) {
        Ok(changes) => changes,
        Err(error) => {
            return tracing::error!(queue = handle.name(), %error, "the changes of a queue cannot be followed; this node does not work on it");
        }
    };
    let give_up = CancellationToken::new();
    let runs = JoinSet::new();
    let (cancels, looked_at, has_news) = (HashMap::new(), Instant::now(), false);
    let mut worker = Worker {
        handle,
        work,
        changes,
        runs,
        cancels,
        looked_at,
        has_news,
        stop,
        give_up,
        store_failures: 0,
    };
    while !worker.stop.is_cancelled() {
        worker.cancel_removed().await;
        let look_at = worker.claim().await;
        worker.wait(look_at).await;
    }
    worker.end().await;
}

struct Worker {
    handle: Arc<QueueHandle>,
    work: Arc<dyn Work>,
    changes: watch::Receiver<u64>,
    runs: JoinSet<Answered>,
    /// Ends each of them before its time.
    cancels: HashMap<u64, CancellationToken>,
    /// When calls whose keys were removed were last looked for, and whether anything has changed since.
    looked_at: Instant,
    has_news: bool,
    stop: CancellationToken,
    /// Cancelled when what still runs is to be given back.
    give_up: CancellationToken,
    /// How often in a row the store has not answered.
    store_failures: u32,
}

impl Worker {
    /// Takes what may be worked on, and tells when to ask again.
    async fn claim(&mut self) -> Instant {
        // Whatever changes from here on is news.
        self.changes.mark_unchanged();
        let usual = Instant::now() + LOOK_AGAIN;
        // How many run at once is the store's to say: it may have been set while the queue runs.
        let free = (CONCURRENCY_MAX as usize).saturating_sub(self.runs.len());
        if free == 0 {
            return usual;
        }
        match self.handle.store.claim(self.handle.name(), &self.handle.rules(), free).await {
            Ok(Claimed { runs, lost, look_at, .. }) => {
                self.store_failures = 0;
                for ended in lost {
                    tracing::warn!(
                        queue = self.handle.name(),
                        key = ended.key,
                        "a run's lease expired without an answer; its node may have died"
                    );
                    self.handle.ended(&ended.key, ended.settled);
                }
                for run in runs {
                    let (handle, work) = (Arc::clone(&self.handle), Arc::clone(&self.work));
                    let cancel = self.give_up.child_token();
                    self.cancels.insert(run.call, cancel.clone());
                    self.runs.spawn(perform(handle, work, run, cancel));
                }
                match look_at {
                    Some(look_at) => look_at.min(usual),
                    None if self.runs.is_empty() => minute_before((Instant::now() + MINUTE).into()).into(),
                    None => usual,
                }
            }
            Err(error) => {
                self.handle.meters.store_errors.increment(1);
                tracing::warn!(queue = self.handle.name(), %error, "keys could not be claimed; it is tried again");
                Instant::now() + self.next_store_pause()
            }
        }
    }

    /// Ends calls whose keys were removed, on whatever node: their answers are not wanted, and their slots are.
    async fn cancel_removed(&mut self) {
        if self.cancels.is_empty() || !self.has_news || self.looked_at.elapsed() < CANCEL_EVERY {
            return;
        }
        (self.looked_at, self.has_news) = (Instant::now(), false);
        let calls: Vec<u64> = self.cancels.keys().copied().collect();
        // What cannot be known now is asked again with the next change.
        let gone = self.handle.store.abandoned(self.handle.name(), &calls).await.unwrap_or_default();
        for call in gone {
            if let Some(cancel) = self.cancels.remove(&call) {
                cancel.cancel();
            }
        }
    }

    /// Waits until there is a reason to claim again, and settles what ended meanwhile.
    async fn wait(&mut self, look_at: Instant) {
        let mut answers = Vec::new();
        let look_at = match self.has_news && !self.cancels.is_empty() {
            true => look_at.min(self.looked_at + CANCEL_EVERY),
            false => look_at,
        };
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep_until(look_at.into()) => {}
            changed = self.changes.changed() => {
                self.has_news = true;
                if changed.is_err() {
                    // The store is closed: nothing will change any more, and claims say so.
                    tokio::time::sleep(store_retry::PAUSE_MAX).await;
                }
            }
            Some(ended) = self.runs.join_next() => answers.extend(ended.ok()),
        }
        self.settle(answers).await;
    }

    /// Settles `answers` and all that are there by now, until the store has taken them.
    async fn settle(&mut self, mut answers: Vec<Answered>) {
        loop {
            while let Some(ended) = self.runs.try_join_next() {
                answers.extend(ended.ok());
            }
            for (call, _) in &answers {
                self.cancels.remove(call);
            }
            if answers.is_empty() {
                return;
            }
            match self.handle.settle(answers.clone()).await {
                Ok(ended) => {
                    self.store_failures = 0;
                    ended.iter().for_each(|ended| self.handle.ended(&ended.key, ended.settled));
                    return;
                }
                Err(error) => {
                    self.handle.meters.store_errors.increment(1);
                    tracing::error!(queue = self.handle.name(), %error, "results could not be stored; it is tried again");
                    let pause = self.next_store_pause();
                    if self.stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                        return;
                    }
                }
            }
        }
    }

    /// Lets calls end and gives back the rest: its keys are first in line again, for whichever node is there.
    async fn end(mut self) {
        let mut answers = Vec::new();
        // Others' results may take long to come, and the next node can wait for them as well.
        let grace = if self.work.waits_for_other_queues() { Duration::ZERO } else { STOP_GRACE };
        let give_up = self.give_up.clone();
        let patience = async {
            tokio::time::sleep(grace).await;
            give_up.cancel();
            std::future::pending::<()>().await;
        };
        let ends = async {
            while let Some(ended) = self.runs.join_next().await {
                answers.extend(ended.ok());
            }
        };
        tokio::select! { () = ends => {}, () = patience => {} }
        if answers.is_empty() {
            return;
        }
        let settled = self.handle.settle(answers);
        match tokio::time::timeout(STOP_GRACE, settled).await {
            Ok(Ok(ended)) => ended.iter().for_each(|ended| self.handle.ended(&ended.key, ended.settled)),
            Ok(Err(error)) => {
                tracing::error!(queue = self.handle.name(), %error, "results could not be stored; their keys run again");
            }
            Err(_) => {
                tracing::error!(
                    queue = self.handle.name(),
                    "results could not be stored; their keys run again"
                );
            }
        }
    }

    fn next_store_pause(&mut self) -> Duration {
        self.store_failures = self.store_failures.saturating_add(1);
        store_retry::pause(self.store_failures)
    }
}

/// Does what a run is for, within its time.
async fn perform(
    handle: Arc<QueueHandle>,
    work: Arc<dyn Work>,
    run: Run,
    give_up: CancellationToken,
) -> Answered {
    if Instant::now() > run.start_by {
        return (run.call, Answer::NotMade);
    }
    let task = Task {
        key: run.key.clone(),
        input: run.input.as_deref().and_then(|input| serde_json::from_str(input).ok()),
        calls: handle.meters.calls.clone(),
    };
    let answer = tokio::select! {
        done = AssertUnwindSafe(work.run(&task)).catch_unwind() => done.unwrap_or_else(|_| {
            tracing::error!(queue = handle.name(), key = run.key, "the work of a queue panicked");
            Answer::Broken { reason: "the work failed inside the node".to_owned(), retry: true, away: false }
        }),
        answer = out_of_time(&handle, &*work, &run) => answer,
        () = give_up.cancelled() => Answer::NotMade,
    };
    let answer = match answer {
        Answer::Broken { reason, away, .. } if run.attempt >= work.failure_attempts() => {
            Answer::Broken { reason, retry: false, away }
        }
        other => other,
    };
    let (queue, key, attempt) = (handle.name(), &run.key, run.attempt);
    match &answer {
        Answer::Refused { reason } | Answer::Broken { reason, .. } | Answer::Returned { reason, .. } => {
            tracing::warn!(queue, key, attempt, reason, "a key got no result");
        }
        Answer::Throttled { retry_after } => {
            let retry_after_sec = retry_after.map(|wait| wait.as_secs());
            tracing::warn!(queue, key, attempt, retry_after_sec, "the API answered 429; the queue pauses");
        }
        Answer::Done(_) | Answer::NotMade => {}
    }
    (run.call, answer)
}

/// Ends when a run has no more time, which for a step is when it cannot be renewed any more.
async fn out_of_time(handle: &QueueHandle, work: &dyn Work, run: &Run) -> Answer<String> {
    let timeout = handle.rules().settings.call_timeout;
    if !work.waits_for_other_queues() {
        tokio::time::sleep_until(run.deadline.into()).await;
        let reason = format!("no answer within {} s", timeout.as_secs_f64());
        return Answer::Broken { reason, retry: true, away: false };
    }
    let mut deadline = run.deadline;
    let mut next = deadline.checked_sub(timeout / 2).unwrap_or(deadline);
    let mut failures = 0;
    loop {
        tokio::time::sleep_until(next.into()).await;
        match handle
            .store
            .renew(handle.name(), &handle.rules(), &[run.call])
            .await
            .map(|renewed| renewed.first().copied())
        {
            Ok(Some(Some(renewed))) => {
                deadline = renewed;
                failures = 0;
                next = deadline.checked_sub(timeout / 2).unwrap_or(deadline);
            }
            // Somebody took it for lost, and may be at it.
            Ok(_) => return Answer::NotMade,
            Err(error) => {
                handle.meters.store_errors.increment(1);
                tracing::warn!(queue = handle.name(), %error, "a run's lease could not be renewed; it is tried again");
                failures += 1;
                next = Instant::now() + store_retry::pause(failures);
                if next >= deadline {
                    return Answer::NotMade;
                }
            }
        }
    }
}
