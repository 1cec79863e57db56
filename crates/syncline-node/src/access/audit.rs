//! The audit of a node: what cannot be undone is recorded with it, refusals are gathered and recorded in the background.
//!
//! Guarantees: an action that cannot be undone has a row before it begins, and an action whose row cannot be written is not
//! done. A refusal costs the door a map entry and no I/O; what is left out of the audit is counted
//! (`syncline_audit_dropped_total`).

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::Counter;
use serde_json::json;
use syncline_core::access::refusals::Refusals;
use syncline_store::Error;
use syncline_store::access::AccessStore;
use syncline_store::access::audit::{AuditAsked, AuditPage, AuditRecord, Outcome, STEP_MAX};
use tokio_util::sync::CancellationToken;

use super::Principal;
use crate::NodeId;
use crate::address::network;
use crate::clock;
use crate::events::Bus;
use crate::log_throttle::LogThrottle;
use crate::metrics::Registry;

/// How often refusals that wait are written.
const WRITE_EVERY: Duration = Duration::from_secs(2);

/// The topic and the name of events about new rows.
pub(super) const TOPIC: &str = "audit";

/// The audit of one node. A clone is the same.
#[derive(Clone)]
pub(crate) struct AuditLog(Arc<Shared>);

struct Shared {
    store: AccessStore,
    node: String,
    refusals: Mutex<Refusals<Refused>>,
    events: Bus,
    dropped: Counter,
    failed: LogThrottle,
}

/// Who acts, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Who {
    kind: &'static str,
    name: String,
    subject: Option<String>,
    address: Option<IpAddr>,
    origin: Option<String>,
}

/// What is done to which thing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct What {
    pub(crate) system: String,
    pub(crate) verb: String,
    /// Empty where there is none in particular.
    pub(crate) thing: String,
    /// By which operation, as in `DELETE /api/keys/{name}`.
    pub(crate) action: String,
}

/// A refusal; those that are alike are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Refused {
    who: Who,
    what: What,
    code: &'static str,
}

/// Something that was begun and is to be settled. Where nothing is recorded it is empty.
#[must_use = "what was begun is to be settled"]
pub(crate) struct PendingRecord(Option<(AuditLog, i64)>);

impl Who {
    /// The principal behind a request, nobody if there is none.
    pub(crate) fn new(principal: Option<&Principal>, address: Option<IpAddr>, origin: Option<String>) -> Who {
        Who {
            kind: principal.map_or("nobody", |principal| principal.kind.as_str()),
            name: principal.map_or("nobody", |principal| &principal.name).to_owned(),
            subject: principal.and_then(Principal::subject).map(str::to_owned),
            address,
            origin,
        }
    }

    /// A name for records that have room for one.
    pub(crate) fn short(&self) -> String {
        match &self.subject {
            Some(subject) if *subject != self.name => format!("{}/{subject}", self.name),
            _ => self.name.clone(),
        }
    }
}

impl AuditLog {
    pub(super) fn new(store: AccessStore, node: &NodeId, events: Bus, registry: &Registry) -> AuditLog {
        let help = "Refusals that the audit had no room for.";
        AuditLog(Arc::new(Shared {
            store,
            node: node.as_str().to_owned(),
            refusals: Mutex::default(),
            events,
            dropped: registry.counter("syncline_audit_dropped_total", help, &[]),
            failed: LogThrottle::default(),
        }))
    }

    /// Records what cannot be undone before it is done.
    pub(crate) async fn begin(&self, who: &Who, what: &What) -> Result<PendingRecord, Error> {
        let record = self.record_of(who, what, Outcome::Begun, "", 1);
        let id = self.0.store.begin(record).await?;
        Ok(PendingRecord(Some((self.clone(), id))))
    }

    /// Notes a refusal. It is written later, together with those alike.
    pub(crate) fn refused(&self, mut who: Who, what: What, code: &'static str) {
        // Who moves within one network is one caller.
        who.address = who.address.map(network);
        self.refusals().note(Refused { who, what, code });
    }

    pub(super) async fn page(&self, asked: AuditAsked) -> Result<AuditPage, Error> {
        self.0.store.page(asked).await
    }

    /// Writes refusals until `halt`, and those that are left then.
    pub(super) async fn write_refusals(self, halt: CancellationToken) {
        let mut every = tokio::time::interval(WRITE_EVERY);
        while halt.run_until_cancelled(every.tick()).await.is_some() {
            self.write().await;
        }
        self.write().await;
    }

    /// Writes what may be written now.
    pub(super) async fn write(&self) {
        let (mut taken, dropped) = {
            let mut refusals = self.refusals();
            (refusals.take(clock::now()), refusals.take_dropped())
        };
        self.0.dropped.increment(dropped);
        taken.truncate(STEP_MAX);
        if taken.is_empty() {
            return;
        }
        let record = |(refused, count): &(Refused, u64)| {
            self.record_of(&refused.who, &refused.what, Outcome::Refused, refused.code, *count)
        };
        let records: Vec<AuditRecord> = taken.iter().map(record).collect();
        match self.0.store.record(records).await {
            Ok(()) => self.told(),
            Err(error) => {
                self.refusals().put_back(taken);
                if let Some(count) = self.0.failed.due() {
                    tracing::warn!(%error, count, "refusals could not be recorded; they are tried again");
                }
            }
        }
    }

    fn record_of(&self, who: &Who, what: &What, outcome: Outcome, code: &str, count: u64) -> AuditRecord {
        AuditRecord {
            node: self.0.node.clone(),
            kind: who.kind,
            name: who.name.clone(),
            subject: who.subject.clone(),
            system: what.system.clone(),
            verb: what.verb.clone(),
            thing: what.thing.clone(),
            action: what.action.clone(),
            address: who.address.map(|address| address.to_string()),
            origin: who.origin.clone(),
            outcome,
            code: code.to_owned(),
            count,
        }
    }

    fn told(&self) {
        self.0.events.publish(TOPIC, &json!({}));
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals<Refused>> {
        self.0.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingRecord {
    /// Of a node that records nothing.
    pub(crate) const NONE: PendingRecord = PendingRecord(None);

    /// It was done, or it failed with this code. A word that does not get through leaves the row as begun.
    pub(crate) async fn settle(self, failed: Option<&str>) {
        let Some((log, id)) = self.0 else { return };
        let outcome = if failed.is_some() { Outcome::Failed } else { Outcome::Done };
        match log.0.store.settle(id, outcome, failed.unwrap_or_default()).await {
            Ok(()) => log.told(),
            Err(error) => {
                if let Some(count) = log.0.failed.due() {
                    tracing::warn!(%error, id, count, "the audit does not know how an action ended");
                }
            }
        }
    }
}
