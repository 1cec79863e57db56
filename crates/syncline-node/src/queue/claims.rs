//! Keys for workers elsewhere: claimed with a lease, ended or extended by its token.
//!
//! Of those who wait for keys of one queue on this node one looks at the store, in order of arrival; the others wait for their
//! turn. So a thousand idle workers cost what one costs.
//!
//! A claim whose caller has hung up is given back: its keys are first in line again. What a caller that died right after has
//! got comes back once its lease is over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use syncline_core::queue::Answer;
use syncline_store::queue::{Ended, Run};
use tokio_util::sync::CancellationToken;

use super::handle::QueueHandle;
use super::{Error, Queues};

/// Who waits for keys looks again after this long even if nobody said that anything changed.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Least time between two looks of one that waits.
const LOOK_LEAST: Duration = Duration::from_millis(1);

/// What a worker asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClaimAsk {
    /// Keys, at most.
    pub(super) max: usize,
    /// How long to wait for the first.
    pub(super) wait: Duration,
    /// How long it may work without a word; the queue's time if absent.
    pub(super) lease: Option<Duration>,
}

impl Queues {
    /// Takes keys for a worker, as soon as there is one that may start. Ends without any when `gone` or `stop` is cancelled.
    pub(super) async fn claim(
        &self,
        name: &str,
        ask: ClaimAsk,
        gone: CancellationToken,
        stop: CancellationToken,
    ) -> Result<Vec<Run>, Error> {
        let handle = self.claimable(name)?;
        // A claim that is dropped halfway may be committed all the same, so it runs to its end, whatever becomes of the request.
        let claiming = tokio::spawn(async move {
            let runs = claim_within(&handle, ask, &gone, &stop).await?;
            if gone.is_cancelled() && !runs.is_empty() {
                let answers = runs.iter().map(|run| (run.call, Answer::NotMade)).collect();
                handle.settle(answers).await?;
                return Ok(Vec::new());
            }
            Ok(runs)
        });
        claiming.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    /// Ends claims with these answers. Those that are not among what comes back are not wanted any more.
    pub(super) async fn settle(
        &self,
        name: &str,
        answers: Vec<(u64, Answer<String>)>,
    ) -> Result<Vec<Ended>, Error> {
        let handle = self.claimable(name)?;
        let ended = handle.settle(answers).await?;
        ended.iter().for_each(|ended| handle.ended(&ended.key, ended.settled));
        Ok(ended)
    }

    /// Lets claims go on: until when each does, `None` for those that are lost.
    pub(super) async fn extend(
        &self,
        name: &str,
        calls: &[u64],
        lease: Option<Duration>,
    ) -> Result<Vec<Option<Instant>>, Error> {
        let handle = self.claimable(name)?;
        Ok(handle.store.renew_for(name, &handle.rules(), calls, lease).await?)
    }

    fn claimable(&self, name: &str) -> Result<Arc<QueueHandle>, Error> {
        let handle = self.handle(name)?;
        if handle.claimable { Ok(handle) } else { Err(Error::NoWorkers { name: name.to_owned() }) }
    }
}

async fn claim_within(
    handle: &QueueHandle,
    ask: ClaimAsk,
    gone: &CancellationToken,
    stop: &CancellationToken,
) -> Result<Vec<Run>, Error> {
    let until = Instant::now() + ask.wait;
    let ended = async {
        tokio::select! {
            () = gone.cancelled() => {}
            () = stop.cancelled() => {}
            () = tokio::time::sleep_until(until.into()) => {}
        }
    };
    tokio::pin!(ended);
    if ask.wait.is_zero() {
        return Ok(claim_now(handle, ask).await?.0);
    }
    let _turn = tokio::select! {
        biased;
        turn = handle.turn.lock() => turn,
        () = &mut ended => return Ok(Vec::new()),
    };
    let mut changes = handle.store.changes(handle.name())?;
    loop {
        changes.mark_unchanged();
        let (runs, look_at) = claim_now(handle, ask).await?;
        if !runs.is_empty() {
            return Ok(runs);
        }
        let look_at =
            look_at.unwrap_or(until).clamp(Instant::now() + LOOK_LEAST, Instant::now() + LOOK_AGAIN);
        tokio::select! {
            () = &mut ended => return Ok(Vec::new()),
            () = tokio::time::sleep_until(look_at.into()) => {}
            changed = changes.changed() => if changed.is_err() {
                // The store is closed: claims say so.
                tokio::time::sleep(LOOK_AGAIN).await;
            },
        }
    }
}

/// What can be had now, and when to look again.
async fn claim_now(handle: &QueueHandle, ask: ClaimAsk) -> Result<(Vec<Run>, Option<Instant>), Error> {
    let claimed = handle.store.claim_for(handle.name(), &handle.rules(), ask.max, ask.lease).await?;
    for ended in claimed.lost {
        tracing::warn!(
            queue = handle.name(),
            key = ended.key,
            "a worker's lease on a key ended without an answer"
        );
        handle.ended(&ended.key, ended.settled);
    }
    Ok((claimed.runs, claimed.look_at))
}
