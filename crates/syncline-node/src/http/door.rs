//! The door every request passes, in one piece: it is on the way of each heartbeat, and what is not there costs nothing.
//!
//! On the way in: host, origin, credential, grant; none of them reads the body. On the way out: errors as JSON with an id, headers
//! that keep browsers strict, one log line for what failed, and the count.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use http::{HeaderValue, Method, StatusCode, Uri, header};
use hyper::body::Body as _;
use uuid::Uuid;

use super::admission::Admission;
use super::body::BodyMax;
use super::{Error, caller, cors, pages, quota, record};
use crate::Context;
use crate::access::Principal;
use crate::part::{Patience, Rules};
use crate::server::AnswerShare;

/// For answers that are not pages: nothing in them is to be run, framed or fetched.
const API_CONTENT_SECURITY_POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

/// Answers of this size and more take part of [`ANSWERS_MAX_BYTES`].
const LARGE_ANSWER_BYTES: u64 = 64 * 1024;

/// The memory that large answers may take together while they are read.
pub(crate) const ANSWERS_MAX_BYTES: usize = 256 * 1024 * 1024;

pub(super) async fn door(State(context): State<Arc<Context>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let (mut parts, body) = request.into_parts();
    let (method, uri) = (parts.method.clone(), parts.uri.clone());
    let matched = parts.extensions.get::<MatchedPath>().cloned();
    let matched = matched.as_ref().map(MatchedPath::as_str);
    let (rules, series) = context.endpoints.find(matched, &method);
    let (mut response, reader) = if cors::is_preflight(&parts) {
        let answered = cors::preflight(&context, &parts, matched);
        let origin = parts.headers.get(header::ORIGIN).filter(|_| answered.is_ok()).cloned();
        (answered.unwrap_or_else(IntoResponse::into_response), origin)
    } else {
        let address = caller::address(&parts.extensions, &parts.headers, &context);
        let origin = record::origin_of(&parts.headers);
        let Admission { admitted, caller, thing, reader } =
            Admission::of(&context, rules, &mut parts, address).await;
        let action = record::Action { method: &method, matched, address, origin, thing };
        let admitted = admitted.and_then(|()| match &caller {
            Some(caller) => quota::spend_request(&context, caller, address, &method),
            None => Ok(()),
        });
        let response = match admitted {
            Err(error) => error.into_response(),
            Ok(()) => {
                parts.extensions.insert(BodyMax(rules.body_max_bytes));
                if let Some(caller) = &caller {
                    parts.extensions.insert(Arc::clone(caller));
                }
                let request = Request::from_parts(parts, body);
                recorded(&context, rules, &action, caller.as_ref(), request, next).await
            }
        };
        if let Some(error) = response.extensions().get::<Error>() {
            record::refused(&context, rules, action, caller.as_deref(), error);
        }
        (response, reader)
    };
    if !rules.embedded {
        response = within_share(&context, response);
    }
    if response.status().is_client_error() || response.status().is_server_error() {
        response = explain(&context, response, &method, &uri, rules);
    }
    let headers = response.headers_mut();
    cors::mark(headers, &context, rules, reader);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // Pages bring their own of these two.
    let policy = headers.entry(header::CONTENT_SECURITY_POLICY);
    policy.or_insert(HeaderValue::from_static(API_CONTENT_SECURITY_POLICY));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    series.record(response.status(), started.elapsed());
    response
}

/// The handler's answer. What cannot be undone is in the audit before it is begun, or is not begun.
async fn recorded(
    context: &Context,
    rules: &Rules,
    action: &record::Action<'_>,
    caller: Option<&Arc<Principal>>,
    request: Request,
    next: Next,
) -> Response {
    let pending = match record::begin(context, rules, action, caller).await {
        Ok(pending) => pending,
        Err(error) => return error.into_response(),
    };
    let response = answer(context, rules, request, next).await;
    let failed = response.extensions().get::<Error>().map(Error::code);
    let failed = failed.or_else(|| (!response.status().is_success()).then_some("failed"));
    pending.settle(failed).await;
    response
}

/// Takes the memory of a large answer from the share that all of them have together, until its last piece is on its way.
/// Many readers who are slow could hold any amount otherwise.
fn within_share(context: &Context, mut response: Response) -> Response {
    let bytes = response.body().size_hint().exact().unwrap_or(0);
    if bytes < LARGE_ANSWER_BYTES {
        return response;
    }
    let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
    match Arc::clone(&context.answers).try_acquire_many_owned(permits) {
        Ok(permit) => {
            response.extensions_mut().insert(AnswerShare::new(permit));
            response
        }
        Err(_) => {
            let message = "too many large answers are waiting to be read";
            Error::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message).retry_after_sec(1).into_response()
        }
    }
}

/// The handler's answer, or an error when it panics or takes too long.
async fn answer(context: &Context, rules: &Rules, request: Request, next: Next) -> Response {
    let limits = &context.config.limits;
    let patience = match rules.patience {
        Patience::Request => limits.request_timeout,
        Patience::Upload => limits.upload_timeout,
    };
    let mut handling = pin!(AssertUnwindSafe(next.run(request)).catch_unwind());
    // Most answers, a heartbeat's among them, are there at once and need no timer.
    let handled = match futures::poll!(handling.as_mut()) {
        Poll::Ready(handled) => Ok(handled),
        Poll::Pending => tokio::time::timeout(patience, handling).await,
    };
    match handled {
        Ok(Ok(response)) => response,
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Error::internal(format_args!("a handler panicked: {text}")).into_response()
        }
        Err(_) => {
            let message = "the request took longer than the node waits";
            Error::new(StatusCode::REQUEST_TIMEOUT, "timeout", message).into_response()
        }
    }
}

/// Turns whatever failed into JSON, and logs what is the node's own fault. What a limit refused is no fault, and comes in
/// crowds: it is counted, and one of a minute is shown.
fn explain(context: &Context, mut response: Response, method: &Method, uri: &Uri, rules: &Rules) -> Response {
    // A page that says in its own words what is wrong.
    if response.extensions().get::<pages::Whole>().is_some() {
        return response;
    }
    let error = match response.extensions_mut().remove::<Error>() {
        Some(error) => error,
        None => Error::of_status(response.status()),
    };
    let id = Uuid::new_v4();
    let (status, code) = (error.status().as_u16(), error.code());
    let detail = error.detail().unwrap_or_default();
    // The query stays out of the log: it may hold what is nobody's business.
    let limited = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::INSUFFICIENT_STORAGE];
    if limited.contains(&error.status()) {
        if let Some(count) = context.limited.due() {
            let path = uri.path();
            tracing::warn!(%id, %method, path, status, code, detail, count, "requests beyond a limit");
        }
    } else if error.status().is_server_error() {
        tracing::error!(%id, %method, path = uri.path(), status, code, detail, "request failed");
    } else {
        tracing::debug!(%id, %method, path = uri.path(), status, code, detail, "request refused");
    }
    let mut explained = error.render(rules.says_success, id);
    // A 405 says which methods there are, a 416 how much there is.
    for name in [header::ALLOW, header::CONTENT_RANGE, header::ACCEPT_RANGES] {
        if let Some(value) = response.headers_mut().remove(&name) {
            explained.headers_mut().insert(name, value);
        }
    }
    explained
}
