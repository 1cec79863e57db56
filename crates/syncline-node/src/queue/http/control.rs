//! Control of a queue while it runs: its pace, and its groups.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use syncline_core::queue::{CONCURRENCY_MAX, SPAN_MAX};
use syncline_store::queue::{GROUP_MAX_BYTES, GroupStatus, LIST_MAX, SetPace};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::PAGE;
use crate::clock;
use crate::http::Error;
use crate::http::body::{Json, Path, Query};
use crate::http::search::{self, Search};
use crate::part::{Name, Routes, Rules, Service};
use crate::queue::{Queues, StatusView};

/// A pace to set; what is absent stays as the configuration has it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = QueuePace, example = json!({ "concurrency": 4, "intervalMs": 250 }))]
pub(crate) struct PaceBody {
    /// Keys worked on at once.
    #[schema(minimum = 1, maximum = 1000)]
    concurrency: Option<u32>,
    /// Least time from the end of a call to the next.
    #[schema(maximum = 86_400_000)]
    interval_ms: Option<u64>,
    /// Keys of one group worked on at once.
    #[schema(minimum = 1, maximum = 1000)]
    group_concurrency: Option<u32>,
    /// Least time from the end of a call to the next of the same group.
    #[schema(maximum = 86_400_000)]
    group_interval_ms: Option<u64>,
}

/// Groups of a queue.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GroupList {
    groups: Vec<GroupView>,
    /// What to pass as `after` for those that follow; `null` at the end.
    next: Option<String>,
}

/// A group of a queue that has keys in line, calls under way, or a reason to wait.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupView {
    /// Its name; keys that nobody has put into a group are in the one without a name.
    name: String,
    /// In line.
    waiting: usize,
    /// Being worked on.
    running: usize,
    /// Whether somebody paused it.
    paused: bool,
    /// Calls in a row that were not answered.
    failures: u32,
    /// When its next call may start, in milliseconds since 1970, as far as its own pace goes.
    next_call_at: Option<u64>,
}

/// A group that was paused or resumed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HeldGroup {
    group: String,
    paused: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct GroupPage {
    /// A text in the name, whatever its case.
    q: Option<String>,
    /// The `next` of the page before.
    after: Option<String>,
    /// At most this many, 100 if absent, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Which group.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = QueueGroup, example = json!({ "group": "shop.example" }))]
pub(crate) struct GroupName {
    /// Its name; it need not have a key yet.
    group: String,
}

pub(super) fn routes() -> Routes {
    let queue = |verb| Rules::new().needs("queue", verb, Name::Path("name"));
    Routes::new()
        .with_rules(queue("manage"), routes!(set_pace))
        .with_rules(queue("manage"), routes!(reset_pace))
        .with_rules(queue("read"), routes!(groups))
        .with_rules(queue("manage"), routes!(pause_group))
        .with_rules(queue("manage"), routes!(resume_group))
}

/// Sets the pace of a queue on all nodes, at once and until it is reset. It outlives restarts.
#[utoipa::path(put, path = "/api/queues/{name}/pace", tag = "queue",
    params(("name" = String, Path)), request_body = PaceBody,
    responses((status = 200, body = StatusView), (status = 400), (status = 404)))]
pub(crate) async fn set_pace(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
    Json(pace): Json<PaceBody>,
) -> Result<axum::Json<StatusView>, Error> {
    let spans = [pace.interval_ms, pace.group_interval_ms];
    let counts = [pace.concurrency, pace.group_concurrency];
    if spans.iter().all(Option::is_none) && counts.iter().all(Option::is_none) {
        return Err(Error::invalid("invalid-pace", "name what to set, such as intervalMs"));
    }
    if counts.into_iter().flatten().any(|count| !(1..=CONCURRENCY_MAX).contains(&count)) {
        let message = format!("concurrency and groupConcurrency must be from 1 to {CONCURRENCY_MAX}");
        return Err(Error::invalid("invalid-pace", message));
    }
    let span_max = u64::try_from(SPAN_MAX.as_millis()).unwrap_or(u64::MAX);
    if spans.into_iter().flatten().any(|span| span > span_max) {
        let message = format!("intervalMs and groupIntervalMs must be at most {span_max}");
        return Err(Error::invalid("invalid-pace", message));
    }
    let PaceBody { concurrency, interval_ms, group_concurrency, group_interval_ms } = pace;
    let pace = SetPace { concurrency, interval_ms, group_concurrency, group_interval_ms };
    Ok(axum::Json(queues.set_pace(&name, Some(pace)).await?))
}

/// Gives the pace of a queue back to the configuration of each node.
#[utoipa::path(delete, path = "/api/queues/{name}/pace", tag = "queue",
    params(("name" = String, Path)), responses((status = 200, body = StatusView), (status = 404)))]
pub(crate) async fn reset_pace(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
) -> Result<axum::Json<StatusView>, Error> {
    Ok(axum::Json(queues.set_pace(&name, None).await?))
}

/// Lists the groups of a queue by name: those with keys in line or calls under way, that wait for their next call, or that are paused.
#[utoipa::path(get, path = "/api/queues/{name}/groups", tag = "queue",
    params(("name" = String, Path), GroupPage),
    responses((status = 200, body = GroupList), (status = 400), (status = 404)))]
pub(crate) async fn groups(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
    Query(page): Query<GroupPage>,
) -> Result<axum::Json<GroupList>, Error> {
    let limit = page.limit.unwrap_or(PAGE);
    if !(1..=LIST_MAX).contains(&limit) {
        return Err(Error::invalid("invalid-limit", format!("limit must be from 1 to {LIST_MAX}")));
    }
    let mut search = Search::new(page.q.as_deref(), page.after, limit)?;
    while let Some(step) = search.next() {
        let found = queues.groups(&name, step.after.as_deref(), step.limit).await?;
        let next = found.last().filter(|_| found.len() == step.limit).map(|last| last.name.clone());
        search.put(
            found,
            next,
            |group, text| search::contains(&group.name, text),
            |group| group.name.clone(),
        );
    }
    let (found, next) = search.end();
    let next = match next {
        Some(last) if queues.groups(&name, Some(&last), 1).await?.is_empty() => None,
        next => next,
    };
    Ok(axum::Json(GroupList { groups: found.into_iter().map(GroupView::of).collect(), next }))
}

/// Starts nothing of a group any more, on all nodes, until it is resumed. What runs goes on.
#[utoipa::path(post, path = "/api/queues/{name}/groups/pause", tag = "queue",
    params(("name" = String, Path)), request_body = GroupName,
    responses((status = 200, body = HeldGroup), (status = 400), (status = 404)))]
pub(crate) async fn pause_group(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
    Json(GroupName { group }): Json<GroupName>,
) -> Result<axum::Json<HeldGroup>, Error> {
    hold(&queues, &name, group, true).await
}

/// Starts a group again, and lifts whatever pause it has, also one that its API asked for.
#[utoipa::path(post, path = "/api/queues/{name}/groups/resume", tag = "queue",
    params(("name" = String, Path)), request_body = GroupName,
    responses((status = 200, body = HeldGroup), (status = 400), (status = 404)))]
pub(crate) async fn resume_group(
    Service(queues): Service<Queues>,
    Path(name): Path<String>,
    Json(GroupName { group }): Json<GroupName>,
) -> Result<axum::Json<HeldGroup>, Error> {
    hold(&queues, &name, group, false).await
}

async fn hold(
    queues: &Queues,
    name: &str,
    group: String,
    paused: bool,
) -> Result<axum::Json<HeldGroup>, Error> {
    if group.len() > GROUP_MAX_BYTES || group.chars().any(char::is_control) {
        let message = format!("a group has at most {GROUP_MAX_BYTES} bytes and no control characters");
        return Err(Error::invalid("invalid-group", message));
    }
    queues.hold_group(name, &group, paused).await?;
    Ok(axum::Json(HeldGroup { group, paused }))
}

impl GroupView {
    fn of(group: GroupStatus) -> GroupView {
        let (now, wall) = (Instant::now(), clock::wall());
        let at = |instant: Instant| (wall + instant.saturating_duration_since(now)).as_ms();
        GroupView {
            name: group.name,
            waiting: group.waiting,
            running: group.running,
            paused: group.held,
            failures: group.failures,
            next_call_at: group.next_call_at.map(at),
        }
    }
}
