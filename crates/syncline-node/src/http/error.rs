//! Every refusal and failure of the HTTP API: a status, a stable word and one sentence.
//!
//! A handler returns an [`Error`]; it travels as an extension of an empty response to the door, which renders all of them
//! in one place with `Error::render`. So no error leaves the node as anything but JSON, with an id that is also in the log.

use std::borrow::Cow;
use std::fmt::Display;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

/// The header with the id under which a failed request is found in the log.
pub(crate) const REQUEST_ID: &str = "x-request-id";

/// Why a request was not answered as asked.
#[derive(Debug, Clone)]
pub struct Error {
    status: StatusCode,
    code: &'static str,
    message: Cow<'static, str>,
    /// For the log alone: what the sentence must not say.
    detail: Option<String>,
    retry_after_sec: Option<u64>,
    /// What a program may want to know beside the code.
    facts: Value,
}

/// The body of every error, as it is described.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase",
    example = json!({ "error": "nightly is held by box-7 for 9000 ms more, unless it is renewed", "code": "held",
        "holder": "box-7", "token": 41, "expiresInMs": 9_000 }))]
#[allow(dead_code, reason = "describes what `Rendered` writes")]
pub(crate) struct ErrorBody {
    /// `false`, where successes say `true`.
    success: Option<bool>,
    /// One sentence for people.
    error: String,
    /// One stable word for programs.
    code: String,
    /// Of `forbidden`: the grant that is missing.
    grant: Option<String>,
    /// Of `quota`: the quota that is used up.
    quota: Option<String>,
    /// Of `held`: who has the lock, where the caller may know it.
    holder: Option<String>,
    /// Of `held`: the fencing token of whoever has it.
    token: Option<u64>,
    /// Of `held`: how much longer, unless the lease is renewed.
    expires_in_ms: Option<u64>,
}

/// The body of every error, as it is written.
#[derive(Debug, Serialize)]
struct Rendered {
    #[serde(skip_serializing_if = "Option::is_none")]
    success: Option<bool>,
    error: Cow<'static, str>,
    code: &'static str,
    /// Facts of this error, where its code has any.
    #[serde(flatten)]
    facts: Value,
}

impl Error {
    /// An error with a status of its own.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<Cow<'static, str>>) -> Error {
        Error {
            status,
            code,
            message: message.into(),
            detail: None,
            retry_after_sec: None,
            facts: no_facts(),
        }
    }

    /// 400: the request makes no sense, and will not later.
    pub fn invalid(code: &'static str, message: impl Into<Cow<'static, str>>) -> Error {
        Error::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// 404: there is no such thing.
    pub fn missing(message: impl Into<Cow<'static, str>>) -> Error {
        Error::new(StatusCode::NOT_FOUND, "not-found", message)
    }

    /// 500: something broke. The log says what, the answer does not.
    pub fn internal(detail: impl Display) -> Error {
        let message = "something went wrong inside the node; its log has the details";
        Error::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message).because(detail)
    }

    /// Adds what the log should know and the caller should not.
    #[must_use]
    pub fn because(self, detail: impl Display) -> Error {
        Error { detail: Some(detail.to_string()), ..self }
    }

    /// Adds facts, an object, to the body.
    #[must_use]
    pub fn with(self, facts: Value) -> Error {
        Error { facts, ..self }
    }

    /// Adds when to try again.
    #[must_use]
    pub fn retry_after_sec(self, seconds: u64) -> Error {
        Error { retry_after_sec: Some(seconds), ..self }
    }

    /// The status it is answered with.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The stable word.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The grant that was missing, if that is what is wrong.
    pub(crate) fn grant(&self) -> Option<&str> {
        self.facts.get("grant").and_then(Value::as_str)
    }

    pub(crate) fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// The answer itself. `says_success` adds `success: false`, as some routes promise.
    pub(crate) fn render(&self, says_success: bool, id: Uuid) -> Response {
        let success = says_success.then_some(false);
        let facts = self.facts.clone();
        let body = Rendered { success, error: self.message.clone(), code: self.code, facts };
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        let id = HeaderValue::from_str(&id.to_string()).expect("an id is plain ASCII");
        headers.insert(REQUEST_ID, id);
        if let Some(seconds) = self.retry_after_sec {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"syncline\""));
        }
        response
    }

    /// An error for an answer that only has a status, made by some layer that knows nothing of ours.
    pub(crate) fn of_status(status: StatusCode) -> Error {
        let message = status.canonical_reason().unwrap_or("the request was refused").to_lowercase();
        match status {
            StatusCode::NOT_FOUND => Error::missing("there is nothing at this address"),
            StatusCode::METHOD_NOT_ALLOWED => {
                Error::new(status, "method-not-allowed", "this address does not support this method")
            }
            _ if status.is_server_error() => Error::new(status, "internal", message),
            _ => Error::new(status, "refused", message),
        }
    }
}

fn no_facts() -> Value {
    Value::Object(serde_json::Map::new())
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// The store refused or failed. What the caller got wrong is told, what broke is logged.
impl From<syncline_store::Error> for Error {
    fn from(error: syncline_store::Error) -> Error {
        match &error {
            syncline_store::Error::Kv(invalid) => Error::invalid("invalid-key", invalid.to_string()),
            syncline_store::Error::Invalid { .. } => Error::invalid("invalid-argument", error.to_string()),
            syncline_store::Error::Busy { .. } => {
                let message = "the store is busy; nothing was changed; try again";
                Error::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
                    .because(&error)
                    .retry_after_sec(1)
            }
            syncline_store::Error::Full { .. } => {
                let message = "the store has no space left; nothing was changed";
                let full = Error::new(StatusCode::INSUFFICIENT_STORAGE, "storage-full", message);
                full.because(&error).retry_after_sec(60)
            }
            _ => {
                let message =
                    "the store did not answer as it should; the change may or may not have been made";
                let failed = Error::new(StatusCode::INTERNAL_SERVER_ERROR, "store", message).because(&error);
                if error.retryable() { failed.retry_after_sec(1) } else { failed }
            }
        }
    }
}

impl From<syncline_core::kv::Invalid> for Error {
    fn from(invalid: syncline_core::kv::Invalid) -> Error {
        Error::invalid("invalid-key", invalid.to_string())
    }
}

impl From<QueryRejection> for Error {
    fn from(rejection: QueryRejection) -> Error {
        Error::invalid("invalid-query", rejection.body_text())
    }
}

impl From<PathRejection> for Error {
    fn from(rejection: PathRejection) -> Error {
        Error::invalid("invalid-path", rejection.body_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader pool that was saturated used to be a 500 and a line of the log each: 1,935 within seconds.
    #[test]
    fn a_store_that_is_busy_or_full_is_a_limit_and_not_a_fault() {
        let (store, reason) = (|| "s".to_owned(), || "r".to_owned());
        let cases = [
            (syncline_store::Error::Busy { store: store(), reason: reason() }, 503, "busy", Some(1)),
            (syncline_store::Error::Full { store: store(), reason: reason() }, 507, "storage-full", Some(60)),
            (syncline_store::Error::Unreachable { store: store(), reason: reason() }, 500, "store", Some(1)),
            (syncline_store::Error::Closed { store: store() }, 500, "store", None),
        ];
        for (failure, status, code, retry_after_sec) in cases {
            let error = Error::from(failure);
            assert_eq!(
                (error.status.as_u16(), error.code, error.retry_after_sec),
                (status, code, retry_after_sec)
            );
        }
    }
}
