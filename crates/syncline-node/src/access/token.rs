//! A signed token (JWT) as text: what its header and its claims say before anybody has checked the signature.
//!
//! Guarantees: a token is read strictly or not at all. Its three parts are base64url without padding, times are whole numbers,
//! `iss`, `aud`, `exp` and `iat` are there, and a header that brings its own key or demands an extension is refused. Nothing
//! here is trusted until [`Issuer`](super::issuers::Issuer) has checked the signature.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use syncline_core::access::{GRANTS_MAX, Grant, Grants};

use super::credentials::Refusal;
use super::signature::VerifyingKey;

/// Longest token: it travels in a header with every request.
pub(super) const TOKEN_MAX_BYTES: usize = 8 * 1024;

/// Longest subject.
const SUBJECT_MAX_BYTES: usize = 255;

/// Longest id.
const ID_MAX_BYTES: usize = 255;

/// A token that can be read.
pub(super) struct Token<'a> {
    pub(super) signed: Signed<'a>,
    pub(super) claims: Claims,
}

/// The three parts of a signed text (JWS in its compact form), whatever the second one says.
pub(super) struct Signed<'a> {
    pub(super) header: Header,
    payload: Vec<u8>,
    message: &'a str,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
pub(super) struct Header {
    pub(super) alg: String,
    pub(super) kid: Option<String>,
    // Each of these would let the token choose the key that proves it, or asks for what is not understood here.
    crit: Option<IgnoredAny>,
    jku: Option<IgnoredAny>,
    x5u: Option<IgnoredAny>,
    jwk: Option<IgnoredAny>,
}

#[derive(Deserialize)]
pub(super) struct Claims {
    pub(super) iss: String,
    pub(super) aud: Audience,
    pub(super) exp: u64,
    pub(super) iat: u64,
    pub(super) nbf: Option<u64>,
    pub(super) sub: Option<String>,
    /// The token's id, by which it can be taken back.
    pub(super) jti: Option<String>,
    may: Option<Vec<String>>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Audience::One(one) => one == name,
            Audience::Many(many) => many.iter().any(|one| one == name),
        }
    }
}

impl Claims {
    /// A claim with a text, for the places of grants.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match name {
            "sub" => self.sub.as_deref(),
            "iss" => Some(&self.iss),
            _ => self.others.get(name).and_then(Value::as_str),
        }
    }

    /// What the token asks for, if it asks for less than it could have.
    pub(super) fn may(&self) -> Result<Option<Grants>, Refusal> {
        let Some(list) = &self.may else { return Ok(None) };
        if list.len() > GRANTS_MAX {
            return Err(Refusal::Invalid("its `may` has more than 100 grants"));
        }
        let grants = list.iter().map(|text| text.parse::<Grant>()).collect::<Result<Grants, _>>();
        grants.map(Some).map_err(|_| Refusal::Invalid("its `may` holds something that is no grant"))
    }
}

impl<'a> Token<'a> {
    /// Reads a token, or says why it is none.
    pub(super) fn read(bearer: &'a [u8]) -> Result<Token<'a>, Refusal> {
        let text = std::str::from_utf8(bearer).map_err(|_| Refusal::Unknown)?;
        let signed = Signed::read(text)?;
        let claims: Claims = serde_json::from_slice(&signed.payload).map_err(|_| {
            Refusal::Invalid(
                "its claims are not JSON with `iss`, `aud`, and whole numbers as `exp` and `iat`",
            )
        })?;
        if claims.sub.as_deref().is_some_and(|sub| !is_subject(sub)) {
            return Err(Refusal::Invalid(
                "its `sub` is empty, longer than 255 bytes, or has control characters",
            ));
        }
        if claims.jti.as_deref().is_some_and(|id| !is_id(id)) {
            return Err(Refusal::Invalid(
                "its `jti` is empty, longer than 255 bytes, or has control characters",
            ));
        }
        Ok(Token { signed, claims })
    }
}

impl<'a> Signed<'a> {
    pub(super) fn read(text: &'a str) -> Result<Signed<'a>, Refusal> {
        if text.bytes().filter(|byte| *byte == b'.').count() != 2 {
            return Err(Refusal::Unknown);
        }
        if text.len() > TOKEN_MAX_BYTES {
            return Err(Refusal::Invalid("it is longer than 8 KiB"));
        }
        let (message, signature) = text.rsplit_once('.').ok_or(Refusal::Unknown)?;
        let (header, payload) = message.split_once('.').ok_or(Refusal::Unknown)?;
        let bytes = |part: &str, what| URL_SAFE_NO_PAD.decode(part).map_err(|_| Refusal::Invalid(what));
        let header = bytes(header, "its header is not base64url")?;
        let header: Header = serde_json::from_slice(&header)
            .map_err(|_| Refusal::Invalid("its header is no JSON with an `alg`"))?;
        if header.crit.is_some() || header.jku.is_some() || header.x5u.is_some() || header.jwk.is_some() {
            return Err(Refusal::Invalid(
                "its header has `crit`, `jku`, `x5u` or `jwk`, none of which is accepted",
            ));
        }
        let payload = bytes(payload, "its claims are not base64url")?;
        let signature = bytes(signature, "its signature is not base64url")?;
        Ok(Signed { header, payload, message, signature })
    }

    /// Whether `key` made the signature. Which keys may be asked is its issuer's to say.
    pub(super) fn is_by(&self, key: &VerifyingKey) -> bool {
        self.header.alg == key.algorithm().as_str() && key.verifies(self.message.as_bytes(), &self.signature)
    }
}

/// Whether a text can be the id of a token.
pub(super) fn is_id(text: &str) -> bool {
    (1..=ID_MAX_BYTES).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// Whether a text can be a subject.
pub(super) fn is_subject(text: &str) -> bool {
    (1..=SUBJECT_MAX_BYTES).contains(&text.len()) && !text.chars().any(char::is_control)
}
