//! One queue of this node: its name, its rules, and how it is, for people.
//!
//! The rate and the time left are measured from the store's totals, so they are those of all nodes together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use serde::Serialize;
use syncline_core::queue::{
    Answer, Breaker, Counts, GroupSettings, Kind, Meter, Outlook, PauseReason, Settled, Why,
};
use syncline_core::text::excerpt;
use syncline_core::time::Timestamp;
use syncline_store::queue::{Ended, GroupOf, NewTask, Next, Queues, Rules, Status};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::config::{Doer, Queue};
use super::meters::Meters;
use super::{Check, CheckInput, Error, Filling, GroupTemplate, Spec, rules};
use crate::clock;
use crate::events::Bus;
use crate::metrics::Registry;

/// Most keys that count one by one when many have ended since the last look: beyond it the rate is high anyway.
const COUNTED_MAX: u64 = 10_000;

/// How often it is said that results are dropped.
const DROPPED_EVERY: Duration = Duration::from_secs(60);

/// What this node has of a queue.
pub(super) struct QueueHandle {
    name: String,
    url: Option<String>,
    check: Check,
    check_input: Option<CheckInput>,
    /// The queue that keys with results go to.
    then: Option<String>,
    /// Whether workers elsewhere claim its keys.
    pub(super) claimable: bool,
    /// Whose turn it is to look for keys, of those who wait for some on this node.
    pub(super) turn: tokio::sync::Mutex<()>,
    rules: RwLock<Rules>,
    /// Names the group of a key that comes without one.
    group: Option<GroupTemplate>,
    /// Where keys with results go, once all queues are there.
    next: RwLock<Option<Next>>,
    pub(super) store: Arc<dyn Queues>,
    pub(super) meters: Meters,
    events: Bus,
    measured: Mutex<Option<Measured>>,
    dropped: Mutex<DroppedReport>,
}

/// How many dropped results were logged, and when.
#[derive(Default)]
struct DroppedReport {
    count: u64,
    at: Option<Instant>,
}

/// What the rate is measured from.
struct Measured {
    meter: Meter,
    ended: u64,
}

/// How a queue is.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct StatusView {
    /// Its name.
    pub name: String,
    /// Where its calls go, without what may be secret; absent for queues whose work is not a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The queue that keys with results go to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// Whether workers claim its keys over HTTP; otherwise the node works on them.
    pub workers: bool,
    /// Keys worked on at once.
    pub concurrency: u32,
    /// Least time from the end of a call to the next.
    pub interval_ms: u64,
    /// When a key that met a 429 comes back.
    pub retry_delay_ms: u64,
    /// The pace of each group, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<GroupPaceView>,
    /// Whether the pace was set while the queue runs and counts instead of the configuration's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pace_is_set: bool,
    /// How long results are kept; until there are too many of them if absent.
    #[serde(rename = "resultTtlSec", skip_serializing_if = "Option::is_none")]
    pub result_ttl_sec: Option<u64>,
    /// How many keys are where.
    pub counts: CountsView,
    /// Keys ever ended with a result, those forgotten since included.
    pub done_total: u64,
    /// Keys ever ended without one.
    pub failed_total: u64,
    /// Keys ended a second, of late, on all nodes; 0 while none is worked on.
    pub rate_per_sec: f64,
    /// Time until the last key ends; `null` while nobody calls, and when there is no telling.
    pub left_ms: Option<u64>,
    /// When the next call starts, in milliseconds since 1970; `null` if none waits or that depends on another call.
    pub next_call_at: Option<u64>,
    /// When the next retry is due, in milliseconds since 1970.
    pub next_retry_at: Option<u64>,
    /// Until when nobody calls.
    pub paused: Option<PausedView>,
    /// `closed` while the API is well, `open` while it is left alone, `probing` while one call finds out.
    pub breaker: &'static str,
    /// What the next key waits for: `interval`, `busy`, `probing`, `paused`, or nothing.
    pub waits_for: Option<&'static str>,
}

/// The pace of each group of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct GroupPaceView {
    /// Keys of one group worked on at once.
    pub concurrency: u32,
    /// Least time from the end of a call to the next of the same group.
    pub interval_ms: u64,
}

/// How many keys are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct CountsView {
    /// In line.
    pub waiting: usize,
    /// Being worked on.
    pub running: usize,
    /// To come back.
    pub retrying: usize,
    /// With a result.
    pub done: usize,
    /// Without a result: refused by the API, or failed too often.
    pub failed: usize,
    /// Given up after too many 429s.
    pub dead: usize,
}

/// A time in which nobody calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PausedView {
    /// Its end, in milliseconds since 1970; `null` while somebody has to resume it.
    pub until: Option<u64>,
    /// Why.
    pub reason: PausedReason,
}

/// Why nobody calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PausedReason {
    /// The API asked for it.
    RetryAfter,
    /// The API keeps failing.
    Breaker,
    /// Somebody paused the queue.
    Operator,
}

/// A key that ended, for whoever listens.
#[derive(Serialize)]
struct ResultEvent<'a> {
    queue: &'a str,
    key: &'a str,
    state: &'static str,
}

impl QueueHandle {
    pub(super) fn new(
        spec: Spec,
        claimable: bool,
        store: Arc<dyn Queues>,
        events: Bus,
        registry: &Registry,
    ) -> QueueHandle {
        QueueHandle {
            meters: Meters::new(registry, &spec.name),
            rules: RwLock::new(rules(&spec)),
            group: spec.group,
            next: RwLock::default(),
            name: spec.name,
            url: spec.url,
            check: spec.check,
            check_input: spec.check_input,
            then: spec.then,
            claimable,
            turn: tokio::sync::Mutex::default(),
            store,
            events,
            measured: Mutex::new(None),
            dropped: Mutex::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// How it is run, as far as the configuration says.
    pub(super) fn rules(&self) -> Rules {
        *self.rules.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn then(&self) -> Option<&str> {
        self.then.as_deref()
    }

    pub(super) fn set_next(&self, next: Option<Next>) {
        *self.next.write().unwrap_or_else(PoisonError::into_inner) = next;
    }

    /// Takes over the pace of another declaration; tells whether that is another.
    pub(super) fn take_over(&self, declared: &Queue) -> bool {
        let mut rules = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        let before = *rules;
        if matches!(declared.doer, Doer::Part) {
            // The rest of it is the part's business.
            (rules.settings.concurrency, rules.settings.interval) =
                (declared.settings.concurrency, declared.settings.interval);
        } else {
            (rules.settings, rules.groups, rules.result_ttl) =
                (declared.settings, declared.groups, declared.result_ttl);
        }
        before != *rules
    }

    /// Puts a task that names no group into the one that its key or its input says.
    pub(super) fn name_group(&self, task: &mut NewTask) -> Result<(), Error> {
        let Some(template) = self.group.as_ref().filter(|_| task.group.is_none()) else { return Ok(()) };
        let named = group_of(template, &task.key, task.input.as_deref());
        // One that is known may have the input that its group is named by.
        if named.is_err() && task.input.is_none() && template.needs_input() {
            return Ok(());
        }
        let named = named.map_err(|reason| Error::Key {
            key: excerpt(&task.key),
            queue: self.name.clone(),
            reason,
        })?;
        task.group = Some(named);
        Ok(())
    }

    /// Names the groups of keys that come from another queue.
    pub(super) fn group_by(&self) -> Option<GroupOf> {
        let template = self.group.clone()?;
        Some(Arc::new(move |key, input| group_of(&template, key, input).ok()))
    }

    /// The key a text stands for.
    pub(super) fn key(&self, text: &str) -> Result<String, Error> {
        (self.check)(text).map_err(|reason| Error::Key {
            key: excerpt(text),
            queue: self.name.clone(),
            reason,
        })
    }

    /// Whether a task can be worked on. One without an input may be about a key that has one.
    pub(super) fn check_input(&self, task: &NewTask, kind: Kind) -> Result<(), Error> {
        let Some(check) = &self.check_input else { return Ok(()) };
        if task.input.is_none() && matches!(kind, Kind::Again | Kind::Retry) {
            return Ok(());
        }
        let input = task.input.as_deref().and_then(|input| serde_json::from_str(input).ok());
        check(&task.key, input.as_ref()).map_err(|reason| Error::Key {
            key: excerpt(&task.key),
            queue: self.name.clone(),
            reason,
        })
    }

    /// How it is now.
    pub(super) async fn view(&self) -> Result<StatusView, syncline_store::Error> {
        let status = self.store.status(&self.name, &self.rules()).await?;
        self.meters.show(&status);
        self.tell_dropped();
        Ok(self.shown(&status))
    }

    /// Tells everybody how it is.
    pub(super) fn publish(&self, view: &StatusView) {
        self.events.publish_here_in("queue", &self.name, view);
    }

    /// Ends runs with these answers, and passes on what has a result.
    pub(super) async fn settle(
        &self,
        answers: Vec<(u64, Answer<String>)>,
    ) -> Result<Vec<Ended>, syncline_store::Error> {
        let next = self.next.read().unwrap_or_else(PoisonError::into_inner).clone();
        self.store.settle_then(&self.name, &self.rules(), answers, next.as_ref()).await
    }

    /// Counts and tells what became of a key.
    pub(super) fn ended(&self, key: &str, settled: Settled) {
        let state = match settled {
            Settled::Done => "done",
            Settled::Failed => "failed",
            Settled::Dead => "dead",
            Settled::Retrying { .. } => "retrying",
            Settled::Waiting | Settled::Again => return,
        };
        match settled {
            Settled::Done => self.meters.done.increment(1),
            Settled::Failed | Settled::Dead => self.meters.failed.increment(1),
            _ => {}
        }
        self.announce(key, state);
    }

    pub(super) fn announce(&self, key: &str, state: &'static str) {
        self.events.publish_in("queue.result", &self.name, &ResultEvent { queue: &self.name, key, state });
    }

    /// Counts the results that were dropped, and says so once a minute.
    fn tell_dropped(&self) {
        let mut reported = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        let dropped = self.store.dropped(&self.name);
        self.meters.dropped.absolute(dropped);
        let due = reported.at.is_none_or(|at| at.elapsed() >= DROPPED_EVERY);
        if dropped > reported.count && due {
            let results_max = self.rules().limits.max_results;
            let since = dropped - reported.count;
            tracing::warn!(
                queue = self.name,
                dropped = since,
                results_max,
                "the oldest results of a queue were dropped; raise results_max to keep more"
            );
            *reported = DroppedReport { count: dropped, at: Some(Instant::now()) };
        }
    }

    fn shown(&self, status: &Status) -> StatusView {
        let (rate_per_sec, left_ms) = self.measure(status);
        let settings = &status.rules.settings;
        let groups = status.has_groups.then(|| status.rules.groups.unwrap_or(GroupSettings::UNPACED));
        let Counts { waiting, running, retrying, done, failed, dead } = status.counts;
        let (now, wall) = (Instant::now(), clock::wall());
        let at = |instant: Instant| (wall + instant.saturating_duration_since(now)).as_ms();
        StatusView {
            name: self.name.clone(),
            url: self.url.clone(),
            then: self.then.clone(),
            concurrency: settings.concurrency,
            interval_ms: whole_ms(settings.interval),
            retry_delay_ms: whole_ms(settings.retry_delay),
            groups: groups.map(|groups| GroupPaceView {
                concurrency: groups.concurrency,
                interval_ms: whole_ms(groups.interval),
            }),
            pace_is_set: status.is_set,
            result_ttl_sec: status.rules.result_ttl.map(|ttl| ttl.as_secs()),
            counts: CountsView { waiting, running, retrying, done, failed, dead },
            done_total: status.done_total,
            failed_total: status.failed_total,
            rate_per_sec: (rate_per_sec * 1_000.0).round() / 1_000.0,
            left_ms,
            next_call_at: status.next_call_at.map(at),
            next_retry_at: status.next_retry_at.map(at),
            workers: self.claimable,
            paused: if status.held {
                Some(PausedView { until: None, reason: PausedReason::Operator })
            } else {
                let paused = |(until, reason)| PausedView { until: Some(at(until)), reason: word(reason) };
                status.paused.map(paused)
            },
            breaker: match status.breaker {
                Breaker::Closed { .. } => "closed",
                Breaker::Open { .. } => "open",
                Breaker::HalfOpen { .. } => "probing",
            },
            waits_for: status.waits_for.map(|why| match why {
                Why::Interval => "interval",
                Why::Busy => "busy",
                Why::Probing => "probing",
                Why::Paused(_) => "paused",
            }),
        }
    }

    /// Keys a second, and the time left.
    fn measure(&self, status: &Status) -> (f64, Option<u64>) {
        let now = clock::now();
        let ended = status.done_total.saturating_add(status.failed_total);
        let mut measured = self.measured();
        let measured = measured.get_or_insert_with(|| Measured { meter: new_meter(now), ended });
        for _ in 0..ended.saturating_sub(measured.ended).min(COUNTED_MAX) {
            measured.meter.done(now);
        }
        measured.ended = ended;
        let held =
            status.held || status.paused.is_some() || !matches!(status.breaker, Breaker::Closed { .. });
        let outlook = Outlook { counts: status.counts, interval: status.rules.settings.interval, held };
        measured.meter.look(now, outlook);
        let progress = measured.meter.progress(now, outlook);
        (progress.rate_per_s, progress.time_left.map(whole_ms))
    }

    fn measured(&self) -> MutexGuard<'_, Option<Measured>> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often results are looked at that may be too old. Claims and results do so in passing.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// Has results forgotten whose time is over, until told to stop.
pub(super) async fn forget_old_results(handle: Arc<QueueHandle>, stop: CancellationToken) {
    loop {
        if stop.run_until_cancelled(tokio::time::sleep(FORGET_EVERY)).await.is_none() {
            return;
        }
        if handle.rules().result_ttl.is_none() {
            continue;
        }
        if let Err(error) = handle.store.forget_old_results(&handle.name, &handle.rules()).await {
            tracing::warn!(queue = handle.name, %error, "old results could not be forgotten; it is tried again");
        }
    }
}

/// The group of a key with this input.
fn group_of(template: &GroupTemplate, key: &str, input: Option<&str>) -> Result<String, String> {
    let input = input.and_then(|input| serde_json::from_str(input).ok());
    template.expand(Filling { key, input: input.as_ref() })
}

fn new_meter(now: Timestamp) -> Meter {
    Meter::new(now, Counts::default())
}

fn word(reason: PauseReason) -> PausedReason {
    match reason {
        PauseReason::RetryAfter => PausedReason::RetryAfter,
        PauseReason::Breaker => PausedReason::Breaker,
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
