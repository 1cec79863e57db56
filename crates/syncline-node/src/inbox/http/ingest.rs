//! `POST /api/ingest/sync`: changes from elsewhere, a batch at a time.
//!
//! The answer to the plain contract is `{ "ok": true }`, or an error and nothing is stored. A sender that gives its name and
//! its entries' ids is told of each entry what became of it; that is how it knows which of them to try again.
//!
//! A sender is who it is, not who it says: of a key it is the key's name, of a person the subject.

use std::sync::Arc;

use axum::extract::{Request, State};
use http::StatusCode;
use serde_json::Value;
use serde_json::value::RawValue;
use syncline_core::outbox::{EntryResult, IngestReply, Posted, SenderId};
use utoipa::ToSchema;

use crate::Context;
use crate::access::Principal;
use crate::http::{Caller, Error, body};
use crate::inbox::{Batch, Entities, Refused};
use crate::part::Service;

/// As many payloads as a sender of ours puts into one request, and the words around them.
pub(super) const BODY_MAX_BYTES: usize = 16 * 1024 * 1024;

/// A batch, as described.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes what core's type reads")]
pub(crate) struct SyncBatch {
    /// Who sends it, for results per entry. Of a caller that is not the owner it is the name of its key or its subject;
    /// where it is absent and the entries have ids, that name is filled in.
    sender: Option<String>,
    /// At most 1,000.
    entries: Vec<SyncEntry>,
}

/// One change in it.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes what core's type reads")]
#[schema(rename_all = "camelCase")]
pub(crate) struct SyncEntry {
    /// The sender's number of it, for results per entry.
    id: Option<i64>,
    /// What kind of entity.
    entity_type: String,
    /// Which one.
    entity_id: String,
    /// How it is now; `null` if it is no more.
    payload: Value,
    /// When it was changed, as ISO 8601.
    created_at: String,
}

/// What became of it, as described.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes what core's type writes")]
pub(crate) struct SyncAnswer {
    /// Whether all entries were taken.
    ok: bool,
    /// Of each entry `applied`, `duplicate`, `stale` or `refused` with a `reason`, for a sender that gave its name.
    results: Option<Vec<Value>>,
}

/// Takes a batch of changes. They are durably stored when this answers.
#[utoipa::path(post, path = "/api/ingest/sync", tag = "outbox", request_body = SyncBatch,
    responses((status = 200, body = SyncAnswer), (status = 400), (status = 413), (status = 415), (status = 422)))]
pub(crate) async fn sync(
    State(context): State<Arc<Context>>,
    Service(entities): Service<Entities>,
    Caller(caller): Caller,
    request: Request,
) -> Result<axum::Json<IngestReply>, Error> {
    if !matches!(body::media_type(request.headers()), Some("application/json")) {
        return Err(body::unsupported("send the batch as application/json"));
    }
    let bytes = body::read(request, &context.config.limits).await?;
    if !body::is_object(&bytes) {
        return Err(Error::invalid("invalid-body", "the body must be a JSON object with entries"));
    }
    let mut posted: Posted<Box<RawValue>> =
        serde_json::from_slice(&bytes).map_err(|error| body::not_json(&error))?;
    let named = posted.sender.is_some();
    name_sender(&caller, &mut posted)?;
    let batch = Batch::check(posted, &entities)?;
    let results = entities.apply(batch).await?;
    let ok = results.iter().all(EntryResult::is_taken);
    if let (false, false, Some(reason)) = (named, ok, results.iter().find_map(refusal)) {
        // Whatever the check before let through and the store did not.
        return Err(Error::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", reason.to_owned()));
    }
    Ok(axum::Json(IngestReply { ok, results: named.then_some(results) }))
}

/// Puts the caller's own name where the sender's is, or refuses another one. Entries without ids have no sender.
fn name_sender(caller: &Principal, posted: &mut Posted<Box<RawValue>>) -> Result<(), Error> {
    let Some(subject) = caller.sender.as_ref().map(SenderId::as_str).or(caller.subject()) else {
        return Ok(());
    };
    match &posted.sender {
        Some(said) if said.as_str() != subject => {
            let message = format!("the sender must be {subject}, who calls, and not {}", said.as_str());
            Err(Error::new(StatusCode::FORBIDDEN, "forbidden", message))
        }
        Some(_) => Ok(()),
        None => {
            if posted.entries.iter().all(|entry| entry.id.is_some()) {
                posted.sender = SenderId::new(subject).ok();
            }
            Ok(())
        }
    }
}

fn refusal(result: &EntryResult) -> Option<&str> {
    match result {
        EntryResult::Refused { reason } => Some(reason),
        _ => None,
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        let message = refused.to_string();
        match refused {
            Refused::TooMany { .. } | Refused::Payload { .. } => {
                Error::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
            }
            Refused::Moment { .. } | Refused::Numberless { .. } | Refused::Deep { .. } => {
                Error::invalid("invalid-entry", message)
            }
            Refused::Name { .. } => Error::invalid("invalid-id", message),
            Refused::File { .. } | Refused::Unknown { .. } => {
                Error::new(StatusCode::UNPROCESSABLE_ENTITY, "unknown-type", message)
            }
        }
    }
}
