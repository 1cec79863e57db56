//! What a node holds of credentials at one moment. It never changes: a change makes another, out of what stayed the same.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use syncline_core::access::{IssuedToken, Revocations};
use syncline_core::time::Timestamp;

use super::super::issuers::{Issuer, IssuerSettings};
use super::super::keys::{KeyHash, KeySettings};
use super::super::source::Source;
use super::super::{OwnGrants, Principal, PrincipalKind};
use super::{CredentialSettings, Refusal, StoredCredentials};

/// Keys, issuers and revocations of one moment.
#[derive(Default)]
pub(super) struct Held {
    keys: HashMap<KeyHash, Entry>,
    issuers: Vec<Arc<Issuer>>,
    origins: HashSet<String>,
    pub(super) revoked: RevokedTokens,
    revoked_keys: HashSet<KeyHash>,
}

struct Entry {
    settings: KeySettings,
    in_file: bool,
    principal: Arc<Principal>,
}

/// A key that counts now.
pub(crate) struct HeldKey {
    pub(crate) settings: KeySettings,
    /// Whether the file has it; otherwise it was made on a running node.
    pub(crate) in_file: bool,
    /// When it was last shown to this node, and from where.
    pub(crate) last_shown: Option<(Timestamp, Option<IpAddr>)>,
    pub(crate) source: Arc<Source>,
}

/// Tokens that were taken back.
#[derive(Default)]
pub(super) struct RevokedTokens(Revocations);

impl RevokedTokens {
    pub(super) fn cover_principal(&self, principal: &Principal) -> bool {
        principal.issued().is_some_and(|issued| self.0.cover(issued))
    }
}

impl Principal {
    /// What its token says of itself, if it showed one.
    fn issued(&self) -> Option<IssuedToken<'_>> {
        let (id, issued_at) = self.token.as_ref()?;
        let subject = self.subject.as_deref().unwrap_or(&self.name);
        Some(IssuedToken { issuer: &self.name, subject, id: id.as_deref(), issued_at: *issued_at })
    }
}

impl Held {
    /// What these settings make, with what stays the same taken over from `before`; and the issuers that are new.
    pub(super) fn new(
        settings: &CredentialSettings,
        stored: &StoredCredentials,
        before: &Held,
    ) -> (Held, Vec<Arc<Issuer>>) {
        let revoked_keys: HashSet<KeyHash> = stored.revoked_keys.iter().copied().collect();
        let mut keys = HashMap::new();
        let in_file = settings.keys.iter().map(|key| (key, true));
        // The file's word counts where both know a key.
        let all = stored.keys.iter().map(|key| (key, false)).chain(in_file);
        for (key, in_file) in all.filter(|(key, _)| !revoked_keys.contains(&key.hash)) {
            let known = before.keys.get(&key.hash).filter(|known| known.settings == *key);
            let principal = known.map_or_else(|| Arc::new(of_key(key)), |known| Arc::clone(&known.principal));
            keys.insert(key.hash, Entry { settings: key.clone(), in_file, principal });
        }
        let (mut issuers, mut new) = (Vec::new(), Vec::new());
        for issuer in &settings.issuers {
            let known = before.issuers.iter().find(|known| known.settings.is_same(issuer));
            issuers.push(known.map_or_else(
                || {
                    let made = Arc::new(Issuer::new(issuer.clone()));
                    new.push(Arc::clone(&made));
                    made
                },
                Arc::clone,
            ));
        }
        let of_keys = keys.values().flat_map(|entry| &entry.settings.origins);
        let origins = of_keys.chain(settings.issuers.iter().flat_map(|issuer| &issuer.origins));
        let origins = origins.cloned().collect();
        let revoked = RevokedTokens(stored.revoked.clone());
        (Held { keys, issuers, origins, revoked, revoked_keys }, new)
    }

    /// Ends what `now` no longer has. Says whether an issuer is among it.
    pub(super) fn end_all_but(&self, now: &Held) -> bool {
        for (hash, entry) in &self.keys {
            let goes_on =
                now.keys.get(hash).is_some_and(|kept| Arc::ptr_eq(&kept.principal, &entry.principal));
            if !goes_on {
                entry.principal.source.end();
            }
        }
        let gone = self.issuers.iter().filter(|old| !now.issuers.iter().any(|kept| Arc::ptr_eq(kept, old)));
        let gone: Vec<_> = gone.collect();
        gone.iter().for_each(|issuer| issuer.end());
        !gone.is_empty()
    }

    /// Who shows a key. Its shape counts, too: a publishable key must be one that the browser package takes for one.
    pub(super) fn key(&self, hash: &KeyHash, public: bool) -> Result<Arc<Principal>, Refusal> {
        match self.keys.get(hash).filter(|entry| entry.settings.public == public) {
            Some(entry) => Ok(Arc::clone(&entry.principal)),
            None if self.revoked_keys.contains(hash) => Err(Refusal::Revoked),
            None => Err(Refusal::Unknown),
        }
    }

    pub(super) fn unless_revoked(&self, principal: Arc<Principal>) -> Result<Arc<Principal>, Refusal> {
        if self.revoked.cover_principal(&principal) { Err(Refusal::Revoked) } else { Ok(principal) }
    }

    /// The issuer of tokens with this `iss`.
    pub(super) fn issuer_of(&self, iss: &str) -> Option<&Arc<Issuer>> {
        self.issuers.iter().find(|issuer| issuer.settings.issuer == iss)
    }

    pub(super) fn at_work(&self) -> impl Iterator<Item = &Arc<Issuer>> {
        self.issuers.iter()
    }

    pub(super) fn issuers(&self) -> impl Iterator<Item = &IssuerSettings> {
        self.issuers.iter().map(|issuer| &issuer.settings)
    }

    pub(super) fn keys(&self) -> Vec<HeldKey> {
        let held = |entry: &Entry| HeldKey {
            settings: entry.settings.clone(),
            in_file: entry.in_file,
            last_shown: entry.principal.source.last_shown(),
            source: Arc::clone(&entry.principal.source),
        };
        let mut keys: Vec<HeldKey> = self.keys.values().map(held).collect();
        keys.sort_by(|one, other| one.settings.name.cmp(&other.settings.name));
        keys
    }

    pub(super) fn lists_origin(&self, origin: &str) -> bool {
        self.origins.contains(origin)
    }

    /// A key that was taken back still has to be told so.
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.issuers.is_empty() && self.revoked_keys.is_empty()
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
        token: None,
        source: Arc::default(),
        quota: key.quota,
        public: key.public,
        tenant: None,
        sender: key.sender.clone(),
        own: Arc::new(OwnGrants { of_subject: key.may.clone(), of_tenant: key.may.clone() }),
    }
}
