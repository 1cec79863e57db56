//! The queue port: keyed work at a shared pace, kept in the database.
//!
//! The rules are [`syncline_core::queue`]'s; this keeps what they decide, so that it survives `kill -9` and holds for
//! every process on the same database. A worker's life is a loop:
//!
//! ```text
//! claim ─▶ for each run: begin it by `start_by`, or settle it `NotMade`; end or renew it by `deadline`
//!   ▲      settle the answers, many at once
//!   └───── sleep until `Claimed::look_at`, or until `changes` says something, or until a run ended
//! ```
//!
//! Guarantees, on every engine:
//!
//! - a key is in one place only, whoever enqueues at once, and keeps it when the process dies;
//! - a claim, the pace it uses and the keys it takes are one transaction; a result, the end of its call and what
//!   that does to the pace are one transaction. So a key whose result was stored never runs again by itself, and a
//!   key whose worker died comes back once its call counts as lost;
//! - an answer for a call that was given up is dropped: there is never a second result;
//! - calls of all processes together keep the interval, the concurrency and the pauses, whatever their clocks say;
//! - every operation finds its rows by an index: a million keys cost what a thousand cost.
//!
//! Times that leave the process they were made in are the store's own clock; [`Instant`]s are this process's.
//! Left to others: making the calls, and what keys and results mean.

mod check;
mod enqueue;
mod follow;
pub(crate) mod groups;
mod leave;
mod order;
mod pace;
mod paced;
#[cfg(test)]
mod plans;
pub(crate) mod port;
pub(crate) mod registry;
mod revive;
pub(crate) mod row;
pub(crate) mod table;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use syncline_core::queue::{
    Answer, Breaker, Counts, Enqueued, GroupSettings, Kind, Limits, Outcome, PauseReason, Place, Settings,
    Settled, Why,
};
use syncline_core::time::Timestamp;
use tokio::sync::watch;

use crate::Error;

/// Longest name of a queue.
pub const NAME_MAX_BYTES: usize = 64;
/// Longest key.
pub const KEY_MAX_BYTES: usize = 1_024;
/// Longest name of a group.
pub const GROUP_MAX_BYTES: usize = 256;
/// Longest result; a longer one is a failure that says so.
pub const RESULT_MAX_BYTES: usize = 256 * 1_024;
/// Longest input of a key.
pub const INPUT_MAX_BYTES: usize = 64 * 1_024;
/// Most bytes of inputs in one call.
pub const INPUTS_MAX_BYTES: usize = 16 * 1_024 * 1_024;
/// Most keys or outcomes in one call.
pub const KEYS_MAX: usize = 10_000;
/// Most entries in one listing.
pub const LIST_MAX: usize = 1_000;
/// Most bytes of results in one listing; it ends where there would be more.
pub const LIST_BYTES_MAX: usize = 4 * 1_024 * 1_024;
/// Most queues in one store.
pub const QUEUES_MAX: usize = 1_000;

/// How a queue is run. All who share a queue should say the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Its pace.
    pub settings: Settings,
    /// Its bounds.
    pub limits: Limits,
    /// The pace of each of its groups, where it has any.
    pub groups: Option<GroupSettings>,
    /// How long results are kept; until there are too many if absent.
    pub result_ttl: Option<Duration>,
}

/// A pace that counts instead of that of the rules, until it is taken back; what is absent stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetPace {
    /// Calls at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Least time between calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<u64>,
    /// Calls of one group at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_concurrency: Option<u32>,
    /// Least time between calls of one group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_interval_ms: Option<u64>,
}

impl SetPace {
    /// `rules` with this pace.
    #[must_use]
    pub fn over(&self, rules: &Rules) -> Rules {
        let mut rules = *rules;
        rules.settings.concurrency = self.concurrency.unwrap_or(rules.settings.concurrency);
        rules.settings.interval = self.interval_ms.map_or(rules.settings.interval, Duration::from_millis);
        if self.group_concurrency.is_some() || self.group_interval_ms.is_some() {
            let mut groups = rules.groups.unwrap_or(GroupSettings::UNPACED);
            groups.concurrency = self.group_concurrency.unwrap_or(groups.concurrency);
            groups.interval = self.group_interval_ms.map_or(groups.interval, Duration::from_millis);
            rules.groups = Some(groups);
        }
        rules
    }
}

/// Where keys with results go next.
#[derive(Clone)]
pub struct Next {
    /// The queue.
    pub queue: String,
    /// Its rules.
    pub rules: Rules,
    /// Which group a key with this input is in there.
    pub group: Option<GroupOf>,
}

/// Names the group of a key with this input.
pub type GroupOf = Arc<dyn Fn(&str, Option<&str>) -> Option<String> + Send + Sync>;

/// A group for people to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStatus {
    /// Its name; that of keys nobody has put into a group is empty.
    pub name: String,
    /// Keys that wait.
    pub waiting: usize,
    /// Calls in flight.
    pub running: usize,
    /// Whether somebody holds it: see [`Queues::pause_group`].
    pub held: bool,
    /// Calls in a row that were not answered.
    pub failures: u32,
    /// When its next call may start, as far as its own pace goes.
    pub next_call_at: Option<Instant>,
}

impl From<Settings> for Rules {
    fn from(settings: Settings) -> Self {
        Self { settings, limits: Limits::default(), groups: None, result_ttl: None }
    }
}

/// A key to put into a queue, and what it carries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewTask {
    /// The key.
    pub key: String,
    /// What whoever does the work is given: JSON. Without one, a key that is known keeps its own.
    pub input: Option<String>,
    /// How long it does not start; for a key that is in line already this changes nothing.
    pub delay: Option<Duration>,
    /// When it is not started any more and fails instead; the newest counts.
    pub expires_in: Option<Duration>,
    /// Its group. Of a key that is in line already it changes nothing; without one, a key that is known keeps its own.
    pub group: Option<String>,
}

impl From<String> for NewTask {
    fn from(key: String) -> Self {
        Self { key, ..Self::default() }
    }
}

/// Durable queues, each known by its name. A queue comes into being when something is put into it.
///
/// Names are 1 to [`NAME_MAX_BYTES`] letters, digits, dots, dashes and underscores. Keys are 1 to
/// [`KEY_MAX_BYTES`] bytes without control characters. What breaks a bound is [`Error::Invalid`] and changes nothing.
#[async_trait]
pub trait Queues: Send + Sync {
    /// Puts `keys` into the line as `kind` says, keeping their order. All or none: if they do not fit, it is
    /// [`Error::QueueFull`].
    async fn enqueue(
        &self,
        queue: &str,
        rules: &Rules,
        kind: Kind,
        keys: &[String],
    ) -> Result<Enqueued, Error> {
        self.enqueue_tasks(queue, rules, kind, keys.iter().cloned().map(NewTask::from).collect()).await
    }

    /// The same for keys that carry something.
    async fn enqueue_tasks(
        &self,
        queue: &str,
        rules: &Rules,
        kind: Kind,
        tasks: Vec<NewTask>,
    ) -> Result<Enqueued, Error>;

    /// Takes up to `max` keys to work on, as many as the pace allows now, and tells when to ask again.
    async fn claim(&self, queue: &str, rules: &Rules, max: usize) -> Result<Claimed, Error> {
        self.claim_for(queue, rules, max, None).await
    }

    /// The same for a caller that wants to be given up after another time than the queue's.
    async fn claim_for(
        &self,
        queue: &str,
        rules: &Rules,
        max: usize,
        lease: Option<Duration>,
    ) -> Result<Claimed, Error>;

    /// Ends calls with these answers and keeps what they brought. Tells what became of each key; answers that are not
    /// wanted any more, because the call was given up or the key is gone, are left out.
    ///
    /// After an error nothing can be said about the answers: settle them again; those that were kept are left out
    /// then.
    async fn settle(
        &self,
        queue: &str,
        rules: &Rules,
        answers: Vec<(u64, Answer<String>)>,
    ) -> Result<Vec<Ended>, Error> {
        self.settle_then(queue, rules, answers, None).await
    }

    /// The same, and in the same transaction every key that has a result now is put into the queue `then`, with the result as
    /// its input, for one more run: as [`Kind::Again`] does, however full that queue is. Queues must not lead in a circle.
    async fn settle_then(
        &self,
        queue: &str,
        rules: &Rules,
        answers: Vec<(u64, Answer<String>)>,
        then: Option<&Next>,
    ) -> Result<Vec<Ended>, Error>;

    /// Calls go on: their new deadlines in the order asked, `None` for those that were given up and for those whose key is gone.
    async fn renew(&self, queue: &str, rules: &Rules, calls: &[u64]) -> Result<Vec<Option<Instant>>, Error> {
        self.renew_for(queue, rules, calls, None).await
    }

    /// The same for another time than before.
    async fn renew_for(
        &self,
        queue: &str,
        rules: &Rules,
        calls: &[u64],
        lease: Option<Duration>,
    ) -> Result<Vec<Option<Instant>>, Error>;

    /// Which of these calls nobody wants an answer of any more: they were given up, or their key is gone. Changes nothing.
    async fn abandoned(&self, queue: &str, calls: &[u64]) -> Result<Vec<u64>, Error>;

    /// Ends keys by outcomes that came from elsewhere. Kept only for keys in line, waiting or running; tells how many
    /// those were. A call under way for such a key goes on, but nobody wants its answer.
    async fn dequeue(
        &self,
        queue: &str,
        rules: &Rules,
        outcomes: Vec<(String, Outcome<String>)>,
    ) -> Result<usize, Error>;

    /// Gives keys that are dead or failed all their attempts once more, and tells how many of `keys` were.
    async fn revive(&self, queue: &str, keys: &[String]) -> Result<usize, Error>;

    /// Gives every key that was given up in this way all its attempts once more, oldest first and some thousand to a
    /// transaction; tells how many.
    async fn revive_all(&self, queue: &str, given_up: GivenUp) -> Result<usize, Error>;

    /// Forgets keys, wherever they are, and tells how many there were.
    async fn remove(&self, queue: &str, keys: &[String]) -> Result<usize, Error>;

    /// Forgets every key in one place, some thousand to a transaction; tells how many. What runs cannot be named: it is ended key
    /// by key.
    async fn clear(&self, queue: &str, list: List) -> Result<usize, Error>;

    /// Starts nothing any more, on no node, until [`resume`](Queues::resume). What runs goes on.
    async fn pause(&self, queue: &str) -> Result<(), Error>;

    /// Starts again, and lifts what pause the API asked for or its failures brought. An API that kept failing is probed first.
    async fn resume(&self, queue: &str, rules: &Rules) -> Result<(), Error>;

    /// Up to `limit` groups (at most [`LIST_MAX`]) that have keys in line, calls under way, or a reason to wait, by name, from behind
    /// `after` on.
    async fn groups(&self, queue: &str, after: Option<&str>, limit: usize)
    -> Result<Vec<GroupStatus>, Error>;

    /// Starts nothing of a group any more, on no node, until [`resume_group`](Queues::resume_group).
    async fn pause_group(&self, queue: &str, group: &str) -> Result<(), Error>;

    /// Starts again, and lifts what pause the group's API asked for or its failures brought.
    async fn resume_group(&self, queue: &str, rules: &Rules, group: &str) -> Result<(), Error>;

    /// Sets the pace of a queue on all nodes, or with `None` gives it back to the rules that each of them has.
    async fn set_pace(&self, queue: &str, rules: &Rules, pace: Option<SetPace>) -> Result<(), Error>;

    /// Forgets the results that are older than the rules keep them; tells how many. Claims and results do so in passing.
    async fn forget_old_results(&self, queue: &str, rules: &Rules) -> Result<usize, Error>;

    /// All that is known of a key.
    async fn entry(&self, queue: &str, key: &str) -> Result<Option<Entry>, Error>;

    /// Up to `limit` (at most [`LIST_MAX`]) keys in one place, from behind `after` on: what runs and waits in order,
    /// what retries soonest first, what ended newest first. Fewer come where their results are long
    /// ([`LIST_BYTES_MAX`]); none comes only at the end.
    async fn list(
        &self,
        queue: &str,
        list: List,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<Entry>, Error>;

    /// The queue for people to look at; an empty one if there is none of this name.
    async fn status(&self, queue: &str, rules: &Rules) -> Result<Status, Error>;

    /// The queues there are, by name.
    async fn names(&self) -> Result<Vec<String>, Error>;

    /// Results that this process has dropped from a queue since it began, because there were more than its rules allow.
    fn dropped(&self, queue: &str) -> u64;

    /// Marked as changed after every enqueue, result, revival or removal in this queue, by whatever process. Several
    /// changes may show as one, and one more than once. Must be called within a runtime.
    fn changes(&self, queue: &str) -> Result<watch::Receiver<u64>, Error>;
}

/// What a claim brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Keys to work on.
    pub runs: Vec<Run>,
    /// Keys whose calls were given up because nothing was heard of them, and what became of those.
    pub lost: Vec<Ended>,
    /// When to claim again at the latest; something that changes may make it sooner. `None`: only then.
    pub look_at: Option<Instant>,
    /// What the next key in line waits for; `None` if none waits, or if it waits for nothing.
    pub waits_for: Option<Why>,
}

/// A key to work on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The key.
    pub key: String,
    /// The call's id, for [`Queues::settle`].
    pub call: u64,
    /// Which attempt it is, counted from 1.
    pub attempt: u32,
    /// What it was given: JSON.
    pub input: Option<String>,
    /// Its group.
    pub group: Option<String>,
    /// The call must have begun by then: a caller that is later must not make it and settles it with
    /// [`Answer::NotMade`].
    pub start_by: Instant,
    /// The call must have ended or been renewed by then.
    pub deadline: Instant,
}

/// A run that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The call.
    pub call: u64,
    /// The key.
    pub key: String,
    /// What became of it. A retry's due time is on the store's clock.
    pub settled: Settled,
}

/// All that is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where it is. A retry's due time is on the store's clock.
    pub place: Place<String>,
    /// Runs begun since it was enqueued.
    pub attempts: u32,
    /// It was enqueued as [`Kind::Priority`].
    pub priority: bool,
    /// Why its last attempt brought no result, where it is to be retried, failed or dead.
    pub reason: Option<String>,
    /// What it was given: JSON. Listings leave it out.
    pub input: Option<String>,
    /// The group it was given.
    pub group: Option<String>,
    /// When it came to where it is, on the store's clock.
    pub changed_at: Timestamp,
    /// Where it stands in its list.
    pub cursor: Cursor,
}

/// One of a queue's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum List {
    /// What runs, in order of start.
    Running,
    /// What waits, in order.
    Waiting,
    /// What comes back, soonest first.
    Retrying,
    /// What has a result, newest first.
    Done,
    /// What has an empty result, newest first.
    Failed,
    /// What was given up, newest first.
    Dead,
}

/// The two ways in which a key is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GivenUp {
    /// The API asked to come back later until there was no attempt left.
    Dead,
    /// The API refused the key, or failed on it until there was no attempt left.
    Failed,
}

/// A place in a list, to go on from; its text can be read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cursor {
    pub(crate) order: i64,
    pub(crate) rank: i64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.order, self.rank)
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parts =
            text.split_once('_').and_then(|(order, rank)| Some((order.parse().ok()?, rank.parse().ok()?)));
        let (order, rank) =
            parts.ok_or_else(|| Error::invalid("cursor", "is not one that a listing gave"))?;
        Ok(Self { order, rank })
    }
}

/// A queue for people to look at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Status {
    /// How many keys are where.
    pub counts: Counts,
    /// Keys ever ended with a result; unlike the results kept, these never get fewer.
    pub done_total: u64,
    /// Keys ever ended with an empty result.
    pub failed_total: u64,
    /// Calls that take a slot, also those of keys that are gone.
    pub in_flight: usize,
    /// When the next call starts, if one waits and that depends on time alone.
    pub next_call_at: Option<Instant>,
    /// What the next call waits for, when one would be there.
    pub waits_for: Option<Why>,
    /// When the next retry is due.
    pub next_retry_at: Option<Instant>,
    /// Whether somebody holds the queue: see [`Queues::pause`].
    pub held: bool,
    /// Until when nobody calls, and why.
    pub paused: Option<(Instant, PauseReason)>,
    /// Whether the API is well.
    pub breaker: Breaker,
    /// The rules in force.
    pub rules: Rules,
    /// Whether it has groups.
    pub has_groups: bool,
    /// Whether its pace was set while it runs: see [`Queues::set_pace`].
    pub is_set: bool,
}
