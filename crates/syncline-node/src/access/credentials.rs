//! The credentials that others were given: keys and tokens of issuers, checked from a request's head alone.
//!
//! No store, no network: keys are looked up by their hash, tokens by theirs, and a token that is new has its signature checked
//! once. The owner's token and the cookies that stand for it are not here.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use syncline_core::time::Timestamp;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::issuers::{Issuer, IssuerSettings, KeySource};
use super::jwks::{self, Pace};
use super::keys::{self, KeyHash, KeySettings};
use super::token::Token;
use super::verified::Verified;
use super::{Principal, PrincipalKind};

/// What the configuration says of credentials.
#[derive(Debug, Clone, Default)]
pub struct CredentialSettings {
    /// `[[keys]]`
    pub keys: Vec<KeySettings>,
    /// `[[issuers]]`
    pub issuers: Vec<IssuerSettings>,
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
pub struct Credentials(Arc<Held>);

#[derive(Default)]
struct Held {
    /// By their hash, each with whether it is publishable.
    keys: HashMap<KeyHash, (bool, Arc<Principal>)>,
    issuers: Vec<Arc<Issuer>>,
    verified: Arc<Verified>,
    origins: HashSet<String>,
}

impl Credentials {
    /// The credentials that the configuration names.
    pub fn new(settings: &CredentialSettings) -> Credentials {
        let origins = settings.keys.iter().flat_map(|key| &key.origins);
        let origins = origins.chain(settings.issuers.iter().flat_map(|issuer| &issuer.origins));
        Credentials(Arc::new(Held {
            keys: settings.keys.iter().map(|key| (key.hash, (key.public, Arc::new(of_key(key))))).collect(),
            issuers: settings.issuers.iter().map(|issuer| Arc::new(Issuer::new(issuer.clone()))).collect(),
            verified: Arc::default(),
            origins: origins.cloned().collect(),
        }))
    }

    /// Who shows `bearer` at the time of day `wall`. Reads nothing but memory.
    pub fn principal(&self, bearer: &[u8], wall: Timestamp) -> Result<Arc<Principal>, Refusal> {
        let held = &self.0;
        let hash = KeyHash::of(bearer);
        if let Some(public) = keys::shape(bearer) {
            // The shape counts, too: a publishable key must be one that the browser package takes for one.
            let known = held.keys.get(&hash).filter(|(is_public, _)| *is_public == public);
            return known.map(|(_, principal)| Arc::clone(principal)).ok_or(Refusal::Unknown);
        }
        if let Some(principal) = held.verified.find(&hash.0, wall) {
            return Ok(principal);
        }
        let token = Token::read(bearer)?;
        let issuer = held.issuers.iter().find(|issuer| issuer.settings.issuer == token.claims.iss);
        let issuer = issuer.ok_or(Refusal::Invalid("no issuer of this node has its `iss`"))?;
        // Held until the token is remembered: a list that drops its key makes the node forget it, and must come after.
        let keys = issuer.keys();
        let principal = Arc::new(issuer.principal(&keys, &token, wall)?);
        held.verified.remember(hash.0, Arc::clone(&principal));
        Ok(principal)
    }

    /// Whether some key or issuer lists `origin`: its pages may ask what they may.
    pub fn lists_origin(&self, origin: &HeaderValue) -> bool {
        origin.to_str().is_ok_and(|origin| self.0.origins.contains(origin))
    }

    /// Whether nobody but the owner has a credential.
    pub fn is_empty(&self) -> bool {
        self.0.keys.is_empty() && self.0.issuers.is_empty()
    }

    /// Fetches the keys that issuers publish, once, for commands that end. Says of which issuers it could not.
    pub async fn fetch_keys(&self) -> Vec<String> {
        let mut failed = Vec::new();
        for issuer in &self.0.issuers {
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
        for issuer in &self.0.issuers {
            if let KeySource::Published(address) = &issuer.settings.keys {
                let (issuer, verified) = (Arc::clone(issuer), Arc::clone(&self.0.verified));
                workers.spawn(jwks::keep_fresh(issuer, address.clone(), verified, pace, halt.clone()));
            }
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keys, issuers) = (self.0.keys.len(), self.0.issuers.len());
        write!(f, "{keys} keys and {issuers} issuers")
    }
}

fn of_key(key: &KeySettings) -> Principal {
    Principal {
        kind: PrincipalKind::Key,
        name: key.name.as_str().into(),
        subject: Some(key.name.as_str().into()),
        grants: key.may.clone(),
        ends_at: None,
        origins: key.origins.as_slice().into(),
    }
}

#[cfg(test)]
mod tests;
