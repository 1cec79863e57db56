//! The few lines of DER that a public key in a PEM file needs.
//!
//! Reads `SubjectPublicKeyInfo` and the two numbers of an RSA key. Whatever is not exactly that is `None`: lengths that are
//! longer than they have to be, bytes that are left over, an algorithm that is none of ours.

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT_ID: u8 = 0x06;

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// A public key as the file has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PublicKey<'a> {
    /// The modulus and the exponent.
    Rsa { n: &'a [u8], e: &'a [u8] },
    /// A point of P-256.
    P256(&'a [u8]),
    /// A point of Curve25519.
    Ed25519(&'a [u8]),
}

/// The key in a `SubjectPublicKeyInfo`.
pub(super) fn public_key(info: &[u8]) -> Option<PublicKey<'_>> {
    let body = whole(info, SEQUENCE)?;
    let (algorithm, rest) = value(body, SEQUENCE)?;
    let (&unused_bits, key) = whole(rest, BIT_STRING)?.split_first()?;
    if unused_bits != 0 {
        return None;
    }
    let (kind, parameters) = value(algorithm, OBJECT_ID)?;
    match kind {
        RSA => {
            let (n, rest) = value(whole(key, SEQUENCE)?, INTEGER)?;
            Some(PublicKey::Rsa { n: magnitude(n)?, e: magnitude(whole(rest, INTEGER)?)? })
        }
        EC if whole(parameters, OBJECT_ID)? == P256 => Some(PublicKey::P256(key)),
        ED25519 if parameters.is_empty() => Some(PublicKey::Ed25519(key)),
        _ => None,
    }
}

/// A positive number without the zero that keeps it positive.
fn magnitude(integer: &[u8]) -> Option<&[u8]> {
    match integer {
        [] => None,
        [0, rest @ ..] => Some(rest),
        [first, ..] => (first & 0x80 == 0).then_some(integer),
    }
}

/// The content of the one value that `input` is.
fn whole(input: &[u8], tag: u8) -> Option<&[u8]> {
    let (content, rest) = value(input, tag)?;
    rest.is_empty().then_some(content)
}

/// The content of the first value, and what is behind it.
fn value(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        ..=0x7f => (usize::from(first), rest),
        0x81 => {
            let (&length, rest) = rest.split_first()?;
            (usize::from(length), rest)
        }
        0x82 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        _ => return None,
    };
    let is_shortest = match first {
        0x81 => length >= 0x80,
        0x82 => length >= 0x100,
        _ => true,
    };
    if found != tag || !is_shortest {
        return None;
    }
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ac_05_what_is_not_exactly_a_public_key_is_refused() {
        let mut info = vec![0x30, 42, 0x30, 5, 0x06, 3, 0x2b, 0x65, 0x70, 0x03, 33, 0];
        info.extend([7; 32]);
        assert_eq!(public_key(&info), Some(PublicKey::Ed25519(&[7; 32])));
        for length in 0..info.len() {
            assert_eq!(public_key(&info[..length]), None, "{length}");
        }
        let longer: Vec<u8> = info.iter().copied().chain([0]).collect();
        assert_eq!(public_key(&longer), None);
        for (at, byte) in [(0, 0x31), (1, 41), (4, 0x05), (8, 0x71), (11, 1)] {
            let mut changed = info.clone();
            changed[at] = byte;
            assert_eq!(public_key(&changed), None, "byte {at}");
        }
        assert_eq!(value(&[0x30, 0x81, 1, 0], SEQUENCE), None, "a length that is longer than it has to be");
    }
}
