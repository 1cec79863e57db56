//! `/api/session`: who calls, and browsers that sign in and out.
//!
//! Guarantees: a session begins and ends with a row in the audit, or not at all; a wrong credential is a refusal there, answered as
//! slowly as anywhere else. Cookies and when they end are [`Sessions`](super::session::Sessions)' matter.

use std::sync::Arc;

use axum::extract::{FromRequest as _, Request, State};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use syncline_core::time::Timestamp;
use utoipa::ToSchema;

use super::auth::Auth;
use super::body::Json;
use super::record::Recorder;
use super::session::SignedIn;
use super::{Error, caller};
use crate::access::{KeyHash, PendingRecord, Principal, PrincipalKind};
use crate::{Context, clock};

/// The code for a credential that is good and signs no browser in.
pub(super) const NO_SIGN_IN: &str = "invalid-credential";

/// What a browser presents to sign in.
#[derive(Deserialize, ToSchema)]
pub(crate) struct SignIn {
    /// The value of `SYNCLINE_TOKEN`, or a secret key.
    token: String,
}

/// Whether a token is needed, and who the caller is.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Session {
    /// The node has a token.
    required: bool,
    /// The caller has shown who it is, or needs not.
    authenticated: bool,
    /// `owner`, `key` or `person`; absent where the caller is nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    /// The name of the key, or of the issuer of the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Under which name the caller acts.
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    /// What the caller may do; absent for the owner, who may do everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    grants: Option<Vec<String>>,
    /// When the caller's token ends, in milliseconds since 1970; absent for the owner and for keys.
    #[serde(rename = "endsAt", skip_serializing_if = "Option::is_none")]
    ends_at: Option<u64>,
}

impl Session {
    fn of(auth: &Auth, principal: Option<&Principal>) -> Session {
        let required = auth.is_required();
        let Some(principal) = principal else { return Session { required, ..Session::default() } };
        let (kind, named) = (principal.kind.as_str(), !principal.is_owner());
        Session {
            required,
            authenticated: true,
            kind: Some(kind),
            name: named.then(|| principal.name.to_string()),
            subject: principal.subject().map(str::to_owned),
            grants: named.then(|| principal.grants.iter().map(ToString::to_string).collect()),
            ends_at: principal.ends_at().map(Timestamp::as_ms),
        }
    }
}

/// Tells who the caller is.
#[utoipa::path(get, path = "/api/session", tag = "session",
    responses((status = 200, body = Session), (status = 429, description = "Too many wrong tokens")))]
pub(crate) async fn session(
    State(context): State<Arc<Context>>,
    request: Request,
) -> Result<axum::Json<Session>, Error> {
    let auth = &context.auth;
    let address = caller::address(request.extensions(), request.headers(), &context);
    let principal = match auth.principal(address, request.headers(), true).await {
        Err(refused) if refused.status() == StatusCode::UNAUTHORIZED => None,
        principal => principal?,
    };
    Ok(axum::Json(Session::of(auth, principal.as_deref())))
}

/// Signs a browser in, as the owner or as a key: the answer sets a cookie that scripts cannot read. A session of a key may what the
/// key may, and ends with it.
#[utoipa::path(post, path = "/api/session", tag = "session", request_body = SignIn,
    responses((status = 200, body = Session), (status = 400, description = "A credential that signs nobody in"),
        (status = 401, description = "Neither the token nor a key of this node"),
        (status = 429, description = "Too many wrong tokens, or too many sign-ins")))]
pub(crate) async fn sign_in(
    State(context): State<Arc<Context>>,
    request: Request,
) -> Result<Response, Error> {
    let (parts, body) = request.into_parts();
    let address = caller::address(&parts.extensions, &parts.headers, &context);
    let request = Request::from_parts(parts.clone(), body);
    let Json(presented) = Json::<SignIn>::from_request(request, &context).await?;
    let Some(required) = &context.auth.required else {
        return Ok(axum::Json(Session::of(&context.auth, Some(&context.auth.owner))).into_response());
    };
    let token = presented.token.as_bytes();
    let principal = context.auth.bearer_of(address, token).await?;
    let who = match principal.kind() {
        PrincipalKind::Owner => SignedIn::Owner,
        PrincipalKind::Key if !principal.public => SignedIn::Key(KeyHash::of(token)),
        _ => {
            let message = "a browser signs in with the node's token or with a secret key; this credential is shown with each request";
            return Err(Error::invalid(NO_SIGN_IN, message));
        }
    };
    context.auth.spend_sign_in(&principal.name)?;
    let recorder = Recorder::new(&context, &parts, address, Some(&principal));
    let pending = recorder.begin("session", "sign-in", "").await?;
    let begun = required.sessions.begin(clock::wall(), who).await.map_err(Error::from);
    pending.settle(begun.as_ref().err().map(Error::code)).await;
    let cookie = begun?;
    let session = Session::of(&context.auth, Some(&principal));
    Ok(([(header::SET_COOKIE, cookie)], axum::Json(session)).into_response())
}

/// Signs a browser out: its session ends on every node. A new token signs out everybody.
#[utoipa::path(delete, path = "/api/session", tag = "session", responses((status = 200, body = Session)))]
pub(crate) async fn sign_out(
    State(context): State<Arc<Context>>,
    request: Request,
) -> Result<Response, Error> {
    let auth = &context.auth;
    let Some(required) = &auth.required else {
        return Ok(axum::Json(Session::of(auth, Some(&auth.owner))).into_response());
    };
    let (parts, _) = request.into_parts();
    let wall = clock::wall();
    // Who has no session ends none: strangers write nothing into the audit.
    let pending = match required.sessions.known(&parts.headers, wall).await? {
        None => PendingRecord::NONE,
        Some(who) => {
            let address = caller::address(&parts.extensions, &parts.headers, &context);
            let principal = auth.signed_in(who);
            let recorder = Recorder::new(&context, &parts, address, principal.as_deref());
            recorder.begin("session", "sign-out", "").await?
        }
    };
    let ended = required.sessions.end(&parts.headers, wall).await.map_err(Error::from);
    pending.settle(ended.as_ref().err().map(Error::code)).await;
    let cookie = ended?;
    let session = Session::of(&context.auth, None);
    Ok(([(header::SET_COOKIE, cookie)], axum::Json(session)).into_response())
}
