//! Who may call an address: the route's rules, the site a request comes from and the caller's grants, put together.
//!
//! Guarantees: a route that names no grant is the owner's; the name in a grant is compared with what the handler will get,
//! decoded once; a page of another site acts by a bearer credential that lists its origin, or not at all.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use http::{HeaderValue, Method, header};
use syncline_core::access::{IRREVERSIBLE, Need};

use super::guard::{self, Site};
use super::principal::{forbidden, owners_alone};
use super::{Error, auth, cors};
use crate::Context;
use crate::access::Principal;
use crate::part::{Access, Name, RouteGrant, Rules};

/// What the head of a request says.
pub(super) struct Admission {
    /// Whether it may be answered.
    pub(super) admitted: Result<(), Error>,
    /// Who calls, as far as that is known. Routes that are open to everybody ask nobody who they are.
    pub(super) caller: Option<Arc<Principal>>,
    /// The name in the path that the route's grant is about.
    pub(super) thing: Option<String>,
    /// The origin whose pages may read the answer, if they are of another site.
    pub(super) reader: Option<HeaderValue>,
}

impl Admission {
    /// Looks at the head of a request and at nothing else.
    pub(super) async fn of(
        context: &Context,
        rules: &Rules,
        parts: &mut Parts,
        address: Option<IpAddr>,
    ) -> Admission {
        match context.guard.site(parts, rules) {
            Err(error) => Admission::refused(error, None),
            Ok(Site::Foreign) => foreign(context, rules, parts, address).await,
            Ok(site) => {
                let reader = rules.allowed_origin(&parts.headers).cloned();
                Admission { reader, ..own(context, rules, parts, site, address).await }
            }
        }
    }

    fn refused(error: Error, reader: Option<HeaderValue>) -> Admission {
        Admission { admitted: Err(error), caller: None, thing: None, reader }
    }

    /// Of a caller who is known.
    async fn judged(principal: Arc<Principal>, access: Access, parts: &mut Parts) -> Admission {
        let (admitted, thing) = match may_call(&principal, access, parts).await {
            Ok(thing) => (Ok(()), thing),
            Err(error) => (Err(error), None),
        };
        Admission { admitted, caller: Some(principal), thing, reader: None }
    }
}

/// A request of our own pages, of no page, or of a page that the route itself lets in.
async fn own(
    context: &Context,
    rules: &Rules,
    parts: &mut Parts,
    site: Site,
    address: Option<IpAddr>,
) -> Admission {
    if matches!(rules.access, Access::Open(_)) {
        return Admission { admitted: Ok(()), caller: None, thing: None, reader: None };
    }
    // A person who follows a link to a file brings no origin, and the cookie only where the browser sends it along.
    let cookies_count = site == Site::Own || !parts.headers.contains_key(header::ORIGIN);
    match context.auth.principal(address, &parts.headers, cookies_count).await {
        Ok(Some(principal)) => Admission::judged(principal, rules.access, parts).await,
        Ok(None) => Admission::refused(auth::missing(), None),
        Err(error) => Admission::refused(error, None),
    }
}

/// A request of a page of another site.
async fn foreign(context: &Context, rules: &Rules, parts: &mut Parts, address: Option<IpAddr>) -> Admission {
    let listed = cors::listed_by_any(context, &parts.headers).cloned();
    let Some(presented) = context.auth.presented(&parts.headers) else {
        // A page of a site we know is told that it forgot its token; any other is told nothing.
        let error = if listed.is_some() { auth::missing() } else { guard::foreign(parts) };
        return Admission::refused(error, listed);
    };
    let principal = match context.auth.bearer_of(address, presented).await {
        Ok(principal) => principal,
        Err(error) => return Admission::refused(error, listed),
    };
    let reader = parts.headers.get(header::ORIGIN).filter(|origin| principal.lists_origin(origin)).cloned();
    match reader {
        None => {
            let admitted = Err(guard::foreign(parts));
            Admission { admitted, caller: Some(principal), thing: None, reader }
        }
        Some(_) => {
            Admission { reader, ..Admission::judged(principal, from_elsewhere(rules, parts), parts).await }
        }
    }
}

/// What a page of another site needs. An open route without a grant is only read: signing in and out is for our own pages.
fn from_elsewhere(rules: &Rules, parts: &Parts) -> Access {
    match rules.access {
        Access::Open(Some(grant)) => Access::Granted(grant),
        Access::Open(None) if matches!(parts.method, Method::GET | Method::HEAD) => Access::AnyCaller,
        Access::Open(None) => Access::Owner,
        access => access,
    }
}

/// Whether a principal may call a route. Answers with the name in the path that its grant is about.
async fn may_call(principal: &Principal, access: Access, parts: &mut Parts) -> Result<Option<String>, Error> {
    match access {
        Access::AnyCaller | Access::Open(_) => Ok(None),
        Access::Owner if principal.is_owner() => Ok(None),
        Access::Owner => Err(owners_alone()),
        Access::Granted(RouteGrant { system, verb, name }) => match name {
            Name::Any => principal.require_need(Need { system, verb, name: None }).map(|()| None),
            Name::All => principal.require_all(system, verb).map(|()| None),
            Name::Caller => {
                principal.require(system, verb, principal.subject().unwrap_or_default()).map(|()| None)
            }
            // The owner's names are of use to the audit alone.
            Name::Path(_) if principal.is_owner() && !IRREVERSIBLE.contains(&verb) => Ok(None),
            Name::Path(variable) => {
                let params = RawPathParams::from_request_parts(parts, &()).await;
                let params = params.map_err(|error| Error::invalid("invalid-path", error.body_text()))?;
                let value = params.iter().find(|(known, _)| *known == variable).map(|(_, value)| value);
                // A route without the variable it names is refused to all but the owner.
                let missing = Need { system, verb, name: Some("") };
                let value = value.filter(|value| !value.is_empty());
                if principal.is_owner() {
                    return Ok(value.map(str::to_owned));
                }
                let value = value.ok_or_else(|| forbidden(missing))?;
                principal.require(system, verb, value).map(|()| Some(value.to_owned()))
            }
        },
    }
}
