//! `GET /api/audit`: who did what to which thing, when, from where, and with which outcome.

use serde::{Deserialize, Serialize};
use syncline_store::access::audit::{AuditAsked, AuditRow, Outcome, PAGE_MAX};
use utoipa::{IntoParams, ToSchema};

use crate::access::AuditLog;
use crate::http::body::Query;
use crate::http::{Error, range};
use crate::part::Service;

/// Which rows are asked for. Every filter that is there has to fit.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    /// A text anywhere in the row, whatever its case.
    q: Option<String>,
    /// The system, as in `lock`.
    system: Option<String>,
    /// The name of a key or of an issuer, `owner`, `nobody`, or a subject.
    who: Option<String>,
    /// `begun`, `done`, `failed` or `refused`.
    outcome: Option<String>,
    /// Rows older than this one: the `next` of the page before.
    after: Option<i64>,
    /// Rows newer than the one with this id.
    newer: Option<i64>,
    /// At most this many, 100 if absent, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// One thing that somebody did or was refused.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditEntry {
    /// Its number; later ones have greater ones.
    id: i64,
    /// When, in milliseconds since 1970.
    at: i64,
    /// The node that recorded it.
    node: String,
    /// `owner`, `key`, `person` or `nobody`.
    kind: String,
    /// The name of the key or of the token's issuer.
    name: String,
    /// Under which name the caller acted.
    subject: Option<String>,
    /// The system.
    system: String,
    /// What was to be done.
    verb: String,
    /// To which thing; empty where there is none in particular.
    thing: String,
    /// By which operation, as in `DELETE /api/keys/{name}`.
    action: String,
    /// From which address; of a refusal the network of a caller by IPv6.
    address: Option<String>,
    /// By a page of which origin.
    origin: Option<String>,
    /// `begun`: nobody knows how it ended; `done`, `failed`, `refused`.
    outcome: String,
    /// Why it failed or was refused: the code of the answer.
    code: String,
    /// How many refusals alike this stands for.
    count: i64,
}

/// A page of the audit, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditListing {
    entries: Vec<AuditEntry>,
    /// What to send as `after` to go on; `null` at the end. A page with few entries may have one: it has looked at as many
    /// rows as one question may.
    next: Option<i64>,
}

/// Lists what was done that cannot be undone, who signed in and out, and what was refused, newest first. Refusals that are alike are one entry with a
/// count. Kept for 90 days.
#[utoipa::path(get, path = "/api/audit", tag = "access", params(Asked),
    responses((status = 200, body = AuditListing), (status = 400)))]
pub(crate) async fn list(
    Service(audit): Service<AuditLog>,
    Query(asked): Query<Asked>,
) -> Result<axum::Json<AuditListing>, Error> {
    let outcome =
        match asked.outcome.as_deref().filter(|word| !word.is_empty()) {
            None => None,
            Some(word) => Some(Outcome::named(word).ok_or_else(|| {
                Error::invalid("invalid-outcome", "outcome is begun, done, failed or refused")
            })?),
        };
    let text = |text: Option<String>| text.filter(|text| !text.is_empty());
    let page = audit
        .page(AuditAsked {
            text: text(asked.q),
            system: text(asked.system),
            who: text(asked.who),
            outcome,
            after: asked.after,
            newer: asked.newer,
            limit: range::checked(asked.limit, PAGE_MAX)?,
        })
        .await?;
    let entries = page.rows.into_iter().map(AuditEntry::from).collect();
    Ok(axum::Json(AuditListing { entries, next: page.next }))
}

impl From<AuditRow> for AuditEntry {
    fn from(row: AuditRow) -> AuditEntry {
        AuditEntry {
            id: row.id,
            at: row.at_ms,
            node: row.node,
            kind: row.kind,
            name: row.name,
            subject: row.subject,
            system: row.system,
            verb: row.verb,
            thing: row.thing,
            action: row.action,
            address: row.address,
            origin: row.origin,
            outcome: row.outcome,
            code: row.code,
            count: row.count,
        }
    }
}
