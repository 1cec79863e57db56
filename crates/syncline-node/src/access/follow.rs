//! Follows the store: keys that were made on some node, and what was taken back, on every node within seconds.
//!
//! A node looks at one number when another process says that it has changed, and reads keys and revocations then. Where nothing can
//! be heard it looks every [`LOOK_EVERY`]. What this node changes itself counts here at once. While the store does not answer, everything stays as it was. Beside that, each node reports
//! when keys were last shown to it.

use std::sync::Arc;
use std::time::Duration;

use syncline_core::access::{Grant, Revocation, Revocations};
use syncline_core::time::Timestamp;
use syncline_store::access::AccessStore;
use syncline_store::access::keys::{KeyUse, StoredKey};
use syncline_store::access::revocations::StoredRevocation;
use syncline_store::{Error, News};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::credentials::StoredCredentials;
use super::{Credentials, KeyHash, KeySettings};
use crate::log_throttle::LogThrottle;

/// How often a node looks whether something has changed. What was taken back is refused everywhere within five seconds.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How often the last use of keys is reported.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Keys and revocations of all nodes of one store. A clone is the same.
#[derive(Clone)]
pub(crate) struct AccessControl(Arc<Shared>);

struct Shared {
    store: AccessStore,
    credentials: Credentials,
    /// The number of what was read last. Held while it is read, so that an older state never replaces a newer one.
    seen: Mutex<Option<i64>>,
    failed: LogThrottle,
}

impl AccessControl {
    pub(super) fn new(store: AccessStore, credentials: Credentials) -> AccessControl {
        let (seen, failed) = (Mutex::new(None), LogThrottle::default());
        AccessControl(Arc::new(Shared { store, credentials, seen, failed }))
    }

    pub(super) fn store(&self) -> &AccessStore {
        &self.0.store
    }

    pub(super) fn credentials(&self) -> &Credentials {
        &self.0.credentials
    }

    /// Takes over what the store says, if that is news.
    pub(super) async fn look(&self) -> Result<(), Error> {
        let mut seen = self.0.seen.lock().await;
        // The number first: what changes while the rest is read is read again.
        let version = self.0.store.version().await?;
        if *seen == Some(version) {
            return Ok(());
        }
        let (keys, revocations) = (self.0.store.keys().await?, self.0.store.revocations().await?);
        self.0.credentials.follow(read(keys, revocations));
        *seen = Some(version);
        Ok(())
    }

    /// Looks whenever there may be news, and reports, until `halt`.
    pub(super) async fn follow(self, mut news: News, halt: CancellationToken) {
        let mut report = tokio::time::interval(REPORT_EVERY);
        let mut failed = false;
        loop {
            let done = tokio::select! {
                () = halt.cancelled() => break,
                () = news.heard(LOOK_EVERY) => self.look().await,
                // What could not be read is not waited for.
                () = tokio::time::sleep(LOOK_EVERY), if failed => self.look().await,
                _ = report.tick() => self.report_uses().await,
            };
            failed = done.is_err();
            if let Err(error) = done
                && let Some(count) = self.0.failed.due()
            {
                tracing::warn!(%error, count, "keys and revocations could not be read; those known stay");
            }
        }
        // What was shown last is reported last.
        let _ = self.report_uses().await;
    }

    /// Reports when keys were last shown to this node.
    pub(super) async fn report_uses(&self) -> Result<(), Error> {
        let used = |key: super::credentials::HeldKey| {
            let (at, from) = key.source.take_unsaved()?;
            let used_at_ms = i64::try_from(at.as_ms()).unwrap_or(i64::MAX);
            Some(KeyUse { name: key.settings.name, used_at_ms, used_from: from.map(|from| from.to_string()) })
        };
        let uses: Vec<KeyUse> = self.0.credentials.keys().into_iter().filter_map(used).collect();
        if uses.is_empty() { Ok(()) } else { self.0.store.note_uses(uses).await }
    }
}

fn read(keys: Vec<StoredKey>, revocations: Vec<StoredRevocation>) -> StoredCredentials {
    let mut stored = StoredCredentials::default();
    for key in keys {
        match key_of(&key) {
            Some(key) => stored.keys.push(key),
            // A newer node may write what this one does not know. It must not let it do more than it understands.
            None => tracing::warn!(key = key.name, "a stored key cannot be read and is not accepted"),
        }
    }
    let mut revoked = Vec::new();
    for revocation in revocations {
        let until = u64::try_from(revocation.issued_before_ms).unwrap_or(0);
        match revocation.kind.as_str() {
            "token" => revoked.push(Revocation::Token { issuer: revocation.scope, id: revocation.value }),
            "subject" => revoked.push(Revocation::Subject {
                issuer: revocation.scope,
                subject: revocation.value,
                until: Timestamp::from_ms(until),
            }),
            _ => stored.revoked_keys.extend(revocation.value.parse::<KeyHash>().ok()),
        }
    }
    stored.revoked = revoked.into_iter().collect::<Revocations>();
    stored
}

fn key_of(key: &StoredKey) -> Option<KeySettings> {
    let may = key.may.iter().map(|text| text.parse::<Grant>()).collect::<Result<_, _>>().ok()?;
    let (name, public, origins) = (key.name.clone(), key.public, key.origins.clone());
    let quota = KeySettings::usual_quota(public);
    Some(KeySettings { name, hash: key.hash.parse().ok()?, may, public, origins, quota, sender: None })
}
