//! What the door puts into the audit: routes that cannot be undone as they begin and end, and every refusal.
//!
//! A route whose grant has an irreversible verb is recorded by the door itself. Where a body decides whether something can be
//! undone, or what it is done to, the handler takes a [`Recorder`] and says when. Signing in and out is recorded by its handlers,
//! which find out who it is.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, header};
use syncline_core::access::IRREVERSIBLE;

use super::principal::Caller;
use super::{Error, caller, sign_in};
use crate::Context;
use crate::access::{AuditLog, PendingRecord, Principal, What, Who};
use crate::part::{Access, Name, RouteGrant, Rules};

/// Records what a handler does that cannot be undone, as an argument of the handler.
pub(crate) struct Recorder {
    audit: Option<AuditLog>,
    who: Who,
    action: String,
}

impl Recorder {
    /// The recorder of a request whose caller only the handler finds out.
    pub(super) fn new(
        context: &Context,
        parts: &Parts,
        address: Option<IpAddr>,
        principal: Option<&Principal>,
    ) -> Recorder {
        let who = Who::new(principal, address, origin_of(&parts.headers));
        let matched = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
        Recorder { audit: context.audit.clone(), who, action: action_of(&parts.method, matched) }
    }

    /// Who acts.
    pub(crate) fn who(&self) -> &Who {
        &self.who
    }

    /// Records that something is about to be done. If that cannot be recorded, it is not to be done.
    pub(crate) async fn begin(&self, system: &str, verb: &str, thing: &str) -> Result<PendingRecord, Error> {
        let Some(audit) = &self.audit else { return Ok(PendingRecord::NONE) };
        let (system, verb, thing) = (system.to_owned(), verb.to_owned(), thing.to_owned());
        let what = What { system, verb, thing, action: self.action.clone() };
        Ok(audit.begin(&self.who, &what).await?)
    }
}

impl FromRequestParts<Arc<Context>> for Recorder {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, context: &Arc<Context>) -> Result<Self, Error> {
        let principal = Caller::of(&parts.extensions)?;
        let address = caller::address(&parts.extensions, &parts.headers, context);
        Ok(Recorder::new(context, parts, address, Some(&principal)))
    }
}

/// Begins the record of a request to a route that cannot be undone.
pub(super) async fn begin(
    context: &Context,
    rules: &Rules,
    action: &Action<'_>,
    principal: Option<&Arc<Principal>>,
) -> Result<PendingRecord, Error> {
    let (Some(audit), Some(grant)) = (&context.audit, irreversible(rules)) else {
        return Ok(PendingRecord::NONE);
    };
    let principal = principal.map(|principal| &**principal);
    let what = What {
        system: grant.system.to_owned(),
        verb: grant.verb.to_owned(),
        thing: action.thing.clone().unwrap_or_default(),
        action: action_of(action.method, action.matched),
    };
    Ok(audit.begin(&Who::new(principal, action.address, action.origin.clone()), &what).await?)
}

/// What is asked for, by whom, from where.
pub(super) struct Action<'a> {
    pub(super) method: &'a Method,
    pub(super) matched: Option<&'a str>,
    pub(super) address: Option<IpAddr>,
    pub(super) origin: Option<String>,
    /// The name in the path that the route's grant is about.
    pub(super) thing: Option<String>,
}

/// Notes an error of the door or of a handler, if it is a refusal.
pub(super) fn refused(
    context: &Context,
    rules: &Rules,
    action: Action<'_>,
    principal: Option<&Principal>,
    error: &Error,
) {
    let Some(audit) = context.audit.as_ref().filter(|_| is_refusal(error)) else { return };
    let (system, verb, thing) = match (error.grant().and_then(grant_parts), rules.access) {
        (Some((system, thing, verb)), _) => (system, verb, thing),
        // Who shows nothing chooses names as it likes: they would make every refusal another one.
        (None, Access::Granted(grant) | Access::Open(Some(grant))) => (grant.system, grant.verb, ""),
        (None, _) => rules.recorded_as.map_or(("node", "call", ""), |(system, verb)| (system, verb, "")),
    };
    let what = What {
        system: system.to_owned(),
        verb: verb.to_owned(),
        thing: thing.to_owned(),
        action: action_of(action.method, action.matched),
    };
    audit.refused(Who::new(principal, action.address, action.origin), what, error.code());
}

/// Whether somebody was kept out. A limit that everybody shares is none.
fn is_refusal(error: &Error) -> bool {
    match error.status() {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => true,
        StatusCode::TOO_MANY_REQUESTS => {
            matches!(error.code(), "too-many-guesses" | "too-many-sign-ins" | "quota")
        }
        // It was known, and signs nobody in.
        StatusCode::BAD_REQUEST => error.code() == sign_in::NO_SIGN_IN,
        _ => false,
    }
}

/// The grant of a route that cannot be undone and says itself what it is done to.
fn irreversible(rules: &Rules) -> Option<RouteGrant> {
    let Access::Granted(grant) = rules.access else { return None };
    (IRREVERSIBLE.contains(&grant.verb) && grant.name != Name::Any).then_some(grant)
}

fn grant_parts(grant: &str) -> Option<(&str, &str, &str)> {
    let (system, rest) = grant.split_once(':')?;
    let (name, verb) = rest.rsplit_once(':')?;
    Some((system, name, verb))
}

fn action_of(method: &Method, matched: Option<&str>) -> String {
    format!("{method} {}", matched.unwrap_or("elsewhere"))
}

pub(super) fn origin_of(headers: &HeaderMap) -> Option<String> {
    headers.get(header::ORIGIN).map(|origin| String::from_utf8_lossy(origin.as_bytes()).into_owned())
}
