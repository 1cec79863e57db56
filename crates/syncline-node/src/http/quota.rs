//! Quotas as the door and handlers use them: a request beyond one is answered 429 with `Retry-After` and the setting.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{Method, StatusCode};
use serde_json::json;
use syncline_core::access::quota::{Exceeded, Quota, Spent};
use syncline_core::time::Timestamp;

use super::principal::Caller;
use super::{Error, caller};
use crate::access::{KnownSpaces, Principal, QuotaHolder, Quotas, StreamPlace};
use crate::{Context, clock};

/// Takes a request from its caller's quotas.
pub(super) fn spend_request(
    context: &Context,
    principal: &Principal,
    address: Option<IpAddr>,
    method: &Method,
) -> Result<(), Error> {
    let (of, now) = (principal.quotas(address), clock::now());
    if of.is_empty() {
        return Ok(());
    }
    context.quotas.spend(&of, Spent::Request, now).map_err(exceeded)?;
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    context.quotas.spend(&of, Spent::Write, now).map_err(exceeded)
}

/// A caller's quotas, as an argument of a handler.
pub(crate) struct CallerQuota {
    quotas: Arc<Quotas>,
    of: Vec<(QuotaHolder, Quota)>,
}

impl CallerQuota {
    pub(crate) fn of(context: &Context, principal: &Principal, address: Option<IpAddr>) -> CallerQuota {
        CallerQuota { quotas: Arc::clone(&context.quotas), of: principal.quotas(address) }
    }

    /// Takes so many keys for a queue.
    pub(crate) fn spend_adds(&self, count: usize) -> Result<(), Error> {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.quotas.spend(&self.of, Spent::Adds(count), clock::now()).map_err(exceeded)
    }

    /// Takes a place for a stream.
    pub(crate) fn open_stream(&self) -> Result<StreamPlace, Error> {
        self.quotas.open_stream(&self.of).map_err(exceeded)
    }

    /// Whether one more lock may be held.
    pub(crate) fn may_lock(&self, name: &str) -> Result<(), Error> {
        self.quotas.may_lock(&self.of, name, clock::now()).map_err(exceeded)
    }

    /// A lock is held for so long.
    pub(crate) fn locked(&self, name: &str, ttl: std::time::Duration) {
        let now = clock::now();
        self.quotas.locked(&self.of, name, now, now + ttl);
    }

    /// A lock is no longer held.
    pub(crate) fn unlocked(&self, name: &str) {
        self.quotas.unlocked(&self.of, name);
    }

    /// The quotas that say something of spaces.
    pub(crate) fn of_spaces(&self) -> impl Iterator<Item = &(QuotaHolder, Quota)> {
        self.of.iter().filter(|(_, quota)| quota.spaces.is_some() || quota.space_bytes.is_some())
    }

    /// What is known of a holder's spaces.
    pub(crate) fn known_spaces(&self, holder: &QuotaHolder, now: Timestamp) -> Option<KnownSpaces> {
        self.quotas.known_spaces(holder, now)
    }

    /// Remembers it.
    pub(crate) fn learn_spaces(&self, holder: &QuotaHolder, known: KnownSpaces) {
        self.quotas.learn_spaces(holder.clone(), known);
    }
}

impl FromRequestParts<Arc<Context>> for CallerQuota {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, context: &Arc<Context>) -> Result<Self, Error> {
        let principal = Caller::of(&parts.extensions)?;
        let address = caller::address(&parts.extensions, &parts.headers, context);
        Ok(CallerQuota::of(context, &principal, address))
    }
}

/// 429: the caller or its tenant has used what it may.
pub(crate) fn exceeded(Exceeded { setting, retry_after }: Exceeded) -> Error {
    let message = format!("the quota {setting} of this caller or of its tenant is used up: try again later");
    let error = Error::new(StatusCode::TOO_MANY_REQUESTS, "quota", message).with(json!({ "quota": setting }));
    error.retry_after_sec(retry_after.as_secs() + 1)
}
