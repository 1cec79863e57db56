//! `/api/viewer`: heartbeats in, counts out.
//!
//! The heartbeat is the busiest request there is: it parses in place, answers with constant bytes and allocates next to
//! nothing. What is wrong with a bad one is found out in a second, slower look.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use syncline_core::viewer::{InvalidSession, SessionId};
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::Context;
use crate::http::Error;
use crate::http::{body, caller};
use crate::part::{Name, Routes, Rules, Service};
use crate::viewer::{Refused, Sample, Settings, Snapshot, Viewers};

/// Largest heartbeat: an id of 64 characters, each of them escaped, fits many times.
const BEAT_MAX_BYTES: usize = 4_096;

/// When a viewer that was refused for want of room may come again.
const FULL_RETRY_SEC: u64 = 30;

/// Heartbeats are open to everybody, to pages of the sites that the configuration names, and to those of other sites that
/// show a credential.
pub(crate) fn routes(settings: &Settings) -> Routes {
    let beating = Rules::new().needs("viewer", "beat", Name::Any).open();
    let beating = beating.from_origins(&settings.allowed_origins).body_max_bytes(BEAT_MAX_BYTES);
    let counting = Rules::new().needs("viewer", "count", Name::All);
    Routes::new()
        .with_rules(counting.says_success(), routes!(summary))
        .with_rules(beating.says_success(), routes!(beat))
}

/// A sign of life of one page.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Heartbeat<'a> {
    /// The page's own id: 1 to 64 visible ASCII characters.
    session_id: &'a str,
    /// The page is going away.
    #[serde(default)]
    bye: bool,
    /// The page is in sight. True if absent.
    #[serde(default = "yes")]
    visible: bool,
}

fn yes() -> bool {
    true
}

/// The answer to a heartbeat.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Accepted {
    /// Always true: refusals are errors.
    success: bool,
}

/// The viewers now and before.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Viewing {
    #[serde(flatten)]
    now: Snapshot,
    /// Up to a day, oldest first.
    history: Vec<Sample>,
}

/// Counts the page as watching for another 60 seconds, or no longer if it says `bye`.
///
/// Needs no token. `text/plain` is read as JSON too, because that is what `navigator.sendBeacon` can send anywhere.
#[utoipa::path(post, path = "/api/viewer", tag = "viewer", request_body = Heartbeat<'static>,
    responses((status = 200, body = Accepted), (status = 400), (status = 413), (status = 415), (status = 429),
        (status = 500, description = "Counted in memory, but the store did not confirm it")))]
pub(crate) async fn beat(
    State(context): State<Arc<Context>>,
    Service(viewers): Service<Arc<Viewers>>,
    request: Request,
) -> Result<Response, Error> {
    if !matches!(body::media_type(request.headers()), Some("application/json" | "text/plain") | None) {
        return Err(body::unsupported("send the heartbeat as application/json or text/plain"));
    }
    let address = caller::address(request.extensions(), request.headers(), &context);
    let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let bytes = body::read(request, &context.config.limits).await?;
    let (id, bye, visible) = match serde_json::from_slice::<Heartbeat<'_>>(&bytes) {
        Ok(beat) if body::is_object(&bytes) => (SessionId::new(beat.session_id)?, beat.bye, beat.visible),
        _ => second_look(&bytes)?,
    };
    if bye {
        viewers.bye(&id);
    } else {
        viewers.beat(&id, visible, address).await?;
    }
    let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(([json], Body::from(Bytes::from_static(b"{\"success\":true}"))).into_response())
}

/// Tells who is watching, on which nodes, and how many there were over the last day.
#[utoipa::path(get, path = "/api/viewer", tag = "viewer", responses((status = 200, body = Viewing)))]
pub(crate) async fn summary(Service(viewers): Service<Arc<Viewers>>) -> axum::Json<Viewing> {
    axum::Json(Viewing { now: viewers.snapshot(), history: viewers.history() })
}

/// Reads a heartbeat that did not fit the usual form: it is wrong, or its id is written with escapes.
fn second_look(bytes: &[u8]) -> Result<(SessionId, bool, bool), Error> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| body::not_json(&error))?;
    let Value::Object(fields) = value else {
        return Err(Error::invalid("invalid-body", "the body must be an object with a sessionId"));
    };
    let id = match fields.get("sessionId") {
        None | Some(Value::Null) => return Err(InvalidSession::Missing.into()),
        Some(Value::String(id)) => SessionId::new(id)?,
        Some(_) => return Err(Error::invalid("invalid-session", "sessionId must be a string")),
    };
    let flag = |name: &str, default| match fields.get(name) {
        None => Ok(default),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(Error::invalid("invalid-body", format!("{name} must be true or false"))),
    };
    Ok((id, flag("bye", false)?, flag("visible", true)?))
}

impl From<InvalidSession> for Error {
    fn from(invalid: InvalidSession) -> Error {
        let code = if invalid == InvalidSession::Missing { "session-required" } else { "invalid-session" };
        Error::invalid(code, invalid.to_string())
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        let (status, code, retry_after_sec) = match refused {
            Refused::Full { .. } => (StatusCode::TOO_MANY_REQUESTS, "too-many-viewers", FULL_RETRY_SEC),
            Refused::TooFast { wait } => (StatusCode::TOO_MANY_REQUESTS, "too-fast", wait.as_secs() + 1),
            Refused::Store => (StatusCode::INTERNAL_SERVER_ERROR, "store", 1),
        };
        Error::new(status, code, refused.to_string()).retry_after_sec(retry_after_sec)
    }
}
