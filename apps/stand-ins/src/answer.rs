//! One call to a stand-in, from its arrival to its end: too early, unlucky, or answered.

use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};

use super::catalogue::Dice;
use super::ledger::End;
use super::settings::{Api, Flaky, RetryAfter};
use super::{State, cover};

/// How far ahead of now a date in `Retry-After` is. Dates have whole seconds, so this is one to two of them.
const DATE_AHEAD: Duration = Duration::from_secs(2);

/// What an API says.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) content_type: &'static str,
    pub(super) body: String,
}

/// What becomes of a call that came in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Answered,
    TooMany,
    Failing,
    Slow,
    Broken,
}

impl Answer {
    pub(super) fn json(status: StatusCode, body: &serde_json::Value) -> Self {
        Self { status, content_type: "application/json; charset=UTF-8", body: body.to_string() }
    }

    pub(super) fn xml(body: String) -> Self {
        Self { status: StatusCode::OK, content_type: "application/xml;charset=UTF-8", body }
    }

    pub(super) fn picture(body: String) -> Self {
        Self { status: StatusCode::OK, content_type: cover::CONTENT_TYPE, body }
    }

    pub(super) fn page(status: StatusCode, text: &str) -> Self {
        let body = format!("<!doctype html><title>{text}</title><h1>{text}</h1>");
        Self { status, content_type: "text/html; charset=UTF-8", body }
    }

    pub(super) fn respond(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        // Pictures are shown on the pages of a node, which has another origin.
        headers.insert("cross-origin-resource-policy", HeaderValue::from_static("cross-origin"));
        response
    }
}

/// Answers a call for `key` with what `make` says, unless it came too early or is out of luck.
pub(super) async fn call(
    state: &State,
    api: Api,
    key: String,
    make: impl FnOnce() -> Answer,
) -> Response<Body> {
    let settings = &state.settings;
    let (open, too_fast) = state.ledger.arrive(api, key, settings.pace(api));
    let fate = if too_fast { Fate::TooMany } else { fate(state, api, open.n()) };
    tokio::time::sleep(if fate == Fate::Slow { settings.slow } else { settings.latency }).await;
    let (end, response) = match fate {
        Fate::TooMany => (End::TooMany, too_many(settings.retry_after, api, open.too_many_before())),
        Fate::Failing => {
            (End::Failed, Answer::page(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error").respond())
        }
        Fate::Broken => (End::Failed, half(&make()).respond()),
        Fate::Slow | Fate::Answered => (End::Well, make().respond()),
    };
    open.end(end, response.status().as_u16());
    response
}

fn fate(state: &State, api: Api, n: u64) -> Fate {
    // Pictures are plain files: nobody counts who looks at them.
    let flaky = if api == Api::Thumbnail { Flaky::default() } else { state.settings.flaky };
    let mut unit = Dice::of(state.settings.seed, api as u64, n).unit();
    let fates = [
        (flaky.too_many, Fate::TooMany),
        (flaky.failing, Fate::Failing),
        (flaky.slow, Fate::Slow),
        (flaky.broken, Fate::Broken),
    ];
    for (share, fate) in fates {
        if unit < share {
            return fate;
        }
        unit -= share;
    }
    Fate::Answered
}

/// An answer that was cut off.
fn half(answer: &Answer) -> Answer {
    let middle = answer.body.char_indices().nth(answer.body.chars().count() / 2).map_or(0, |(at, _)| at);
    Answer { body: answer.body[..middle].to_owned(), ..*answer }
}

fn too_many(says: RetryAfter, api: Api, before: u64) -> Response<Body> {
    let status = StatusCode::TOO_MANY_REQUESTS;
    let answer = match api {
        Api::Google => Answer::json(
            status,
            &serde_json::json!({ "error": { "code": 429, "message": "Quota exceeded for quota metric 'Queries'.",
                "status": "RESOURCE_EXHAUSTED" } }),
        ),
        Api::Rakuten => Answer::json(
            status,
            &serde_json::json!({ "error": "too_many_requests",
                "error_description": "number of allowed requests has been exceeded for this API" }),
        ),
        Api::Words => Answer::json(status, &serde_json::json!({ "error": "not so fast" })),
        Api::Ndl | Api::Thumbnail => Answer::page(status, "Too Many Requests"),
    };
    let mut response = answer.respond();
    let after = match (says, before % 3) {
        (RetryAfter::Never, _) | (RetryAfter::Mixed, 0) => None,
        (RetryAfter::Seconds(seconds), _) => Some(seconds.to_string()),
        (RetryAfter::Mixed, 1) => Some("1".to_owned()),
        (RetryAfter::Mixed, _) => Some(httpdate::fmt_http_date(SystemTime::now() + DATE_AHEAD)),
    };
    if let Some(after) = after.and_then(|after| HeaderValue::from_str(&after).ok()) {
        response.headers_mut().insert(header::RETRY_AFTER, after);
    }
    response
}
