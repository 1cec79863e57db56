//! The credentials that others were given: keys and tokens of issuers, checked from a request's head alone.
//!
//! No store, no network: keys are looked up by their hash, tokens by theirs, and a token that is new has its signature checked
//! once. What there is can be replaced while the node runs ([`Credentials::configure`], [`Credentials::follow`]); whoever
//! watches [`Credentials::changed`] hears of it. Keys and issuers that stay the same stay the same: what they let in goes on.
//! The owner's token and the cookies that stand for it are not here.

mod held;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use http::HeaderValue;
use syncline_core::access::Revocations;
use syncline_core::time::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Principal;
use super::issuers::{Issuer, IssuerSettings, KeySource};
use super::jwks::{self, Pace};
use super::keys::{self, KeyHash, KeySettings};
use super::token::Token;
use super::verified::Verified;

use held::Held;
pub(crate) use held::HeldKey;

/// What the configuration says of credentials.
#[derive(Debug, Clone, Default)]
pub struct CredentialSettings {
    /// `[[keys]]`
    pub keys: Vec<KeySettings>,
    /// `[[issuers]]`
    pub issuers: Vec<IssuerSettings>,
}

impl CredentialSettings {
    /// What is added, removed and changed on the way to `new`, in words.
    fn changes(&self, new: &CredentialSettings) -> Vec<String> {
        let same_key = |old: &KeySettings, new: &KeySettings| old == new;
        let mut changes = compared("key", &self.keys, &new.keys, |key| &key.name, same_key);
        let same_issuer = IssuerSettings::is_same;
        changes.extend(compared("issuer", &self.issuers, &new.issuers, |issuer| &issuer.name, same_issuer));
        changes
    }
}

fn compared<T>(
    what: &str,
    old: &[T],
    new: &[T],
    name: impl Fn(&T) -> &String,
    same: impl Fn(&T, &T) -> bool,
) -> Vec<String> {
    let find = |list: &'_ [T], wanted: &T| list.iter().position(|one| name(one) == name(wanted));
    let mut changes = Vec::new();
    for one in new {
        match find(old, one).map(|at| &old[at]) {
            None => changes.push(format!("{what} {} added", name(one))),
            Some(before) if !same(before, one) => changes.push(format!("{what} {} changed", name(one))),
            Some(_) => {}
        }
    }
    let gone = old.iter().filter(|one| find(new, one).is_none());
    changes.extend(gone.map(|one| format!("{what} {} removed", name(one))));
    changes
}

/// What the store says of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoredCredentials {
    /// Keys that were made on a running node.
    pub(crate) keys: Vec<KeySettings>,
    /// Tokens that were taken back.
    pub(crate) revoked: Revocations,
    /// Keys that were taken back.
    pub(crate) revoked_keys: Vec<KeyHash>,
}

/// Why a credential is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is none of ours: no key that is known, and no token at all.
    Unknown,
    /// The token was good and has ended. Its holder asks for another.
    Expired,
    /// The token is not good, for the reason given. Another try with it is of no use.
    Invalid(&'static str),
    /// The token or key was good and was taken back.
    Revoked,
}

impl Refusal {
    /// Its stable code in answers.
    pub fn code(self) -> &'static str {
        match self {
            Refusal::Unknown | Refusal::Invalid(_) => "token-invalid",
            Refusal::Expired => "token-expired",
            Refusal::Revoked => "token-revoked",
        }
    }
}

/// Keys and issuers at work. A clone is the same.
#[derive(Clone, Default)]
pub struct Credentials(Arc<Shared>);

#[derive(Default)]
struct Shared {
    held: RwLock<Arc<Held>>,
    verified: Arc<Verified>,
    /// Counts the changes of what is held.
    changed: watch::Sender<u64>,
    /// What `held` is made of. Whoever changes it holds this until the change is made.
    made_of: Mutex<(CredentialSettings, StoredCredentials)>,
    /// Where fetching runs, once it was started.
    fetching: Mutex<Option<(Pace, CancellationToken, TaskTracker)>>,
}

impl Credentials {
    /// The credentials that the configuration names.
    pub fn new(settings: &CredentialSettings) -> Credentials {
        let credentials = Credentials::default();
        credentials.configure(settings.clone());
        credentials
    }

    /// Takes over another configuration. What is the same in both goes on untouched. Says what is not.
    pub fn configure(&self, settings: CredentialSettings) -> Vec<String> {
        let mut changes = Vec::new();
        self.change(|made_of| {
            changes = made_of.0.changes(&settings);
            made_of.0 = settings;
        });
        changes
    }

    /// Takes over what the store says.
    pub(crate) fn follow(&self, stored: StoredCredentials) {
        self.change(|made_of| made_of.1 = stored);
    }

    fn change(&self, change: impl FnOnce(&mut (CredentialSettings, StoredCredentials))) {
        let mut made_of = self.0.made_of.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut made_of);
        let before = self.held();
        let (held, new_issuers) = Held::new(&made_of.0, &made_of.1, &before);
        let held = Arc::new(held);
        *self.0.held.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&held);
        // After the new issuers are in place: a token that an old one proves meanwhile is forgotten here, too.
        if before.end_all_but(&held) {
            self.0.verified.clear();
        }
        let fetching = self.0.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((pace, halt, workers)) = &*fetching {
            new_issuers.iter().for_each(|issuer| self.fetch_for(issuer, *pace, halt, workers));
        }
        self.0.changed.send_modify(|count| *count += 1);
    }

    fn held(&self) -> Arc<Held> {
        Arc::clone(&self.0.held.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Who shows `bearer` at the time of day `wall`. Reads nothing but memory.
    pub fn principal(&self, bearer: &[u8], wall: Timestamp) -> Result<Arc<Principal>, Refusal> {
        let held = self.held();
        let hash = KeyHash::of(bearer);
        if let Some(public) = keys::shape(bearer) {
            return held.key(&hash, public);
        }
        if let Some(principal) = self.0.verified.find(&hash.0, wall) {
            return held.unless_revoked(principal);
        }
        let token = Token::read(bearer)?;
        let issuer = held.issuer_of(&token.claims.iss);
        let issuer = issuer.ok_or(Refusal::Invalid("no issuer of this node has its `iss`"))?;
        // Held until the token is remembered: a list that drops its key makes the node forget it, and must come after.
        let keys = issuer.keys();
        let principal = Arc::new(issuer.principal(&keys, &token, wall)?);
        // An issuer that was changed meanwhile must not be remembered after its tokens were forgotten.
        if principal.source.stands() {
            self.0.verified.remember(hash.0, Arc::clone(&principal));
        }
        held.unless_revoked(principal)
    }

    /// Who shows `bearer`, if that can be told without checking anything that could be guessed: it is a key, or a token
    /// whose signature was checked before.
    pub(crate) fn recognised(&self, bearer: &[u8], wall: Timestamp) -> Option<Arc<Principal>> {
        let (held, hash) = (self.held(), KeyHash::of(bearer));
        match keys::shape(bearer) {
            Some(public) => held.key(&hash, public).ok(),
            None => held.unless_revoked(self.0.verified.find(&hash.0, wall)?).ok(),
        }
    }

    /// Who shows the secret key with this hash, if there is one.
    pub(crate) fn of_key(&self, hash: &KeyHash) -> Option<Arc<Principal>> {
        self.held().key(hash, false).ok()
    }

    /// Whether a principal that was let in still stands: its key or issuer is as it was, and nobody has taken it back.
    pub(crate) fn stands(&self, principal: &Principal) -> bool {
        principal.source.stands() && !self.held().revoked.cover_principal(principal)
    }

    /// Hears of every change of keys, issuers and revocations.
    pub(crate) fn changed(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// The keys that count now.
    pub(crate) fn keys(&self) -> Vec<HeldKey> {
        self.held().keys()
    }

    /// The issuer of this name.
    pub(crate) fn issuer_named(&self, name: &str) -> Option<IssuerSettings> {
        self.held().issuers().find(|issuer| issuer.name == name).cloned()
    }

    /// The names of all issuers.
    pub(crate) fn issuer_names(&self) -> Vec<String> {
        self.held().issuers().map(|issuer| issuer.name.clone()).collect()
    }

    /// Whether some key or issuer lists `origin`: its pages may ask what they may.
    pub fn lists_origin(&self, origin: &HeaderValue) -> bool {
        origin.to_str().is_ok_and(|origin| self.held().lists_origin(origin))
    }

    /// Whether nobody but the owner has a credential.
    pub fn is_empty(&self) -> bool {
        self.held().is_empty()
    }

    /// Fetches the keys that issuers publish, once, for commands that end. Says of which issuers it could not.
    pub async fn fetch_keys(&self) -> Vec<String> {
        let mut failed = Vec::new();
        for issuer in self.held().at_work() {
            if let KeySource::Published(address) = &issuer.settings.keys
                && let Err(why) = jwks::fetch_once(issuer, address).await
            {
                failed.push(format!("cannot fetch the keys of {}: {why}", issuer.settings.name));
            }
        }
        failed
    }

    /// Fetches the keys that issuers publish, from now until `halt`.
    pub fn start(&self, halt: &CancellationToken, workers: &TaskTracker) {
        self.start_at(Pace::USUAL, halt, workers);
    }

    pub(super) fn start_at(&self, pace: Pace, halt: &CancellationToken, workers: &TaskTracker) {
        // Nobody changes what is held while it is started: every issuer is fetched for once.
        let _made_of = self.0.made_of.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fetching = self.0.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        *fetching = Some((pace, halt.clone(), workers.clone()));
        self.held().at_work().for_each(|issuer| self.fetch_for(issuer, pace, halt, workers));
    }

    fn fetch_for(&self, issuer: &Arc<Issuer>, pace: Pace, halt: &CancellationToken, workers: &TaskTracker) {
        if let KeySource::Published(address) = &issuer.settings.keys {
            let (issuer, verified) = (Arc::clone(issuer), Arc::clone(&self.0.verified));
            workers.spawn(jwks::keep_fresh(issuer, address.clone(), verified, pace, halt.clone()));
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.held();
        write!(f, "{} keys and {} issuers", held.keys().len(), held.issuers().count())
    }
}

#[cfg(test)]
mod tests;
