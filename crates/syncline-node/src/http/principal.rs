//! Who calls, as handlers see it: the [`Caller`] that the door left with the request.
//!
//! The door has checked what a route says of itself. What depends on the body, such as a release by force, the handler asks
//! for with [`Principal::require`], which refuses as the door does.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{Extensions, StatusCode};
use serde_json::json;
use syncline_core::access::Need;

use super::{Error, auth};
use crate::Context;
use crate::access::{Principal, PrincipalKind};

/// A name that only grants of every name cover: no name has a star in it that a grant could end before.
const EVERY_NAME: &str = "*";

/// Who calls, as an argument of a handler.
pub struct Caller(pub Arc<Principal>);

impl Caller {
    /// The caller that the door left with a request.
    pub(crate) fn of(extensions: &Extensions) -> Result<Arc<Principal>, Error> {
        extensions.get::<Arc<Principal>>().cloned().ok_or_else(auth::missing)
    }
}

impl FromRequestParts<Arc<Context>> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Context>) -> Result<Self, Error> {
        Caller::of(&parts.extensions).map(Caller)
    }
}

impl Principal {
    /// Whether it may do everything.
    pub fn is_owner(&self) -> bool {
        self.kind == PrincipalKind::Owner
    }

    /// Refuses what this principal may not do, with the grant that is missing.
    pub fn require(&self, system: &str, verb: &str, name: &str) -> Result<(), Error> {
        self.require_need(Need { system, verb, name: Some(name) })
    }

    /// Whether its grants cover every name of a system.
    pub fn may_all(&self, system: &str, verb: &str) -> bool {
        self.may(Need { system, verb, name: Some(EVERY_NAME) })
    }

    /// The same for every name of a system.
    pub(crate) fn require_all(&self, system: &str, verb: &str) -> Result<(), Error> {
        self.require(system, verb, EVERY_NAME)
    }

    pub(crate) fn require_need(&self, need: Need<'_>) -> Result<(), Error> {
        if self.may(need) { Ok(()) } else { Err(forbidden(need)) }
    }
}

/// 403: a grant is missing.
pub(crate) fn forbidden(need: Need<'_>) -> Error {
    let grant = need.to_string();
    let message = format!("this needs the grant {grant}");
    Error::new(StatusCode::FORBIDDEN, "forbidden", message).with(json!({ "grant": grant }))
}

/// 403: no grant would do.
pub(crate) fn owners_alone() -> Error {
    Error::new(StatusCode::FORBIDDEN, "forbidden", "only the owner of the node may do this: it has no grant")
}
