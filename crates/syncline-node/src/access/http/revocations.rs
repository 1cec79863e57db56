//! `/api/revocations`: tokens that are taken back before they end, by their id or by their subject.
//!
//! A back end with the grant `token:{issuer}:revoke` takes back the tokens of its own issuer and no others.

use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use syncline_store::access::revocations::{NewRevocation, StoredRevocation};
use utoipa::{IntoParams, ToSchema};

use crate::access::follow::AccessControl;
use crate::access::issuers::LEEWAY;
use crate::access::{Principal, token};
use crate::clock;
use crate::http::body::{Json, Path, Query};
use crate::http::{Caller, Error, Recorder, range};
use crate::part::Service;

/// Most revocations of one page.
const LIST_MAX: usize = 1_000;

/// How much longer than its tokens a revocation counts: clocks differ.
const LONGER: Duration = Duration::from_secs(3_600);

/// What is to be taken back: `token`, or `subject`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Revoke {
    /// The name of the issuer here. May be left out where there is one alone.
    issuer: Option<String>,
    /// The id (`jti`) of one token.
    token: Option<String>,
    /// A subject (`sub`): everything that was issued for it so far.
    subject: Option<String>,
    /// With `subject`: only what was issued up to this moment, in milliseconds since 1970.
    before: Option<u64>,
}

/// What was taken back.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RevocationView {
    id: i64,
    /// `token`, `subject` or `key`.
    kind: String,
    /// The name of the issuer, or of the key.
    issuer: String,
    /// The token's id, the subject, or the key's hash.
    value: String,
    /// Tokens that were issued up to this moment are refused, in milliseconds since 1970.
    before: i64,
    /// When it was taken back.
    made_at: i64,
    /// By whom.
    made_by: String,
    /// When the revocation is forgotten, because everything that it refuses has ended; `null` for never.
    ends_at: Option<i64>,
}

/// A page of revocations.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RevocationList)]
pub(crate) struct Revocations {
    revocations: Vec<RevocationView>,
    /// What to send as `after` to get the next page; `null` at the end.
    next: Option<i64>,
}

/// Which revocations are asked for.
#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct Asked {
    /// The `next` of the page before.
    after: Option<i64>,
    /// At most this many, 100 if absent, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Lists what was taken back, as far as the caller may take it back itself.
#[utoipa::path(get, path = "/api/revocations", tag = "access", params(Asked),
    responses((status = 200, body = Revocations), (status = 400)))]
pub(crate) async fn list(
    Service(control): Service<AccessControl>,
    Caller(caller): Caller,
    Query(asked): Query<Asked>,
) -> Result<axum::Json<Revocations>, Error> {
    let limit = range::checked(asked.limit, LIST_MAX)?;
    let found = control.store().revocations_after(asked.after.unwrap_or(0), limit).await?;
    let next = found.last().filter(|_| found.len() == limit).map(|last| last.id);
    let seen = found.into_iter().filter(|found| may_change(&caller, found).is_ok());
    Ok(axum::Json(Revocations { revocations: seen.map(RevocationView::from).collect(), next }))
}

/// Takes a token back by its id, or everything that was issued for a subject so far. It counts here at once, on all nodes
/// within five seconds, and open streams end. Needs the grant `token:{issuer}:revoke`.
#[utoipa::path(post, path = "/api/revocations", tag = "access", request_body = Revoke,
    responses((status = 201, body = RevocationView), (status = 400), (status = 404)))]
pub(crate) async fn revoke(
    Service(control): Service<AccessControl>,
    Caller(caller): Caller,
    recorder: Recorder,
    Json(asked): Json<Revoke>,
) -> Result<(StatusCode, axum::Json<RevocationView>), Error> {
    let (kind, value, before) = match (&asked.token, &asked.subject, asked.before) {
        (Some(id), None, None) if token::is_id(id) => ("token", id.clone(), None),
        (None, Some(subject), before) if token::is_subject(subject) => ("subject", subject.clone(), before),
        _ => {
            let message = "give token, an id, or subject, and with it before if you like; none is empty or \
                           longer than 255 bytes";
            return Err(Error::invalid("invalid-body", message));
        }
    };
    if before.is_some_and(|before| before > clock::wall().as_ms() + LEEWAY.as_millis() as u64) {
        return Err(Error::invalid(
            "invalid-body",
            "before is in the future: tokens are taken back, not refused ahead",
        ));
    }
    let issuer = the_issuer(&control, asked.issuer)?;
    caller.require("token", "revoke", &issuer)?;
    let known = control.credentials().issuer_named(&issuer);
    let known = known.ok_or_else(|| Error::missing(format!("there is no issuer {issuer:?}")))?;
    let pending = recorder.begin("token", "revoke", &format!("{issuer} {kind} {value}")).await?;
    let new = NewRevocation {
        kind,
        scope: issuer,
        value,
        issued_before_ms: before.map(|before| i64::try_from(before).unwrap_or(i64::MAX)),
        made_by: recorder.who().short(),
        lasts: Some(known.max_age + LEEWAY + LONGER),
    };
    let revoked = control.store().revoke(new).await;
    pending.settle(revoked.is_err().then_some("store")).await;
    let revoked = revoked?;
    control.look().await?;
    Ok((StatusCode::CREATED, axum::Json(revoked.into())))
}

/// Takes a revocation back: what it refused is accepted again, until it ends.
#[utoipa::path(delete, path = "/api/revocations/{id}", tag = "access", params(("id" = i64, Path)),
    responses((status = 200, body = RevocationView), (status = 400), (status = 404)))]
pub(crate) async fn remove(
    Service(control): Service<AccessControl>,
    Caller(caller): Caller,
    recorder: Recorder,
    Path(id): Path<i64>,
) -> Result<axum::Json<RevocationView>, Error> {
    let missing = || Error::missing("there is no such revocation");
    let before = id.checked_sub(1).ok_or_else(missing)?;
    let found = control.store().revocations_after(before, 1).await?;
    let found = found.into_iter().find(|found| found.id == id).ok_or_else(missing)?;
    may_change(&caller, &found)?;
    let thing = format!("{} {} {}", found.scope, found.kind, found.value);
    let pending = recorder.begin("token", "revoke", &thing).await?;
    let removed = control.store().remove_revocation(id).await;
    pending.settle(removed.is_err().then_some("store")).await;
    removed?;
    control.look().await?;
    Ok(axum::Json(found.into()))
}

fn may_change(caller: &Principal, found: &StoredRevocation) -> Result<(), Error> {
    match found.kind.as_str() {
        "key" => caller.require("key", "manage", &found.scope),
        _ => caller.require("token", "revoke", &found.scope),
    }
}

/// The issuer that was named, or the only one.
fn the_issuer(control: &AccessControl, named: Option<String>) -> Result<String, Error> {
    let mut names = control.credentials().issuer_names();
    match (named, names.len()) {
        (Some(name), _) => Ok(name),
        (None, 1) => Ok(names.remove(0)),
        (None, 0) => {
            Err(Error::missing("this node has no issuer: only keys can be taken back, by removing them"))
        }
        (None, _) => {
            let message = format!("give issuer, one of {}", names.join(", "));
            Err(Error::invalid("invalid-body", message))
        }
    }
}

impl From<StoredRevocation> for RevocationView {
    fn from(stored: StoredRevocation) -> RevocationView {
        RevocationView {
            id: stored.id,
            kind: stored.kind,
            issuer: stored.scope,
            value: stored.value,
            before: stored.issued_before_ms,
            made_at: stored.made_at_ms,
            made_by: stored.made_by,
            ends_at: stored.ends_at_ms,
        }
    }
}
