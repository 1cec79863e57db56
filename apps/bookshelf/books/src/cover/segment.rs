//! One value in localStorage: a 64th of the cache, whole in itself.
//!
//! The cache is a ring of segments under keys of their own, so that remembering one more cover rewrites one
//! small value and not all of them. No segment outgrows its share, whoever wrote it and however many tabs did,
//! so the ring as a whole cannot outgrow [`STORED_MAX_BYTES`].
//!
//! Text of a segment: version, sequence number, number of old entries, new entries, old entries, checksum.
//! The sequence number tells the order of the segments; the old entries are what the lap before left in this
//! segment and the current one has not yet overwritten. A segment that does not read perfectly is treated as
//! absent: a cache may forget, but must not show a wrong cover.

use super::packed::{self, read_number, write_number};

/// How many values the cache is spread over.
pub const SEGMENTS: usize = 64;

/// The most one of them takes, key included, at two bytes per UTF-16 unit, as browsers count.
pub const SEGMENT_BYTES: usize = 32 * 1024;

/// The most they take together: 2 MiB.
pub const STORED_MAX_BYTES: usize = SEGMENTS * SEGMENT_BYTES;

/// What the keys of all segments begin with; two digits follow.
pub const KEY_PREFIX: &str = "syncline.cover.";

/// UTF-16 units per segment that are not entries.
pub(super) const OVERHEAD_UNITS: usize = KEY_PREFIX.len() + 2 + HEADER_BYTES + CHECKSUM_DIGITS;

/// UTF-16 units per segment that are left for entries.
pub(super) const BODY_UNITS: usize = SEGMENT_BYTES / 2 - OVERHEAD_UNITS;

/// Sequence numbers from outside stay below this, so that a forged one leaves room to count on.
const SEQUENCE_MAX: u32 = 1 << 31;

const VERSION: &str = "1";
const CHECKSUM_DIGITS: usize = 5;
const SEQUENCE_DIGITS: usize = 5;
const OLD_DIGITS: usize = 2;
/// All but the entries is ASCII: bytes and UTF-16 units are the same.
const HEADER_BYTES: usize = VERSION.len() + SEQUENCE_DIGITS + OLD_DIGITS;

/// The key of the segment at `index`.
pub(super) fn key(index: usize) -> String {
    format!("{KEY_PREFIX}{index:02}")
}

/// Which segment a key belongs to.
pub(super) fn index_of(key: &str) -> Option<usize> {
    let digits = key.strip_prefix(KEY_PREFIX).filter(|digits| digits.len() == 2)?;
    // `parse` alone would take "+1".
    let index = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    (index < SEGMENTS).then_some(index)
}

/// A segment as text.
pub(super) fn encode(sequence: u32, fresh: &str, old: &str, old_entries: usize) -> String {
    let mut text = String::with_capacity(HEADER_BYTES + fresh.len() + old.len() + CHECKSUM_DIGITS);
    text.push_str(VERSION);
    write_number(&mut text, sequence, SEQUENCE_DIGITS);
    write_number(&mut text, old_entries as u32, OLD_DIGITS);
    text.push_str(fresh);
    text.push_str(old);
    let sum = checksum(text.as_bytes());
    write_number(&mut text, sum, CHECKSUM_DIGITS);
    text
}

/// A segment read back: every entry in it is sound.
pub(super) struct Decoded<'a> {
    pub(super) sequence: u32,
    pub(super) fresh: Part<'a>,
    pub(super) old: Part<'a>,
}

/// A run of entries.
pub(super) struct Part<'a> {
    pub(super) text: &'a str,
    pub(super) units: usize,
    /// Number of the ISBN and offset in `text` of each entry.
    pub(super) places: Vec<(u32, u32)>,
}

/// Reads the segment at `index`. `None` if it is corrupt, foreign, empty or too large.
pub(super) fn decode(index: usize, text: &str) -> Option<Decoded<'_>> {
    // Three bytes are the most that UTF-8 spends on one unit.
    if text.len() > SEGMENT_BYTES / 2 * 3 {
        return None;
    }
    let (checked, sum) = text.split_at_checked(text.len().checked_sub(CHECKSUM_DIGITS)?)?;
    let (header, body) = checked.split_at_checked(HEADER_BYTES)?;
    let (sequence, old) = header.strip_prefix(VERSION)?.split_at_checked(SEQUENCE_DIGITS)?;
    let (sequence, old) = (read_number(sequence)?, read_number(old)? as usize);
    if read_number(sum)? != checksum(checked.as_bytes())
        || sequence >= SEQUENCE_MAX
        || sequence as usize % SEGMENTS != index
    {
        return None;
    }
    let places = places(body)?;
    let fresh = places.len().checked_sub(old)?;
    let boundary = places.get(fresh).map_or(body.len(), |(_, offset)| *offset as usize);
    let decoded = Decoded {
        sequence,
        fresh: Part::new(&body[..boundary], &places[..fresh], 0),
        old: Part::new(&body[boundary..], &places[fresh..], boundary),
    };
    let units = decoded.fresh.units + decoded.old.units;
    (0 < units && units <= BODY_UNITS).then_some(decoded)
}

impl<'a> Part<'a> {
    fn new(text: &'a str, places: &[(u32, u32)], from: usize) -> Self {
        let places = places.iter().map(|(number, offset)| (*number, offset - from as u32)).collect();
        Self { text, units: units(text), places }
    }
}

/// How much of its share a text takes in localStorage.
pub(super) fn units(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

/// Where each entry of `body` begins; `None` if one of them is not sound.
fn places(body: &str) -> Option<Vec<(u32, u32)>> {
    let mut places = Vec::new();
    let mut at = 0;
    while at < body.len() {
        let entry = packed::read(&body[at..])?;
        entry.form()?;
        places.push((entry.isbn.number(), at as u32));
        at += entry.bytes;
    }
    Some(places)
}

/// Notices accidents (a half-written value, a stray edit); it is no protection against intent. It runs over a
/// whole segment whenever one is written, hence words instead of bytes, and four lanes that need not wait for
/// each other.
fn checksum(bytes: &[u8]) -> u32 {
    let mut lanes = [bytes.len() as u64, 1, 2, 3];
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    let hash = rest.iter().map(|byte| u64::from(*byte)).chain(lanes).fold(0, mix);
    // Five digits of base 75 hold 31 bits.
    (hash ^ (hash >> 32)) as u32 & 0x7fff_ffff
}

fn mix(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bk_06_the_ring_is_two_mebibytes_and_every_segment_has_its_key() {
        assert_eq!(STORED_MAX_BYTES, 2 * 1024 * 1024);
        for index in 0..SEGMENTS {
            assert_eq!(index_of(&key(index)), Some(index));
            assert_eq!(2 * (key(index).len() + HEADER_BYTES + BODY_UNITS + CHECKSUM_DIGITS), SEGMENT_BYTES);
        }
        for foreign in
            ["syncline.cover.", "syncline.cover.64", "syncline.cover.+1", "syncline.cover.001", "other"]
        {
            assert_eq!(index_of(foreign), None);
        }
    }

    #[test]
    fn bk_06_any_single_change_to_a_segment_is_noticed() {
        let text = encode(64, "00000n00001n", "00002s", 1);
        assert!(decode(0, &text).is_some());
        assert!(decode(1, &text).is_none(), "a segment under another's key");
        for at in 0..text.len() {
            for byte in b' '..=b'~' {
                let mut changed = text.clone().into_bytes();
                changed[at] = byte;
                let changed = String::from_utf8(changed).unwrap();
                assert_eq!(decode(0, &changed).is_some(), changed == text, "{changed:?}");
            }
            assert!(decode(0, &text[..at]).is_none(), "cut at {at}");
        }
    }
}
