//! Sessions of browsers: what is in a cookie, and when it ends.
//!
//! A cookie is `id.expires.signature`, or `id.expires.hash.signature` for a browser that signed in with a key: then it is worth what
//! the key with that hash is worth, for as long as there is one. The key of the signature is made of the token and of a secret in the kv, drawn when
//! the first browser signs in: all nodes of one database accept each other's cookies, and a cookie alone is no help in
//! guessing a short token. A session that was ended is noted in the kv until its date; a node looks again after
//! [`TRUSTED_FOR`], so signing out takes effect everywhere within that time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderValue, header};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use syncline_core::kv::Key;
use syncline_core::time::Timestamp;
use syncline_store::Error;
use syncline_store::kv::Kv;
use tokio::sync::OnceCell;

use crate::access::KeyHash;
use crate::clock;
use crate::secret::Secret;

/// What the kv's keys about sessions begin with.
pub(crate) const KEPT_PREFIX: &str = "node-session:";

const SECRET: &str = "node-session:secret";
const ENDED: &str = "node-session:ended:";

pub(super) const COOKIE: &str = "syncline_session";

/// How long a browser stays signed in.
const MAX_AGE_SEC: u64 = 30 * 24 * 3_600;

/// How long a session that was looked up counts as not ended.
const TRUSTED_FOR: Duration = Duration::from_secs(10);

/// Sessions that are remembered as looked up.
const TRUSTED_MAX: usize = 4_096;

/// Who signed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignedIn {
    /// Whoever has the node's token.
    Owner,
    /// Whoever has the key with this hash.
    Key(KeyHash),
}

pub(super) struct Sessions {
    kv: Arc<dyn Kv>,
    /// The first one signs, and what any of them signed is accepted.
    tokens: Vec<Secret>,
    secure: bool,
    keys: OnceCell<Vec<[u8; 32]>>,
    /// Until when each session counts as not ended.
    trusted: Mutex<HashMap<String, Timestamp>>,
}

impl Sessions {
    pub(super) fn new(tokens: &[Secret], secure: bool, kv: Arc<dyn Kv>) -> Sessions {
        Sessions { kv, tokens: tokens.to_vec(), secure, keys: OnceCell::new(), trusted: Mutex::default() }
    }

    /// A new session, as the cookie to set.
    pub(super) async fn begin(&self, wall: Timestamp, who: SignedIn) -> Result<HeaderValue, Error> {
        let secret = hex(&rand::random::<[u8; 32]>());
        // Of all nodes that do this at the same time one is heard.
        self.kv.put_new(&key(SECRET), &secret, None).await?;
        let id = hex(&rand::random::<[u8; 16]>());
        let mut signed = format!("{id}.{}", wall.as_ms() / 1_000 + MAX_AGE_SEC);
        if let SignedIn::Key(hash) = who {
            signed.push('.');
            signed.push_str(&hash.to_string());
        }
        let Some(key) = self.keys().await?.first() else { return Err(self.lost()) };
        let signature = hex(&sign(key, signed.as_bytes()));
        Ok(self.cookie(&format!("{signed}.{signature}"), MAX_AGE_SEC))
    }

    /// Who signed in, if a cookie of the request is of a session that goes on.
    pub(super) async fn known(
        &self,
        headers: &HeaderMap,
        wall: Timestamp,
    ) -> Result<Option<SignedIn>, Error> {
        let Some((id, _, who)) = self.genuine(headers, wall).await? else { return Ok(None) };
        let now = clock::now();
        if self.trusted().get(&id).is_some_and(|until| now < *until) {
            return Ok(Some(who));
        }
        if self.kv.get(&key(&format!("{ENDED}{id}"))).await?.is_some() {
            return Ok(None);
        }
        let mut trusted = self.trusted();
        if trusted.len() >= TRUSTED_MAX {
            trusted.retain(|_, until| now < *until);
        }
        if trusted.len() < TRUSTED_MAX {
            trusted.insert(id, now + TRUSTED_FOR);
        }
        Ok(Some(who))
    }

    /// Ends the session of the request, if it has one: the cookie that takes the other back.
    pub(super) async fn end(&self, headers: &HeaderMap, wall: Timestamp) -> Result<HeaderValue, Error> {
        if let Some((id, left, _)) = self.genuine(headers, wall).await? {
            self.trusted().remove(&id);
            self.kv.put(&key(&format!("{ENDED}{id}")), "", Some(left)).await?;
        }
        Ok(self.cookie("", 0))
    }

    /// The id of a session that we began and whose date is not over, how long it would still go on, and whose it is.
    async fn genuine(
        &self,
        headers: &HeaderMap,
        wall: Timestamp,
    ) -> Result<Option<(String, Duration, SignedIn)>, Error> {
        let now_sec = wall.as_ms() / 1_000;
        for value in cookies(headers) {
            let parsed = str::from_utf8(value).ok().and_then(|text| text.rsplit_once('.'));
            let Some((signed, signature)) = parsed else { continue };
            let Some((id, rest)) = signed.split_once('.') else { continue };
            let (expires_at, who) = match rest.split_once('.') {
                None => (rest, Some(SignedIn::Owner)),
                Some((expires_at, hash)) => (expires_at, hash.parse().ok().map(SignedIn::Key)),
            };
            let Some(who) = who else { continue };
            let signed_by = |key: &[u8; 32]| {
                let expected = hex(&sign(key, signed.as_bytes()));
                bool::from(expected.as_bytes().ct_eq(signature.as_bytes()))
            };
            let genuine = self.keys().await?.iter().any(signed_by);
            let left_sec = expires_at.parse::<u64>().ok().and_then(|at| at.checked_sub(now_sec));
            // One that would last longer than any we give is not one we gave.
            let left_sec = left_sec.filter(|left| (1..=MAX_AGE_SEC).contains(left));
            if let Some(left_sec) = left_sec.filter(|_| genuine) {
                return Ok(Some((id.to_owned(), Duration::from_secs(left_sec), who)));
            }
        }
        Ok(None)
    }

    /// The keys of the signatures, the one that signs first; none while nobody has signed in yet.
    async fn keys(&self) -> Result<&[[u8; 32]], Error> {
        if let Some(known) = self.keys.get() {
            return Ok(known);
        }
        let Some(secret) = self.kv.get(&key(SECRET)).await? else { return Ok(&[]) };
        let made = |token: &Secret| sign(secret.value.as_bytes(), token.expose().as_bytes());
        let made = self.tokens.iter().map(made).collect();
        Ok(self.keys.get_or_init(|| async { made }).await)
    }

    fn lost(&self) -> Error {
        Error::Invalid { field: "session", reason: "secret was removed while it was made".to_owned() }
    }

    fn cookie(&self, value: &str, max_age_sec: u64) -> HeaderValue {
        let secure = if self.secure { "; Secure" } else { "" };
        let cookie =
            format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={max_age_sec}{secure}");
        HeaderValue::from_str(&cookie).expect("digits and hex make a header")
    }

    fn trusted(&self) -> std::sync::MutexGuard<'_, HashMap<String, Timestamp>> {
        self.trusted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(text: &str) -> Key {
    Key::new(text).expect("short and plain")
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
    use syncline_store::Store;

    use super::*;

    const TOKEN: &str = "correct-horse-battery-staple";
    const START: Timestamp = Timestamp::from_ms(1_700_000_000_000);

    fn sessions(store: &Store, token: &str) -> Sessions {
        Sessions::new(&[Secret::new(token)], false, store.kv())
    }

    async fn sign_in(sessions: &Sessions) -> String {
        let cookie = sessions.begin(START, SignedIn::Owner).await.unwrap();
        cookie.to_str().unwrap().split(';').next().unwrap().to_owned()
    }

    async fn knows(sessions: &Sessions, cookie: &[u8], wall: Timestamp) -> bool {
        let value = HeaderValue::from_bytes(cookie).unwrap();
        let known = sessions.known(&HeaderMap::from_iter([(header::COOKIE, value)]), wall).await.unwrap();
        known == Some(SignedIn::Owner)
    }

    #[tokio::test]
    async fn a_cookie_is_accepted_until_its_date_and_no_bit_of_it_may_change() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let ours = sessions(&store, TOKEN);
        let cookie = sign_in(&ours).await;
        assert!(knows(&ours, cookie.as_bytes(), START).await);
        assert!(knows(&ours, format!("theme=dark; {cookie}").as_bytes(), START).await);
        let last = Timestamp::from_ms(START.as_ms() + (MAX_AGE_SEC - 1) * 1_000);
        assert!(knows(&ours, cookie.as_bytes(), last).await);
        assert!(!knows(&ours, cookie.as_bytes(), Timestamp::from_ms(last.as_ms() + 1_000)).await);
        for at in COOKIE.len()..cookie.len() {
            let mut flipped = cookie.clone().into_bytes();
            flipped[at] ^= 1;
            assert!(!knows(&ours, &flipped, START).await, "{}", String::from_utf8_lossy(&flipped));
        }
        assert!(knows(&sessions(&store, TOKEN), cookie.as_bytes(), START).await, "another node");
        assert!(!knows(&sessions(&store, "another-token"), cookie.as_bytes(), START).await);
    }

    /// The key used to be made of the token alone: a cookie that was stolen gave a token of six digits away in seconds, and
    /// everybody who signed in within one second had the same cookie.
    #[tokio::test]
    async fn the_token_alone_makes_no_cookie_and_no_two_are_the_same() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let ours = sessions(&store, TOKEN);
        let (one, other) = (sign_in(&ours).await, sign_in(&ours).await);
        assert_ne!(one, other);
        let elsewhere = Store::open("sqlite::memory:").await.unwrap();
        let theirs = sessions(&elsewhere, TOKEN);
        assert!(!knows(&theirs, one.as_bytes(), START).await, "no secret yet");
        sign_in(&theirs).await;
        assert!(!knows(&theirs, one.as_bytes(), START).await, "another secret");
    }

    /// A new token used to sign out everybody at once.
    #[tokio::test]
    async fn ac_11_a_session_outlives_the_change_of_the_token_while_both_are_accepted() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let both = |first: &str, other: &str| {
            Sessions::new(&[Secret::new(first), Secret::new(other)], false, store.kv())
        };
        let before = sign_in(&sessions(&store, TOKEN)).await;
        assert!(knows(&both(TOKEN, "new"), before.as_bytes(), START).await);
        let changed = both("new", TOKEN);
        assert!(knows(&changed, before.as_bytes(), START).await);
        let after = sign_in(&changed).await;
        assert!(knows(&both(TOKEN, "new"), after.as_bytes(), START).await, "a node that comes later");
        assert!(knows(&sessions(&store, "new"), after.as_bytes(), START).await);
        assert!(!knows(&sessions(&store, "new"), before.as_bytes(), START).await);
    }

    #[tokio::test]
    async fn a_session_that_was_ended_is_over_on_every_node_and_the_others_are_not() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let (ours, theirs) = (sessions(&store, TOKEN), sessions(&store, TOKEN));
        let (one, other) = (sign_in(&ours).await, sign_in(&ours).await);
        assert!(knows(&ours, one.as_bytes(), START).await);
        let headers = HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(&one).unwrap())]);
        ours.end(&headers, START).await.unwrap();
        assert!(!knows(&ours, one.as_bytes(), START).await);
        assert!(!knows(&theirs, one.as_bytes(), START).await);
        assert!(knows(&ours, other.as_bytes(), START).await);
    }

    #[tokio::test]
    async fn cn_05_a_session_of_a_key_is_never_one_of_the_owner() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let ours = sessions(&store, TOKEN);
        let key = SignedIn::Key(KeyHash::of(b"slk_a"));
        let cookie = ours.begin(START, key).await.unwrap();
        let cookie = cookie.to_str().unwrap().split(';').next().unwrap();
        let known = async |cookie: &str| {
            let value = HeaderValue::from_str(cookie).unwrap();
            ours.known(&HeaderMap::from_iter([(header::COOKIE, value)]), START).await.unwrap()
        };
        assert_eq!(known(cookie).await, Some(key));
        // The hash left out, or that of another key, under the same signature.
        let (signed, signature) = cookie.rsplit_once('.').unwrap();
        let (without, _) = signed.rsplit_once('.').unwrap();
        assert_eq!(known(&format!("{without}.{signature}")).await, None);
        let other = KeyHash::of(b"slk_b");
        assert_eq!(known(&format!("{without}.{other}.{signature}")).await, None);
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
