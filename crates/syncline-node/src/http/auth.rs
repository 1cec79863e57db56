//! Who calls: the owner, by the node's token or the cookie a browser got for it, or whoever a key or a signed token names.
//!
//! A principal is made from the head of a request alone. Comparison takes the same time whatever was presented. The cookie is
//! no copy of the token: it is a random id and an expiry date, signed with a key that takes the token and a secret that all
//! nodes of one database share. So it says nothing about the token, and ends with its date, with a new token, or when its
//! browser signs out. Wrong credentials of an address are answered ever more slowly and then not looked at; one that has merely
//! ended is no guess. What cannot be guessed, such as a key, lets its holder in even then: an attacker behind the same address
//! gains nothing by that, and who shares the address with one is not shut out.
//!
//! Without a configured token a caller without a credential is the owner, which is why such a node only listens on loopback.
//! A credential that is shown counts as what it is, there too.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use metrics::Counter;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use syncline_core::access::guesses::Guesses;
use syncline_core::access::rate::{AllowanceTable, Rate};
use syncline_store::kv::Kv;
use tokio::sync::Semaphore;

use super::Error;
use super::session::{Sessions, SignedIn};
use crate::access::{Credentials, Principal, Refusal};
use crate::address::network;
use crate::clock;
use crate::log_throttle::LogThrottle;
use crate::metrics::Registry;
use crate::secret::Secret;

pub(super) use super::session::COOKIE;
pub(crate) use super::session::KEPT_PREFIX;

/// Answers that are held back at a time. Beyond that they come at once: holding back must not become a way to fill the node.
const HELD_BACK_MAX: usize = 256;

/// Sign-ins of one name: this many at once, and half as many a minute.
pub(crate) const SIGN_INS_AT_ONCE: u32 = 60;

/// Names whose sign-ins are counted apart.
const SIGN_IN_NAMES_MAX: usize = 1_024;

/// What may be presented.
pub(crate) struct Auth {
    /// The owner's token; without one everybody who shows nothing is the owner.
    pub(super) required: Option<Required>,
    pub(super) owner: Arc<Principal>,
    credentials: Credentials,
    guesses: Mutex<Guesses<IpAddr>>,
    held_back: Semaphore,
    /// Of each name: a sign-in is a row in the audit, and who may only look must not fill it.
    sign_ins: Mutex<AllowanceTable<Arc<str>>>,
    refused: Counter,
    told: LogThrottle,
}

pub(super) struct Required {
    /// Of the token, and of another one that is accepted while one replaces the other.
    token_hashes: Vec<[u8; 32]>,
    pub(super) sessions: Sessions,
}

impl Auth {
    /// `tokens` are the owner's: the first one signs cookies, and all are accepted. `secure_cookie` keeps the cookie off
    /// plain HTTP, for nodes that are reached by HTTPS.
    pub(crate) fn new(
        tokens: &[Secret],
        credentials: Credentials,
        secure_cookie: bool,
        kv: Arc<dyn Kv>,
        registry: &Registry,
    ) -> Auth {
        let required = (!tokens.is_empty()).then(|| Required {
            token_hashes: tokens.iter().map(|token| Sha256::digest(token.expose()).into()).collect(),
            sessions: Sessions::new(tokens, secure_cookie, kv),
        });
        let help = "Requests with a wrong token, those refused unread after too many included.";
        let refused = registry.counter("syncline_http_credentials_refused_total", help, &[]);
        let (owner, told) = (Arc::new(Principal::owner()), LogThrottle::default());
        let (guesses, held_back) = (Mutex::default(), Semaphore::new(HELD_BACK_MAX));
        let sign_ins = Mutex::new(AllowanceTable::new(SIGN_IN_NAMES_MAX));
        Auth { required, owner, credentials, guesses, held_back, sign_ins, refused, told }
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
            return self.bearer_of(address, presented).await.map(Some);
        }
        let Some(required) = &self.required else { return Ok(Some(Arc::clone(&self.owner))) };
        if !cookies_count {
            return Ok(None);
        }
        let who = required.sessions.known(headers, clock::wall()).await?;
        Ok(who.and_then(|who| self.signed_in(who)))
    }

    /// Who has a session. A key that was removed meanwhile signs nobody in.
    pub(super) fn signed_in(&self, who: SignedIn) -> Option<Arc<Principal>> {
        match who {
            SignedIn::Owner => Some(Arc::clone(&self.owner)),
            SignedIn::Key(hash) => self.credentials.of_key(&hash),
        }
    }

    /// The credential of a request, where there is one to compare it with.
    pub(crate) fn presented<'a>(&self, headers: &'a HeaderMap) -> Option<&'a [u8]> {
        let judged = self.is_required() || !self.credentials.is_empty();
        let value = headers.get(header::AUTHORIZATION).filter(|_| judged)?;
        Some(bearer(value).unwrap_or_default())
    }

    /// Who shows this credential.
    pub(crate) async fn bearer_of(
        &self,
        address: Option<IpAddr>,
        presented: &[u8],
    ) -> Result<Arc<Principal>, Error> {
        let wall = clock::wall();
        let found = match self.locked(address) {
            // Nobody guesses a key or a signature, so these are told from guesses without looking at any.
            Some(wait) => match self.credentials.recognised(presented, wall) {
                Some(principal) => principal,
                None => return Err(self.unread(address, wait)),
            },
            None => {
                let judged = if self.required.as_ref().is_some_and(|required| required.accepts(presented)) {
                    Ok(Arc::clone(&self.owner))
                } else {
                    self.credentials.principal(presented, wall)
                };
                self.judged(address, judged).await.map_err(refusal)?
            }
        };
        if !found.is_owner() {
            found.source.note(wall, address);
        }
        Ok(found)
    }

    /// Takes a sign-in of this name.
    pub(super) fn spend_sign_in(&self, name: &Arc<str>) -> Result<(), Error> {
        let rate = Rate::new(SIGN_INS_AT_ONCE / 2, Duration::from_secs(60), SIGN_INS_AT_ONCE);
        let mut sign_ins = self.sign_ins.lock().unwrap_or_else(PoisonError::into_inner);
        sign_ins.take(Arc::clone(name), clock::now(), rate, 1).map_err(|wait| {
            let message = "too many browsers signed in under this name: wait a little";
            let error = Error::new(StatusCode::TOO_MANY_REQUESTS, "too-many-sign-ins", message);
            error.retry_after_sec(wait.as_secs() + 1)
        })
    }

    /// How long nothing of this address is looked at.
    fn locked(&self, address: Option<IpAddr>) -> Option<Duration> {
        address.and_then(|address| self.guesses().locked(&network(address), clock::now()))
    }

    /// A credential that was not looked at. It counts all the same: else who goes on would not wait longer.
    fn unread(&self, address: Option<IpAddr>, wait: Duration) -> Error {
        self.strike(address);
        let message = "too many wrong tokens came from this address: none is looked at for a while";
        let error = Error::new(StatusCode::TOO_MANY_REQUESTS, "too-many-guesses", message);
        error.retry_after_sec(wait.as_secs() + 1)
    }

    /// Passes a judgement on; a guess that was wrong is answered late.
    async fn judged<T>(&self, address: Option<IpAddr>, judged: Result<T, Refusal>) -> Result<T, Refusal> {
        if matches!(judged, Err(Refusal::Unknown | Refusal::Invalid(_))) {
            let delay = self.strike(address);
            if !delay.is_zero()
                && let Ok(_place) = self.held_back.try_acquire()
            {
                tokio::time::sleep(delay).await;
            }
        }
        judged
    }

    /// Counts a wrong credential, and says how long its answer is held back.
    fn strike(&self, address: Option<IpAddr>) -> Duration {
        self.refused.increment(1);
        if let Some(count) = self.told.due() {
            let address = address.map(|address| address.to_string());
            tracing::warn!(address, count, "requests with a wrong token were refused");
        }
        let struck = address.map(|address| self.guesses().strike(network(address), clock::now()));
        struck.map(|struck| struck.delay).unwrap_or_default()
    }

    fn guesses(&self) -> std::sync::MutexGuard<'_, Guesses<IpAddr>> {
        self.guesses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Required {
    /// Hashing first makes both sides equally long, so that not even the length shows in the time it takes.
    fn accepts(&self, token: &[u8]) -> bool {
        let presented: [u8; 32] = Sha256::digest(token).into();
        // All are compared, whichever it is.
        self.token_hashes.iter().fold(false, |found, hash| found | bool::from(presented.ct_eq(hash)))
    }
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
    async fn ac_11_two_tokens_of_the_owner_are_accepted_while_one_replaces_the_other() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let tokens = [Secret::new(TOKEN), Secret::new("the-token-that-is-to-come")];
        let auth = Auth::new(&tokens, Credentials::default(), false, store.kv(), &Registry::new());
        for (token, accepted) in [(TOKEN, true), ("the-token-that-is-to-come", true), ("another", false)] {
            let is_owner = auth.bearer_of(None, token.as_bytes()).await.is_ok_and(|who| who.is_owner());
            assert_eq!(is_owner, accepted, "{token}");
        }
    }

    #[tokio::test]
    async fn only_the_very_token_is_accepted() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let auth =
            Auth::new(&[Secret::new(TOKEN)], Credentials::default(), false, store.kv(), &Registry::new());
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
