//! Tokens whose signature was checked, by their hash, so that it is checked once and not with every request.
//!
//! Bounded: two generations of maps. When the young one is full it becomes the old one, and what was in the old one and was
//! not asked for since is forgotten.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use syncline_core::time::Timestamp;

use super::Principal;

/// Most tokens that are remembered.
pub(super) const VERIFIED_MAX: usize = 10_000;

type Hash = [u8; 32];

/// The tokens that are remembered.
#[derive(Default)]
pub(super) struct Verified(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashMap<Hash, Arc<Principal>>,
    old: HashMap<Hash, Arc<Principal>>,
}

impl Verified {
    /// Who shows the token with this hash, unless the token has ended.
    pub(super) fn find(&self, hash: &Hash, wall: Timestamp) -> Option<Arc<Principal>> {
        let mut generations = self.lock();
        let found = match generations.young.get(hash) {
            Some(found) => Arc::clone(found),
            None => {
                let found = generations.old.remove(hash)?;
                generations.insert(*hash, Arc::clone(&found));
                found
            }
        };
        found.ends_at.is_some_and(|ends| wall < ends).then_some(found)
    }

    pub(super) fn remember(&self, hash: Hash, principal: Arc<Principal>) {
        self.lock().insert(hash, principal);
    }

    /// Forgets all of them: a key that proved some may be gone.
    pub(super) fn clear(&self) {
        *self.lock() = Generations::default();
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn insert(&mut self, hash: Hash, principal: Arc<Principal>) {
        if self.young.len() >= VERIFIED_MAX / 2 {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(hash, principal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: usize) -> Hash {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&number.to_be_bytes());
        hash
    }

    #[test]
    fn ac_05_verified_tokens_are_bounded_and_those_in_use_stay() {
        let mut principal = Principal::owner();
        principal.ends_at = Some(Timestamp::from_ms(1_000));
        let principal = Arc::new(principal);
        let (verified, now) = (Verified::default(), Timestamp::from_ms(999));
        for number in 0..10 * VERIFIED_MAX {
            verified.remember(hash(number), Arc::clone(&principal));
            assert!(verified.find(&hash(0), now).is_some(), "the one in use after {number}");
            let known = verified.lock();
            assert!(known.young.len() + known.old.len() <= VERIFIED_MAX);
        }
        assert!(verified.find(&hash(1), now).is_none());
        assert!(verified.find(&hash(10 * VERIFIED_MAX - 1), now).is_some());
        assert!(verified.find(&hash(0), Timestamp::from_ms(1_000)).is_none(), "it has ended");
        verified.clear();
        assert!(verified.find(&hash(0), now).is_none());
    }
}
