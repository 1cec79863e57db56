//! `/api/locks`: leases over HTTP.
//!
//! Acquiring may wait, in order of arrival; a caller that hangs up stops waiting, and what it was granted meanwhile is
//! given back. The id of a lease proves its holder and is shown to nobody else.
//!
//! Who holds a lock is not for its holder to invent: the `holder` of everybody but the owner begins with its subject.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use syncline_core::lock::{InvalidLeaseId, InvalidName, InvalidTtl, LeaseId, Name, Refused, Token, Ttl};
use syncline_store::lock::{Holding, LIST_MAX};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::access::Principal;
use crate::http::body::{Json, Path, Query};
use crate::http::range;
use crate::http::search::{self, Search};
use crate::http::visible::Page;
use crate::http::{Caller, CallerQuota, Error, Recorder};
use crate::lock::{Answer, Ask, Locks};
use crate::part::{Name as Named, Routes, Rules, Service};
use crate::{Context, clock};

/// Longest wait of one request. Whoever wants to wait longer asks again.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// What is left of a request's time for everything but waiting.
const WAIT_RESERVE: Duration = Duration::from_secs(5);
/// Who holds a lock when nobody said.
const NOBODY_SAID: &str = "anonymous";
const BODY_MAX_BYTES: usize = 4 * 1024;

/// What to acquire.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(example = json!({ "holder": "backup on db-2", "ttlMs": 30_000, "waitMs": 5_000 }))]
pub(crate) struct Acquire {
    /// Who asks, for others to read; 1 to 128 bytes, `anonymous` if absent. Of a caller that is not the owner it begins
    /// with the subject: `subject`, or `subject/holder`; together it has 128 bytes at most.
    holder: Option<String>,
    /// How long the lease lasts unless it is renewed, 1,000 to 3,600,000; 15,000 if absent.
    #[serde(alias = "ttl_ms")]
    ttl_ms: Option<u64>,
    /// How long to wait for it, 20,000 at most; 0 if absent. Who asks again with the same `leaseId` within 5 s keeps its place in line.
    #[serde(default, alias = "wait_ms")]
    wait_ms: u64,
    /// A UUID for the lease, so that a request whose answer got lost can be sent again; made by the node if absent.
    lease_id: Option<String>,
}

/// Which lease to extend.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(example = json!({ "leaseId": "0197a3c2-9d1e-7c46-8a50-2f6f1f0c9b11", "ttlMs": 30_000 }))]
pub(crate) struct Renew {
    lease_id: String,
    /// How long it lasts from now on; 15,000 if absent.
    #[serde(alias = "ttl_ms")]
    ttl_ms: Option<u64>,
}

/// Which lease to end.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(example = json!({ "leaseId": "0197a3c2-9d1e-7c46-8a50-2f6f1f0c9b11" }))]
pub(crate) struct Release {
    /// The lease; needed unless `force` is set.
    lease_id: Option<String>,
    /// End whatever lease is in force. Its holder finds out when it renews.
    #[serde(default)]
    force: bool,
}

/// A lease in force.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lease {
    name: String,
    lease_id: String,
    /// The fencing token: for one name it only grows. Give it to the resource, which refuses a lower one than it has seen.
    token: u64,
    expires_in_ms: u64,
    /// On the node's clock, since 1970. Whoever holds the lease should count `expiresInMs` from before it asked.
    expires_at: u64,
}

/// A lock given back.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Released {
    name: String,
    /// Whether there was anything to end.
    released: bool,
    /// The token of the lease that was ended.
    token: Option<u64>,
}

/// A lock that is held.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lock {
    name: String,
    holder: String,
    token: u64,
    /// For how long it has been held.
    age_ms: u64,
    /// How much longer, unless it is renewed or released.
    expires_in_ms: u64,
}

/// Which locks are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(rename_all = "camelCase")]
pub(crate) struct Wanted {
    /// A text in the name or the holder, whatever its case.
    q: Option<String>,
    /// Those whose names begin with this; all if absent.
    #[serde(default)]
    prefix: String,
    /// Those that have been held for this long, or longer.
    min_age_ms: Option<u64>,
    /// The `next` of the page before.
    after: Option<String>,
    /// At most this many, 100 if absent, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Several locks.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LockList {
    locks: Vec<Lock>,
    /// What to ask for with `after` to go on; `null` at the end.
    next: Option<String>,
}

pub(super) fn routes() -> Routes {
    let hold = || Rules::new().needs("lock", "hold", Named::Path("name")).body_max_bytes(BODY_MAX_BYTES);
    Routes::new()
        .with_rules(Rules::new().needs("lock", "see", Named::Any), routes!(list))
        .with_rules(Rules::new().needs("lock", "see", Named::Path("name")), routes!(show))
        .with_rules(hold(), routes!(acquire))
        .with_rules(hold(), routes!(renew))
        .with_rules(hold(), routes!(release))
}

/// Lists the locks that are held, by name, as far as the caller may see them.
#[utoipa::path(get, path = "/api/locks", tag = "lock", params(Wanted),
    responses((status = 200, body = LockList), (status = 400)))]
pub(crate) async fn list(
    Service(locks): Service<Arc<Locks>>,
    Caller(caller): Caller,
    Query(wanted): Query<Wanted>,
) -> Result<axum::Json<LockList>, Error> {
    let visible = caller.visible("lock", "see");
    let oldest = Duration::from_millis(wanted.min_age_ms.unwrap_or(0));
    let limit = range::checked(wanted.limit, LIST_MAX)?;
    let mut search = Search::new(wanted.q.as_deref(), wanted.after, limit)?.filtering(!oldest.is_zero());
    while let Some(step) = search.next() {
        let page = Page { prefix: &wanted.prefix, after: step.after.as_deref(), limit: step.limit };
        let mut cut = visible.page(page);
        while let Some(part) = cut.next() {
            let held = locks.list(part.prefix, part.after, part.limit).await?;
            // A page that is not full is the last one.
            let more = held.len() == part.limit;
            cut.put(held, more, |held| &held.name);
        }
        let (held, more) = cut.end();
        let next = held.last().filter(|_| more).map(|last| last.name.clone());
        let fits = |held: &Holding, text: &str| {
            let has_text = search::contains(&held.name, text) || search::contains(&held.holder, text);
            held.age >= oldest && has_text
        };
        search.put(held, next, fits, |held| held.name.clone());
    }
    let (held, next) = search.end();
    Ok(axum::Json(LockList { locks: held.into_iter().map(Lock::from).collect(), next }))
}

/// How a lock stands.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({ "name": "nightly", "held": true, "holder": "backup on db-2", "token": 41, "ageMs": 12_000, "expiresInMs": 18_000, "waiting": 2 }))]
pub(crate) struct LockState {
    name: String,
    /// Whether somebody has it.
    held: bool,
    /// Who.
    holder: Option<String>,
    /// The fencing token of whoever has it.
    token: Option<u64>,
    /// For how long it has been held.
    age_ms: Option<u64>,
    /// How much longer, unless it is renewed or released.
    expires_in_ms: Option<u64>,
    /// How many wait for it on this node.
    waiting: usize,
}

/// Tells how one lock stands: whether it is held, by whom, and how many wait for it on this node.
#[utoipa::path(get, path = "/api/locks/{name}", tag = "lock", params(("name" = String, Path)),
    responses((status = 200, body = LockState), (status = 400)))]
pub(crate) async fn show(
    Service(locks): Service<Arc<Locks>>,
    Path(name): Path<String>,
) -> Result<axum::Json<LockState>, Error> {
    let name = Name::new(name)?;
    let held = locks.look(&name).await?.map(Lock::from);
    let waiting = locks.waiting(&name);
    let state = match held {
        None => LockState {
            name: name.into(),
            held: false,
            holder: None,
            token: None,
            age_ms: None,
            expires_in_ms: None,
            waiting,
        },
        Some(Lock { name, holder, token, age_ms, expires_in_ms }) => LockState {
            name,
            held: true,
            holder: Some(holder),
            token: Some(token),
            age_ms: Some(age_ms),
            expires_in_ms: Some(expires_in_ms),
            waiting,
        },
    };
    Ok(axum::Json(state))
}

/// Acquires a lock, waiting for it if asked to. 409 `held` says who has it.
#[utoipa::path(post, path = "/api/locks/{name}/acquire", tag = "lock", params(("name" = String, Path)),
    request_body = Acquire,
    responses((status = 200, body = Lease), (status = 400), (status = 409), (status = 503)))]
pub(crate) async fn acquire(
    State(context): State<Arc<Context>>,
    Service(locks): Service<Arc<Locks>>,
    Caller(caller): Caller,
    quota: CallerQuota,
    Path(name): Path<String>,
    Json(asked): Json<Acquire>,
) -> Result<axum::Json<Lease>, Error> {
    let wait = Duration::from_millis(asked.wait_ms);
    if wait > WAIT_MAX {
        let message = format!("waitMs must be at most {}", WAIT_MAX.as_millis());
        return Err(Error::invalid("invalid-wait", message));
    }
    let lease = match asked.lease_id {
        Some(text) => LeaseId::parse(&text)?,
        None => LeaseId::from_random(rand::random()),
    };
    let ask = Ask {
        name: Name::new(name)?,
        lease,
        holder: holder(&caller, asked.holder),
        ttl: ttl(asked.ttl_ms)?,
        wait: wait.min(context.config.limits.request_timeout.saturating_sub(WAIT_RESERVE)),
    };
    quota.may_lock(ask.name.as_str())?;
    let answer = tokio::select! {
        answer = locks.acquire(&ask) => answer?,
        () = context.stop.cancelled() => {
            let message = "the node is stopping";
            return Err(Error::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", message).retry_after_sec(1));
        }
    };
    match answer {
        Answer::Granted { token } => {
            quota.locked(ask.name.as_str(), ask.ttl.duration());
            Ok(axum::Json(Lease::new(ask.name, lease, token, ask.ttl)))
        }
        refused => {
            let sees = caller.require("lock", "see", ask.name.as_str()).is_ok();
            Err(not_granted(&ask.name, refused, sees))
        }
    }
}

/// Renews a lease. 409 `lease-expired` or `lease-mismatch` means that the lock is lost.
#[utoipa::path(post, path = "/api/locks/{name}/renew", tag = "lock", params(("name" = String, Path)),
    request_body = Renew, responses((status = 200, body = Lease), (status = 400), (status = 409)))]
pub(crate) async fn renew(
    Service(locks): Service<Arc<Locks>>,
    quota: CallerQuota,
    Path(name): Path<String>,
    Json(asked): Json<Renew>,
) -> Result<axum::Json<Lease>, Error> {
    let (name, lease) = (Name::new(name)?, LeaseId::parse(&asked.lease_id)?);
    let ttl = ttl(asked.ttl_ms)?;
    let token = locks.renew(&name, lease, ttl).await??;
    quota.locked(name.as_str(), ttl.duration());
    Ok(axum::Json(Lease::new(name, lease, token, ttl)))
}

/// Gives a lock back, or, with the grant `lock:{name}:force`, takes it away from whoever has it.
#[utoipa::path(post, path = "/api/locks/{name}/release", tag = "lock", params(("name" = String, Path)),
    request_body = Release, responses((status = 200, body = Released), (status = 400), (status = 409)))]
pub(crate) async fn release(
    Service(locks): Service<Arc<Locks>>,
    Caller(caller): Caller,
    (recorder, quota): (Recorder, CallerQuota),
    Path(name): Path<String>,
    Json(asked): Json<Release>,
) -> Result<axum::Json<Released>, Error> {
    let name = Name::new(name)?;
    if asked.force {
        caller.require("lock", "force", name.as_str())?;
    }
    let token = match (asked.lease_id, asked.force) {
        (Some(lease), false) => {
            let token = locks.release(&name, LeaseId::parse(&lease)?).await??;
            quota.unlocked(name.as_str());
            Some(token)
        }
        (None, true) => {
            let pending = recorder.begin("lock", "force", name.as_str()).await?;
            let ended = locks.force_release(&name).await;
            pending.settle(ended.is_err().then_some("store")).await;
            ended?.map(|ended| ended.token)
        }
        (Some(_), true) | (None, false) => {
            let message = "give the leaseId of the lease to end, or force: true to end whatever is in force";
            return Err(Error::invalid("invalid-body", message));
        }
    };
    let (released, token) = (token.is_some(), token.map(Token::number));
    Ok(axum::Json(Released { name: name.into(), released, token }))
}

/// Who holds a lock, as others read it: what the owner says, and the subject of anybody else before what it says.
fn holder(caller: &Principal, said: Option<String>) -> String {
    match (caller.subject(), said) {
        (None, said) => said.unwrap_or_else(|| NOBODY_SAID.to_owned()),
        (Some(subject), None) => subject.to_owned(),
        (Some(subject), Some(said)) => format!("{subject}/{said}"),
    }
}

fn ttl(ms: Option<u64>) -> Result<Ttl, InvalidTtl> {
    ms.map_or(Ok(Ttl::DEFAULT), Ttl::from_ms)
}

/// Why a lock was not granted. Who holds it is told to those who may see it.
fn not_granted(name: &Name, answer: Answer, sees: bool) -> Error {
    let held = |message: String, facts: Value| Error::new(StatusCode::CONFLICT, "held", message).with(facts);
    match answer {
        Answer::Held(by) if !sees => held(
            format!("{name} is held"),
            json!({ "holder": null, "token": null, "expiresInMs": whole_ms(by.left) }),
        ),
        Answer::Held(by) => {
            let left_ms = whole_ms(by.left);
            held(
                format!("{name} is held by {} for {left_ms} ms more, unless it is renewed", by.holder),
                json!({ "holder": by.holder, "token": by.token, "expiresInMs": left_ms }),
            )
        }
        Answer::OthersFirst => held(
            format!("others wait for {name} already"),
            json!({ "holder": null, "token": null, "expiresInMs": 0 }),
        ),
        Answer::Quiet { left } => {
            let left_ms = whole_ms(left);
            held(
                format!("the machine has just started; leases from before may be out for {left_ms} ms more"),
                json!({ "holder": null, "token": null, "expiresInMs": left_ms }),
            )
        }
        Answer::TooManyWait => {
            let message = "too many wait for locks on this node";
            Error::new(StatusCode::SERVICE_UNAVAILABLE, "too-many-waiting", message).retry_after_sec(5)
        }
        Answer::Granted { .. } => Error::internal("a grant is no refusal"),
    }
}

impl Lease {
    fn new(name: Name, lease: LeaseId, token: Token, ttl: Ttl) -> Lease {
        let expires_at = clock::wall() + ttl.duration();
        Lease {
            name: name.into(),
            lease_id: lease.text(),
            token: token.number(),
            expires_in_ms: ttl.as_ms(),
            expires_at: expires_at.as_ms(),
        }
    }
}

impl From<Holding> for Lock {
    fn from(held: Holding) -> Lock {
        Lock {
            name: held.name,
            holder: held.holder,
            token: held.token.number(),
            age_ms: whole_ms(held.age),
            expires_in_ms: whole_ms(held.left),
        }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        let code = match refused {
            Refused::Expired => "lease-expired",
            Refused::NotHolder => "lease-mismatch",
        };
        Error::new(StatusCode::CONFLICT, code, refused.to_string())
    }
}

impl From<InvalidName> for Error {
    fn from(invalid: InvalidName) -> Error {
        Error::invalid("invalid-name", invalid.to_string())
    }
}

impl From<InvalidLeaseId> for Error {
    fn from(invalid: InvalidLeaseId) -> Error {
        Error::invalid("invalid-lease", invalid.to_string())
    }
}

impl From<InvalidTtl> for Error {
    fn from(invalid: InvalidTtl) -> Error {
        Error::invalid("invalid-ttl", invalid.to_string())
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
