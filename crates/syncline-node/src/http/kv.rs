//! `/api/kv`: the key-value store over HTTP.
//!
//! Keys under `viewer:` are the sessions of this node's roster. They live in memory, are made by heartbeats and can only
//! be read here; they are listed under their own prefix and no shorter one, and in no order. Keys under `genlock:` are the
//! schedule's locks and can only be read here as well.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use syncline_core::kv::{self, Key, LIST_MAX};
use syncline_core::viewer::SessionId;
use syncline_store::kv::Entry;
use syncline_store::lock::Holding;
use utoipa::ToSchema;

use super::Error;
use super::body::{Json, Path, Query};
use super::range::Range;
use crate::Context;

/// Keys that begin with this are heartbeats.
const VIEWER_PREFIX: &str = "viewer:";

/// Keys that begin with this are locks: who claimed a job's minute.
const LOCK_PREFIX: &str = "genlock:";

/// A value of the largest size, with every character escaped, and the words around it.
const WRITE_MAX_BYTES: usize = kv::VALUE_MAX_BYTES * 6 + 1_024;

/// One key.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Stored {
    key: String,
    value: String,
    /// How much longer it lives; `null` if it does not expire.
    ttl_ms: Option<u64>,
}

/// Several keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Listing {
    entries: Vec<Stored>,
}

/// What to store.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Write {
    value: String,
    /// How long it lives from now on; for ever if absent.
    ttl_sec: Option<f64>,
}

/// What was done.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Removed {
    key: String,
    /// Whether there was anything to remove.
    deleted: bool,
}

/// Lists keys in their order.
#[utoipa::path(get, path = "/api/kv", tag = "kv", params(Range),
    responses((status = 200, body = Listing), (status = 400)))]
pub(crate) async fn list(
    State(context): State<Arc<Context>>,
    Query(range): Query<Range>,
) -> Result<axum::Json<Listing>, Error> {
    let limit = range.limit(LIST_MAX)?;
    let entries = match range.prefix.strip_prefix(VIEWER_PREFIX) {
        Some(prefix) => {
            let sessions = context.viewer.sessions(prefix, limit);
            sessions.into_iter().map(|(id, ttl_left)| heartbeat(&id, ttl_left)).collect()
        }
        None if range.prefix.starts_with(LOCK_PREFIX) => {
            context.locks.list(&range.prefix, limit).await?.into_iter().map(Stored::from).collect()
        }
        None => context
            .stored(context.kv.list(&range.prefix, limit).await)?
            .into_iter()
            .map(Stored::from)
            .collect(),
    };
    Ok(axum::Json(Listing { entries }))
}

/// Reads a key.
#[utoipa::path(get, path = "/api/kv/{key}", tag = "kv", params(("key" = String, Path)),
    responses((status = 200, body = Stored), (status = 400), (status = 404)))]
pub(crate) async fn read(
    State(context): State<Arc<Context>>,
    Path(key): Path<String>,
) -> Result<axum::Json<Stored>, Error> {
    let key = Key::new(key)?;
    let stored = match key.as_str().strip_prefix(VIEWER_PREFIX) {
        Some(id) => {
            let id = SessionId::new(id).ok();
            id.and_then(|id| Some(heartbeat(&id, context.viewer.ttl_left(&id)?)))
        }
        None if key.as_str().starts_with(LOCK_PREFIX) => {
            let held = context.locks.list(key.as_str(), 1).await?;
            held.into_iter().find(|held| held.name == key.as_str()).map(Stored::from)
        }
        None => context.stored(context.kv.get(&key).await)?.map(Stored::from),
    };
    stored.map(axum::Json).ok_or_else(|| Error::missing("there is no such key"))
}

/// Sets a key.
#[utoipa::path(put, path = "/api/kv/{key}", tag = "kv", params(("key" = String, Path)), request_body = Write,
    responses((status = 200, body = Stored), (status = 400), (status = 403), (status = 413)))]
pub(crate) async fn write(
    State(context): State<Arc<Context>>,
    Path(key): Path<String>,
    Json(write): Json<Write, WRITE_MAX_BYTES>,
) -> Result<axum::Json<Stored>, Error> {
    let key = writable(key)?;
    let ttl = write.ttl_sec.map(ttl).transpose()?;
    context.stored(context.kv.put(&key, &write.value, ttl).await)?;
    let ttl_ms = ttl.map(whole_ms);
    Ok(axum::Json(Stored { key: key.into(), value: write.value, ttl_ms }))
}

/// Removes a key. Removing what is not there is no error.
#[utoipa::path(delete, path = "/api/kv/{key}", tag = "kv", params(("key" = String, Path)),
    responses((status = 200, body = Removed), (status = 400), (status = 403)))]
pub(crate) async fn remove(
    State(context): State<Arc<Context>>,
    Path(key): Path<String>,
) -> Result<axum::Json<Removed>, Error> {
    let key = writable(key)?;
    let deleted = context.stored(context.kv.delete(&key).await)?;
    Ok(axum::Json(Removed { key: key.into(), deleted }))
}

fn writable(key: String) -> Result<Key, Error> {
    let key = Key::new(key)?;
    if key.as_str().starts_with(VIEWER_PREFIX) {
        let message = "keys under viewer: are heartbeats: POST /api/viewer makes and removes them";
        return Err(Error::new(StatusCode::FORBIDDEN, "read-only", message));
    }
    if key.as_str().starts_with(LOCK_PREFIX) {
        let message = "keys under genlock: are locks: /api/locks changes them";
        return Err(Error::new(StatusCode::FORBIDDEN, "read-only", message));
    }
    Ok(key)
}

fn ttl(seconds: f64) -> Result<Duration, Error> {
    let ttl = Duration::try_from_secs_f64(seconds).ok().filter(|ttl| !ttl.is_zero());
    ttl.ok_or_else(|| Error::invalid("invalid-ttl", "ttl_sec must be more than zero"))
}

fn heartbeat(id: &SessionId, ttl_left: Duration) -> Stored {
    Stored { key: format!("{VIEWER_PREFIX}{id}"), value: "1".to_owned(), ttl_ms: Some(whole_ms(ttl_left)) }
}

impl From<Holding> for Stored {
    fn from(held: Holding) -> Stored {
        Stored { key: held.name, value: held.holder, ttl_ms: Some(whole_ms(held.left)) }
    }
}

impl From<Entry> for Stored {
    fn from(entry: Entry) -> Stored {
        Stored { key: entry.key.into(), value: entry.value, ttl_ms: entry.ttl_left.map(whole_ms) }
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
