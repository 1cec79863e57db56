//! How many connections each address has open.
//!
//! Loopback is not counted: behind it are this machine's own programs, a reverse proxy among them, and they are bounded by
//! the number of all connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::address::network;

/// The counts. Bounded by the number of connections, since an address without any is forgotten.
#[derive(Clone)]
pub(super) struct Places {
    per_address: usize,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// The right to one connection, given back when dropped.
pub(super) struct Place {
    network: IpAddr,
    taken: Option<Arc<Mutex<HashMap<IpAddr, usize>>>>,
}

impl Places {
    pub(super) fn new(per_address: usize) -> Places {
        Places { per_address, taken: Arc::default() }
    }

    /// A place for a connection from `address`, unless it has its share.
    pub(super) fn take(&self, address: IpAddr) -> Option<Place> {
        let network = network(address);
        if network.is_loopback() {
            return Some(Place { network, taken: None });
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(network).or_default();
        if *count >= self.per_address {
            return None;
        }
        *count += 1;
        Some(Place { network, taken: Some(Arc::clone(&self.taken)) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(taken) = &self.taken else { return };
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_its_share_and_gives_it_back() {
        let places = Places::new(2);
        let (one, other): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let first = places.take(one);
        let second = places.take(one);
        assert!(first.is_some() && second.is_some());
        assert!(places.take(one).is_none());
        assert!(places.take(other).is_some());
        drop(first);
        assert!(places.take(one).is_some());
        drop(second);
        assert!(places.taken.lock().unwrap().is_empty(), "an address without connections is forgotten");
    }

    #[test]
    fn loopback_is_not_counted() {
        let places = Places::new(1);
        let held: Vec<_> = (0..5).map(|_| places.take("127.0.0.1".parse().unwrap())).collect();
        assert!(held.iter().all(Option::is_some));
    }
}
