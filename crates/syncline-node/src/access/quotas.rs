//! What callers of this node have used of their quotas. The rules are core's; this keeps the tables, and each node its own.
//!
//! A caller is a person (a subject of an issuer), a key, or, for a publishable key that everybody can show, each address that
//! shows it. Its tenant is what the issuer's `tenant` claim says, the issuer where there is none, and the key itself for a
//! key. The owner has no quota.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use syncline_core::access::quota::{Exceeded, Held, QUOTA_CALLERS_MAX, Quota, Rates, Spent};
use syncline_core::time::Timestamp;

use super::{Principal, PrincipalKind};
use crate::address::network;

/// For how long a count of spaces is good.
const SPACES_KNOWN_FOR: Duration = Duration::from_secs(5);

/// How long somebody waits who holds as much as it may of what ends when it is given back.
const COME_BACK_AFTER: Duration = Duration::from_secs(10);

/// What the configuration allows a key, or the people of an issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaSettings {
    /// Each caller.
    pub own: Quota,
    /// All callers of a tenant together.
    pub tenant: Quota,
}

impl Default for QuotaSettings {
    fn default() -> QuotaSettings {
        QuotaSettings { own: Quota::NONE, tenant: Quota::NONE }
    }
}

/// Whose allowance it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum QuotaHolder {
    One(PrincipalKind, Arc<str>, Arc<str>),
    At(Arc<str>, IpAddr),
    Tenant(PrincipalKind, Arc<str>, Arc<str>),
}

/// What is used now.
#[derive(Default)]
pub(crate) struct Quotas {
    rates: Mutex<Rates<QuotaHolder>>,
    streams: Mutex<HashMap<QuotaHolder, u32>>,
    locks: Mutex<Held<QuotaHolder, String>>,
    spaces: Mutex<HashMap<QuotaHolder, KnownSpaces>>,
}

/// The spaces of a holder, as they were counted last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownSpaces {
    pub(crate) at: Timestamp,
    pub(crate) count: u32,
    pub(crate) bytes: u64,
}

/// A stream that counts as long as it is there.
pub(crate) struct StreamPlace {
    quotas: Arc<Quotas>,
    holders: Vec<QuotaHolder>,
}

impl Principal {
    /// Its quota and that of its tenant, each with whose it is. The owner has none.
    pub(crate) fn quotas(&self, address: Option<IpAddr>) -> Vec<(QuotaHolder, Quota)> {
        if self.kind == PrincipalKind::Owner {
            return Vec::new();
        }
        let subject = || self.subject.clone().unwrap_or_else(|| Arc::clone(&self.name));
        let own = match address.filter(|_| self.public) {
            Some(address) => QuotaHolder::At(Arc::clone(&self.name), network(address)),
            None => QuotaHolder::One(self.kind, Arc::clone(&self.name), subject()),
        };
        let tenant = self.tenant.clone().unwrap_or_else(|| Arc::clone(&self.name));
        let tenant = QuotaHolder::Tenant(self.kind, Arc::clone(&self.name), tenant);
        let both = [(own, self.quota.own), (tenant, self.quota.tenant)];
        both.into_iter().filter(|(_, quota)| *quota != Quota::NONE).collect()
    }
}

impl Quotas {
    /// Takes what is spent from all quotas, or from none of them.
    pub(crate) fn spend(
        &self,
        of: &[(QuotaHolder, Quota)],
        spent: Spent,
        now: Timestamp,
    ) -> Result<(), Exceeded> {
        if of.is_empty() {
            return Ok(());
        }
        let mut rates = lock(&self.rates);
        for (holder, quota) in of {
            rates.wait(holder, quota, spent, now)?;
        }
        for (holder, quota) in of {
            // There was enough a moment ago, and nobody else has the tables.
            let _ = rates.spend(holder.clone(), quota, spent, now);
        }
        Ok(())
    }

    /// A place for one more stream.
    pub(crate) fn open_stream(
        self: &Arc<Self>,
        of: &[(QuotaHolder, Quota)],
    ) -> Result<StreamPlace, Exceeded> {
        let mut streams = lock(&self.streams);
        for (holder, quota) in of {
            let open = streams.get(holder).copied().unwrap_or(0);
            if quota.streams.is_some_and(|most| open >= most) {
                return Err(Exceeded { setting: "streams", retry_after: COME_BACK_AFTER });
            }
        }
        let holders: Vec<QuotaHolder> = of.iter().map(|(holder, _)| holder.clone()).collect();
        for holder in &holders {
            *streams.entry(holder.clone()).or_default() += 1;
        }
        Ok(StreamPlace { quotas: Arc::clone(self), holders })
    }

    /// Whether the caller may hold one more lock.
    pub(crate) fn may_lock(
        &self,
        of: &[(QuotaHolder, Quota)],
        name: &str,
        now: Timestamp,
    ) -> Result<(), Exceeded> {
        let mut locks = lock(&self.locks);
        for (holder, quota) in of {
            if let Some(most) = quota.locks {
                let room = locks.has_room(holder, &name.to_owned(), most, now);
                room.map_err(|wait| Exceeded { setting: "locks", retry_after: wait.min(COME_BACK_AFTER) })?;
            }
        }
        Ok(())
    }

    /// The caller has a lock until then.
    pub(crate) fn locked(&self, of: &[(QuotaHolder, Quota)], name: &str, now: Timestamp, until: Timestamp) {
        let mut locks = lock(&self.locks);
        if locks.callers() >= QUOTA_CALLERS_MAX {
            locks.forget(now);
        }
        for (holder, _) in of.iter().filter(|(_, quota)| quota.locks.is_some()) {
            locks.hold(holder.clone(), name.to_owned(), until);
        }
    }

    /// The caller has given a lock back.
    pub(crate) fn unlocked(&self, of: &[(QuotaHolder, Quota)], name: &str) {
        let mut locks = lock(&self.locks);
        of.iter().for_each(|(holder, _)| locks.release(holder, &name.to_owned()));
    }

    /// What is known of a holder's spaces, unless that is too old.
    pub(crate) fn known_spaces(&self, holder: &QuotaHolder, now: Timestamp) -> Option<KnownSpaces> {
        let known = lock(&self.spaces).get(holder).copied()?;
        (now.saturating_since(known.at) < SPACES_KNOWN_FOR).then_some(known)
    }

    /// Remembers what is known of a holder's spaces.
    pub(crate) fn learn_spaces(&self, holder: QuotaHolder, known: KnownSpaces) {
        let mut spaces = lock(&self.spaces);
        if spaces.len() >= QUOTA_CALLERS_MAX {
            spaces.retain(|_, other| known.at.saturating_since(other.at) < SPACES_KNOWN_FOR);
        }
        if spaces.len() < QUOTA_CALLERS_MAX || spaces.contains_key(&holder) {
            spaces.insert(holder, known);
        }
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut streams = lock(&self.quotas.streams);
        for holder in &self.holders {
            let left = streams.get(holder).copied().unwrap_or(1).saturating_sub(1);
            if left == 0 {
                streams.remove(holder);
            } else {
                streams.insert(holder.clone(), left);
            }
        }
    }
}

fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
