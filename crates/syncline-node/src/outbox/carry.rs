//! One recording on its way: sent, its receipt stored, its folder deleted, its entry marked, in this order.
//!
//! Whatever dies between two of these steps, the next life goes on with the one that is missing: a receipt that is there says
//! that nothing has to be sent again, and a folder is deleted only if what is in it is what the receipt is of.

use std::sync::Arc;
use std::time::Instant;

use syncline_core::outbox::{Answer, Delivery, Exchange, Item, Verdict};
use syncline_store::outbox::{ClaimId, Entry, Receipt, ReceiptUpdate};
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::flight::Landed;
use super::recording::{Is, Order, Unsendable};
use crate::recording::measure;

/// Carries the recording that `entry` stands for.
pub(super) async fn carry(
    shared: Arc<Shared>,
    claim: ClaimId,
    entry: Entry,
    give_up: CancellationToken,
) -> Landed {
    shared.meters.in_flight.increment(1.0);
    let started = Instant::now();
    let ids = [entry.id];
    let ended = tokio::select! {
        ended = steps(&shared, &entry) => Some(ended),
        () = shared.hold(claim, &ids) => None,
        // A recording may take an hour; nobody who stops wants to wait for it.
        () = give_up.cancelled() => None,
    };
    let (verdict, exchange) = match ended {
        Some(Ok(())) => (Verdict::Done, Exchange::Well { too_large: false }),
        Some(Err(Stopped::Answered(answer))) => judge(&shared, &entry, answer),
        Some(Err(Stopped::Unsendable(Unsendable::Refused(reason)))) => {
            (Verdict::Dead { reason }, Exchange::Well { too_large: false })
        }
        // The operator's fault and no entry's: none can be sent, and none is tried until the pause is over.
        Some(Err(Stopped::Unsendable(unsendable @ Unsendable::NoRoot(_)))) => {
            let down = Exchange::Down { reason: unsendable.to_string(), retry_after: None };
            (Verdict::GiveBack, down)
        }
        Some(Err(Stopped::Unsendable(unsendable))) => failed(&shared, &entry, unsendable.to_string()),
        Some(Err(Stopped::Store(error))) => {
            failed(&shared, &entry, format!("the receipt could not be stored: {error}"))
        }
        None => (Verdict::GiveBack, Exchange::Well { too_large: false }),
    };
    let took_ms = started.elapsed().as_millis() as u64;
    match &verdict {
        Verdict::Done => tracing::info!(entry = entry.id, took_ms, "recording sent and deleted here"),
        Verdict::Retry { reason, .. } | Verdict::Dead { reason } => {
            tracing::warn!(entry = entry.id, took_ms, reason, "recording not sent");
        }
        Verdict::GiveBack => match &exchange {
            Exchange::Down { reason, .. } => {
                tracing::warn!(entry = entry.id, took_ms, reason, "recording given back");
            }
            Exchange::Well { .. } => tracing::debug!(entry = entry.id, took_ms, "recording given back"),
        },
    }
    shared.told(&entry, &verdict);
    shared.settle(claim, &[(entry.id, verdict)], &give_up).await;
    shared.meters.in_flight.decrement(1.0);
    Landed { exchange }
}

/// Why a recording is not safe elsewhere yet.
enum Stopped {
    Answered(Answer),
    Unsendable(Unsendable),
    /// The store answered, and refused.
    Store(syncline_store::Error),
}

impl From<Unsendable> for Stopped {
    fn from(unsendable: Unsendable) -> Stopped {
        Stopped::Unsendable(unsendable)
    }
}

async fn steps(shared: &Arc<Shared>, entry: &Entry) -> Result<(), Stopped> {
    let order = Order::read(&entry.entity_id, &entry.payload)?;
    let stored = shared.persist("receipt", || shared.outbox.receipt(entry.id)).await;
    let sent = match stored.map_err(Stopped::Store)? {
        Some(receipt) => verified(shared, &order, receipt).await?,
        None => match send(shared, entry, &order).await {
            Ok(sent) => Some(sent),
            // An application may queue a recording twice: what another entry has sent is done.
            Err(Stopped::Unsendable(Unsendable::Gone(name))) => {
                let recording = order.recording.as_str();
                let elsewhere = shared.persist("receipt", || shared.outbox.receipt_of(recording)).await;
                return match elsewhere.map_err(Stopped::Store)? {
                    Some(_) => Ok(()),
                    None => Err(Unsendable::Gone(name).into()),
                };
            }
            Err(other) => return Err(other),
        },
    };
    let root = shared.recordings.clone();
    blocking(move || order.delete(&root, sent)).await?;
    shared.meters.uploads.increment(1);
    Ok(())
}

/// Sends the recording and stores the receipt.
async fn send(shared: &Arc<Shared>, entry: &Entry, order: &Order) -> Result<Is, Stopped> {
    let (root, opening) = (shared.recordings.clone(), order.clone());
    let (files, watched) = blocking(move || {
        let files = opening.open(&root)?;
        let watched = files.audio.try_clone().map_err(|error| Unsendable::Failed(error.to_string()))?;
        Ok((files, watched))
    })
    .await?;
    let before = files.is;
    let (receipt, sent) =
        shared.sender.upload(order, files, shared.timeout).await.map_err(Stopped::Answered)?;
    let after =
        blocking(move || Is::of(&watched).map_err(|error| Unsendable::Failed(error.to_string()))).await?;
    if after != before {
        let reason = format!("{} changed while it was sent", order.folder);
        return Err(Unsendable::Failed(reason).into());
    }
    let receipt = Receipt {
        entry: entry.id,
        file_id: order.recording.as_str().to_owned(),
        file_url: receipt.file_url,
        bytes: sent.length,
        sha256: sent.sha256,
    };
    let update = ReceiptUpdate {
        table: "recordings".to_owned(),
        id_column: "id".to_owned(),
        set: vec![
            ("upload_status".to_owned(), "uploaded".into()),
            ("s3_url".to_owned(), receipt.file_url.as_str().into()),
        ],
    };
    let stored = || shared.outbox.store_receipt(&receipt, Some(&update));
    shared.persist("receipt", stored).await.map_err(Stopped::Store)?;
    Ok(before)
}

/// What is still here of a recording whose receipt was stored in an earlier life: that very recording, or nothing.
async fn verified(shared: &Arc<Shared>, order: &Order, receipt: Receipt) -> Result<Option<Is>, Stopped> {
    let (root, order) = (shared.recordings.clone(), order.clone());
    let found = blocking(move || match order.audio(&root)? {
        None => Ok(None),
        Some(audio) => {
            let is = Is::of(&audio).map_err(|error| Unsendable::Failed(error.to_string()))?;
            let measured = measure(audio).map_err(|error| Unsendable::Failed(error.to_string()))?;
            if measured != (receipt.bytes, receipt.sha256) {
                let reason = format!("{} holds another recording than the one that was sent", order.folder);
                return Err(Unsendable::Refused(reason));
            }
            Ok(Some(is))
        }
    });
    Ok(found.await?)
}

/// A failure of the entry's own, with a pause that grows.
fn failed(shared: &Shared, entry: &Entry, reason: String) -> (Verdict, Exchange) {
    let verdict = Verdict::of_failure(&shared.policy, entry.attempts, reason, None, true, rand::random());
    (verdict, Exchange::Well { too_large: false })
}

/// What an answer means for an entry that was sent alone.
fn judge(shared: &Shared, entry: &Entry, answer: Answer) -> (Verdict, Exchange) {
    let item =
        Item { entity_type: &entry.entity_type, entity_id: &entry.entity_id, attempts: entry.attempts };
    let mut delivery = Delivery::new([item]);
    delivery.next();
    delivery.answered(answer);
    let (mut verdicts, exchange) = delivery.finish(&shared.policy, rand::random::<f64>);
    (verdicts.pop().unwrap_or(Verdict::GiveBack), exchange)
}

/// Runs what waits for the disk where nothing else has to wait for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Unsendable> + Send + 'static,
) -> Result<T, Unsendable> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Unsendable::Failed(error.to_string())),
    }
}
