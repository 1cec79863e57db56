//! `/api/outbox`: how this node's own outbox is, and what to do about entries that were given up.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use syncline_store::outbox::{Detail, ENTRIES_MAX, List, Settings, Stats, Which};
use utoipa::{IntoParams, ToSchema};

use crate::http::Error;
use crate::http::body::{Json, Path, Query};
use crate::http::search::{self, Search};
use crate::inbox::Entities;
use crate::part::Service;

/// Entries on a page, unless asked otherwise.
const PAGE: usize = 50;

/// How the outbox is.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OutboxView {
    /// Not delivered yet; the next three are among them.
    pending: u64,
    /// Being sent.
    in_flight: u64,
    /// Failed, and tried again later.
    retrying: u64,
    /// Waiting for an earlier change of the same entity.
    behind: u64,
    /// Given up.
    dead: u64,
    /// How old the oldest pending one is; `null` if none is.
    oldest_ms: Option<u64>,
    /// Delivered since the outbox was created.
    delivered: u64,
    /// Delivered in the last minute.
    delivered_last_minute: u64,
    /// Whether sending is switched off in the settings: nothing leaves until it is resumed.
    paused: bool,
    /// Whether files are switched off there; changes go on.
    files_paused: bool,
}

/// Whether anything is sent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutboxPaused {
    paused: bool,
}

/// An entry of the outbox.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EntryView {
    id: i64,
    entity_type: String,
    entity_id: String,
    /// Length of its payload.
    bytes: u64,
    /// `null` where it cannot be read.
    created_at: Option<String>,
    #[schema(inline, value_type = OutboxState)]
    state: &'static str,
    /// How often it has failed.
    attempts: u32,
    /// When it is tried again, or its lease ends.
    due_in_ms: Option<u64>,
    last_error: Option<String>,
    ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object)]
    payload: Option<Box<RawValue>>,
}

/// Where an entry is.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what is written by hand")]
pub(crate) enum OutboxState {
    #[schema(rename = "waiting")]
    Waiting,
    #[schema(rename = "in flight")]
    InFlight,
    #[schema(rename = "retrying")]
    Retrying,
    #[schema(rename = "behind")]
    Behind,
    #[schema(rename = "dead")]
    Dead,
    #[schema(rename = "processed")]
    Processed,
}

/// Which entries are listed.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[allow(dead_code, reason = "describes what is read by hand")]
pub(crate) enum OutboxList {
    Pending,
    Dead,
    Processed,
}

/// Several.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EntryList {
    entries: Vec<EntryView>,
    /// What to pass as `after` for those that follow; `null` at the end.
    next: Option<i64>,
}

/// Which entries are meant.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chosen {
    /// These, or all that were given up if absent.
    ids: Option<Vec<i64>>,
}

/// How many there were.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Done {
    entries: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct Page {
    /// Which entries.
    #[param(inline, value_type = OutboxList)]
    state: String,
    /// A text in the type or id of the entity or in the last error, whatever its case.
    q: Option<String>,
    /// The `next` of the page before.
    after: Option<i64>,
    /// At most this many, 50 if absent, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// How the outbox is.
#[utoipa::path(get, path = "/api/outbox", tag = "outbox", responses((status = 200, body = OutboxView)))]
pub(crate) async fn status(Service(entities): Service<Entities>) -> Result<axum::Json<OutboxView>, Error> {
    let (stats, settings) = (entities.outbox().stats().await?, entities.outbox().settings().await?);
    Ok(axum::Json(OutboxView::of(&stats, &settings)))
}

/// Lists entries.
#[utoipa::path(get, path = "/api/outbox/entries", tag = "outbox", params(Page),
    responses((status = 200, body = EntryList), (status = 400)))]
pub(crate) async fn entries(
    Service(entities): Service<Entities>,
    Query(page): Query<Page>,
) -> Result<axum::Json<EntryList>, Error> {
    let limit = page.limit.unwrap_or(PAGE);
    if !(1..=ENTRIES_MAX).contains(&limit) {
        return Err(Error::invalid("invalid-limit", format!("limit must be from 1 to {ENTRIES_MAX}")));
    }
    let list = match page.state.as_str() {
        "pending" => List::Pending,
        "dead" => List::Dead,
        "processed" => List::Processed,
        _ => return Err(Error::invalid("invalid-state", "state must be pending, dead or processed")),
    };
    let mut search = Search::new(page.q.as_deref(), page.after, limit)?;
    while let Some(step) = search.next() {
        let listed = entities.outbox().list(list, step.after, step.limit).await?;
        let next = listed.last().filter(|_| listed.len() == step.limit).map(|last| last.id);
        search.put(listed, next, fits, |detail| detail.id);
    }
    let (listed, next) = search.end();
    let entries = listed.into_iter().map(|detail| EntryView::of(detail, None)).collect();
    Ok(axum::Json(EntryList { entries, next }))
}

fn fits(detail: &Detail, text: &str) -> bool {
    let entity = format!("{} {}", detail.entity_type, detail.entity_id);
    search::contains(&entity, text)
        || detail.last_error.as_deref().is_some_and(|error| search::contains(error, text))
}

/// One entry with its payload.
#[utoipa::path(get, path = "/api/outbox/entries/{id}", tag = "outbox", params(("id" = i64, Path)),
    responses((status = 200, body = EntryView), (status = 400), (status = 404)))]
pub(crate) async fn entry(
    Service(entities): Service<Entities>,
    Path(id): Path<i64>,
) -> Result<axum::Json<EntryView>, Error> {
    let entry = entities.outbox().entry(id).await?;
    let (detail, payload) = entry.ok_or_else(|| Error::missing("the outbox has no such entry"))?;
    let payload = RawValue::from_string(payload).ok();
    Ok(axum::Json(EntryView::of(detail, payload)))
}

/// Puts entries that were given up, or wait to be tried again, in line at once.
#[utoipa::path(post, path = "/api/outbox/retry", tag = "outbox", request_body = Chosen,
    responses((status = 200, body = Done), (status = 400)))]
pub(crate) async fn retry(
    Service(entities): Service<Entities>,
    Json(chosen): Json<Chosen>,
) -> Result<axum::Json<Done>, Error> {
    let entries = entities.outbox().retry(&chosen.which()?).await?;
    Ok(axum::Json(Done { entries }))
}

/// Removes entries that were given up, for good.
#[utoipa::path(post, path = "/api/outbox/discard", tag = "outbox", request_body = Chosen,
    responses((status = 200, body = Done), (status = 400)))]
pub(crate) async fn discard(
    Service(entities): Service<Entities>,
    Json(chosen): Json<Chosen>,
) -> Result<axum::Json<Done>, Error> {
    let entries = entities.outbox().discard(&chosen.which()?).await?;
    Ok(axum::Json(Done { entries }))
}

/// Sends nothing any more until it is resumed; what is on its way arrives. The switch is `sync_enabled` in the application's table
/// `system_settings`, which is created where there is none. `serversync` reads it every two seconds while it sends.
#[utoipa::path(post, path = "/api/outbox/pause", tag = "outbox",
    responses((status = 200, body = OutboxPaused, example = json!({ "paused": true })), (status = 400)))]
pub(crate) async fn pause(Service(entities): Service<Entities>) -> Result<axum::Json<OutboxPaused>, Error> {
    switch(&entities, true).await
}

/// Sends again, from where it stopped.
#[utoipa::path(post, path = "/api/outbox/resume", tag = "outbox",
    responses((status = 200, body = OutboxPaused, example = json!({ "paused": false })), (status = 400)))]
pub(crate) async fn resume(Service(entities): Service<Entities>) -> Result<axum::Json<OutboxPaused>, Error> {
    switch(&entities, false).await
}

async fn switch(entities: &Entities, paused: bool) -> Result<axum::Json<OutboxPaused>, Error> {
    let settings = Settings { enabled: Some(!paused), ..Settings::default() };
    entities.outbox().set_settings(&settings).await?;
    Ok(axum::Json(OutboxPaused { paused }))
}

impl Chosen {
    fn which(self) -> Result<Which, Error> {
        match self.ids {
            None => Ok(Which::AllDead),
            Some(ids) if (1..=ENTRIES_MAX).contains(&ids.len()) => Ok(Which::Ids(ids)),
            Some(_) => {
                Err(Error::invalid("invalid-ids", format!("name from 1 to {ENTRIES_MAX} entries at a time")))
            }
        }
    }
}

impl OutboxView {
    pub(crate) fn of(stats: &Stats, settings: &Settings) -> OutboxView {
        OutboxView {
            pending: stats.pending,
            in_flight: stats.in_flight,
            retrying: stats.retrying,
            behind: stats.behind,
            dead: stats.dead,
            oldest_ms: stats.oldest.map(whole_ms),
            delivered: stats.delivered,
            delivered_last_minute: stats.delivered_last_minute,
            paused: settings.enabled == Some(false),
            files_paused: settings.files_enabled == Some(false),
        }
    }
}

impl EntryView {
    fn of(detail: Detail, payload: Option<Box<RawValue>>) -> EntryView {
        EntryView {
            id: detail.id,
            entity_type: detail.entity_type,
            entity_id: detail.entity_id,
            bytes: detail.bytes,
            created_at: detail.created_at.map(|at| at.to_string()),
            state: detail.state.as_str(),
            attempts: detail.attempts,
            due_in_ms: detail.due_in.map(whole_ms),
            last_error: detail.last_error,
            ended_at: detail.ended_at.map(|at| at.to_string()),
            payload,
        }
    }
}

fn whole_ms(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
