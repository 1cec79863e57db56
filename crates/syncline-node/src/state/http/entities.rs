//! `/api/state/{space}/{id}` and `/api/spaces/{space}/entities`: single entities, for servers that know no stamps.
//!
//! A write is stamped by the node and reaches every device like another device's. `If-Match` and `If-None-Match: *` make it
//! conditional; of two writers with one condition one is refused.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use syncline_core::state::{Refused, ServerWrite, Space, Value, is_id};
use syncline_store::state::{Condition, Entity, EntityVersion, LIST_MAX, Wrote};
use utoipa::{IntoParams, ToSchema};

use crate::Context;
use crate::http::body::{self, Path, Query};
use crate::http::search::{self, Search};
use crate::http::{Caller, CallerQuota, Error, range};
use crate::part::Service;
use crate::state::States;

/// An entity of a space.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({ "id": "cart-7", "value": { "items": 3 }, "version": "5f2c9d0c1b7a4e63-42", "schema": 1, "changedAt": 1_790_000_000_000_u64 }))]
pub(crate) struct StateEntity {
    id: String,
    /// What it is: an object of the application's own.
    #[schema(value_type = Object)]
    value: Box<RawValue>,
    /// Its `ETag`, without the quotes. Every change has another one.
    version: String,
    /// The version of the application's schema that the value follows.
    schema: u32,
    /// When it was changed last, in milliseconds since 1970, by the clock of whoever changed it.
    changed_at: u64,
}

/// Several entities, by id.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StateEntityListing {
    entities: Vec<StateEntity>,
    /// What to send as `after` to go on; `null` at the end. A page may be short, or empty, and have one.
    next: Option<String>,
}

/// What a removal did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StateEntityRemoved {
    id: String,
    /// Whether there was anything to remove.
    deleted: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct Wanted {
    /// A text in the id or the value, whatever its case.
    q: Option<String>,
    /// The `next` of the page before.
    after: Option<String>,
    /// At most this many, 100 if absent, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct Written {
    /// The version of the application's schema that the value follows; the one that the entity has, or 1, if absent.
    #[param(minimum = 1)]
    schema: Option<u32>,
}

/// Lists the entities of a space by id.
#[utoipa::path(get, path = "/api/spaces/{space}/entities", operation_id = "entities", tag = "state",
    params(("space" = String, Path), Wanted),
    responses((status = 200, body = StateEntityListing), (status = 400)))]
pub(crate) async fn list(
    Service(states): Service<Arc<States>>,
    Path(space): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Result<axum::Json<StateEntityListing>, Error> {
    let space = Space::new(space)?;
    let limit = range::checked(wanted.limit, LIST_MAX)?;
    if wanted.after.as_deref().is_some_and(|after| !is_id(after)) {
        return Err(Error::invalid("invalid-query", "after must be the next of a page before"));
    }
    let mut search = Search::new(wanted.q.as_deref(), wanted.after, limit)?;
    while let Some(step) = search.next() {
        let page = states.entities(&space, step.after.as_deref().unwrap_or_default(), step.limit).await?;
        let fits = |entity: &Entity, text: &str| {
            search::contains(&entity.id, text) || search::contains(&entity.value, text)
        };
        search.put(page.entities, page.next, fits, |entity| entity.id.clone());
    }
    let (found, next) = search.end();
    let entities = found.into_iter().map(view).collect::<Result<_, _>>()?;
    Ok(axum::Json(StateEntityListing { entities, next }))
}

/// Reads one entity. Its `ETag` is what a change of it may be conditional on.
#[utoipa::path(get, path = "/api/state/{space}/{id}", operation_id = "read", tag = "state",
    params(("space" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = StateEntity), (status = 400), (status = 404)))]
pub(crate) async fn read(
    Service(states): Service<Arc<States>>,
    Path((space, id)): Path<(String, String)>,
) -> Result<Response, Error> {
    let entity = states.entity(&Space::new(space)?, checked(&id)?).await?;
    respond(entity.ok_or_else(|| Error::missing("there is no such entity in this space"))?)
}

/// Writes an entity: the body is its value, a JSON object. Every device of the space hears of it. `If-Match` with the `ETag` of a read writes
/// only if nobody changed it since; `If-None-Match: *` only if it is not there.
#[utoipa::path(put, path = "/api/state/{space}/{id}", operation_id = "write", tag = "state",
    params(("space" = String, Path), ("id" = String, Path), Written,
        ("If-Match" = Option<String>, Header), ("If-None-Match" = Option<String>, Header)),
    request_body = Object,
    responses((status = 200, body = StateEntity), (status = 400), (status = 409), (status = 412), (status = 413)))]
pub(crate) async fn write(
    State(context): State<Arc<Context>>,
    Service(states): Service<Arc<States>>,
    Caller(caller): Caller,
    quota: CallerQuota,
    Path((space, id)): Path<(String, String)>,
    Query(written): Query<Written>,
    request: Request,
) -> Result<Response, Error> {
    let space = Space::new(space)?;
    checked(&id)?;
    let condition = condition(request.headers())?;
    if body::media_type(request.headers()) != Some("application/json") {
        return Err(body::unsupported("send the body as application/json"));
    }
    let bytes = body::read(request, &context.config.limits).await?;
    let text = str::from_utf8(&bytes).map_err(|_| Error::invalid("invalid-json", "the body is not UTF-8"))?;
    let value = Value::read(text).map_err(refused)?;
    let makes_space = quota.of_spaces().next().is_some() && states.number(&space).await? == 0;
    super::super::quota::check(&states, &caller, &quota, makes_space, bytes.len()).await?;
    let write = ServerWrite::Put { value, schema: written.schema };
    match states.write(&space, &id, write, condition).await? {
        Wrote::Stored(entity) => respond(entity),
        Wrote::Removed | Wrote::Absent => Err(Error::internal("a value that was written is gone")),
        Wrote::Changed => Err(changed()),
        Wrote::Full => Err(super::full()),
    }
}

/// Removes an entity, on every device of the space. Removing what is not there is no error. `If-Match` removes it only if nobody changed it
/// since.
#[utoipa::path(delete, path = "/api/state/{space}/{id}", operation_id = "remove_entity", tag = "state",
    params(("space" = String, Path), ("id" = String, Path), ("If-Match" = Option<String>, Header)),
    responses((status = 200, body = StateEntityRemoved), (status = 400), (status = 412)))]
pub(crate) async fn remove(
    Service(states): Service<Arc<States>>,
    Path((space, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<axum::Json<StateEntityRemoved>, Error> {
    let space = Space::new(space)?;
    checked(&id)?;
    match states.write(&space, &id, ServerWrite::Remove, condition(&headers)?).await? {
        Wrote::Stored(_) | Wrote::Removed => Ok(axum::Json(StateEntityRemoved { id, deleted: true })),
        Wrote::Absent => Ok(axum::Json(StateEntityRemoved { id, deleted: false })),
        Wrote::Changed => Err(changed()),
        Wrote::Full => Err(super::full()),
    }
}

/// What `If-Match` and `If-None-Match` ask for.
fn condition(headers: &HeaderMap) -> Result<Condition, Error> {
    let text = |name| headers.get(name).map(HeaderValue::to_str).transpose();
    let unreadable = |_| Error::invalid("invalid-tag", "If-Match and If-None-Match must be plain ASCII");
    let matches = text(header::IF_MATCH).map_err(unreadable)?;
    let none = text(header::IF_NONE_MATCH).map_err(unreadable)?;
    match (matches, none) {
        (None, None) => Ok(Condition::None),
        (None, Some("*")) => Ok(Condition::Absent),
        (Some("*"), None) => Ok(Condition::Matches(None)),
        (Some(tags), None) => {
            let versions: Option<Vec<EntityVersion>> = tags.split(',').map(version).collect();
            let wrong = || Error::invalid("invalid-tag", "If-Match must be *, or the ETag of a read");
            versions.map(|versions| Condition::Matches(Some(versions))).ok_or_else(wrong)
        }
        _ => Err(Error::invalid("invalid-tag", "give If-Match, or If-None-Match: *, and not both")),
    }
}

/// The version that an `ETag` of ours stands for.
fn version(tag: &str) -> Option<EntityVersion> {
    let text = tag.trim().strip_prefix('"')?.strip_suffix('"')?;
    let (epoch, number) = text.rsplit_once('-')?;
    Some(EntityVersion { epoch: epoch.to_owned(), number: number.parse().ok()? })
}

fn view(entity: Entity) -> Result<StateEntity, Error> {
    let Entity { id, value, schema, version: EntityVersion { epoch, number }, changed_at } = entity;
    Ok(StateEntity {
        id,
        value: RawValue::from_string(value).map_err(Error::internal)?,
        version: format!("{epoch}-{number}"),
        schema,
        changed_at: changed_at.as_ms(),
    })
}

fn respond(entity: Entity) -> Result<Response, Error> {
    let view = view(entity)?;
    let tag = HeaderValue::from_str(&format!("\"{}\"", view.version)).map_err(Error::internal)?;
    Ok(([(header::ETAG, tag)], axum::Json(view)).into_response())
}

fn checked(id: &str) -> Result<&str, Error> {
    let wrong = || Error::invalid("invalid-id", "an id has from 1 to 256 bytes and no control characters");
    is_id(id).then_some(id).ok_or_else(wrong)
}

fn changed() -> Error {
    let message = "the entity is not what the condition says: read it again, and decide anew";
    Error::new(StatusCode::PRECONDITION_FAILED, "changed-meanwhile", message)
}

fn refused(refused: Refused) -> Error {
    match refused {
        Refused::TooLarge => Error::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "the value is too large"),
        Refused::NotJson => Error::invalid("invalid-json", "the body is no JSON, or nested too deep"),
        Refused::Reserved => Error::invalid("invalid-body", "a value may not have a member called sync"),
        _ => Error::invalid("invalid-body", "the body must be a JSON object"),
    }
}
