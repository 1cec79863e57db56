//! Issuers: who signs tokens for people, with which keys, and what those tokens may get at most.
//!
//! A token is checked against the one issuer that its `iss` names, with that issuer's algorithm and that issuer's keys alone.
//! So no key of one issuer serves for another, whatever a token's header says.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use syncline_core::access::Ceiling;
use syncline_core::access::quota::Quota;
use syncline_core::time::Timestamp;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::credentials::Refusal;
use super::signature::{Algorithm, Signer, VerifyingKey, sha256};
use super::source::Source;
use super::token::{Signed, Token};
use super::{OwnGrants, Principal, PrincipalKind, QuotaSettings};
use crate::secret::Secret;

/// By how much clocks of issuers may differ from ours.
pub(super) const LEEWAY: Duration = Duration::from_secs(60);

/// Most keys of one issuer in the file, and most with which one token is tried.
pub(crate) const KEYS_MAX: usize = 16;

/// One of `[[issuers]]`.
#[derive(Debug, Clone)]
pub struct IssuerSettings {
    /// Its name here.
    pub name: String,
    /// The `iss` of its tokens.
    pub issuer: String,
    /// The `aud` that its tokens must have: this node's.
    pub audience: String,
    /// How its tokens are signed.
    pub algorithm: Algorithm,
    /// What their signatures are checked with.
    pub keys: KeySource,
    /// Origins of other sites whose pages may show its tokens.
    pub origins: Vec<String>,
    /// How long a token counts after its `iat`, whatever its `exp` says.
    pub max_age: Duration,
    /// The most that a token may get.
    pub may: Ceiling,
    /// The claim that names a token's tenant; without one all its people share a tenant.
    pub tenant: Option<String>,
    /// What its people may use, each and as a tenant.
    pub quota: QuotaSettings,
}

/// Where the keys of an issuer come from.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// The file lists them.
    Listed(Vec<IssuerKey>),
    /// The issuer publishes them here (JWKS).
    Published(Url),
}

/// One key of an issuer.
#[derive(Debug, Clone)]
pub struct IssuerKey {
    /// Its id, which tokens name. A key without one is tried for every token.
    pub kid: Option<String>,
    /// The key.
    pub key: VerifyingKey,
    /// When it ends: no token that it signed is accepted from then on.
    pub until: Option<Timestamp>,
    /// How the file has it.
    pub(crate) written: Written,
}

/// How the file has a key.
#[derive(Debug, Clone)]
pub(crate) enum Written {
    Secret(Secret),
    SecretFile(PathBuf, Secret),
    PublicKey(String),
    PublicKeyFile(PathBuf),
    /// It does not: the issuer published it.
    Published,
}

impl IssuerKey {
    fn is_live(&self, wall: Timestamp) -> bool {
        self.until.is_none_or(|until| wall < until)
    }
}

impl IssuerSettings {
    /// What people may use unless somebody says otherwise.
    pub const USUAL_QUOTA: QuotaSettings = QuotaSettings { own: Quota::USUAL, tenant: Quota::NONE };

    /// The secrets of its keys.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let keys = match &self.keys {
            KeySource::Listed(keys) => keys.as_slice(),
            KeySource::Published(_) => &[],
        };
        keys.iter().filter_map(|key| match &key.written {
            Written::Secret(secret) | Written::SecretFile(_, secret) => Some(secret.expose()),
            Written::PublicKey(_) | Written::PublicKeyFile(_) | Written::Published => None,
        })
    }

    /// Whether both say the same of one issuer.
    pub(super) fn is_same(&self, other: &IssuerSettings) -> bool {
        let same_keys = match (&self.keys, &other.keys) {
            (KeySource::Published(one), KeySource::Published(other)) => one == other,
            (KeySource::Listed(one), KeySource::Listed(other)) => {
                let same = |(one, other): (&IssuerKey, &IssuerKey)| {
                    one.kid == other.kid && one.until == other.until && one.key.is(&other.key)
                };
                one.len() == other.len() && one.iter().zip(other).all(same)
            }
            _ => false,
        };
        let text = |issuer: &IssuerSettings| {
            (issuer.name.clone(), issuer.issuer.clone(), issuer.audience.clone(), issuer.origins.clone())
        };
        same_keys
            && text(self) == text(other)
            && (self.algorithm, self.max_age) == (other.algorithm, other.max_age)
            && self.may == other.may
            && (&self.tenant, self.quota) == (&other.tenant, other.quota)
    }

    /// A signer with the first secret that has not ended, and its id. Only HS256 has secrets.
    pub fn signer(&self, wall: Timestamp) -> Option<(Signer, Option<&str>)> {
        let KeySource::Listed(keys) = &self.keys else { return None };
        let key = keys.iter().find(|key| key.is_live(wall))?;
        Some((key.key.signer()?, key.kid.as_deref()))
    }
}

/// An issuer at work: its settings, and the keys of the moment.
pub(super) struct Issuer {
    pub(super) settings: IssuerSettings,
    origins: Arc<[String]>,
    keys: RwLock<Vec<IssuerKey>>,
    /// Told when a token names a key that is not known: the published list may have it by now.
    pub(super) unknown_key: Notify,
    source: Arc<Source>,
    /// Cancelled when the issuer is changed or gone: nobody fetches its keys any more.
    pub(super) ended: CancellationToken,
}

impl Issuer {
    pub(super) fn new(settings: IssuerSettings) -> Issuer {
        let keys = match &settings.keys {
            KeySource::Listed(keys) => keys.clone(),
            KeySource::Published(_) => Vec::new(),
        };
        let origins = settings.origins.as_slice().into();
        let (keys, unknown_key) = (RwLock::new(keys), Notify::new());
        let (source, ended) = (Arc::default(), CancellationToken::new());
        Issuer { settings, origins, keys, unknown_key, source, ended }
    }

    /// It is no longer what the configuration says.
    pub(super) fn end(&self) {
        self.source.end();
        self.ended.cancel();
    }

    /// The keys of the moment. While they are held, no published list replaces them.
    pub(super) fn keys(&self) -> RwLockReadGuard<'_, Vec<IssuerKey>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who shows this token, once everything about it is right.
    pub(super) fn principal(
        &self,
        keys: &[IssuerKey],
        token: &Token<'_>,
        wall: Timestamp,
    ) -> Result<Principal, Refusal> {
        let key_ends = self.check_signature(keys, &token.signed, wall)?;
        let claims = &token.claims;
        if !claims.aud.has(&self.settings.audience) {
            return Err(Refusal::Invalid("its `aud` names another audience than this node"));
        }
        let seconds = |count: u64| Timestamp::from_ms(count.saturating_mul(1_000));
        let (issued, soon) = (seconds(claims.iat), wall + LEEWAY);
        if issued > soon {
            return Err(Refusal::Invalid("its `iat` is in the future: compare the clocks"));
        }
        if claims.nbf.is_some_and(|begins| seconds(begins) > soon) {
            return Err(Refusal::Invalid("it is not valid yet: its `nbf` is in the future"));
        }
        let ends = (seconds(claims.exp) + LEEWAY).min(issued + self.settings.max_age + LEEWAY);
        if wall >= ends {
            return Err(Refusal::Expired);
        }
        let ceiling = self.settings.may.fill(|name| claims.text(name), sha256);
        let grants = match claims.may()? {
            None => ceiling,
            Some(asked) => ceiling.narrow(&asked),
        };
        let filled =
            |claim: &str| self.settings.may.with_place_for(claim).fill(|name| claims.text(name), sha256);
        let tenant = self.settings.tenant.as_deref();
        let own = OwnGrants { of_subject: filled("sub"), of_tenant: tenant.map(filled).unwrap_or_default() };
        Ok(Principal {
            kind: PrincipalKind::Person,
            name: self.settings.name.as_str().into(),
            // Without a subject it acts under the issuer's name, never under a name it chooses.
            subject: Some(claims.sub.as_deref().unwrap_or(&self.settings.name).into()),
            grants,
            ends_at: Some(key_ends.map_or(ends, |key_ends| ends.min(key_ends))),
            origins: Arc::clone(&self.origins),
            token: Some((claims.jti.as_deref().map(Into::into), issued)),
            source: Arc::clone(&self.source),
            quota: self.settings.quota,
            public: false,
            tenant: tenant.and_then(|claim| claims.text(claim)).map(Into::into),
            own: Arc::new(own),
            sender: None,
        })
    }

    /// Checks the signature with the keys that may have made it. Answers with the end of the one that did.
    fn check_signature(
        &self,
        keys: &[IssuerKey],
        signed: &Signed<'_>,
        wall: Timestamp,
    ) -> Result<Option<Timestamp>, Refusal> {
        if signed.header.alg != self.settings.algorithm.as_str() {
            return Err(Refusal::Invalid("its `alg` is not the one of its issuer"));
        }
        let kid = signed.header.kid.as_deref();
        let mut candidates = keys
            .iter()
            .filter(|key| {
                key.is_live(wall) && (kid.is_none() || key.kid.is_none() || key.kid.as_deref() == kid)
            })
            // A forged token without a key's id must not cost more than this many checks.
            .take(KEYS_MAX)
            .peekable();
        if candidates.peek().is_none() {
            self.unknown_key.notify_one();
            return Err(Refusal::Invalid("its issuer has no key with its `kid`"));
        }
        let signer = candidates.find(|key| signed.is_by(&key.key));
        signer.map(|key| key.until).ok_or(Refusal::Invalid("its signature is wrong"))
    }

    /// Takes over a published list. Answers whether it is another one than before.
    pub(super) fn replace_keys(&self, new: Vec<IssuerKey>) -> bool {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let same = keys.len() == new.len()
            && keys.iter().zip(&new).all(|(old, new)| old.kid == new.kid && old.key.is(&new.key));
        if !same {
            *keys = new;
        }
        !same
    }
}
