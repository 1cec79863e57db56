//! Uploads one file: sends it, stores its receipt, removes it where its kind says so, and settles its entry, in this order.
//!
//! A process that dies between two of these steps is followed by one that goes on with the missing step: a stored receipt
//! says that nothing has to be sent again, and a file is removed only if it is the one that the receipt is of.

use std::sync::Arc;
use std::time::{Duration, Instant};

use syncline_core::outbox::{Answer, Delivery, ReceiverState, Verdict};
use syncline_store::Error;
use syncline_store::outbox::{ClaimId, Entry, Kind, Receipt, ReceiptUpdate};
use tokio_util::sync::CancellationToken;

use super::batch::candidate;
use super::file::{FileIdentity, Unsendable, UploadJob, measure};
use super::kind::{AfterReceipt, FileKind};
use super::sender::UploadFailure;
use super::shared::Shared;
use crate::clock;

/// Uploads the file of the kind that `entry` stands for and settles the entry; what that showed of the receiver.
pub(super) async fn upload_file(
    shared: Arc<Shared>,
    claim: ClaimId,
    kind: Arc<FileKind>,
    entry: Entry,
    give_up: CancellationToken,
) -> ReceiverState {
    shared.meters.in_flight.increment(1.0);
    let started = Instant::now();
    let ids = [entry.id];
    let ended = tokio::select! {
        ended = steps(&shared, &kind, &entry) => Some(ended),
        () = shared.renew_claim(claim, &ids) => None,
        // A file may take an hour; an operator who stops the worker does not wait for it.
        () = give_up.cancelled() => None,
    };
    let (verdict, receiver) = match ended {
        Some(Ok(())) => judge_answer(&shared, &entry, Answer::Accepted),
        Some(Err(stopped)) => judge(&shared, &entry, stopped),
        None => (Verdict::GiveBack, UP),
    };
    log_outcome(&entry, &verdict, &receiver, started.elapsed());
    shared.record_outcome(&entry, &verdict);
    shared.settle(claim, &[(entry.id, verdict)], &give_up).await;
    shared.meters.in_flight.decrement(1.0);
    receiver
}

const UP: ReceiverState = ReceiverState::Up { too_large: false };

/// Why a file is not safe at the receiver yet.
enum Stopped {
    /// The receiver did not take it.
    NotTaken(UploadFailure),
    Unsendable(Unsendable),
    /// The store answered, and refused.
    Store(Error),
}

impl From<Unsendable> for Stopped {
    fn from(unsendable: Unsendable) -> Stopped {
        Stopped::Unsendable(unsendable)
    }
}

async fn steps(shared: &Arc<Shared>, kind: &Arc<FileKind>, entry: &Entry) -> Result<(), Stopped> {
    let job = UploadJob::read(kind, &entry.entity_id, &entry.payload)?;
    let stored = shared.ask_until_answered("receipt", || shared.outbox.receipt(entry.id)).await;
    let sent = match stored.map_err(Stopped::Store)? {
        Some(receipt) => verify(&job, receipt).await?,
        None => match send(shared, entry, &job).await {
            Ok(sent) => Some(sent),
            // An application may queue a file twice: what another entry has sent is done.
            Err(Stopped::Unsendable(Unsendable::Gone(_))) if sent_before(shared, entry, &job).await? => {
                return Ok(());
            }
            Err(other) => return Err(other),
        },
    };
    blocking(move || job.clean_up(sent)).await?;
    shared.meters.uploads.increment(1);
    Ok(())
}

/// Sends the file and stores the receipt.
async fn send(shared: &Arc<Shared>, entry: &Entry, job: &UploadJob) -> Result<FileIdentity, Stopped> {
    let opening = job.clone();
    let (open, watched) = blocking(move || {
        let open = opening.open()?;
        let watched = open.file.try_clone().map_err(|error| Unsendable::Failed(error.to_string()))?;
        Ok((open, watched))
    })
    .await?;
    let before = open.identity;
    let receipt = shared.sender.upload(job, open, shared.timeout).await.map_err(Stopped::NotTaken)?;
    let after =
        blocking(move || FileIdentity::of(&watched).map_err(|error| Unsendable::Failed(error.to_string())));
    if after.await? != before {
        let reason = format!("{} changed while it was sent", job.path().join("/"));
        return Err(Unsendable::Failed(reason).into());
    }
    let receipt = Receipt {
        entry: entry.id,
        file_id: job.id.clone(),
        file_url: receipt.file_url,
        bytes: receipt.length,
        sha256: receipt.sha256,
    };
    store_receipt(shared, job, &receipt).await?;
    Ok(before)
}

/// Stores the receipt, and in the same transaction what it changes in the application's tables.
async fn store_receipt(shared: &Shared, job: &UploadJob, receipt: &Receipt) -> Result<(), Stopped> {
    let columns = job.receipt_columns(&receipt.file_url, receipt.bytes, &receipt.sha256)?;
    let update = job.kind.receipt.as_ref().zip(columns).map(|(rule, columns)| ReceiptUpdate {
        table: rule.table.clone(),
        id_column: rule.id_column.clone(),
        set: columns.into_iter().map(|(column, value)| (column, value.as_str().into())).collect(),
    });
    let storing = || shared.outbox.store_receipt(receipt, update.as_ref());
    shared.ask_until_answered("receipt", storing).await.map_err(Stopped::Store)
}

/// Whether another entry of the same type has sent the file: its receipt is there.
async fn sent_before(shared: &Shared, entry: &Entry, job: &UploadJob) -> Result<bool, Stopped> {
    let asking = || shared.outbox.receipt_of(&job.id);
    let Some(receipt) = shared.ask_until_answered("receipt", asking).await.map_err(Stopped::Store)? else {
        return Ok(false);
    };
    let asking = || shared.outbox.entry(receipt.entry);
    let other = shared.ask_until_answered("entry", asking).await.map_err(Stopped::Store)?;
    // Two kinds may give the same id to different files. Entries that were sent long ago are no longer there.
    Ok(other.is_none_or(|(other, _)| other.entity_type == entry.entity_type))
}

/// The local file, if its receipt was stored by an earlier process: the file that was sent, or none.
async fn verify(job: &UploadJob, receipt: Receipt) -> Result<Option<FileIdentity>, Stopped> {
    if job.kind.after_receipt == AfterReceipt::Keep {
        return Ok(None);
    }
    let job = job.clone();
    let found = blocking(move || match job.open_again()? {
        None => Ok(None),
        Some(file) => {
            let failed = |error: std::io::Error| Unsendable::Failed(error.to_string());
            let identity = FileIdentity::of(&file).map_err(failed)?;
            if measure(file).map_err(failed)? != (receipt.bytes, receipt.sha256) {
                let reason = format!("{} is another file than the one that was sent", job.path().join("/"));
                return Err(Unsendable::Refused(reason));
            }
            Ok(Some(identity))
        }
    });
    Ok(found.await?)
}

/// What becomes of an entry whose file is not safe at the receiver.
fn judge(shared: &Shared, entry: &Entry, stopped: Stopped) -> (Verdict, ReceiverState) {
    match stopped {
        Stopped::NotTaken(UploadFailure::Answered(answer)) => judge_answer(shared, entry, answer),
        Stopped::NotTaken(UploadFailure::NoSuchPath { reason })
        | Stopped::Unsendable(Unsendable::NoFolder(reason)) => kind_is_down(shared, entry, reason),
        Stopped::Unsendable(Unsendable::Refused(reason)) => (Verdict::Dead { reason }, UP),
        Stopped::Unsendable(unsendable) => failed(shared, entry, unsendable.to_string(), true),
        Stopped::Store(error) => {
            failed(shared, entry, format!("the receipt could not be stored: {error}"), true)
        }
    }
}

/// What becomes of an entry whose file the receiver has answered.
fn judge_answer(shared: &Shared, entry: &Entry, answer: Answer) -> (Verdict, ReceiverState) {
    let mut delivery = Delivery::new([candidate(entry)]);
    delivery.next();
    delivery.answered(answer);
    let mut evidence = shared.evidence(Kind::File);
    let (mut verdicts, receiver) =
        delivery.finish(&shared.policy, &mut evidence, clock::now(), rand::random::<f64>);
    (verdicts.pop().unwrap_or(Verdict::GiveBack), receiver)
}

/// No file of this kind can be sent, which is no entry's fault. Where it is the only kind, all files wait, and no attempt is
/// counted. Where there are others, this entry waits longer and longer, and never dies of it, while the others are sent.
fn kind_is_down(shared: &Shared, entry: &Entry, reason: String) -> (Verdict, ReceiverState) {
    match shared.files.len() {
        0 | 1 => (Verdict::GiveBack, ReceiverState::Down { reason, retry_after: None }),
        _ => failed(shared, entry, reason, false),
    }
}

/// A failure of the entry, with a pause that grows. `final_one` tells whether too many of them make it a dead letter.
fn failed(shared: &Shared, entry: &Entry, reason: String, final_one: bool) -> (Verdict, ReceiverState) {
    let random = rand::random();
    match Verdict::of_failure(&shared.policy, entry.attempts, reason.clone(), None, true, random) {
        Verdict::Dead { .. } if !final_one => {
            (Verdict::Postpone { after: shared.policy.max_delay, reason }, UP)
        }
        verdict => (verdict, UP),
    }
}

fn log_outcome(entry: &Entry, verdict: &Verdict, receiver: &ReceiverState, took: Duration) {
    let (id, kind, took_ms) = (entry.id, entry.entity_type.as_str(), took.as_millis() as u64);
    match (verdict, receiver) {
        (Verdict::Done, _) => tracing::info!(entry = id, kind, took_ms, "file sent"),
        (Verdict::Retry { reason, .. } | Verdict::Postpone { reason, .. } | Verdict::Dead { reason }, _) => {
            tracing::warn!(entry = id, kind, took_ms, reason, "file not sent");
        }
        (Verdict::GiveBack, ReceiverState::Down { reason, .. }) => {
            tracing::warn!(entry = id, kind, took_ms, reason, "file not sent, its entry is given back");
        }
        (Verdict::GiveBack, ReceiverState::Up { .. } | ReceiverState::Doubtful { .. }) => {
            tracing::debug!(entry = id, kind, took_ms, "file not sent, its entry is given back");
        }
    }
}

/// Runs work that waits for the disk where nothing else has to wait for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Unsendable> + Send + 'static,
) -> Result<T, Unsendable> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Unsendable::Failed(error.to_string())),
    }
}
