//! `/api/entities`: what came from elsewhere, and settings that are edited here.

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use syncline_core::outbox::{Moment, check_entity_id};
use syncline_store::inbox::{Entity, LIST_MAX};
use utoipa::{IntoParams, ToSchema};

use crate::access::Principal;
use crate::http::body::{Json, Path, Query};
use crate::http::search::{self, Search};
use crate::http::{Caller, Error};
use crate::inbox::{self, Entities};
use crate::part::Service;

/// Entities on a page, unless asked otherwise.
const PAGE: usize = 100;

/// Every kind of entity.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Kinds {
    types: Vec<KindView>,
}

/// A kind of entity.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KindView {
    name: String,
    /// Whether it may be edited here.
    settings: bool,
}

/// An entity.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EntityView {
    entity_type: String,
    entity_id: String,
    /// How it is.
    #[schema(value_type = Object)]
    payload: Box<RawValue>,
    /// Its `ETag`, without the quotes.
    version: String,
    /// When it was changed last, by the clock of whoever changed it.
    changed_at: String,
    /// When that came here.
    received_at: String,
    /// Who changed it; absent where nobody said.
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<String>,
}

/// Several.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EntityList {
    entities: Vec<EntityView>,
    /// What to pass as `after` for those that follow; `null` at the end.
    next: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct Page {
    /// A text in the id or the payload, whatever its case.
    q: Option<String>,
    /// The `next` of the page before.
    after: Option<String>,
    /// At most this many, 100 if absent, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

impl Page {
    fn limit(&self) -> Result<usize, Error> {
        let limit = self.limit.unwrap_or(PAGE);
        if !(1..=LIST_MAX).contains(&limit) {
            return Err(Error::invalid("invalid-limit", format!("limit must be from 1 to {LIST_MAX}")));
        }
        Ok(limit)
    }
}

/// Lists the kinds of entities that the caller may read.
#[utoipa::path(get, path = "/api/entities", tag = "outbox", responses((status = 200, body = Kinds)))]
pub(crate) async fn kinds(Service(entities): Service<Entities>, Caller(caller): Caller) -> axum::Json<Kinds> {
    let may = |name: &str| caller.require("entity", "read", name).is_ok();
    let kinds = entities.kinds().iter().filter(|kind| may(kind.entity_type.as_str()));
    let types = kinds.map(|kind| KindView { name: kind.entity_type.to_string(), settings: kind.editable });
    axum::Json(Kinds { types: types.collect() })
}

/// Lists entities of a kind, the last changed here first.
#[utoipa::path(get, path = "/api/entities/{type}", tag = "outbox", params(("type" = String, Path), Page),
    responses((status = 200, body = EntityList), (status = 400), (status = 404)))]
pub(crate) async fn list(
    Service(entities): Service<Entities>,
    Caller(caller): Caller,
    Path(name): Path<String>,
    Query(page): Query<Page>,
) -> Result<axum::Json<EntityList>, Error> {
    check_kind(&entities, &caller, &name)?;
    let limit = page.limit()?;
    let after = page.after.as_deref().map(str::parse).transpose();
    let after =
        after.map_err(|_| Error::invalid("invalid-after", "after must be the next of a page before"))?;
    let mut search = Search::new(page.q.as_deref(), after, limit)?;
    while let Some(step) = search.next() {
        let found = entities.entities(&name, step.after, step.limit).await?;
        // A page may be short because its payloads are large; only an empty one is the end.
        let next = found.last().map(|last| last.place);
        let fits = |entity: &Entity, text: &str| {
            search::contains(&entity.id, text) || search::contains(&entity.payload, text)
        };
        search.put(found, next, fits, |entity| entity.place);
    }
    let (found, next) = search.end();
    let next = next.map(|place| place.to_string());
    let entities = found.into_iter().map(|entity| view(&name, entity)).collect::<Result<_, _>>()?;
    Ok(axum::Json(EntityList { entities, next }))
}

/// One entity. Its `ETag` is what a change of it may be conditional on.
#[utoipa::path(get, path = "/api/entities/{type}/{id}", tag = "outbox",
    params(("type" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = EntityView), (status = 400), (status = 404)))]
pub(crate) async fn read(
    Service(entities): Service<Entities>,
    Caller(caller): Caller,
    Path((name, id)): Path<(String, String)>,
) -> Result<Response, Error> {
    check_kind(&entities, &caller, &name)?;
    checked(&id)?;
    let entity = entities.entity(&name, &id).await?;
    let entity = entity.ok_or_else(|| Error::missing(format!("there is no {name} with this id")))?;
    respond(&name, entity)
}

/// Changes a setting: the body is how it is now. It is stored here and on its way to the box when this answers. With
/// `If-Match` it is changed only if it still is what the editor saw.
#[utoipa::path(put, path = "/api/entities/{type}/{id}", tag = "outbox",
    params(("type" = String, Path), ("id" = String, Path)), request_body = Value,
    responses((status = 200, body = EntityView), (status = 400), (status = 403), (status = 404), (status = 412), (status = 413)))]
pub(crate) async fn write(
    Service(entities): Service<Entities>,
    Caller(caller): Caller,
    Path((name, id)): Path<(String, String)>,
    headers: HeaderMap,
    Json(payload): Json<Box<RawValue>>,
) -> Result<Response, Error> {
    check_kind(&entities, &caller, &name)?;
    checked(&id)?;
    if inbox::is_deep(payload.get()) {
        let message = format!("a setting is nested at most {} deep", inbox::DEPTH_MAX);
        return Err(Error::invalid("invalid-body", message));
    }
    let expected = headers.get(header::IF_MATCH).map(moment_of).transpose()?;
    let entity = entities.put(&name, &id, payload.get(), expected).await?;
    respond(&name, entity)
}

/// Refuses a kind that is not there. Of those that are, the refusal names what the caller may read.
fn check_kind(entities: &Entities, caller: &Principal, name: &str) -> Result<(), Error> {
    let Err(inbox::Error::Unknown { name, mut known }) = entities.kind(name).map(drop) else { return Ok(()) };
    known.retain(|kind| caller.require("entity", "read", kind).is_ok());
    Err(inbox::Error::Unknown { name, known }.into())
}

fn view(name: &str, entity: Entity) -> Result<EntityView, Error> {
    Ok(EntityView {
        entity_type: name.to_owned(),
        entity_id: entity.id,
        payload: RawValue::from_string(entity.payload).map_err(Error::internal)?,
        version: entity.changed_at.as_us().to_string(),
        changed_at: entity.changed_at.to_string(),
        received_at: entity.received_at.to_string(),
        sender: entity.sender.map(String::from),
    })
}

fn respond(name: &str, entity: Entity) -> Result<Response, Error> {
    let tag = format!("\"{}\"", entity.changed_at.as_us());
    let tag = HeaderValue::from_str(&tag).map_err(Error::internal)?;
    Ok(([(header::ETAG, tag)], axum::Json(view(name, entity)?)).into_response())
}

/// The change that an `ETag` of ours stands for.
fn moment_of(tag: &HeaderValue) -> Result<Moment, Error> {
    let digits = tag.to_str().ok().and_then(|tag| tag.trim().strip_prefix('"')?.strip_suffix('"'));
    let us = digits.and_then(|digits| digits.parse().ok());
    us.map(Moment::from_us)
        .ok_or_else(|| Error::invalid("invalid-tag", "If-Match must be the ETag of a read"))
}

fn checked(id: &str) -> Result<(), Error> {
    check_entity_id(id).map_err(|error| Error::invalid("invalid-id", error.to_string()))
}

impl From<inbox::Error> for Error {
    fn from(error: inbox::Error) -> Error {
        match error {
            inbox::Error::Unknown { .. } => Error::missing(error.to_string()),
            inbox::Error::ReadOnly(_) => Error::new(StatusCode::FORBIDDEN, "read-only", error.to_string()),
            inbox::Error::Changed(_) => {
                Error::new(StatusCode::PRECONDITION_FAILED, "changed-meanwhile", error.to_string())
            }
            inbox::Error::Store(error) => error.into(),
        }
    }
}
