//! Who may call: a bearer token, or the cookie a browser got for it.
//!
//! Comparison takes the same time whatever was presented. The cookie is no copy of the token: it is an expiry date signed
//! with a key that is derived from the token, so it dies with its date or with the token. Without a configured token
//! everybody may call, which is why such a node only listens on loopback.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use syncline_core::time::Timestamp;
use utoipa::ToSchema;

use super::body::Json;
use super::{Error, pages};
use crate::secret::Secret;
use crate::{Context, clock};

pub(super) const COOKIE: &str = "syncline_session";

/// How long a browser stays signed in.
const SESSION_MAX_AGE_SEC: u64 = 30 * 24 * 3_600;

/// Paths that never need a token: health for those who watch over the node, heartbeats for viewers, and the session,
/// which is where a token is presented.
const OPEN_PATHS: [&str; 3] = ["/healthz", "/readyz", "/api/session"];

/// What must be presented.
pub struct Auth {
    required: Option<Required>,
    secure_cookie: bool,
}

struct Required {
    token_hash: [u8; 32],
    session_key: [u8; 32],
}

impl Auth {
    /// `secure_cookie` keeps the cookie off plain HTTP, for nodes that are reached by HTTPS.
    pub fn new(token: Option<&Secret>, secure_cookie: bool) -> Auth {
        let required = token.map(|token| Required {
            token_hash: Sha256::digest(token.expose()).into(),
            session_key: sign(token.expose().as_bytes(), b"syncline session key, version 1"),
        });
        Auth { required, secure_cookie }
    }

    /// Whether a token must be presented at all.
    pub(crate) fn is_required(&self) -> bool {
        self.required.is_some()
    }

    /// Lets a request through or not. Looks at nothing but its head.
    pub(crate) fn check(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Error> {
        if self.required.is_none() || is_open(method, path) || self.admits(headers, clock::wall()) {
            return Ok(());
        }
        Err(refused())
    }

    /// Whether the caller has shown who it is: by token or cookie, or because nobody has to.
    pub(crate) fn admits(&self, headers: &HeaderMap, wall: Timestamp) -> bool {
        let Some(required) = &self.required else { return true };
        match headers.get(header::AUTHORIZATION) {
            // A wrong token is an answer, not a reason to look for a cookie.
            Some(value) => bearer(value).is_some_and(|token| required.accepts(token)),
            None => cookies(headers).any(|value| required.accepts_session(value, wall)),
        }
    }

    fn session_cookie(&self, required: &Required, wall: Timestamp) -> HeaderValue {
        let expires_at_sec = wall.as_ms() / 1_000 + SESSION_MAX_AGE_SEC;
        let signature = hex(&sign(&required.session_key, expires_at_sec.to_string().as_bytes()));
        self.cookie(&format!("{expires_at_sec}.{signature}"), SESSION_MAX_AGE_SEC)
    }

    fn cookie(&self, value: &str, max_age_sec: u64) -> HeaderValue {
        let secure = if self.secure_cookie { "; Secure" } else { "" };
        let cookie =
            format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={max_age_sec}{secure}");
        HeaderValue::from_str(&cookie).expect("digits and hex make a header")
    }
}

impl Required {
    /// Hashing first makes both sides equally long, so that not even the length shows in the time it takes.
    fn accepts(&self, token: &[u8]) -> bool {
        let presented: [u8; 32] = Sha256::digest(token).into();
        presented.ct_eq(&self.token_hash).into()
    }

    fn accepts_session(&self, value: &[u8], wall: Timestamp) -> bool {
        let parsed = str::from_utf8(value).ok().and_then(|text| text.split_once('.'));
        let Some((expires_at, signature)) = parsed else { return false };
        let expected = hex(&sign(&self.session_key, expires_at.as_bytes()));
        let genuine: bool = expected.as_bytes().ct_eq(signature.as_bytes()).into();
        genuine && expires_at.parse::<u64>().is_ok_and(|expires_at_sec| wall.as_ms() / 1_000 < expires_at_sec)
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
#[utoipa::path(get, path = "/api/session", tag = "session", responses((status = 200, body = Session)))]
pub(crate) async fn session(State(context): State<Arc<Context>>, headers: HeaderMap) -> axum::Json<Session> {
    let authenticated = context.auth.admits(&headers, clock::wall());
    axum::Json(Session { required: context.auth.is_required(), authenticated })
}

/// Signs a browser in: the answer sets a cookie that scripts cannot read.
#[utoipa::path(post, path = "/api/session", tag = "session", request_body = SignIn,
    responses((status = 200, body = Session), (status = 401, description = "Not the token of this node")))]
pub(crate) async fn sign_in(
    State(context): State<Arc<Context>>,
    Json(presented): Json<SignIn, 4096>,
) -> Result<Response, Error> {
    let Some(required) = &context.auth.required else {
        return Ok(axum::Json(Session { required: false, authenticated: true }).into_response());
    };
    if !required.accepts(presented.token.as_bytes()) {
        return Err(refused());
    }
    let cookie = context.auth.session_cookie(required, clock::wall());
    let session = Session { required: true, authenticated: true };
    Ok(([(header::SET_COOKIE, cookie)], axum::Json(session)).into_response())
}

/// Signs a browser out by taking its cookie back. A new token signs out everybody.
#[utoipa::path(delete, path = "/api/session", tag = "session", responses((status = 200, body = Session)))]
pub(crate) async fn sign_out(State(context): State<Arc<Context>>) -> Response {
    let required = context.auth.is_required();
    let session = Session { required, authenticated: !required };
    ([(header::SET_COOKIE, context.auth.cookie("", 0))], axum::Json(session)).into_response()
}

pub(super) fn is_open(method: &Method, path: &str) -> bool {
    let viewer = path == super::VIEWER_PATH && (method == Method::POST || method == Method::OPTIONS);
    viewer || OPEN_PATHS.contains(&path) || pages::is_static(path)
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

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = headers.get_all(header::COOKIE).into_iter();
    let pairs = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
    pairs.filter_map(|pair| pair.trim_ascii().strip_prefix(COOKIE.as_bytes())?.strip_prefix(b"="))
}

fn sign(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;

    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "correct-horse-battery-staple";

    fn auth() -> Auth {
        Auth::new(Some(&Secret::new(TOKEN)), false)
    }

    fn with(name: http::HeaderName, value: &[u8]) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_bytes(value).unwrap())])
    }

    #[test]
    fn only_the_very_token_is_accepted() {
        let auth = auth();
        let admitted = |value: &[u8]| auth.admits(&with(header::AUTHORIZATION, value), Timestamp::ZERO);
        assert!(admitted(format!("Bearer {TOKEN}").as_bytes()));
        assert!(admitted(format!("bearer {TOKEN}").as_bytes()));
        for wrong in ["", "Bearer", "Bearer ", TOKEN, "Basic correct-horse-battery-staple"] {
            assert!(!admitted(wrong.as_bytes()), "{wrong:?}");
        }
        for length in 0..TOKEN.len() {
            assert!(!admitted(format!("Bearer {}", &TOKEN[..length]).as_bytes()));
        }
        let mut flips = 0;
        for at in 0..TOKEN.len() {
            for bit in 0..8 {
                let mut flipped = format!("Bearer {TOKEN}").into_bytes();
                flipped[at + 7] ^= 1 << bit;
                if HeaderValue::from_bytes(&flipped).is_ok() {
                    assert!(!admitted(&flipped), "{flipped:?}");
                    flips += 1;
                }
            }
        }
        assert!(flips > 150, "{flips}");
    }

    #[test]
    fn a_cookie_is_accepted_until_its_date_and_no_bit_of_it_may_change() {
        let auth = auth();
        let start = Timestamp::from_ms(1_700_000_000_000);
        let required = auth.required.as_ref().unwrap();
        let cookie = auth.session_cookie(required, start);
        let cookie = cookie.to_str().unwrap().split(';').next().unwrap().to_owned();
        assert!(!cookie.contains(TOKEN));
        let admitted = |cookie: &[u8], wall| auth.admits(&with(header::COOKIE, cookie), wall);
        assert!(admitted(cookie.as_bytes(), start));
        assert!(admitted(format!("theme=dark; {cookie}").as_bytes(), start));
        let last = Timestamp::from_ms(start.as_ms() + (SESSION_MAX_AGE_SEC - 1) * 1_000);
        assert!(admitted(cookie.as_bytes(), last));
        assert!(!admitted(cookie.as_bytes(), Timestamp::from_ms(last.as_ms() + 1_000)));
        for at in COOKIE.len()..cookie.len() {
            let mut flipped = cookie.clone().into_bytes();
            flipped[at] ^= 1;
            assert!(!admitted(&flipped, start), "{}", String::from_utf8_lossy(&flipped));
        }
        let other = Auth::new(Some(&Secret::new("another-token")), false);
        assert!(
            !other.admits(&with(header::COOKIE, cookie.as_bytes()), start),
            "a new token ends old sessions"
        );
    }

    #[test]
    fn signatures_match_the_published_vectors() {
        // RFC 4231, test cases 1 and 2.
        let first = sign(&[0x0b; 20], b"Hi There");
        assert_eq!(hex(&first), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
        let second = sign(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(hex(&second), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
}
