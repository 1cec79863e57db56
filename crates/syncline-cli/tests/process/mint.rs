//! The lines of the guide that make a token in Rust, as a back end would have them. A test compares them with the guide.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;

pub(crate) fn token_for(subject: &str, secret: &[u8], now_sec: u64) -> String {
    let header = json!({ "alg": "HS256", "typ": "JWT", "kid": "2026-10" });
    let claims = json!({
        "iss": "https://shop.example", "aud": "https://node.example",
        "sub": subject, "iat": now_sec, "exp": now_sec + 600,
    });
    let message = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret).expect("a secret of any length");
    mac.update(message.as_bytes());
    format!("{message}.{}", BASE64.encode(mac.finalize().into_bytes()))
}
