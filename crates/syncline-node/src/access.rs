//! Who calls: the principal that the door makes from the head of a request.
//!
//! - [`Principal`]: who calls, and what they may do
//! - [`Credentials`]: what others than the owner show: keys and tokens
//! - `keys`: static keys; `issuers`, `token`, `signature`, `jwks`: signed tokens of issuers, and the keys that check them
//! - `verified`: tokens that were checked before
//! - `mint`: makes tokens, for commands and tests

mod credentials;
mod der;
mod issuers;
mod jwks;
mod keys;
mod mint;
mod signature;
mod token;
mod verified;

pub(crate) use issuers::{KEYS_MAX, Written};

pub use credentials::{CredentialSettings, Credentials, Refusal};
pub use issuers::{IssuerKey, IssuerSettings, KeySource};
pub use keys::{KeyHash, KeySettings, check_harmless, check_name, new_key};
pub use mint::mint;
pub use signature::{Algorithm, Signer, VerifyingKey};

use std::sync::Arc;

use syncline_core::access::{Grants, Need};
use syncline_core::time::Timestamp;

/// What kind of credential was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrincipalKind {
    /// The node's own token, the cookie that stands for it, or a node without a token.
    Owner,
    /// A static key of a box, a dashboard or a server.
    Key,
    /// A token that an issuer signed for a person.
    Person,
}

/// Who calls, and what they may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    pub(crate) kind: PrincipalKind,
    /// The name of the key or of the issuer; `owner` for the owner.
    pub(crate) name: Arc<str>,
    /// The person, as the issuer names it; the key's name for a key. The owner has none.
    pub(crate) subject: Option<Arc<str>>,
    pub(crate) grants: Grants,
    /// When the credential ends by itself.
    pub(crate) ends_at: Option<Timestamp>,
    /// The origins of other sites whose pages may show this credential.
    pub(crate) origins: Arc<[String]>,
}

impl Principal {
    /// The one who may do everything.
    pub(crate) fn owner() -> Principal {
        Principal {
            kind: PrincipalKind::Owner,
            name: "owner".into(),
            subject: None,
            grants: Grants::default(),
            ends_at: None,
            origins: Arc::default(),
        }
    }

    /// Whether this principal may do it.
    pub fn may(&self, need: Need<'_>) -> bool {
        self.kind == PrincipalKind::Owner || self.grants.allow(need)
    }

    /// What kind of credential it showed.
    pub fn kind(&self) -> PrincipalKind {
        self.kind
    }

    /// The name of its key or issuer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it was given.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// When its credential ends by itself.
    pub fn ends_at(&self) -> Option<Timestamp> {
        self.ends_at
    }

    /// The name under which it acts; the owner acts under whatever name it gives.
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }
}
