//! Signed webhooks, as [Standard Webhooks](https://www.standardwebhooks.com) says: an id, a timestamp, and an HMAC of both with the
//! body. Libraries of many languages check them.
//!
//! The id is the same each time an entry is sent, so that a receiver can tell a repeat. The timestamp is the time of sending: a
//! receiver refuses old ones, so that nobody can play back what he overheard.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use sha2::Sha256;

use crate::secret::Secret;

/// What a secret begins with, before its Base64.
const PREFIX: &str = "whsec_";

/// Bytes of a secret.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Most secrets at once.
const KEYS_MAX: usize = 4;

/// The secrets that sign a route's webhooks. Each signs, so that a receiver may know the old or the new one while they are changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys(Vec<Secret>);

/// The body of a webhook.
#[derive(Debug, Serialize)]
pub(super) struct Body<'a, P> {
    /// The entity type.
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    /// When the change was made.
    pub(super) timestamp: String,
    pub(super) data: Data<'a, P>,
}

/// What changed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Data<'a, P> {
    pub(super) entity_id: &'a str,
    /// How it is now; `null` if it is no more.
    pub(super) payload: P,
}

impl Keys {
    /// Reads secrets with spaces between them.
    pub(super) fn parse(text: &str) -> Result<Keys, String> {
        let keys: Vec<Secret> = text.split_whitespace().map(Secret::new).collect();
        let good = |key: &Secret| decode(key).is_some_and(|bytes| SECRET_BYTES.contains(&bytes.len()));
        if !(1..=KEYS_MAX).contains(&keys.len()) || !keys.iter().all(good) {
            return Err(format!(
                "must hold {PREFIX} and the Base64 of {} to {} bytes, or up to {KEYS_MAX} of these with spaces between",
                SECRET_BYTES.start(),
                SECRET_BYTES.end()
            ));
        }
        Ok(Keys(keys))
    }

    /// Every text that must not appear in any output.
    pub(super) fn secrets(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(|key| key.expose().to_owned())
    }

    /// The value of `webhook-signature`.
    pub(super) fn sign(&self, id: &str, timestamp_sec: u64, body: &str) -> String {
        let signatures = self.0.iter().filter_map(decode).map(|key| {
            let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("an HMAC takes a key of any length");
            mac.update(format!("{id}.{timestamp_sec}.{body}").as_bytes());
            format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
        });
        signatures.collect::<Vec<_>>().join(" ")
    }
}

fn decode(key: &Secret) -> Option<Vec<u8>> {
    STANDARD.decode(key.expose().strip_prefix(PREFIX)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's own libraries.
    #[test]
    fn ss_35_a_signature_is_that_of_standard_webhooks() {
        let keys = Keys::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = keys.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let both =
            Keys::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
                .unwrap();
        let signatures = both.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        assert!(signatures.starts_with(&signature) && signatures.split(' ').count() == 2, "{signatures}");
    }

    #[test]
    fn ss_35_a_secret_that_could_be_guessed_is_refused() {
        for wrong in ["", "whsec_", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_%%%"] {
            let said = Keys::parse(wrong).unwrap_err();
            assert!(said.contains("24 to 64 bytes"), "{wrong}: {said}");
        }
    }
}
