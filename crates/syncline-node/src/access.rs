//! Who calls: the principal that the door makes from the head of a request.
//!
//! - [`Principal`]: who calls, and what they may do
//! - [`Credentials`]: what others than the owner show: keys and tokens
//! - `keys`: static keys; `issuers`, `token`, `signature`, `jwks`: signed tokens of issuers, and the keys that check them
//! - `verified`: tokens that were checked before; `source`: which key or issuer a principal comes from
//! - [`AccessPart`]: keys and revocations of all nodes of a store, and the audit
//! - `mint`: makes tokens, for commands and tests

mod audit;
mod credentials;
mod der;
mod follow;
mod http;
mod issuers;
mod jwks;
mod keys;
mod mint;
mod part;
mod quotas;
mod signature;
mod source;
mod token;
mod verified;
mod vocabulary;

pub(crate) use audit::{AuditLog, PendingRecord, What, Who};
pub(crate) use quotas::{KnownSpaces, QuotaHolder, Quotas, StreamPlace};

pub(crate) use issuers::{KEYS_MAX, Written};

pub use credentials::{CredentialSettings, Credentials, Refusal};
pub use issuers::{IssuerKey, IssuerSettings, KeySource};
pub use keys::{KeyHash, KeySettings, check_harmless, check_name, new_key};
pub use mint::mint;
pub use part::AccessPart;
pub use quotas::QuotaSettings;
pub use signature::{Algorithm, Signer, VerifyingKey};
pub use vocabulary::Vocabulary;

use std::sync::Arc;

use syncline_core::access::{Grants, Need};
use syncline_core::outbox::SenderId;
use syncline_core::time::Timestamp;

use source::Source;

/// What kind of credential was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrincipalKind {
    /// The node's own token, the cookie that stands for it, or a node without a token.
    Owner,
    /// A static key of a box, a dashboard or a server.
    Key,
    /// A token that an issuer signed for a person.
    Person,
}

impl PrincipalKind {
    /// Its word in answers and in the audit.
    pub fn as_str(self) -> &'static str {
        match self {
            PrincipalKind::Owner => "owner",
            PrincipalKind::Key => "key",
            PrincipalKind::Person => "person",
        }
    }
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
    /// The id of its token, if that has one, and when the token was issued.
    pub(crate) token: Option<(Option<Arc<str>>, Timestamp)>,
    /// The key or issuer that it comes from.
    pub(crate) source: Arc<Source>,
    /// What it may use.
    pub(crate) quota: QuotaSettings,
    /// Whether everybody can show its credential: each address that does then counts for itself.
    pub(crate) public: bool,
    /// Whose quota it shares, where its token says so.
    pub(crate) tenant: Option<Arc<str>>,
    /// The sender in whose name its batches come, where that is not its own name.
    pub(crate) sender: Option<SenderId>,
    /// The grants that are its own and its tenant's, by which what belongs to it is counted.
    pub(crate) own: Arc<OwnGrants>,
}

/// Grants with a place for a person's subject, and with a place for its tenant; of a key all that it has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OwnGrants {
    pub(crate) of_subject: Grants,
    pub(crate) of_tenant: Grants,
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
            token: None,
            source: Arc::default(),
            quota: QuotaSettings::default(),
            public: false,
            tenant: None,
            sender: None,
            own: Arc::default(),
        }
    }

    /// The grants by which what belongs to it, or to its tenant, is counted.
    pub(crate) fn own_grants(&self, of_tenant: bool) -> &Grants {
        if of_tenant { &self.own.of_tenant } else { &self.own.of_subject }
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
