//! How fast one address may open new sessions.
//!
//! A minute's worth may come at once and then refills steadily (the generic cell rate algorithm: all there is to remember
//! of an address is one moment). The table is bounded: addresses whose allowance is whole again are forgotten, and if that
//! does not make room, new addresses share one allowance instead of getting one each.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use syncline_core::time::Timestamp;

use crate::address::network;

/// Addresses remembered at a time: some 4 MB.
const ADDRESSES_MAX: usize = 65_536;

/// The allowance addresses share when there is no room for more. No caller has this address.
const SHARED: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// A minute, as the period of an allowance.
const PERIOD: Duration = Duration::from_secs(60);

pub(crate) struct AddressRate {
    per_minute: u32,
    addresses_max: usize,
    /// When each address would have its whole allowance again, in microseconds.
    whole_at_us: HashMap<IpAddr, u64>,
}

impl AddressRate {
    pub(crate) fn new(per_minute: u32) -> AddressRate {
        AddressRate {
            per_minute: per_minute.max(1),
            addresses_max: ADDRESSES_MAX,
            whole_at_us: HashMap::new(),
        }
    }

    /// Lets one more session of `address` in, or says how long it has to wait.
    pub(crate) fn admit(&mut self, now: Timestamp, address: IpAddr) -> Result<(), Duration> {
        let now_us = now.as_ms().saturating_mul(1_000);
        let address = self.place(now_us, network(address));
        let period_us = PERIOD.as_micros() as u64;
        let step_us = (period_us / u64::from(self.per_minute)).max(1);
        let whole_at_us = self.whole_at_us.entry(address).or_default();
        let next_us = (*whole_at_us).max(now_us) + step_us;
        let latest_us = now_us + period_us.max(step_us);
        if next_us > latest_us {
            return Err(Duration::from_micros(next_us - latest_us));
        }
        *whole_at_us = next_us;
        Ok(())
    }

    fn place(&mut self, now_us: u64, address: IpAddr) -> IpAddr {
        if self.whole_at_us.len() < self.addresses_max || self.whole_at_us.contains_key(&address) {
            return address;
        }
        self.whole_at_us.retain(|_, whole_at_us| *whole_at_us > now_us);
        if self.whole_at_us.len() < self.addresses_max { address } else { SHARED }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(1_000_000 + ms)
    }

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number))
    }

    #[test]
    fn vw_21_a_minutes_worth_may_come_at_once_and_refills_steadily() {
        let mut address_rate = AddressRate::new(60);
        for _ in 0..60 {
            address_rate.admit(at(0), address(1)).unwrap();
        }
        assert_eq!(address_rate.admit(at(0), address(1)), Err(Duration::from_secs(1)));
        address_rate.admit(at(0), address(2)).unwrap();
        address_rate.admit(at(1_000), address(1)).unwrap();
        assert!(address_rate.admit(at(1_500), address(1)).is_err());
        for _ in 0..60 {
            address_rate.admit(at(120_000), address(1)).unwrap();
        }
        assert!(address_rate.admit(at(120_000), address(1)).is_err());
    }

    #[test]
    fn vw_21_the_table_is_bounded_and_strangers_share_when_it_is_full() {
        let mut address_rate = AddressRate { addresses_max: 4, ..AddressRate::new(2) };
        for number in 0..1_000 {
            let admitted = address_rate.admit(at(0), address(number)).is_ok();
            assert_eq!(
                admitted,
                number < 6,
                "four allowances of their own, then one of two sessions: {number}"
            );
        }
        assert!(address_rate.whole_at_us.len() <= 5);
        address_rate.admit(at(0), address(1)).unwrap();
        address_rate.admit(at(60_000), address(7)).unwrap();
        assert!(address_rate.whole_at_us.len() <= 2, "addresses with a whole allowance are forgotten");
    }

    #[test]
    fn vw_21_one_customer_of_ipv6_is_one_address() {
        let mut address_rate = AddressRate::new(1);
        address_rate.admit(at(0), "2001:db8::1".parse().unwrap()).unwrap();
        assert!(address_rate.admit(at(0), "2001:db8::2".parse().unwrap()).is_err());
        address_rate.admit(at(0), "2001:db8:0:1::1".parse().unwrap()).unwrap();
    }
}
