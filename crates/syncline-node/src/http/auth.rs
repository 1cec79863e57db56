//! Who calls: the owner, by the node's token or the cookie a browser got for it, or whoever a key or a signed token names.
//!
//! A principal is made from the head of a request alone. Comparison takes the same time whatever was presented. The cookie is
//! no copy of the token: it is a random id and an expiry date, signed with a key that takes the token and a secret that all
//! nodes of one database share. So it says nothing about the token, and ends with its date, with a new token, or when its
//! browser signs out. Wrong credentials are limited for each address; one that has merely ended is no guess.
//!
//! Without a configured token a caller without a credential is the owner, which is why such a node only listens on loopback.
//! A credential that is shown counts as what it is, there too.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{FromRequest as _, Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use metrics::Counter;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use syncline_store::kv::Kv;
use utoipa::ToSchema;

use super::body::Json;
use super::session::Sessions;
use super::{Error, caller};
use crate::access::{Credentials, Principal, PrincipalKind, Refusal};
use crate::address_rate::AddressRate;
use crate::log_throttle::LogThrottle;
use crate::metrics::Registry;
use crate::secret::Secret;
use crate::{Context, clock};

pub(super) use super::session::COOKIE;
pub(crate) use super::session::KEPT_PREFIX;

/// Wrong tokens that one address may present each minute, and at once.
const GUESSES_PER_MINUTE: u32 = 30;

/// What may be presented.
pub(crate) struct Auth {
    /// The owner's token; without one everybody who shows nothing is the owner.
    required: Option<Required>,
    owner: Arc<Principal>,
    credentials: Credentials,
    guesses: Mutex<AddressRate>,
    refused: Counter,
    told: LogThrottle,
}

struct Required {
    token_hash: [u8; 32],
    sessions: Sessions,
}

impl Auth {
    /// `secure_cookie` keeps the cookie off plain HTTP, for nodes that are reached by HTTPS.
    pub(crate) fn new(
        token: Option<&Secret>,
        credentials: Credentials,
        secure_cookie: bool,
        kv: Arc<dyn Kv>,
        registry: &Registry,
    ) -> Auth {
        let required = token.map(|token| Required {
            token_hash: Sha256::digest(token.expose()).into(),
            sessions: Sessions::new(token, secure_cookie, kv),
        });
        let help = "Requests with a wrong token, those refused unread after too many included.";
        let refused = registry.counter("syncline_http_credentials_refused_total", help, &[]);
        let (owner, told) = (Arc::new(Principal::owner()), LogThrottle::default());
        let guesses = Mutex::new(AddressRate::new(GUESSES_PER_MINUTE));
        Auth { required, owner, credentials, guesses, refused, told }
    }

    /// What is accepted beside the owner's token.
    pub(crate) fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Whether a token must be presented at all.
    pub(crate) fn is_required(&self) -> bool {
        self.required.is_some()
    }

    /// Who sends a request from `address`; `None` if nothing says so. Looks at nothing but its head. A page of another site
    /// sends cookies that its user never meant for it: theirs count for nothing.
    pub(crate) async fn principal(
        &self,
        address: Option<IpAddr>,
        headers: &HeaderMap,
        cookies_count: bool,
    ) -> Result<Option<Arc<Principal>>, Error> {
        // A wrong token is an answer, not a reason to look for a cookie.
        if let Some(presented) = self.presented(headers) {
            return self.bearer_of(address, presented).map(Some);
        }
        let Some(required) = &self.required else { return Ok(Some(Arc::clone(&self.owner))) };
        let known = cookies_count && required.sessions.knows(headers, clock::wall()).await?;
        Ok(known.then(|| Arc::clone(&self.owner)))
    }

    /// The credential of a request, where there is one to compare it with.
    pub(crate) fn presented<'a>(&self, headers: &'a HeaderMap) -> Option<&'a [u8]> {
        let judged = self.is_required() || !self.credentials.is_empty();
        let value = headers.get(header::AUTHORIZATION).filter(|_| judged)?;
        Some(bearer(value).unwrap_or_default())
    }

    /// Who shows this credential.
    pub(crate) fn bearer_of(
        &self,
        address: Option<IpAddr>,
        presented: &[u8],
    ) -> Result<Arc<Principal>, Error> {
        let found = self.judged(address, presented, |presented| {
            if self.required.as_ref().is_some_and(|required| required.accepts(presented)) {
                return Ok(Arc::clone(&self.owner));
            }
            self.credentials.principal(presented, clock::wall())
        });
        found?.map_err(refusal)
    }

    /// Whether `presented` is the owner's token.
    fn is_token(
        &self,
        required: &Required,
        address: Option<IpAddr>,
        presented: &[u8],
    ) -> Result<bool, Error> {
        let accepts = |presented: &[u8]| required.accepts(presented).then_some(()).ok_or(Refusal::Unknown);
        Ok(self.judged(address, presented, accepts)?.is_ok())
    }

    /// What `judge` says of a credential. An address that has presented too many wrong ones is not told: else it could go on.
    fn judged<T>(
        &self,
        address: Option<IpAddr>,
        presented: &[u8],
        judge: impl FnOnce(&[u8]) -> Result<T, Refusal>,
    ) -> Result<Result<T, Refusal>, Error> {
        let wait = address.and_then(|address| self.guesses().wait(clock::now(), address));
        let judgement = wait.is_none().then(|| judge(presented));
        if let Some(judgement @ (Ok(_) | Err(Refusal::Expired | Refusal::Revoked))) = judgement {
            return Ok(judgement);
        }
        self.refused.increment(1);
        if let Some(count) = self.told.due() {
            let address = address.map(|address| address.to_string());
            tracing::warn!(address, count, "requests with a wrong token were refused");
        }
        let Some(judgement) = judgement else {
            let message = "too many wrong tokens came from this address: none is looked at for a while";
            let error = Error::new(StatusCode::TOO_MANY_REQUESTS, "too-many-guesses", message);
            return Err(error.retry_after_sec(wait.unwrap_or_default().as_secs() + 1));
        };
        if let Some(address) = address {
            // Refused or not: it is counted.
            let _ = self.guesses().admit(clock::now(), address);
        }
        Ok(judgement)
    }

    fn guesses(&self) -> std::sync::MutexGuard<'_, AddressRate> {
        self.guesses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Required {
    /// Hashing first makes both sides equally long, so that not even the length shows in the time it takes.
    fn accepts(&self, token: &[u8]) -> bool {
        let presented: [u8; 32] = Sha256::digest(token).into();
        presented.ct_eq(&self.token_hash).into()
    }
}

/// What a browser presents to sign in.
#[derive(Deserialize, ToSchema)]
pub(crate) struct SignIn {
    /// The value of `SYNCLINE_TOKEN`.
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
}

impl Session {
    fn of(auth: &Auth, principal: Option<&Principal>) -> Session {
        let required = auth.is_required();
        let Some(principal) = principal else { return Session { required, ..Session::default() } };
        let (kind, named) = match principal.kind {
            PrincipalKind::Owner => ("owner", false),
            PrincipalKind::Key => ("key", true),
            PrincipalKind::Person => ("person", true),
        };
        Session {
            required,
            authenticated: true,
            kind: Some(kind),
            name: named.then(|| principal.name.to_string()),
            subject: principal.subject().map(str::to_owned),
            grants: named.then(|| principal.grants.iter().map(ToString::to_string).collect()),
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

/// Signs a browser in: the answer sets a cookie that scripts cannot read.
#[utoipa::path(post, path = "/api/session", tag = "session", request_body = SignIn,
    responses((status = 200, body = Session), (status = 401, description = "Not the token of this node"),
        (status = 429, description = "Too many wrong tokens")))]
pub(crate) async fn sign_in(
    State(context): State<Arc<Context>>,
    request: Request,
) -> Result<Response, Error> {
    let address = caller::address(request.extensions(), request.headers(), &context);
    let Json(presented) = Json::<SignIn>::from_request(request, &context).await?;
    let Some(required) = &context.auth.required else {
        return Ok(axum::Json(Session::of(&context.auth, Some(&context.auth.owner))).into_response());
    };
    if !context.auth.is_token(required, address, presented.token.as_bytes())? {
        return Err(refusal(Refusal::Unknown));
    }
    let cookie = required.sessions.begin(clock::wall()).await?;
    let session = Session::of(&context.auth, Some(&context.auth.owner));
    Ok(([(header::SET_COOKIE, cookie)], axum::Json(session)).into_response())
}

/// Signs a browser out: its session ends on every node. A new token signs out everybody.
#[utoipa::path(delete, path = "/api/session", tag = "session", responses((status = 200, body = Session)))]
pub(crate) async fn sign_out(
    State(context): State<Arc<Context>>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let Some(required) = &context.auth.required else {
        return Ok(axum::Json(Session::of(&context.auth, Some(&context.auth.owner))).into_response());
    };
    let cookie = required.sessions.end(&headers, clock::wall()).await?;
    let session = Session::of(&context.auth, None);
    Ok(([(header::SET_COOKIE, cookie)], axum::Json(session)).into_response())
}

/// 401: nothing says who calls.
pub(crate) fn missing() -> Error {
    let message = "this needs a credential: send the node's token, a key or a signed token as a bearer token";
    Error::new(StatusCode::UNAUTHORIZED, "token-missing", message)
}

fn refusal(refusal: Refusal) -> Error {
    let message = match refusal {
        Refusal::Unknown => "this is no token or key of this node".into(),
        Refusal::Invalid(why) => Cow::Owned(format!("the token cannot be accepted: {why}")),
        Refusal::Expired => "the token has ended: ask for another one".into(),
        Refusal::Revoked => "the token or key was taken back".into(),
    };
    Error::new(StatusCode::UNAUTHORIZED, refusal.code(), message)
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

#[cfg(test)]
mod tests {
    use syncline_store::Store;

    use super::*;

    const TOKEN: &str = "correct-horse-battery-staple";

    #[tokio::test]
    async fn only_the_very_token_is_accepted() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let token = Secret::new(TOKEN);
        let auth = Auth::new(Some(&token), Credentials::default(), false, store.kv(), &Registry::new());
        let admitted = async |value: &[u8]| {
            let value = HeaderValue::from_bytes(value).unwrap();
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
            auth.principal(None, &headers, true).await.is_ok_and(|principal| principal.is_some())
        };
        assert!(admitted(format!("Bearer {TOKEN}").as_bytes()).await);
        assert!(admitted(format!("bearer {TOKEN}").as_bytes()).await);
        for wrong in ["", "Bearer", "Bearer ", TOKEN, "Basic correct-horse-battery-staple"] {
            assert!(!admitted(wrong.as_bytes()).await, "{wrong:?}");
        }
        for length in 0..TOKEN.len() {
            assert!(!admitted(format!("Bearer {}", &TOKEN[..length]).as_bytes()).await);
        }
        let mut flips = 0;
        for at in 0..TOKEN.len() {
            for bit in 0..8 {
                let mut flipped = format!("Bearer {TOKEN}").into_bytes();
                flipped[at + 7] ^= 1 << bit;
                if HeaderValue::from_bytes(&flipped).is_ok() {
                    assert!(!admitted(&flipped).await, "{flipped:?}");
                    flips += 1;
                }
            }
        }
        assert!(flips > 150, "{flips}");
    }
}
