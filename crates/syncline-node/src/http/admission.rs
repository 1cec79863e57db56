//! Who may call an address: the route's rules, the site a request comes from and the caller's grants, put together.
//!
//! Guarantees: a route that names no grant is the owner's; the name in a grant is compared with what the handler will get,
//! decoded once; a page of another site acts by a bearer credential that lists its origin, or not at all.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use http::{HeaderValue, Method, header};
use syncline_core::access::Need;

use super::guard::{self, Site};
use super::principal::{forbidden, owners_alone};
use super::{Error, auth, caller, cors};
use crate::Context;
use crate::access::Principal;
use crate::part::{Access, Name, RouteGrant, Rules};

/// What the head of a request says.
pub(super) struct Admission {
    /// Whether it may be answered, and to whom. Routes that are open to everybody ask nobody who they are.
    pub(super) caller: Result<Option<Arc<Principal>>, Error>,
    /// The origin whose pages may read the answer, if they are of another site.
    pub(super) reader: Option<HeaderValue>,
}

impl Admission {
    /// Looks at the head of a request and at nothing else.
    pub(super) async fn of(context: &Context, rules: &Rules, parts: &mut Parts) -> Admission {
        let refused = |error| Admission { caller: Err(error), reader: None };
        match context.guard.site(parts, rules) {
            Err(error) => refused(error),
            Ok(Site::Foreign) => foreign(context, rules, parts).await,
            Ok(site) => {
                let reader = rules.allowed_origin(&parts.headers).cloned();
                Admission { caller: own(context, rules, parts, site).await, reader }
            }
        }
    }
}

/// A request of our own pages, of no page, or of a page that the route itself lets in.
async fn own(
    context: &Context,
    rules: &Rules,
    parts: &mut Parts,
    site: Site,
) -> Result<Option<Arc<Principal>>, Error> {
    if matches!(rules.access, Access::Open(_)) {
        return Ok(None);
    }
    let address = caller::address(&parts.extensions, &parts.headers, context);
    // A person who follows a link to a file brings no origin, and the cookie only where the browser sends it along.
    let cookies_count = site == Site::Own || !parts.headers.contains_key(header::ORIGIN);
    let principal = context.auth.principal(address, &parts.headers, cookies_count).await?;
    let principal = principal.ok_or_else(auth::missing)?;
    may_call(&principal, rules.access, parts).await?;
    Ok(Some(principal))
}

/// A request of a page of another site.
async fn foreign(context: &Context, rules: &Rules, parts: &mut Parts) -> Admission {
    let listed = cors::listed_by_any(context, &parts.headers).cloned();
    let Some(presented) = context.auth.presented(&parts.headers) else {
        // A page of a site we know is told that it forgot its token; any other is told nothing.
        let error = if listed.is_some() { auth::missing() } else { guard::foreign(parts) };
        return Admission { caller: Err(error), reader: listed };
    };
    let address = caller::address(&parts.extensions, &parts.headers, context);
    let principal = match context.auth.bearer_of(address, presented) {
        Ok(principal) => principal,
        Err(error) => return Admission { caller: Err(error), reader: listed },
    };
    let reader = parts.headers.get(header::ORIGIN).filter(|origin| principal.lists_origin(origin)).cloned();
    let caller = match reader {
        None => Err(guard::foreign(parts)),
        Some(_) => may_call(&principal, from_elsewhere(rules, parts), parts).await,
    };
    Admission { caller: caller.map(|()| Some(principal)), reader }
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

/// Whether a principal may call a route.
async fn may_call(principal: &Principal, access: Access, parts: &mut Parts) -> Result<(), Error> {
    if principal.is_owner() {
        return Ok(());
    }
    match access {
        Access::AnyCaller | Access::Open(_) => Ok(()),
        Access::Owner => Err(owners_alone()),
        Access::Granted(RouteGrant { system, verb, name }) => match name {
            Name::Any => principal.require_need(Need { system, verb, name: None }),
            Name::All => principal.require_all(system, verb),
            Name::Caller => principal.require(system, verb, principal.subject().unwrap_or_default()),
            Name::Path(variable) => {
                let params = RawPathParams::from_request_parts(parts, &()).await;
                let params = params.map_err(|error| Error::invalid("invalid-path", error.body_text()))?;
                let value = params.iter().find(|(known, _)| *known == variable).map(|(_, value)| value);
                // A route without the variable it names is refused to all but the owner.
                let missing = Need { system, verb, name: Some("") };
                let value = value.filter(|value| !value.is_empty()).ok_or_else(|| forbidden(missing))?;
                principal.require(system, verb, value)
            }
        },
    }
}
