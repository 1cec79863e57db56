//! One batch of changes on its way: sent, split where that fails, and settled in the store.
//!
//! Which requests to make and what their answers mean is core's to say ([`Delivery`]); this makes them. While it does, the
//! claim's lease is renewed; told to give up, it gives back what has no answer yet.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use syncline_core::outbox::{Delivery, Exchange, Item, Posted, PostedEntry, Verdict};
use syncline_store::outbox::{Claimed, Entry};
use tokio_util::sync::CancellationToken;

use super::Shared;

/// What came of a flight.
#[derive(Debug)]
pub(super) struct Landed {
    pub(super) exchange: Exchange,
}

/// Sends what was claimed and settles it.
pub(super) async fn fly(shared: Arc<Shared>, claimed: Claimed, give_up: CancellationToken) -> Landed {
    let Claimed { claim, entries, .. } = claimed;
    shared.meters.in_flight.increment(entries.len() as f64);
    let started = Instant::now();
    let ids: Vec<i64> = entries.iter().map(|entry| entry.id).collect();
    let (verdicts, exchange, requests) = tokio::select! {
        delivered = deliver(&shared, &entries, &give_up) => delivered,
        () = shared.hold(claim, &ids) => {
            // Somebody else has them by now; what the receiver took twice, it knows.
            (Vec::new(), Exchange::Well { too_large: false }, 0)
        }
    };
    let took = started.elapsed();
    shared.meters.batch.record(took);
    tell(&verdicts, &exchange, requests, took);
    for ((_, verdict), entry) in verdicts.iter().zip(&entries) {
        shared.told(entry, verdict);
    }
    shared.settle(claim, &verdicts, &give_up).await;
    shared.meters.in_flight.decrement(entries.len() as f64);
    Landed { exchange }
}

type Delivered = (Vec<(i64, Verdict)>, Exchange, usize);

async fn deliver(shared: &Shared, entries: &[Entry], give_up: &CancellationToken) -> Delivered {
    let payloads: Vec<Option<Box<RawValue>>> = entries.iter().map(payload).collect();
    let sendable: Vec<usize> = (0..entries.len()).filter(|place| payloads[*place].is_some()).collect();
    let items = sendable.iter().map(|place| {
        let entry = &entries[*place];
        Item { entity_type: &entry.entity_type, entity_id: &entry.entity_id, attempts: entry.attempts }
    });
    let mut delivery = Delivery::new(items);
    let mut requests = 0;
    while let Some(request) = delivery.next() {
        requests += 1;
        let posted = Posted {
            sender: Some(shared.sender_id.clone()),
            entries: request
                .iter()
                .map(|n| posted(&entries[sendable[*n]], &payloads[sendable[*n]]))
                .collect(),
        };
        let body = serde_json::to_string(&posted).expect("text and numbers can always be written");
        let answer = tokio::select! {
            answer = shared.sender.sync(body, request.len(), shared.timeout) => answer,
            () = give_up.cancelled() => break,
        };
        tracing::debug!(entries = request.len(), ?answer, "request answered");
        delivery.answered(answer);
    }
    let (verdicts, exchange) = delivery.finish(&shared.policy, rand::random::<f64>);
    let mut verdicts = verdicts.into_iter();
    let verdicts = entries.iter().zip(&payloads).map(|(entry, payload)| {
        let verdict = match payload {
            Some(_) => verdicts.next().unwrap_or(Verdict::GiveBack),
            None => Verdict::Dead { reason: "the payload is no JSON".to_owned() },
        };
        (entry.id, verdict)
    });
    (verdicts.collect(), exchange, requests)
}

/// The payload as it was written. Applications insert by themselves, so it may be anything.
fn payload(entry: &Entry) -> Option<Box<RawValue>> {
    RawValue::from_string(entry.payload.clone()).ok()
}

fn posted<'a>(entry: &Entry, payload: &'a Option<Box<RawValue>>) -> PostedEntry<&'a Option<Box<RawValue>>> {
    PostedEntry {
        id: Some(entry.id),
        entity_type: entry.entity_type.clone(),
        entity_id: entry.entity_id.clone(),
        payload,
        created_at: entry.created_at.to_string(),
    }
}

/// One line for a batch.
fn tell(verdicts: &[(i64, Verdict)], exchange: &Exchange, requests: usize, took: Duration) {
    let count = |which: fn(&Verdict) -> bool| verdicts.iter().filter(|(_, verdict)| which(verdict)).count();
    let sent = count(|verdict| *verdict == Verdict::Done);
    let failed = count(|verdict| matches!(verdict, Verdict::Retry { .. } | Verdict::Dead { .. }));
    let took_ms = took.as_millis() as u64;
    match exchange {
        Exchange::Down { reason, .. } => {
            tracing::warn!(sent, failed, requests, took_ms, reason, "the front end does not take anything");
        }
        Exchange::Well { .. } if failed > 0 => {
            // One reason stands for all: each entry's own is in the outbox.
            let reason = verdicts.iter().find_map(|(_, verdict)| match verdict {
                Verdict::Retry { reason, .. } | Verdict::Dead { reason } => Some(reason.as_str()),
                Verdict::Done | Verdict::GiveBack => None,
            });
            tracing::warn!(sent, failed, requests, took_ms, reason, "batch sent, not all of it taken");
        }
        Exchange::Well { .. } => tracing::info!(sent, requests, took_ms, "batch sent"),
    }
}
