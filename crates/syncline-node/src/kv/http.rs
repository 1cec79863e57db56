//! `/api/kv`: the key-value store over HTTP.
//!
//! Prefixes that parts have reserved ([`ReservedKeys`]) can be read here and not changed; the secret behind the cookies is
//! not shown either. What a part shows under its prefix is listed under that prefix and no shorter one.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use syncline_core::kv::{self, Condition, Key, LIST_MAX, Version};
use syncline_store::kv::{Applied, Asked, Entry, Operation};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::reserved::Reserved;
use super::{ReservedKeys, Stored, changes};
use crate::Context;
use crate::http::body::{Json, Path, Query};
use crate::http::search::{self, Search};
use crate::http::visible::Page;
use crate::http::{Caller, Error, range};
use crate::part::{Name, Routes, Rules, Service};

/// A page of a listing ends when it has this many bytes as JSON.
const LIST_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The word for keys that are a node's own.
const RESERVED_KEY: &str = "reserved-key";

/// A value of the largest size, with every character escaped, and the words around it.
const WRITE_MAX_BYTES: usize = kv::VALUE_MAX_BYTES * 6 + 1_024;

/// A batch may have several values of the largest size.
const BATCH_MAX_BYTES: usize = 4 * WRITE_MAX_BYTES;

pub(super) fn routes() -> Routes {
    let key = |verb| Rules::new().needs("kv", verb, Name::Path("key"));
    Routes::new()
        .with_rules(Rules::new().needs("kv", "read", Name::Any), routes!(list))
        .with_rules(key("read"), routes!(read))
        .with_rules(key("write").body_max_bytes(WRITE_MAX_BYTES), routes!(write))
        .with_rules(key("write"), routes!(remove))
        .with_rules(key("write"), routes!(changes::increment))
        .with_rules(
            Rules::new()
                .needs("kv", "read", Name::Any)
                .recorded_as("kv", "write")
                .body_max_bytes(BATCH_MAX_BYTES),
            routes!(changes::batch),
        )
        .with_rules(Rules::new().needs("node", "read", Name::All), routes!(super::nodes::list))
}

/// Which keys are asked for.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
pub(crate) struct Wanted {
    /// A text in the key, whatever its case.
    q: Option<String>,
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

/// Several keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyListing {
    entries: Vec<Stored>,
    /// What to send as `after` to get the next page; `null` at the end.
    next: Option<String>,
}

/// What to store.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(example = json!({ "value": "hello", "ttlSec": 60 }))]
pub(crate) struct Write {
    value: String,
    /// How long it lives from now on; for ever if absent.
    #[serde(alias = "ttl_sec")]
    ttl_sec: Option<f64>,
}

/// What was done.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Removed {
    key: String,
    /// Whether there was anything to remove.
    deleted: bool,
}

/// Lists keys in their order, a page at a time, as far as the caller may read them.
#[utoipa::path(get, path = "/api/kv", tag = "kv", params(Wanted),
    responses((status = 200, body = KeyListing), (status = 400)))]
pub(crate) async fn list(
    State(context): State<Arc<Context>>,
    Service(reserved): Service<ReservedKeys>,
    Caller(caller): Caller,
    Query(wanted): Query<Wanted>,
) -> Result<axum::Json<KeyListing>, Error> {
    let limit = range::checked(wanted.limit, LIST_MAX)?;
    let values = wanted.values.unwrap_or(true);
    // A search looks at keys alone; the values of those that it finds are read one by one.
    let searches = wanted.q.as_deref().is_some_and(|text| !text.trim().is_empty());
    let visible = caller.visible("kv", "read");
    let mut search = Search::new(wanted.q.as_deref(), wanted.after, limit)?;
    while let Some(step) = search.next() {
        let page = Page { prefix: &wanted.prefix, after: step.after.as_deref(), limit: step.limit };
        let mut cut = visible.page(page);
        while let Some(Page { prefix, after, limit }) = cut.next() {
            let shown = reserved.covering(prefix).and_then(|reserved| reserved.keys);
            let (entries, more): (Vec<Stored>, bool) = match shown {
                Some(keys) => keys.list(prefix, after, limit).await?,
                None => {
                    let asked = Asked { prefix, after, limit, values: values && !searches };
                    let page = context.count_store_errors(context.kv.page(asked).await)?;
                    (page.entries.into_iter().map(Stored::from).collect(), page.more)
                }
            };
            cut.put(entries, more, |stored| &stored.key);
        }
        let (entries, more) = cut.end();
        let next = entries.last().filter(|_| more).map(|entry| entry.key.clone());
        let fits = |stored: &Stored, text: &str| search::contains(&stored.key, text);
        search.put(entries, next, fits, |stored| stored.key.clone());
    }
    let (mut entries, mut next) = search.end();
    if values && searches {
        for entry in &mut entries {
            if reserved.covering(&entry.key).is_none_or(|reserved| reserved.keys.is_none()) {
                let stored =
                    context.count_store_errors(context.kv.get(&Key::new(entry.key.clone())?).await)?;
                entry.value = stored.map(|stored| stored.value);
            }
        }
    }
    if !values {
        entries.iter_mut().for_each(|entry| entry.value = None);
    }
    if range::fit(&mut entries, LIST_BYTES_MAX) {
        next = entries.last().map(|entry| entry.key.clone());
    }
    entries.retain(|entry| !reserved.is_hidden(&entry.key));
    Ok(axum::Json(KeyListing { entries, next }))
}

/// Reads a key. Its `ETag` is what a change of it may be conditional on; `If-None-Match` with it is answered with 304.
#[utoipa::path(get, path = "/api/kv/{key}", tag = "kv",
    params(("key" = String, Path), ("If-None-Match" = Option<String>, Header)),
    responses((status = 200, body = Stored), (status = 304), (status = 400), (status = 404)))]
pub(crate) async fn read(
    State(context): State<Arc<Context>>,
    Service(reserved): Service<ReservedKeys>,
    Path(key): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let key = Key::new(key)?;
    let stored = match readable(&reserved, &key)?.and_then(|reserved| reserved.keys) {
        Some(keys) => keys.get(key.as_str()).await?,
        None => context.count_store_errors(context.kv.get(&key).await)?.map(Stored::from),
    };
    let stored = stored.ok_or_else(|| Error::missing("there is no such key"))?;
    if changes::is_known(&headers, stored.version.map(Version))? {
        return Ok(StatusCode::NOT_MODIFIED.into_response());
    }
    Ok(changes::tagged(stored))
}

/// Sets a key. `If-None-Match: *` sets it only if it is not there, `If-Match` with the `ETag` of a read only if nobody has written
/// it since; 412 says that it was not set.
#[utoipa::path(put, path = "/api/kv/{key}", tag = "kv",
    params(("key" = String, Path), ("If-Match" = Option<String>, Header), ("If-None-Match" = Option<String>, Header)),
    request_body = Write,
    responses((status = 200, body = Stored), (status = 400), (status = 403), (status = 412), (status = 413)))]
pub(crate) async fn write(
    State(context): State<Arc<Context>>,
    Service(reserved): Service<ReservedKeys>,
    Path(key): Path<String>,
    headers: HeaderMap,
    Json(write): Json<Write>,
) -> Result<Response, Error> {
    let key = writable(&reserved, key)?;
    let ttl = write.ttl_sec.map(ttl).transpose()?;
    let condition = changes::condition(&headers)?;
    if condition != Condition::None {
        let put = Operation::Put { key, value: write.value, ttl, condition };
        return changes::written(changes::apply_one(&context, put).await?);
    }
    let version = context.count_store_errors(context.kv.put(&key, &write.value, ttl).await)?;
    Ok(changes::tagged(Stored::from(Entry { key, value: write.value, ttl_left: ttl, version })))
}

/// Removes a key. Removing what is not there is no error. `If-Match` removes it only if nobody has written it since.
#[utoipa::path(delete, path = "/api/kv/{key}", tag = "kv",
    params(("key" = String, Path), ("If-Match" = Option<String>, Header)),
    responses((status = 200, body = Removed), (status = 400), (status = 403), (status = 412)))]
pub(crate) async fn remove(
    State(context): State<Arc<Context>>,
    Service(reserved): Service<ReservedKeys>,
    Path(key): Path<String>,
    headers: HeaderMap,
) -> Result<axum::Json<Removed>, Error> {
    let key = writable(&reserved, key)?;
    let condition = changes::condition(&headers)?;
    let deleted = match condition {
        Condition::None => context.count_store_errors(context.kv.delete(&key).await)?,
        condition => {
            let delete = Operation::Delete { key: key.clone(), condition };
            changes::apply_one(&context, delete).await? == Applied::Deleted(true)
        }
    };
    Ok(axum::Json(Removed { key: key.into(), deleted }))
}

/// What is reserved that covers `key`, if it may be read.
pub(super) fn readable(reserved: &ReservedKeys, key: &Key) -> Result<Option<Reserved>, Error> {
    let covering = reserved.covering(key.as_str());
    if covering.as_ref().is_some_and(|reserved| reserved.hidden) {
        return Err(Error::new(StatusCode::FORBIDDEN, RESERVED_KEY, "nobody may read this key"));
    }
    Ok(covering)
}

pub(super) fn writable(reserved: &ReservedKeys, key: String) -> Result<Key, Error> {
    let key = Key::new(key)?;
    if let Some(Reserved { prefix, why, .. }) = reserved.covering(key.as_str()) {
        let message = format!("keys that begin with {prefix} cannot be changed here: {why}");
        return Err(Error::new(StatusCode::FORBIDDEN, RESERVED_KEY, message));
    }
    Ok(key)
}

pub(super) fn ttl(seconds: f64) -> Result<Duration, Error> {
    let ttl = Duration::try_from_secs_f64(seconds).ok().filter(|ttl| !ttl.is_zero());
    ttl.ok_or_else(|| Error::invalid("invalid-ttl", "ttlSec must be more than zero"))
}

impl From<Entry> for Stored {
    fn from(entry: Entry) -> Stored {
        let Version(version) = entry.version;
        Stored { version: Some(version), ..Stored::new(entry.key.into(), entry.value, entry.ttl_left) }
    }
}
