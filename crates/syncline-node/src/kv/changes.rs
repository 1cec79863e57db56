//! Conditional changes of keys over HTTP: `If-Match`, `If-None-Match: *`, increments, and several keys in one request.
//!
//! A version is an `ETag`. A condition that does not hold is answered with 412 `changed-meanwhile` and the version that was found, as
//! in `/api/state`. A batch is one transaction: everything in it is done, or nothing.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::json;
use syncline_core::kv::{BATCH_MAX, Condition, Key, NotAdded, Version};
use syncline_store::kv::{Applied, Entry, Operation, Refusal, Refused};
use utoipa::ToSchema;

use super::http::{readable, ttl, writable};
use super::{ReservedKeys, Stored};
use crate::Context;
use crate::http::body::{Json, Path};
use crate::http::{Caller, Error};
use crate::part::Service;

/// How much to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(example = json!({ "by": 1, "ttlSec": 60 }))]
pub(crate) struct Increment {
    /// A whole number, 1 if absent; may be negative.
    #[serde(default = "one")]
    by: i64,
    /// How long a key lives that was not there. One that is there keeps its time to live.
    #[serde(alias = "ttl_sec")]
    ttl_sec: Option<f64>,
}

fn one() -> i64 {
    1
}

/// Several things to do at once.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "operations": [
    { "op": "get", "key": "greeting" },
    { "op": "put", "key": "owner:7", "value": "ann", "ifAbsent": true },
    { "op": "increment", "key": "visits", "by": 1 } ] }))]
pub(crate) struct KeyBatch {
    /// Up to 128, each of a key; all of them are done, or none.
    operations: Vec<KeyOperation>,
}

/// One of them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(tag = "op", rename_all = "lowercase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub(crate) enum KeyOperation {
    /// Read a key.
    Get {
        /// Which.
        key: String,
    },
    /// Set a key.
    Put {
        /// Which.
        key: String,
        /// To what.
        value: String,
        /// For how long; for ever if absent.
        ttl_sec: Option<f64>,
        /// Only if the key is not there.
        #[serde(default)]
        if_absent: bool,
        /// Only if the key has this version.
        if_version: Option<u64>,
    },
    /// Remove a key.
    Delete {
        /// Which.
        key: String,
        /// Only if the key has this version.
        if_version: Option<u64>,
    },
    /// Add to a whole number.
    Increment {
        /// Which.
        key: String,
        /// How much, 1 if absent.
        #[serde(default = "one")]
        by: i64,
        /// How long a key lives that was not there.
        ttl_sec: Option<f64>,
    },
}

/// What a batch brought.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyBatchResult {
    /// One for each operation, in their order.
    results: Vec<KeyResult>,
}

/// What one operation brought.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyResult {
    key: String,
    /// Whether the key is there now.
    exists: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// How much longer it lives; `null` for ever.
    ttl_ms: Option<u64>,
    /// Of a removal: whether there was anything to remove.
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<bool>,
}

/// Adds to a key whose value is a whole number; a key that is not there counts as zero.
#[utoipa::path(post, path = "/api/kv/{key}/increment", tag = "kv", params(("key" = String, Path)),
    request_body = Increment,
    responses((status = 200, body = Stored), (status = 400), (status = 403), (status = 409)))]
pub(crate) async fn increment(
    State(context): State<Arc<Context>>,
    Service(reserved): Service<ReservedKeys>,
    Path(key): Path<String>,
    Json(asked): Json<Increment>,
) -> Result<Response, Error> {
    let key = writable(&reserved, key)?;
    let ttl = asked.ttl_sec.map(ttl).transpose()?;
    written(apply_one(&context, Operation::Increment { key, by: asked.by, ttl }).await?)
}

/// Reads and changes several keys in one transaction. Each operation needs the grant `kv:{key}:read` or `kv:{key}:write`.
#[utoipa::path(post, path = "/api/kv", tag = "kv", request_body = KeyBatch,
    responses((status = 200, body = KeyBatchResult), (status = 400), (status = 403), (status = 409), (status = 412),
        (status = 413)))]
pub(crate) async fn batch(
    State(context): State<Arc<Context>>,
    Service(reserved): Service<ReservedKeys>,
    Caller(caller): Caller,
    Json(batch): Json<KeyBatch>,
) -> Result<axum::Json<KeyBatchResult>, Error> {
    if batch.operations.len() > BATCH_MAX {
        let message = format!("a batch has {BATCH_MAX} operations at most");
        return Err(Error::invalid("too-many-operations", message));
    }
    let operations: Vec<Operation> = batch
        .operations
        .into_iter()
        .map(|operation| {
            let verb = if matches!(operation, KeyOperation::Get { .. }) { "read" } else { "write" };
            caller.require("kv", verb, operation.key())?;
            operation.checked(&reserved)
        })
        .collect::<Result<_, Error>>()?;
    let keys: Vec<String> = operations.iter().map(|operation| operation.key().as_str().to_owned()).collect();
    let applied = context.count_store_errors(context.kv.apply(operations).await)?.map_err(refused)?;
    let results = keys.into_iter().zip(applied).map(|(key, applied)| KeyResult::of(key, applied));
    Ok(axum::Json(KeyBatchResult { results: results.collect() }))
}

/// Does one thing on its condition.
pub(super) async fn apply_one(context: &Context, operation: Operation) -> Result<Applied, Error> {
    let applied = context.count_store_errors(context.kv.apply(vec![operation]).await)?;
    let applied = applied.map_err(|Refusal { why, .. }| refused(Refusal { index: 0, why }))?;
    applied.into_iter().next().ok_or_else(|| Error::internal("an operation brought nothing"))
}

/// A key that was written, with its version as the `ETag`.
pub(super) fn written(applied: Applied) -> Result<Response, Error> {
    match applied {
        Applied::Written(entry) => Ok(tagged(Stored::from(entry))),
        _ => Err(Error::internal("a write brought something else")),
    }
}

/// The answer with the key, and its `ETag` where it has a version.
pub(super) fn tagged(stored: Stored) -> Response {
    match stored.version.and_then(|version| HeaderValue::from_str(&format!("\"{version}\"")).ok()) {
        Some(tag) => ([(header::ETAG, tag)], axum::Json(stored)).into_response(),
        None => axum::Json(stored).into_response(),
    }
}

/// What `If-Match` and `If-None-Match` ask of a change.
pub(super) fn condition(headers: &HeaderMap) -> Result<Condition, Error> {
    match (text(headers, header::IF_MATCH)?, text(headers, header::IF_NONE_MATCH)?) {
        (None, None) => Ok(Condition::None),
        (None, Some("*")) => Ok(Condition::Absent),
        (Some("*"), None) => Ok(Condition::Present),
        (Some(tags), None) => {
            let versions: Option<Vec<Version>> = tags.split(',').map(version).collect();
            let wrong = || Error::invalid("invalid-tag", "If-Match must be *, or the ETag of a read");
            versions.map(Condition::Matches).ok_or_else(wrong)
        }
        _ => Err(Error::invalid("invalid-tag", "give If-Match, or If-None-Match: *, and not both")),
    }
}

/// Whether a reader says that it knows this version already.
pub(super) fn is_known(headers: &HeaderMap, found: Option<Version>) -> Result<bool, Error> {
    let Some(tags) = text(headers, header::IF_NONE_MATCH)? else { return Ok(false) };
    Ok(found.is_some_and(|found| tags.split(',').any(|tag| version(tag) == Some(found))))
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Result<Option<&str>, Error> {
    let text = headers.get(name).map(HeaderValue::to_str).transpose();
    text.map_err(|_| Error::invalid("invalid-tag", "If-Match and If-None-Match must be plain ASCII"))
}

/// The version that an `ETag` of ours stands for. Those who compress answers mark them as weak.
fn version(tag: &str) -> Option<Version> {
    let tag = tag.trim();
    let tag = tag.strip_prefix("W/").unwrap_or(tag);
    tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok().map(Version)
}

fn refused(Refusal { index, why }: Refusal) -> Error {
    let (status, code, message, facts) = match why {
        Refused::Unmet { found } => (
            StatusCode::PRECONDITION_FAILED,
            "changed-meanwhile",
            "the key is not what the condition says: read it again, and decide anew".to_owned(),
            json!({ "index": index, "version": found }),
        ),
        Refused::NotAdded(why) => {
            let code = if why == NotAdded::NotANumber { "not-a-number" } else { "out-of-range" };
            (StatusCode::CONFLICT, code, why.to_string(), json!({ "index": index }))
        }
        Refused::TooMuchToRead => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-large",
            "these values are too large for one answer: ask for fewer keys".to_owned(),
            json!({ "index": index }),
        ),
    };
    Error::new(status, code, message).with(facts)
}

impl KeyOperation {
    fn key(&self) -> &str {
        match self {
            Self::Get { key }
            | Self::Put { key, .. }
            | Self::Delete { key, .. }
            | Self::Increment { key, .. } => key,
        }
    }

    fn checked(self, reserved: &ReservedKeys) -> Result<Operation, Error> {
        let matching = |version: Option<u64>| match version {
            Some(version) => Condition::Matches(vec![Version(version)]),
            None => Condition::None,
        };
        Ok(match self {
            Self::Get { key } => {
                let key = Key::new(key)?;
                if readable(reserved, &key)?.is_some_and(|reserved| reserved.keys.is_some()) {
                    let message = "this key is no key of the store: read it by itself";
                    return Err(Error::invalid("reserved-key", message));
                }
                Operation::Get { key }
            }
            Self::Put { if_absent: true, if_version: Some(_), .. } => {
                return Err(Error::invalid("invalid-body", "give ifAbsent or ifVersion, and not both"));
            }
            Self::Put { key, value, ttl_sec, if_absent, if_version } => Operation::Put {
                key: writable(reserved, key)?,
                value,
                ttl: ttl_sec.map(ttl).transpose()?,
                condition: if if_absent { Condition::Absent } else { matching(if_version) },
            },
            Self::Delete { key, if_version } => {
                Operation::Delete { key: writable(reserved, key)?, condition: matching(if_version) }
            }
            Self::Increment { key, by, ttl_sec } => {
                Operation::Increment { key: writable(reserved, key)?, by, ttl: ttl_sec.map(ttl).transpose()? }
            }
        })
    }
}

impl KeyResult {
    fn of(key: String, applied: Applied) -> KeyResult {
        let absent = |deleted| KeyResult {
            key: key.clone(),
            exists: false,
            value: None,
            version: None,
            ttl_ms: None,
            deleted,
        };
        match applied {
            Applied::Read(None) => absent(None),
            Applied::Deleted(deleted) => absent(Some(deleted)),
            Applied::Read(Some(entry)) | Applied::Written(entry) => {
                let Entry { value, version: Version(version), .. } = entry.clone();
                let ttl_ms = Stored::from(entry).ttl_ms;
                KeyResult {
                    key,
                    exists: true,
                    value: Some(value),
                    version: Some(version),
                    ttl_ms,
                    deleted: None,
                }
            }
        }
    }
}
