//! Pages of other sites: which of them may call, which answers they may read, and what a browser is told that asks first.
//!
//! A page of another site is let in by an origin that the route lists (`viewer.allowed_origins`), or by a credential that
//! lists it. The credential is a bearer token, never a cookie: a browser sends cookies whoever asks. A preflight carries no
//! credential, so any origin that some credential lists is told that it may ask; the request itself is then judged.

use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use super::{Error, guard};
use crate::Context;
use crate::access::Principal;
use crate::part::{Rules, lists};

/// What scripts may send beside the headers that need no permission.
const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static("authorization, content-type");

/// What scripts may read of an answer beside its body: when to come back, and under which id the log knows a failure.
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static("retry-after, x-request-id");

/// For how many seconds a browser remembers a preflight; none remembers one longer.
const MAX_AGE_SEC: HeaderValue = HeaderValue::from_static("7200");

/// The methods of an address that is none: its error can be read, too.
const ANY_METHOD: &str = "GET, POST, PUT, DELETE";

static CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

impl Principal {
    /// Whether pages of this origin may show this credential.
    pub(super) fn lists_origin(&self, origin: &HeaderValue) -> bool {
        lists(&self.origins, origin)
    }
}

/// Whether a browser asks what a page may do.
pub(super) fn is_preflight(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS
        && parts.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && parts.headers.contains_key(header::ORIGIN)
}

/// What a browser is told that asks for an address, as the router knows it.
pub(super) fn preflight(context: &Context, parts: &Parts, path: Option<&str>) -> Result<Response, Error> {
    context.guard.host(parts)?;
    let by_credential = listed_by_any(context, &parts.headers).is_some();
    let known = path.map(|path| context.endpoints.methods(path)).unwrap_or_default();
    let may = |rules: &Rules| by_credential || rules.allowed_origin(&parts.headers).is_some();
    let methods: Vec<&str> =
        known.iter().filter(|(_, rules)| may(rules)).map(|(method, _)| method.as_str()).collect();
    if methods.is_empty() && !(by_credential && known.is_empty()) {
        return Err(guard::foreign(parts));
    }
    let methods = if methods.is_empty() { ANY_METHOD.to_owned() } else { methods.join(", ") };
    let methods = HeaderValue::from_str(&methods).map_err(Error::internal)?;
    let told = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, methods),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE_SEC),
    ];
    Ok((StatusCode::NO_CONTENT, told).into_response())
}

/// The origin of a request, if some credential lists it. Its page may read why a credential was refused.
pub(super) fn listed_by_any<'a>(context: &Context, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
    headers.get(header::ORIGIN).filter(|origin| context.auth.credentials().lists_origin(origin))
}

/// Says who may read an answer, and by what it differs.
pub(super) fn mark(headers: &mut HeaderMap, context: &Context, rules: &Rules, reader: Option<HeaderValue>) {
    let policy = if reader.is_some() { "cross-origin" } else { "same-origin" };
    headers.insert(&CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static(policy));
    if let Some(origin) = reader {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    }
    if rules.embedded {
        return;
    }
    if !context.auth.credentials().is_empty() {
        headers.append(header::VARY, HeaderValue::from_static("origin, authorization"));
    } else if !rules.origins.is_empty() {
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
}
