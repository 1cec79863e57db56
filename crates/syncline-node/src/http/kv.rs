//! `/api/kv`: the key-value store over HTTP.
//!
//! Keys under `viewer:` are the sessions of this node's roster. They live in memory and are made by heartbeats; they are
//! listed under their own prefix and no shorter one, and in no order. Keys under `genlock:` are the schedule's locks. These
//! and all other keys that nodes write for themselves ([`RESERVED`]) can be read here and not changed, but for the secret
//! behind the cookies, which is not shown either.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use syncline_core::kv::{self, Key, LIST_MAX};
use syncline_core::viewer::{REPORT_PREFIX, SessionId};
use syncline_store::kv::{Asked, Entry};
use syncline_store::lock::Holding;
use utoipa::ToSchema;

use super::body::{Json, Path, Query};
use super::{Error, auth, health, range};
use crate::{Context, gallery, schedule};

/// Keys that begin with this are heartbeats.
const VIEWER_PREFIX: &str = "viewer:";

/// Keys that begin with this are locks: who claimed a job's minute.
const LOCK_PREFIX: &str = "genlock:";

/// What keys begin with that nodes write for themselves, and what changes them.
const RESERVED: [(&str, &str); 9] = [
    (VIEWER_PREFIX, "they are heartbeats: POST /api/viewer makes and removes them"),
    (LOCK_PREFIX, "they are locks: /api/locks changes them"),
    (REPORT_PREFIX, "nodes tell each other of their viewers there"),
    (schedule::INPUT_PREFIX, "they say what a job has seen already"),
    (gallery::NOTES, "they are the gallery's"),
    (gallery::FILES, "they are the gallery's"),
    (gallery::LAST_SNAPSHOT, "the built-in job writes it"),
    (auth::KEPT_PREFIX, "they are about who is signed in: /api/session changes them"),
    (health::KEPT_PREFIX, "nodes try there whether the store takes writes"),
];

/// A page of a listing ends when it has this many bytes as JSON.
const LIST_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The word for keys that are a node's own.
const RESERVED_KEY: &str = "reserved-key";

/// A value of the largest size, with every character escaped, and the words around it.
const WRITE_MAX_BYTES: usize = kv::VALUE_MAX_BYTES * 6 + 1_024;

/// Which keys are asked for.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
pub(crate) struct Wanted {
    /// Those that begin with this; all if absent.
    #[serde(default)]
    prefix: String,
    /// Those behind this key: the `next` of the page before.
    after: Option<String>,
    /// At most this many, 100 if absent, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `false` leaves the values out.
    values: Option<bool>,
}

/// One key.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Stored {
    key: String,
    /// Absent in a listing without values.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// How much longer it lives; `null` if it does not expire.
    ttl_ms: Option<u64>,
}

/// Several keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyListing {
    entries: Vec<Stored>,
    /// What to send as `after` to get the next page; `null` at the end.
    next: Option<String>,
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

/// Lists keys in their order, a page at a time.
#[utoipa::path(get, path = "/api/kv", tag = "kv", params(Wanted),
    responses((status = 200, body = KeyListing), (status = 400)))]
pub(crate) async fn list(
    State(context): State<Arc<Context>>,
    Query(wanted): Query<Wanted>,
) -> Result<axum::Json<KeyListing>, Error> {
    let limit = range::checked(wanted.limit, LIST_MAX)?;
    let values = wanted.values.unwrap_or(true);
    let mut more = false;
    let mut entries: Vec<Stored> = match wanted.prefix.strip_prefix(VIEWER_PREFIX) {
        Some(prefix) => {
            let sessions = context.viewer.sessions(prefix, limit);
            sessions.into_iter().map(|(id, ttl_left)| heartbeat(&id, ttl_left)).collect()
        }
        None if wanted.prefix.starts_with(LOCK_PREFIX) => {
            let held = context.locks.list(&wanted.prefix, wanted.after.as_deref(), limit).await?;
            more = held.len() == limit;
            held.into_iter().map(Stored::from).collect()
        }
        None => {
            let asked = Asked { prefix: &wanted.prefix, after: wanted.after.as_deref(), limit, values };
            let page = context.stored(context.kv.page(asked).await)?;
            more = page.more;
            page.entries.into_iter().map(Stored::from).collect()
        }
    };
    if !values {
        entries.iter_mut().for_each(|entry| entry.value = None);
    }
    more |= range::fit(&mut entries, LIST_BYTES_MAX);
    let next = entries.last().filter(|_| more).map(|entry| entry.key.clone());
    entries.retain(|entry| !entry.key.starts_with(auth::KEPT_PREFIX));
    Ok(axum::Json(KeyListing { entries, next }))
}

/// Reads a key.
#[utoipa::path(get, path = "/api/kv/{key}", tag = "kv", params(("key" = String, Path)),
    responses((status = 200, body = Stored), (status = 400), (status = 404)))]
pub(crate) async fn read(
    State(context): State<Arc<Context>>,
    Path(key): Path<String>,
) -> Result<axum::Json<Stored>, Error> {
    let key = Key::new(key)?;
    if key.as_str().starts_with(auth::KEPT_PREFIX) {
        return Err(Error::new(StatusCode::FORBIDDEN, RESERVED_KEY, "nobody may read this key"));
    }
    let stored = match key.as_str().strip_prefix(VIEWER_PREFIX) {
        Some(id) => {
            let id = SessionId::new(id).ok();
            id.and_then(|id| Some(heartbeat(&id, context.viewer.ttl_left(&id)?)))
        }
        None if key.as_str().starts_with(LOCK_PREFIX) => {
            let held = context.locks.list(key.as_str(), None, 1).await?;
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
    Ok(axum::Json(Stored { key: key.into(), value: Some(write.value), ttl_ms }))
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
    if let Some((prefix, why)) = RESERVED.iter().find(|(prefix, _)| key.as_str().starts_with(prefix)) {
        let message = format!("keys that begin with {prefix} cannot be changed here: {why}");
        return Err(Error::new(StatusCode::FORBIDDEN, RESERVED_KEY, message));
    }
    Ok(key)
}

fn ttl(seconds: f64) -> Result<Duration, Error> {
    let ttl = Duration::try_from_secs_f64(seconds).ok().filter(|ttl| !ttl.is_zero());
    ttl.ok_or_else(|| Error::invalid("invalid-ttl", "ttl_sec must be more than zero"))
}

fn heartbeat(id: &SessionId, ttl_left: Duration) -> Stored {
    let (key, ttl_ms) = (format!("{VIEWER_PREFIX}{id}"), Some(whole_ms(ttl_left)));
    Stored { key, value: Some("1".to_owned()), ttl_ms }
}

impl From<Holding> for Stored {
    fn from(held: Holding) -> Stored {
        Stored { key: held.name, value: Some(held.holder), ttl_ms: Some(whole_ms(held.left)) }
    }
}

impl From<Entry> for Stored {
    fn from(entry: Entry) -> Stored {
        let ttl_ms = entry.ttl_left.map(whole_ms);
        Stored { key: entry.key.into(), value: Some(entry.value), ttl_ms }
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
