//! Sends one batch of entries: posts it, splits it where that fails, and settles it in the store.
//!
//! Core says which requests to make and what their answers mean ([`Delivery`]); this makes them. The claim's lease is
//! renewed meanwhile. When the worker gives up, entries without an answer are given back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use syncline_core::outbox::{Answer, Candidate, Delivery, Posted, PostedEntry, ReceiverState, Verdict};
use syncline_store::outbox::{ClaimId, Entry, Kind};
use tokio_util::sync::CancellationToken;

use super::shared::Shared;
use super::webhook;
use crate::clock;

/// What a batch came to.
struct BatchOutcome {
    /// What becomes of each entry, in order. Empty if the claim was lost.
    verdicts: Vec<(i64, Verdict)>,
    receiver: ReceiverState,
    requests: usize,
}

/// Sends the entries of a claim and settles them; what that showed of the receiver.
pub(super) async fn send_batch(
    shared: Arc<Shared>,
    kind: Kind,
    claim: ClaimId,
    entries: Vec<Entry>,
    give_up: CancellationToken,
) -> ReceiverState {
    shared.meters.in_flight.increment(entries.len() as f64);
    let started = Instant::now();
    let ids: Vec<i64> = entries.iter().map(|entry| entry.id).collect();
    let outcome = tokio::select! {
        outcome = deliver(&shared, kind, &entries, &give_up) => outcome,
        // Another worker has them by now. The receiver recognises what it is sent twice.
        () = shared.renew_claim(claim, &ids) => BatchOutcome {
            verdicts: Vec::new(),
            receiver: ReceiverState::Up { too_large: false },
            requests: 0,
        },
    };
    let took = started.elapsed();
    shared.meters.batch.record(took);
    log_outcome(&outcome, took);
    for ((_, verdict), entry) in outcome.verdicts.iter().zip(&entries) {
        shared.record_outcome(entry, verdict);
    }
    shared.settle(claim, &outcome.verdicts, &give_up).await;
    shared.meters.in_flight.decrement(entries.len() as f64);
    outcome.receiver
}

async fn deliver(
    shared: &Shared,
    kind: Kind,
    entries: &[Entry],
    give_up: &CancellationToken,
) -> BatchOutcome {
    let payloads: Vec<Option<Box<RawValue>>> = entries.iter().map(payload).collect();
    let sendable: Vec<usize> = (0..entries.len()).filter(|place| payloads[*place].is_some()).collect();
    let mut delivery = Delivery::new(sendable.iter().map(|place| {
        let entry = &entries[*place];
        candidate(entry)
    }));
    if shared.sender.is_webhook() {
        delivery = delivery.one_by_one();
    }
    let mut requests = 0;
    while let Some(request) = delivery.next() {
        requests += 1;
        let places: Vec<usize> = request.iter().map(|n| sendable[*n]).collect();
        let answer = tokio::select! {
            answer = send(shared, entries, &payloads, &places) => answer,
            () = give_up.cancelled() => break,
        };
        tracing::debug!(entries = request.len(), ?answer, "request answered");
        if let (1, Answer::Failed { reason, .. }) = (requests, &answer) {
            // What follows may take long: each entry is tried alone. Somebody who looks at the log should not wait for that.
            tracing::warn!(
                entries = request.len(),
                reason,
                "the receiver failed; the entries are tried one by one"
            );
        }
        delivery.answered(answer);
    }
    let (verdicts, receiver) = {
        let mut evidence = shared.evidence(kind);
        delivery.finish(&shared.policy, &mut evidence, clock::now(), rand::random::<f64>)
    };
    let mut verdicts = verdicts.into_iter();
    let verdicts = entries.iter().zip(&payloads).map(|(entry, payload)| {
        let verdict = match payload {
            Some(_) => verdicts.next().unwrap_or(Verdict::GiveBack),
            None => Verdict::Dead { reason: "the payload is no JSON".to_owned() },
        };
        (entry.id, verdict)
    });
    BatchOutcome { verdicts: verdicts.collect(), receiver, requests }
}

/// Makes one request with the entries at these places.
async fn send(
    shared: &Shared,
    entries: &[Entry],
    payloads: &[Option<Box<RawValue>>],
    places: &[usize],
) -> Answer {
    let written = "text and numbers can always be written";
    if let (true, [place]) = (shared.sender.is_webhook(), places) {
        let entry = &entries[*place];
        let body = webhook::Body {
            kind: &entry.entity_type,
            timestamp: entry.created_at.to_string(),
            data: webhook::Data { entity_id: &entry.entity_id, payload: &payloads[*place] },
        };
        let body = serde_json::to_string(&body).expect(written);
        let id = format!("{}-{}", shared.sender_id.as_str(), entry.id);
        return shared.sender.webhook(&id, body, shared.timeout).await;
    }
    let plain = shared.sender.is_plain();
    let posted = Posted {
        sender: (!plain).then(|| shared.sender_id.clone()),
        entries: places.iter().map(|place| posted(&entries[*place], &payloads[*place], plain)).collect(),
    };
    let body = serde_json::to_string(&posted).expect(written);
    shared.sender.sync(body, places.len(), shared.timeout).await
}

/// The entry as core judges it.
pub(super) fn candidate(entry: &Entry) -> Candidate<(&str, &str)> {
    let Entry { id, entity_type, entity_id, attempts, failed_before, .. } = entry;
    Candidate {
        id: *id,
        entity: (entity_type, entity_id),
        attempts: *attempts,
        failed_before: *failed_before,
    }
}

/// The payload as it was written. Applications insert by themselves, so it may be anything.
fn payload(entry: &Entry) -> Option<Box<RawValue>> {
    RawValue::from_string(entry.payload.clone()).ok()
}

fn posted<'a>(
    entry: &Entry,
    payload: &'a Option<Box<RawValue>>,
    plain: bool,
) -> PostedEntry<&'a Option<Box<RawValue>>> {
    PostedEntry {
        id: (!plain).then_some(entry.id),
        entity_type: entry.entity_type.clone(),
        entity_id: entry.entity_id.clone(),
        payload,
        created_at: entry.created_at.to_string(),
    }
}

/// Logs one line for a batch.
fn log_outcome(outcome: &BatchOutcome, took: Duration) {
    let BatchOutcome { verdicts, receiver, requests } = outcome;
    let count = |which: fn(&Verdict) -> bool| verdicts.iter().filter(|(_, verdict)| which(verdict)).count();
    let sent = count(|verdict| *verdict == Verdict::Done);
    let failed = count(|verdict| !matches!(verdict, Verdict::Done | Verdict::GiveBack));
    let took_ms = took.as_millis() as u64;
    match receiver {
        ReceiverState::Down { reason, .. } => {
            tracing::warn!(sent, failed, requests, took_ms, reason, "the front end does not take anything");
        }
        ReceiverState::Doubtful { reason } => {
            let message = "the front end failed on all of it, which may be its fault or the entries'";
            tracing::warn!(failed, requests, took_ms, reason, message);
        }
        ReceiverState::Up { .. } if failed > 0 => {
            // One reason stands for all: each entry's own is in the outbox.
            let reason = verdicts.iter().find_map(|(_, verdict)| match verdict {
                Verdict::Retry { reason, .. }
                | Verdict::Postpone { reason, .. }
                | Verdict::Dead { reason } => Some(reason.as_str()),
                Verdict::Done | Verdict::GiveBack => None,
            });
            tracing::warn!(sent, failed, requests, took_ms, reason, "batch sent, not all of it taken");
        }
        ReceiverState::Up { .. } => tracing::info!(sent, requests, took_ms, "batch sent"),
    }
}
