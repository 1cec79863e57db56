//! Makes signed tokens, for `syncline token mint` and tests. A node makes none: its issuers do.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use super::signature::{Algorithm, Signer};

/// A token with these claims, or `None` if the key cannot sign it.
pub fn mint(
    algorithm: Algorithm,
    signer: &Signer,
    kid: Option<&str>,
    claims: &Map<String, Value>,
) -> Option<String> {
    let mut header = json!({ "alg": algorithm.as_str(), "typ": "JWT" });
    if let Some(kid) = kid {
        header["kid"] = kid.into();
    }
    let claims = serde_json::to_string(claims).ok()?;
    let message =
        format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims));
    let signature = signer.sign(message.as_bytes()).ok()?;
    Some(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
}
