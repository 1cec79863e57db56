//! Request bodies: bounded, timed, and JSON.
//!
//! A body that announces or turns out to have more than its route's limit is answered with 413, one that pauses for too
//! long with 408. The rest of a body that was refused is thrown away for a moment, so that the sender, who may not look
//! for an answer before it has sent everything, gets to see the refusal instead of a reset connection.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use serde::de::DeserializeOwned;

use super::Error;
use crate::Context;
use crate::config::Limits;

/// Most bytes of a refused body that are thrown away before the answer, and for how long.
const DISCARDED_MAX_BYTES: usize = 4 * 1024 * 1024;
const DISCARDING_MAX: Duration = Duration::from_secs(2);

/// What JSON bodies are limited to unless their route says otherwise.
pub(crate) const JSON_MAX_BYTES: usize = 64 * 1024;

/// How large a body may be, as the route's rules say; the door leaves it with the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyMax(pub(crate) usize);

/// The whole body, if it is no larger than its route allows.
pub async fn read(request: Request, limits: &Limits) -> Result<Bytes, Error> {
    let limit_bytes = request.extensions().get::<BodyMax>().map_or(JSON_MAX_BYTES, |max| max.0);
    let awaits_permission = request.headers().contains_key(header::EXPECT);
    let mut body = request.into_body();
    if body.size_hint().lower() > limit_bytes as u64 {
        // Who waits for a "100 Continue" has sent nothing, and must not be invited to.
        if !awaits_permission {
            discard(body).await;
        }
        return Err(too_large(limit_bytes));
    }
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while !body.is_end_stream() {
        // The first piece is nearly always here or about to be: it is left to the time-out of the whole request, and saves
        // every heartbeat a timer. From then on a pause is a pause.
        let frame = if first.is_empty() {
            body.frame().await
        } else {
            let next = tokio::time::timeout(limits.body_idle_timeout, body.frame()).await;
            next.map_err(|_| stalled())?
        };
        let frame = match frame {
            None => break,
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                return Err(Error::invalid("incomplete-body", "the body broke off").because(error));
            }
        };
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > limit_bytes {
            discard(body).await;
            return Err(too_large(limit_bytes));
        }
        // Nearly every body is one piece, which needs no copy.
        if first.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&data);
        }
    }
    if rest.is_empty() {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(first.len() + rest.len());
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&rest);
    Ok(whole.freeze())
}

/// A JSON body, as large as its route allows.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Arc<Context>> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, context: &Arc<Context>) -> Result<Self, Error> {
        if !matches!(media_type(request.headers()), Some("application/json")) {
            return Err(unsupported("send the body as application/json"));
        }
        let bytes = read(request, &context.config.limits).await?;
        if !is_object(&bytes) {
            return Err(Error::invalid("invalid-body", "the body must be a JSON object"));
        }
        serde_json::from_slice(&bytes).map(Json).map_err(|error| not_json(&error))
    }
}

/// Whether a body can be an object. The reader alone would also take a list for one, value by value.
pub fn is_object(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'{')
}

/// The media type of a body without its parameters; `None` when it has none or one that cannot be read.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or(value).trim())
}

/// 415: the body is of a kind that this route does not read.
pub fn unsupported(message: &'static str) -> Error {
    Error::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", message)
}

/// 400: what is wrong with the JSON, and where.
pub(crate) fn not_json(error: &serde_json::Error) -> Error {
    let code = if error.is_data() { "invalid-body" } else { "invalid-json" };
    Error::invalid(code, format!("the body cannot be used: {error}"))
}

fn too_large(limit_bytes: usize) -> Error {
    let message = format!("the body is larger than the {limit_bytes} bytes this address accepts");
    Error::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
}

fn stalled() -> Error {
    Error::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not arrive in time")
}

/// Throws the rest of a refused body away, within bounds.
pub async fn discard(mut body: Body) {
    let discarding = async {
        let mut discarded = 0;
        while let Some(Ok(frame)) = body.frame().await {
            discarded += frame.data_ref().map_or(0, Bytes::len);
            if discarded > DISCARDED_MAX_BYTES {
                break;
            }
        }
    };
    // Out of time is out of patience: the answer goes out either way.
    let _ = tokio::time::timeout(DISCARDING_MAX, discarding).await;
}

/// The query of a request, with a rejection of our own.
#[derive(axum::extract::FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(Error))]
pub struct Query<T>(pub T);

/// The variable parts of a path, with a rejection of our own.
#[derive(axum::extract::FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(Error))]
pub struct Path<T>(pub T);
