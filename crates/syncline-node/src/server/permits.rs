//! How many connections, or streams, each address has open.
//!
//! An address gets no more than its share, and no more than are free: the fewer are left, the less it may have, so that a
//! few addresses that take what they can leave room for one that comes later. Loopback is not counted: behind it are this
//! machine's own programs, a reverse proxy among them, and they are bounded by the number of all connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::address::network;

/// The counts. Bounded by the number of connections, since an address without any is forgotten.
#[derive(Clone)]
pub(crate) struct AddressPermits {
    per_address: usize,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// The right to one connection, given back when dropped.
pub(crate) struct AddressPermit {
    network: IpAddr,
    taken: Option<Arc<Mutex<HashMap<IpAddr, usize>>>>,
}

impl AddressPermits {
    pub(crate) fn new(per_address: usize) -> AddressPermits {
        AddressPermits { per_address, taken: Arc::default() }
    }

    /// A place for one more from `address`, unless it has its share, or as many as are `free`.
    pub(crate) fn take(&self, address: IpAddr, free: usize) -> Option<AddressPermit> {
        let network = network(address);
        if network.is_loopback() {
            return Some(AddressPermit { network, taken: None });
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(network).or_default();
        // The first is never refused: the count of an address that has none is not kept.
        if *count > 0 && *count >= self.per_address.min(free) {
            return None;
        }
        *count += 1;
        Some(AddressPermit { network, taken: Some(Arc::clone(&self.taken)) })
    }
}

impl Drop for AddressPermit {
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
        let permits = AddressPermits::new(2);
        let (one, other): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let first = permits.take(one, 9);
        let second = permits.take(one, 9);
        assert!(first.is_some() && second.is_some());
        assert!(permits.take(one, 9).is_none());
        assert!(permits.take(other, 9).is_some());
        drop(first);
        assert!(permits.take(one, 9).is_some());
        drop(second);
        assert!(permits.taken.lock().unwrap().is_empty(), "an address without connections is forgotten");
    }

    /// Eight addresses with 512 connections each used to fill all 4,096 places, and nobody else got in.
    #[test]
    fn addresses_that_take_what_they_can_leave_room_for_one_that_comes_later() {
        let (most, permits) = (4_096, AddressPermits::new(512));
        let mut held = Vec::new();
        for round in 0..2_000_u32 {
            for address in 1..=20_u8 {
                let free = most - held.len();
                held.extend(permits.take(IpAddr::from([192, 0, 2, address]), free));
            }
            assert!(held.len() < most, "round {round}");
        }
        let free = most - held.len();
        assert!(free >= most / 21, "{free}");
        assert!(permits.take("198.51.100.1".parse().unwrap(), free).is_some());
    }

    #[test]
    fn loopback_is_not_counted() {
        let permits = AddressPermits::new(1);
        let held: Vec<_> = (0..5).map(|_| permits.take("127.0.0.1".parse().unwrap(), 1)).collect();
        assert!(held.iter().all(Option::is_some));
    }
}
