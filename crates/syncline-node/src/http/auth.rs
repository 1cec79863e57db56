//! Who may call: a bearer token, or the cookie a browser got for it.
//!
//! Comparison takes the same time whatever was presented. The cookie is no copy of the token: it is a random id and an expiry
//! date, signed with a key that takes the token and a secret that all nodes of one database share. So it says nothing about
//! the token, and ends with its date, with a new token, or when its browser signs out. Wrong tokens are limited for each
//! address. Without a configured token everybody may call, which is why such a node only listens on loopback.

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
use crate::address_rate::AddressRate;
use crate::log_throttle::LogThrottle;
use crate::metrics::Registry;
use crate::part::Access;
use crate::secret::Secret;
use crate::{Context, clock};

pub(super) use super::session::COOKIE;
pub(crate) use super::session::KEPT_PREFIX;

/// Wrong tokens that one address may present each minute, and at once.
const GUESSES_PER_MINUTE: u32 = 30;

/// What must be presented.
pub(crate) struct Auth {
    required: Option<Required>,
    refused: Counter,
    told: LogThrottle,
}

struct Required {
    token_hash: [u8; 32],
    sessions: Sessions,
    guesses: Mutex<AddressRate>,
}

/// What a request shows.
enum Shown {
    /// Who may call.
    Right,
    Wrong,
    Nothing,
}

impl Auth {
    /// `secure_cookie` keeps the cookie off plain HTTP, for nodes that are reached by HTTPS.
    pub(crate) fn new(
        token: Option<&Secret>,
        secure_cookie: bool,
        kv: Arc<dyn Kv>,
        registry: &Registry,
    ) -> Auth {
        let required = token.map(|token| Required {
            token_hash: Sha256::digest(token.expose()).into(),
            sessions: Sessions::new(token, secure_cookie, kv),
            guesses: Mutex::new(AddressRate::new(GUESSES_PER_MINUTE)),
        });
        let help = "Requests with a wrong token, those refused unread after too many included.";
        let refused = registry.counter("syncline_http_credentials_refused_total", help, &[]);
        Auth { required, refused, told: LogThrottle::default() }
    }

    /// Whether a token must be presented at all.
    pub(crate) fn is_required(&self) -> bool {
        self.required.is_some()
    }

    /// Lets a request of `address` through or not. Looks at nothing but its head.
    pub(crate) async fn check(
        &self,
        address: Option<IpAddr>,
        access: Access,
        headers: &HeaderMap,
    ) -> Result<(), Error> {
        let Some(required) = self.required.as_ref().filter(|_| access != Access::Open) else { return Ok(()) };
        match self.shown(required, address, headers).await? {
            Shown::Right => Ok(()),
            Shown::Wrong | Shown::Nothing => Err(refused()),
        }
    }

    /// Whether the caller has shown who it is, by token or cookie.
    async fn shown(
        &self,
        required: &Required,
        address: Option<IpAddr>,
        headers: &HeaderMap,
    ) -> Result<Shown, Error> {
        // A wrong token is an answer, not a reason to look for a cookie.
        if let Some(value) = headers.get(header::AUTHORIZATION) {
            let right = self.is_token(required, address, bearer(value).unwrap_or_default())?;
            return Ok(if right { Shown::Right } else { Shown::Wrong });
        }
        let known = required.sessions.knows(headers, clock::wall()).await?;
        Ok(if known { Shown::Right } else { Shown::Nothing })
    }

    /// Whether `presented` is the token. An address that has presented too many wrong ones is not told: else it could go on.
    fn is_token(
        &self,
        required: &Required,
        address: Option<IpAddr>,
        presented: &[u8],
    ) -> Result<bool, Error> {
        let wait = address.and_then(|address| required.guesses().wait(clock::now(), address));
        if wait.is_none() && required.accepts(presented) {
            return Ok(true);
        }
        self.refused.increment(1);
        if let Some(count) = self.told.due() {
            let address = address.map(|address| address.to_string());
            tracing::warn!(address, count, "requests with a wrong token were refused");
        }
        if let Some(wait) = wait {
            let message = "too many wrong tokens came from this address: none is looked at for a while";
            let error = Error::new(StatusCode::TOO_MANY_REQUESTS, "too-many-guesses", message);
            return Err(error.retry_after_sec(wait.as_secs() + 1));
        }
        if let Some(address) = address {
            // Refused or not: it is counted.
            let _ = required.guesses().admit(clock::now(), address);
        }
        Ok(false)
    }
}

impl Required {
    /// Hashing first makes both sides equally long, so that not even the length shows in the time it takes.
    fn accepts(&self, token: &[u8]) -> bool {
        let presented: [u8; 32] = Sha256::digest(token).into();
        presented.ct_eq(&self.token_hash).into()
    }

    fn guesses(&self) -> std::sync::MutexGuard<'_, AddressRate> {
        self.guesses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a browser presents to sign in.
#[derive(Deserialize, ToSchema)]
pub(crate) struct SignIn {
    /// The value of `SYNCLINE_TOKEN`.
    token: String,
}

/// Whether a token is needed and whether it was presented.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Session {
    /// The node has a token.
    required: bool,
    /// The caller has presented it, or needs none.
    authenticated: bool,
}

/// Tells whether the caller is signed in.
#[utoipa::path(get, path = "/api/session", tag = "session",
    responses((status = 200, body = Session), (status = 429, description = "Too many wrong tokens")))]
pub(crate) async fn session(
    State(context): State<Arc<Context>>,
    request: Request,
) -> Result<axum::Json<Session>, Error> {
    let auth = &context.auth;
    let authenticated = match &auth.required {
        None => true,
        Some(required) => {
            let address = caller::address(request.extensions(), request.headers(), &context);
            matches!(auth.shown(required, address, request.headers()).await?, Shown::Right)
        }
    };
    Ok(axum::Json(Session { required: auth.is_required(), authenticated }))
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
        return Ok(axum::Json(Session { required: false, authenticated: true }).into_response());
    };
    if !context.auth.is_token(required, address, presented.token.as_bytes())? {
        return Err(refused());
    }
    let cookie = required.sessions.begin(clock::wall()).await?;
    let session = Session { required: true, authenticated: true };
    Ok(([(header::SET_COOKIE, cookie)], axum::Json(session)).into_response())
}

/// Signs a browser out: its session ends on every node. A new token signs out everybody.
#[utoipa::path(delete, path = "/api/session", tag = "session", responses((status = 200, body = Session)))]
pub(crate) async fn sign_out(
    State(context): State<Arc<Context>>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let Some(required) = &context.auth.required else {
        return Ok(axum::Json(Session { required: false, authenticated: true }).into_response());
    };
    let cookie = required.sessions.end(&headers, clock::wall()).await?;
    let session = Session { required: true, authenticated: false };
    Ok(([(header::SET_COOKIE, cookie)], axum::Json(session)).into_response())
}

fn refused() -> Error {
    Error::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "this needs the node's token: send it as a bearer token",
    )
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
        let auth = Auth::new(Some(&Secret::new(TOKEN)), false, store.kv(), &Registry::new());
        let admitted = async |value: &[u8]| {
            let value = HeaderValue::from_bytes(value).unwrap();
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
            auth.check(None, Access::Token, &headers).await.is_ok()
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
