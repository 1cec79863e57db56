//! `/api/queues`: keys in, results out, and how each queue is. What workers claim is in `http/claims.rs`.

mod claims;
mod control;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use syncline_core::queue::{Kind, Place};
use syncline_core::time::Timestamp;
use syncline_store::queue::{
    Entry, GivenUp, INPUT_MAX_BYTES, KEY_MAX_BYTES, KEYS_MAX, LIST_MAX, List, NewTask,
};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::http::body::{Json, Path, Query};
use crate::http::search::{self, Search};
use crate::http::{Caller, CallerQuota, Error};
use crate::part::{Name, Routes, Rules, Service};
use crate::queue::{self, Queues, StatusView};
use crate::{Context, clock};

/// Room for as many keys of the largest size as one request may name, each character escaped at worst as `\u00e9` is.
const KEYS_BODY_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Keys on a page, unless asked otherwise.
const PAGE: usize = 100;

/// How much earlier than the node's own patience ends a wait for a result ends.
const WAIT_MARGIN: Duration = Duration::from_secs(2);

/// Every queue.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QueueList {
    queues: Vec<StatusView>,
}

/// Keys to put into a queue: `keys` alone, or `tasks` that carry something.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "tasks": [{ "key": "photo-7", "input": { "width": 800 } }] }))]
pub(crate) struct Enqueue {
    /// What to do with keys that are known; `new` if absent.
    #[serde(default)]
    kind: KindName,
    keys: Option<Vec<String>>,
    tasks: Option<Vec<EnqueueTask>>,
}

/// What to do with a key that is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = EnqueueKind)]
pub(crate) enum KindName {
    /// Nothing; a new one goes to the tail.
    #[default]
    New,
    /// Right after the head, if it has no result.
    Priority,
    /// Now, if it is to come back later.
    Retry,
    /// One more run, whatever is known.
    Again,
}

/// A key and what it carries.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct EnqueueTask {
    key: String,
    /// What whoever does the work is given: JSON of 64 KiB at most. While a key waits, the newest counts.
    input: Option<Value>,
    /// It does not start before, in milliseconds since 1970. A key that is in line already stays where it is.
    not_before: Option<u64>,
    /// It is not started from then on and ends as `failed`, in milliseconds since 1970.
    expires_at: Option<u64>,
    /// The group it belongs to, instead of the one that the queue's `group` says. A key that is in line already stays in its own.
    group: Option<String>,
}

/// What became of them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EnqueuedView {
    /// Newly in line.
    added: usize,
    /// Were in line and moved up.
    moved: usize,
    /// Are running and will run once more.
    again: usize,
    /// Were where they should be.
    unchanged: usize,
}

/// A key and what is known of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyView {
    key: String,
    /// Where it is.
    state: KeyState,
    /// What it was given; listings leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Value>,
    /// Its group.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// When it comes back or starts, in milliseconds since 1970, where that is named.
    #[serde(rename = "dueAt", skip_serializing_if = "Option::is_none")]
    due_at: Option<u64>,
    /// What came of it, once it is `done`.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    /// Why the last attempt brought no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Runs begun since it was enqueued.
    attempts: u32,
    /// Since when it is where it is, in milliseconds since 1970.
    changed_at: u64,
}

/// Where a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KeyState {
    /// In line.
    Waiting,
    /// Being worked on.
    Running,
    /// To come back later, or not to start before its time.
    Retrying,
    /// With a result.
    Done,
    /// Without a result: refused, or failed too often.
    Failed,
    /// Given up after too many attempts.
    Dead,
}

/// Several keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyList {
    keys: Vec<KeyView>,
    /// What to pass as `after` for those that follow; `null` at the end.
    next: Option<String>,
}

/// Which keys that were given up get another chance.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Revive {
    /// These, or all if absent.
    keys: Option<Vec<String>>,
    /// Without `keys`: only those that are `dead`, or only those that are `failed`; both if absent.
    state: Option<String>,
}

/// How many did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Revived {
    revived: usize,
}

/// Which keys to forget.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "keys": ["9784003101018"] }))]
pub(crate) struct Forget {
    keys: Vec<String>,
}

/// How many there were.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Forgotten {
    removed: usize,
}

/// What was removed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RemovedKey {
    key: String,
    /// Whether there was anything to remove.
    deleted: bool,
}

/// Keys that are gone.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClearedKeys {
    /// How many there were.
    deleted: usize,
}

#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct InState {
    /// Where they are; `running` cannot be named.
    #[param(inline)]
    state: KeyState,
}

#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct Wait {
    /// Wait this long for the key to end; not at all if absent.
    wait_ms: Option<u64>,
}

#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct Page {
    /// Where they are.
    #[param(value_type = KeyState, inline)]
    state: String,
    /// A text in the key, its reason or its result, whatever its case.
    q: Option<String>,
    /// The `next` of the page before.
    after: Option<String>,
    /// At most this many, 100 if absent, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

pub(super) fn routes() -> Routes {
    let queue = |verb| Rules::new().needs("queue", verb, Name::Path("name"));
    let many_keys = |verb| queue(verb).body_max_bytes(KEYS_BODY_MAX_BYTES);
    Routes::new()
        .with_rules(Rules::new().needs("queue", "read", Name::Any), routes!(list))
        .with_rules(queue("read"), routes!(one))
        .with_rules(many_keys("add"), routes!(enqueue))
        .with_rules(queue("read"), routes!(result))
        .with_rules(queue("read"), routes!(keys))
        .with_rules(queue("manage"), routes!(remove))
        .with_rules(many_keys("manage"), routes!(remove_many))
        .with_rules(many_keys("manage"), routes!(revive))
        .with_rules(queue("manage"), routes!(clear))
        .with_rules(queue("manage"), routes!(pause))
        .with_rules(queue("manage"), routes!(resume))
        .and(control::routes())
        .and(claims::routes())
}

/// Lists the queues that the caller may read, and how they are.
#[utoipa::path(get, path = "/api/queues", tag = "queue", responses((status = 200, body = QueueList)))]
pub(crate) async fn list(
    Service(queues): Service<Queues>,
    Caller(caller): Caller,
) -> Result<axum::Json<QueueList>, Error> {
    let mut queues = queues.status().await?;
    queues.retain(|queue| caller.require("queue", "read", &queue.name).is_ok());
    Ok(axum::Json(QueueList { queues }))
}

/// How one queue is.
#[utoipa::path(get, path = "/api/queues/{name}", tag = "queue", params(("name" = String, Path)),
    responses((status = 200, body = StatusView), (status = 404)))]
pub(crate) async fn one(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
) -> Result<axum::Json<StatusView>, Error> {
    Ok(axum::Json(queues.status_of(&name).await?))
}

/// Puts keys into a queue. A `kind` other than `new` costs calls and needs the grant `queue:{name}:urge` as well. They are kept when this answers; results come when the pace allows.
#[utoipa::path(post, path = "/api/queues/{name}", tag = "queue", params(("name" = String, Path)),
    request_body = Enqueue,
    responses((status = 202, body = EnqueuedView), (status = 400), (status = 404), (status = 413), (status = 507)))]
pub(crate) async fn enqueue(
    Service(queues): Service<Queues>,
    Caller(caller): Caller,
    quota: CallerQuota,
    Path(name): Path<String>,
    Json(enqueue): Json<Enqueue>,
) -> Result<(StatusCode, axum::Json<EnqueuedView>), Error> {
    if enqueue.kind != KindName::New {
        caller.require("queue", "urge", &name)?;
    }
    let kind = Kind::from(enqueue.kind);
    let tasks = tasks(enqueue)?;
    quota.spend_adds(tasks.len())?;
    let done = queues.enqueue_tasks(&name, kind, tasks).await?;
    let view =
        EnqueuedView { added: done.added, moved: done.moved, again: done.again, unchanged: done.ignored };
    Ok((StatusCode::ACCEPTED, axum::Json(view)))
}

/// What is known of a key, its result above all.
#[utoipa::path(get, path = "/api/queues/{name}/results/{key}", tag = "queue",
    params(("name" = String, Path), ("key" = String, Path), Wait),
    responses((status = 200, body = KeyView), (status = 400), (status = 404)))]
pub(crate) async fn result(
    State(context): State<Arc<Context>>,
    Service(queues): Service<Queues>,
    Path((name, key)): Path<(String, String)>,
    Query(wait): Query<Wait>,
) -> Result<axum::Json<KeyView>, Error> {
    let patience = context.config.limits.request_timeout.saturating_sub(WAIT_MARGIN);
    let wait = wait.wait_ms.map(Duration::from_millis).map(|wait| wait.min(patience));
    let entry = match wait {
        Some(wait) => {
            let stopped = context.stop.run_until_cancelled(queues.entry_within(&name, &key, wait));
            match stopped.await {
                Some(entry) => entry?,
                None => queues.entry(&name, &key).await?,
            }
        }
        None => queues.entry(&name, &key).await?,
    };
    let entry = entry.ok_or_else(|| Error::missing("this queue knows nothing of this key"))?;
    Ok(axum::Json(KeyView::of(entry)))
}

/// Lists keys by where they are: what waits in order, what ended newest first.
#[utoipa::path(get, path = "/api/queues/{name}/keys", tag = "queue", params(("name" = String, Path), Page),
    responses((status = 200, body = KeyList), (status = 400), (status = 404)))]
pub(crate) async fn keys(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
    Query(page): Query<Page>,
) -> Result<axum::Json<KeyList>, Error> {
    let limit = page.limit.unwrap_or(PAGE);
    if !(1..=LIST_MAX).contains(&limit) {
        return Err(Error::invalid("invalid-limit", format!("limit must be from 1 to {LIST_MAX}")));
    }
    let list = list_of(&page.state)?;
    let after = page.after.as_deref().map(str::parse).transpose()?;
    let mut search = Search::new(page.q.as_deref(), after, limit)?;
    while let Some(step) = search.next() {
        let entries = queues.list(&name, list, step.after, step.limit).await?;
        let next = match entries.last() {
            // A page also ends where its results are long, so that a short one says nothing.
            Some(last) if !queues.list(&name, list, Some(last.cursor), 1).await?.is_empty() => {
                Some(last.cursor)
            }
            _ => None,
        };
        search.put(entries, next, fits, |entry| entry.cursor);
    }
    let (entries, next) = search.end();
    let next = next.map(|cursor| cursor.to_string());
    Ok(axum::Json(KeyList { keys: entries.into_iter().map(KeyView::of).collect(), next }))
}

fn fits(entry: &Entry, text: &str) -> bool {
    let told = match &entry.place {
        Place::Done(told) => Some(told.as_str()),
        Place::Failed(reason) | Place::Dead(reason) => Some(&**reason),
        _ => entry.reason.as_deref(),
    };
    search::contains(&entry.key, text) || told.is_some_and(|told| search::contains(told, text))
}

/// Gives keys that are dead or failed all their attempts once more.
#[utoipa::path(post, path = "/api/queues/{name}/revive", tag = "queue", params(("name" = String, Path)),
    request_body = Revive, responses((status = 200, body = Revived), (status = 400), (status = 404)))]
pub(crate) async fn revive(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
    Json(revive): Json<Revive>,
) -> Result<axum::Json<Revived>, Error> {
    revive.keys.as_ref().map_or(Ok(()), |keys| check_keys(keys.iter()))?;
    let given_up: &[GivenUp] = match revive.state.as_deref() {
        None => &[GivenUp::Dead, GivenUp::Failed],
        Some("dead") => &[GivenUp::Dead],
        Some("failed") => &[GivenUp::Failed],
        Some(_) => return Err(Error::invalid("invalid-state", "state must be dead or failed")),
    };
    let revived = queues.revive(&name, revive.keys.as_deref(), given_up).await?;
    Ok(axum::Json(Revived { revived }))
}

/// Forgets a key, wherever it is. Removing what is not there is no error.
#[utoipa::path(delete, path = "/api/queues/{name}/keys/{key}", tag = "queue",
    params(("name" = String, Path), ("key" = String, Path)),
    responses((status = 200, body = RemovedKey), (status = 400), (status = 404)))]
pub(crate) async fn remove(
    Service(queues): Service<Queues>,
    Path((name, key)): Path<(String, String)>,
) -> Result<axum::Json<RemovedKey>, Error> {
    let removed = queues.remove(&name, std::slice::from_ref(&key)).await?;
    Ok(axum::Json(RemovedKey { key, deleted: removed > 0 }))
}

/// Forgets every key in one state.
#[utoipa::path(delete, path = "/api/queues/{name}/keys", tag = "queue",
    params(("name" = String, Path), InState),
    responses((status = 200, body = ClearedKeys), (status = 400), (status = 404)))]
pub(crate) async fn clear(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
    Query(of): Query<InState>,
) -> Result<axum::Json<ClearedKeys>, Error> {
    if of.state == KeyState::Running {
        return Err(Error::invalid("invalid-state", "keys that run are removed one by one"));
    }
    Ok(axum::Json(ClearedKeys { deleted: queues.clear(&name, list_in(of.state)).await? }))
}

/// Starts nothing any more, on all nodes, until the queue is resumed. What runs goes on.
#[utoipa::path(post, path = "/api/queues/{name}/pause", tag = "queue",
    params(("name" = String, Path)), responses((status = 200, body = StatusView), (status = 404)))]
pub(crate) async fn pause(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
) -> Result<axum::Json<StatusView>, Error> {
    Ok(axum::Json(queues.pause(&name).await?))
}

/// Starts again, and lifts whatever pause there is, also one that the API asked for.
#[utoipa::path(post, path = "/api/queues/{name}/resume", tag = "queue",
    params(("name" = String, Path)), responses((status = 200, body = StatusView), (status = 404)))]
pub(crate) async fn resume(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
) -> Result<axum::Json<StatusView>, Error> {
    Ok(axum::Json(queues.resume(&name).await?))
}

/// What a request puts in.
fn tasks(enqueue: Enqueue) -> Result<Vec<NewTask>, Error> {
    let tasks: Vec<NewTask> = match (enqueue.keys, enqueue.tasks) {
        (Some(keys), None) => keys.into_iter().map(NewTask::from).collect(),
        (None, Some(tasks)) => {
            let now = clock::wall();
            let from_now = |at: u64| Timestamp::from_ms(at).saturating_since(now);
            let task = |task: EnqueueTask| NewTask {
                key: task.key,
                input: task.input.map(|input| input.to_string()),
                delay: task.not_before.map(from_now),
                expires_in: task.expires_at.map(from_now),
                group: task.group,
            };
            tasks.into_iter().map(task).collect()
        }
        _ => return Err(Error::invalid("invalid-keys", "name either keys or tasks")),
    };
    check_keys(tasks.iter().map(|task| &task.key))?;
    if tasks.iter().filter_map(|task| task.input.as_ref()).any(|input| input.len() > INPUT_MAX_BYTES) {
        return Err(Error::invalid("invalid-input", format!("an input has at most {INPUT_MAX_BYTES} bytes")));
    }
    Ok(tasks)
}

/// Forgets keys, wherever they are. Those that are not there are no error.
#[utoipa::path(post, path = "/api/queues/{name}/remove", tag = "queue", params(("name" = String, Path)),
    request_body = Forget, responses((status = 200, body = Forgotten), (status = 400), (status = 404)))]
pub(crate) async fn remove_many(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
    Json(forget): Json<Forget>,
) -> Result<axum::Json<Forgotten>, Error> {
    check_keys(forget.keys.iter())?;
    let removed = queues.remove(&name, &forget.keys).await?;
    Ok(axum::Json(Forgotten { removed }))
}

impl KeyView {
    fn of(entry: Entry) -> KeyView {
        let state = KeyState::of(&entry.place);
        let due_at = match entry.place {
            Place::Retrying { due } => Some(due.as_ms()),
            _ => None,
        };
        let input = entry.input.and_then(|input| serde_json::from_str(&input).ok());
        let (result, reason) = match entry.place {
            Place::Done(result) => {
                (Some(serde_json::from_str(&result).unwrap_or(Value::String(result))), None)
            }
            Place::Failed(reason) | Place::Dead(reason) => (None, Some(reason.into_string())),
            _ => (None, entry.reason),
        };
        let changed_at = entry.changed_at.as_ms();
        let (key, attempts) = (entry.key, entry.attempts);
        KeyView { key, state, input, group: entry.group, due_at, result, reason, attempts, changed_at }
    }
}

impl KeyState {
    fn of(place: &Place<String>) -> KeyState {
        match place {
            Place::Waiting => KeyState::Waiting,
            Place::Running { .. } => KeyState::Running,
            Place::Retrying { .. } => KeyState::Retrying,
            Place::Done(_) => KeyState::Done,
            Place::Failed(_) => KeyState::Failed,
            Place::Dead(_) => KeyState::Dead,
        }
    }
}

impl From<KindName> for Kind {
    fn from(kind: KindName) -> Kind {
        match kind {
            KindName::New => Kind::New,
            KindName::Priority => Kind::Priority,
            KindName::Retry => Kind::Retry,
            KindName::Again => Kind::Again,
        }
    }
}

fn list_in(state: KeyState) -> List {
    match state {
        KeyState::Waiting => List::Waiting,
        KeyState::Running => List::Running,
        KeyState::Retrying => List::Retrying,
        KeyState::Done => List::Done,
        KeyState::Failed => List::Failed,
        KeyState::Dead => List::Dead,
    }
}

fn list_of(state: &str) -> Result<List, Error> {
    let message = "state must be waiting, running, retrying, done, failed or dead";
    let state = serde_json::from_value(Value::from(state));
    state.map(list_in).map_err(|_| Error::invalid("invalid-state", message))
}

fn check_keys<'a>(mut keys: impl ExactSizeIterator<Item = &'a String>) -> Result<(), Error> {
    if keys.len() == 0 || keys.len() > KEYS_MAX {
        return Err(Error::invalid("invalid-keys", format!("name from 1 to {KEYS_MAX} keys at a time")));
    }
    if keys.any(|key| key.is_empty() || key.len() > KEY_MAX_BYTES) {
        return Err(Error::invalid("invalid-key", format!("a key has from 1 to {KEY_MAX_BYTES} bytes")));
    }
    Ok(())
}

impl From<queue::Error> for Error {
    fn from(error: queue::Error) -> Error {
        match error {
            queue::Error::Unknown { .. } => Error::missing(error.to_string()),
            queue::Error::NoWorkers { .. } => {
                Error::new(StatusCode::CONFLICT, "no-workers", error.to_string())
            }
            queue::Error::Key { .. } => Error::invalid("invalid-key", error.to_string()),
            queue::Error::Store(syncline_store::Error::QueueFull(full)) => {
                Error::new(StatusCode::INSUFFICIENT_STORAGE, "queue-full", full.to_string())
            }
            queue::Error::Store(error) => error.into(),
        }
    }
}
