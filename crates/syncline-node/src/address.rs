//! Who counts as one caller.

use std::net::{IpAddr, Ipv6Addr};

/// The network an address belongs to, for limits per caller: an IPv4 address stands for itself (also when written as
/// IPv6), an IPv6 address for its /64, which is the least a single customer is given.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        canonical => canonical,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_an_ipv4_address_or_a_64_of_ipv6() {
        let cases = [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("::1", "::1"),
            ("::ffff:127.0.0.1", "127.0.0.1"),
        ];
        for (address, expected) in cases {
            assert_eq!(network(address.parse().unwrap()).to_string(), expected);
        }
    }
}
