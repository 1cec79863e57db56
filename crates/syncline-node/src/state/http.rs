//! `/api/state/{space}`: devices keep in step through a space; `/api/state`: which there are; `entities`: single entities, for servers.
//!
//! Asking makes nothing: a space begins with the first change that is sent to it.
//!
//! Changes are read and written by core's own JSON, so that a value leaves as it came, digit by digit. A batch is taken as a
//! whole or not at all, and may be sent again: what is known already is no news.

mod entities;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use syncline_core::state::json::Json;
use syncline_core::state::names::{ID_MAX_BYTES, PAGE_MAX_BYTES, VALUE_MAX_BYTES};
use syncline_core::state::{Change, InvalidSpace, Space, Start};
use syncline_store::state::{Asked, BATCH_MAX, Batch, LIST_MAX, Listed, NEW_EPOCH, Page, Pushed};
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::Context;
use crate::http::body::{self, Path, Query};
use crate::http::search::{self, Search};
use crate::http::{Caller, CallerQuota, Error, Recorder, range, visible};
use crate::part::{Name, Routes, Rules, Service};
use crate::state::States;

/// A full batch of the longest ids with every character escaped, and a last value of the largest size.
const BODY_MAX_BYTES: usize = PAGE_MAX_BYTES + VALUE_MAX_BYTES + BATCH_MAX * (ID_MAX_BYTES * 6 + 256);

/// Longest name that a listing goes on behind; a space's own are shorter.
const AFTER_MAX_BYTES: usize = 256;

/// What a device has.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
pub(crate) struct PullQuery {
    /// The number up to which it has everything; 0 if absent.
    #[serde(default)]
    after: u64,
    /// The `epoch` that number is of; absent on first contact.
    epoch: Option<String>,
    /// Whether this continues pages that began at the beginning.
    #[serde(default)]
    paging: bool,
}

/// Changes after a number. Each is `{"id", "added" | "gone": stamp, "value"}` or `{"reset": stamp}`.
#[derive(Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what is written by hand")]
#[schema(as = ChangeList)]
pub(crate) struct Changes {
    /// Which log this is; another one means that all numbers begin anew. `new`: there is no such space yet.
    epoch: String,
    /// The number to ask after next time.
    cursor: u64,
    /// Whether more is there already.
    more: bool,
    /// Everything there is, from the beginning, because removals the device has not heard of are forgotten: what it had
    /// and is not in these pages is gone.
    whole: bool,
    /// Everything there is, because this log does not know the device's number: it should send everything it has.
    unknown: bool,
    /// The time of day here, in milliseconds since 1970.
    now: u64,
    changes: Vec<serde_json::Value>,
}

/// What a device sends: at most 501 changes.
#[derive(Deserialize, ToSchema)]
#[allow(dead_code, reason = "describes what is read by hand")]
pub(crate) struct PushRequest {
    /// The number up to which the device has everything.
    after: u64,
    /// The epoch that number is of.
    epoch: String,
    changes: Vec<serde_json::Value>,
}

/// What became of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PushReply {
    /// The log it is in. Of a space that had none yet it is not the one that was named, and the device asks again.
    epoch: String,
    /// The last number before this batch.
    from: u64,
    /// The last number now. A device that had `from` has `cursor`.
    cursor: u64,
    /// The device sent something older than what it should have had: it should ask for everything again.
    lost: bool,
    /// The time of day here, in milliseconds since 1970.
    now: u64,
}

/// Which spaces are asked for.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
pub(crate) struct Spaces {
    /// A text in the name, whatever its case.
    q: Option<String>,
    /// `full`: only those that have 90 % of what a space can hold, or more.
    #[param(inline)]
    state: Option<SpaceState>,
    /// Those behind this name: the `next` of the page before.
    after: Option<String>,
    /// At most this many, 100 if absent, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Which spaces are meant.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SpaceState {
    Full,
}

/// Several spaces, by name.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SpaceListing {
    spaces: Vec<SpaceSummary>,
    /// What to send as `after` to get the next page; `null` at the end. A search that has looked at as much as one question may ends its page
    /// early.
    next: Option<String>,
    /// What a space can hold, in entities and in bytes.
    entities_max: u64,
    bytes_max: u64,
}

/// One space.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SpaceSummary {
    space: String,
    /// What is in it, removals that are still remembered included.
    entities: u64,
    /// The bytes of all that.
    bytes: u64,
    /// The number of its last change.
    number: u64,
}

/// What was done.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SpaceRemoved {
    space: String,
    /// Whether there was anything to remove.
    deleted: bool,
}

pub(super) fn routes() -> Routes {
    let space = |verb| Rules::new().needs("state", verb, Name::Path("space"));
    Routes::new()
        .with_rules(Rules::new().needs("state", "read", Name::Any), routes!(list))
        .with_rules(space("read"), routes!(pull))
        .with_rules(space("write").body_max_bytes(BODY_MAX_BYTES), routes!(push))
        .with_rules(space("reset"), routes!(remove))
        .with_rules(space("read"), routes!(entities::list))
        .with_rules(space("read"), routes!(entities::read))
        .with_rules(space("write").body_max_bytes(VALUE_MAX_BYTES), routes!(entities::write))
        .with_rules(space("write"), routes!(entities::remove))
}

/// Lists spaces by name, a page at a time, as far as the caller may read them.
#[utoipa::path(get, path = "/api/state", tag = "state", params(Spaces),
    responses((status = 200, body = SpaceListing), (status = 400)))]
pub(crate) async fn list(
    Service(states): Service<Arc<States>>,
    Caller(caller): Caller,
    Query(wanted): Query<Spaces>,
) -> Result<axum::Json<SpaceListing>, Error> {
    let limit = range::checked(wanted.limit, LIST_MAX)?;
    if wanted.after.as_deref().is_some_and(|after| after.len() > AFTER_MAX_BYTES || after.contains('\0')) {
        return Err(Error::invalid("invalid-query", "after must be the name of a space"));
    }
    let visible = caller.visible("state", "read");
    let full = wanted.state.is_some();
    let mut search = Search::new(wanted.q.as_deref(), wanted.after, limit)?.filtering(full);
    while let Some(step) = search.next() {
        let page = visible::Page { prefix: "", after: step.after.as_deref(), limit: step.limit };
        let mut cut = visible.page(page);
        while let Some(part) = cut.next() {
            let (listed, more) = in_prefix(&states, part).await?;
            cut.put(listed, more, |listed| &listed.name);
        }
        let (listed, more) = cut.end();
        let next = listed.last().filter(|_| more).map(|last| last.name.clone());
        let fits = |listed: &Listed, text: &str| {
            (!full || listed.is_nearly_full()) && search::contains(&listed.name, text)
        };
        search.put(listed, next, fits, |listed| listed.name.clone());
    }
    let (listed, next) = search.end();
    let spaces = listed.into_iter().map(|Listed { name, entities, bytes, number }| SpaceSummary {
        space: name,
        entities,
        bytes,
        number,
    });
    let (entities_max, bytes_max) = Listed::MOST;
    Ok(axum::Json(SpaceListing { spaces: spaces.collect(), next, entities_max, bytes_max }))
}

/// Spaces that begin with a prefix, and whether there are more.
pub(super) async fn in_prefix(
    states: &States,
    page: visible::Page<'_>,
) -> Result<(Vec<Listed>, bool), syncline_store::Error> {
    let Some(before) = just_before(page.prefix) else { return Ok((Vec::new(), false)) };
    let after = page.after.map_or(before, str::to_owned);
    let mut listed = states.list(&after, page.limit).await?;
    listed.retain(|listed| listed.name.starts_with(page.prefix));
    // A page that is not full, or that left the prefix, is the last one.
    let more = listed.len() == page.limit;
    Ok((listed, more))
}

/// A text that comes before all names of spaces that begin with `prefix`, and behind all that come before those; `None` if no
/// name of a space can begin with it.
fn just_before(prefix: &str) -> Option<String> {
    let Some((last, rest)) = prefix.as_bytes().split_last() else { return Some(String::new()) };
    Space::new(prefix).ok()?;
    // A tilde is behind every character that a name may have.
    Some(format!("{}{}~", str::from_utf8(rest).ok()?, char::from(last - 1)))
}

/// Removes a space and everything in it. A device that still has something of it sends that again when it is linked.
#[utoipa::path(delete, path = "/api/state/{space}", tag = "state", params(("space" = String, Path)),
    responses((status = 200, body = SpaceRemoved), (status = 400)))]
pub(crate) async fn remove(
    Service(states): Service<Arc<States>>,
    Path(space): Path<String>,
) -> Result<axum::Json<SpaceRemoved>, Error> {
    let space = Space::new(space)?;
    let deleted = states.remove(&space).await?;
    Ok(axum::Json(SpaceRemoved { space: space.as_str().to_owned(), deleted }))
}

/// Changes of a space after the number a device has.
#[utoipa::path(get, path = "/api/state/{space}", tag = "state", params(("space" = String, Path), PullQuery),
    responses((status = 200, body = Changes), (status = 400)))]
pub(crate) async fn pull(
    Service(states): Service<Arc<States>>,
    Path(space): Path<String>,
    Query(have): Query<PullQuery>,
) -> Result<Response, Error> {
    let asked = Asked { after: have.after, epoch: have.epoch, paging: have.paging };
    let page = states.pull(&Space::new(space)?, &asked).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text_of(&page)).into_response())
}

/// Takes changes of a device. A `reset` among them needs the grant `state:{space}:reset` as well. 409 `reload` says that it has to ask for what is new first.
#[utoipa::path(post, path = "/api/state/{space}", tag = "state", params(("space" = String, Path)), request_body = PushRequest,
    responses((status = 200, body = PushReply), (status = 400), (status = 409), (status = 413)))]
pub(crate) async fn push(
    State(context): State<Arc<Context>>,
    Service(states): Service<Arc<States>>,
    Caller(caller): Caller,
    (recorder, quota): (Recorder, CallerQuota),
    Path(space): Path<String>,
    request: Request,
) -> Result<axum::Json<PushReply>, Error> {
    let space = Space::new(space)?;
    if body::media_type(request.headers()) != Some("application/json") {
        return Err(body::unsupported("send the body as application/json"));
    }
    let bytes = body::read(request, &context.config.limits).await?;
    let batch = batch(&bytes)?;
    super::quota::check(&states, &caller, &quota, batch.epoch == NEW_EPOCH, bytes.len()).await?;
    if batch.changes.iter().any(|change| matches!(change, Change::Reset(_))) {
        caller.require("state", "reset", space.as_str())?;
        let pending = recorder.begin("state", "reset", space.as_str()).await?;
        let pushed = states.push(&space, batch).await;
        let taken = matches!(pushed, Ok(Pushed::Taken { .. }));
        pending.settle((!taken).then_some("not-taken")).await;
        return reply(pushed?);
    }
    reply(states.push(&space, batch).await?)
}

fn reply(pushed: Pushed) -> Result<axum::Json<PushReply>, Error> {
    match pushed {
        Pushed::Taken { epoch, from, cursor, lost, now, .. } => {
            Ok(axum::Json(PushReply { epoch, from, cursor, lost, now: now.as_ms() }))
        }
        Pushed::Reload => {
            let message = "the device has not heard of everything that is gone here: ask for what is new, then send again";
            Err(Error::new(StatusCode::CONFLICT, "reload", message))
        }
        Pushed::Full => Err(full()),
    }
}

fn full() -> Error {
    let message = "the space holds as much as it can: remove something from it, or the space as a whole";
    Error::new(StatusCode::CONFLICT, "space-full", message)
}

fn batch(bytes: &[u8]) -> Result<Batch, Error> {
    let text = str::from_utf8(bytes).map_err(|_| Error::invalid("invalid-json", "the body is not UTF-8"))?;
    let json = Json::read(text).map_err(|error| Error::invalid("invalid-json", error.to_string()))?;
    let after = json.member("after").and_then(Json::as_whole);
    let epoch = json.member("epoch").and_then(Json::as_text);
    let (Some(after), Some(epoch), Some(Json::List(list))) = (after, epoch, json.member("changes")) else {
        let message = "the body must be an object with after, a number, epoch, a string, and changes, a list";
        return Err(Error::invalid("invalid-body", message));
    };
    if list.len() > BATCH_MAX {
        let message = format!("a batch has {BATCH_MAX} changes at most, not {}", list.len());
        return Err(Error::invalid("too-many-changes", message));
    }
    let changes = json.member("changes").map_or(Err(0), Change::read_all);
    let changes = changes.map_err(|at| {
        Error::invalid("invalid-change", format!("change {at} of the batch, counted from 0, makes no sense"))
    })?;
    Ok(Batch { after, epoch: epoch.to_owned(), changes })
}

fn text_of(page: &Page) -> String {
    let (whole, unknown) = (page.start == Start::Whole, page.start == Start::Unknown);
    let mut out = format!(
        "{{\"epoch\":\"{}\",\"cursor\":{},\"more\":{},\"whole\":{whole},\"unknown\":{unknown},\"now\":{},\"changes\":",
        page.epoch,
        page.cursor,
        page.more,
        page.now.as_ms()
    );
    Change::write_all(&page.changes, &mut out);
    out.push('}');
    out
}

impl From<InvalidSpace> for Error {
    fn from(invalid: InvalidSpace) -> Error {
        Error::invalid("invalid-space", invalid.to_string())
    }
}
