//! Which part of a file is asked for: one range of bytes, as RFC 9110 has it.
//!
//! Several ranges at once are answered with the whole, as a server may; so is a range that cannot be read.

use std::ops::Range;

use http::{HeaderMap, HeaderValue, header};

/// What to send of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of it.
    Whole,
    /// These bytes.
    Part(Range<u64>),
    /// Bytes that there are not.
    Beyond,
}

/// What `headers` ask for of a file of `length` bytes known as `etag`.
pub(crate) fn wanted(headers: &HeaderMap, length: u64, etag: &HeaderValue) -> Wanted {
    // A range of an older file is no range of this one.
    if headers.get(header::IF_RANGE).is_some_and(|known| known != etag) {
        return Wanted::Whole;
    }
    let asked = headers.get(header::RANGE).and_then(|value| value.to_str().ok());
    let Some((first, last)) = asked.and_then(parse) else { return Wanted::Whole };
    let range = match (first, last) {
        (Some(first), last) => first..last.map_or(length, |last| last.saturating_add(1)).min(length),
        (None, Some(suffix)) => length.saturating_sub(suffix)..length,
        (None, None) => return Wanted::Whole,
    };
    if range.is_empty() { Wanted::Beyond } else { Wanted::Part(range) }
}

/// Whether a list of tags in a condition has this one.
pub(crate) fn names(condition: &HeaderValue, etag: &HeaderValue) -> bool {
    let mut listed = condition.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    listed.any(|tag| tag == b"*" || tag.strip_prefix(b"W/").unwrap_or(tag) == etag.as_bytes())
}

/// `bytes=first-last`, either of which may be left out.
fn parse(text: &str) -> Option<(Option<u64>, Option<u64>)> {
    let (unit, range) = text.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let number = |digits: &str| match digits.trim() {
        "" => Some(None),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(Some(digits.parse().unwrap_or(u64::MAX)))
        }
        _ => None,
    };
    let (first, last) = (number(first)?, number(last)?);
    match (first, last) {
        (None, None) => None,
        (Some(first), Some(last)) if first > last => None,
        range => Some(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ss_09_one_range_is_a_part_and_anything_else_the_whole() {
        let etag = HeaderValue::from_static("\"tag\"");
        let of = |range: &str, length| {
            let headers = HeaderMap::from_iter([(header::RANGE, range.parse().unwrap())]);
            wanted(&headers, length, &etag)
        };
        for (range, expected) in [
            ("bytes=0-0", Wanted::Part(0..1)),
            ("bytes=0-", Wanted::Part(0..100)),
            ("bytes=10-19", Wanted::Part(10..20)),
            ("bytes=90-200", Wanted::Part(90..100)),
            ("bytes=-1", Wanted::Part(99..100)),
            ("bytes=-500", Wanted::Part(0..100)),
            ("Bytes = 5-6", Wanted::Part(5..7)),
            ("bytes=100-", Wanted::Beyond),
            ("bytes=99999999999999999999999-", Wanted::Beyond),
            ("bytes=-0", Wanted::Beyond),
            ("bytes=9-3", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=0-1,5-6", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("lines=0-1", Wanted::Whole),
            ("0-1", Wanted::Whole),
            ("", Wanted::Whole),
        ] {
            assert_eq!(of(range, 100), expected, "{range}");
        }
        assert_eq!(of("bytes=0-", 0), Wanted::Beyond);
        assert_eq!(of("bytes=-5", 0), Wanted::Beyond);
    }

    #[test]
    fn ss_09_a_range_of_another_file_is_not_a_range_of_this_one() {
        let etag = HeaderValue::from_static("\"tag\"");
        let ask = |if_range: &'static str| {
            let headers = [
                (header::RANGE, HeaderValue::from_static("bytes=0-1")),
                (header::IF_RANGE, HeaderValue::from_static(if_range)),
            ];
            wanted(&HeaderMap::from_iter(headers), 100, &etag)
        };
        assert_eq!(ask("\"tag\""), Wanted::Part(0..2));
        assert_eq!(ask("\"other\""), Wanted::Whole);
        assert_eq!(ask("W/\"tag\""), Wanted::Whole);
        assert!(names(&HeaderValue::from_static("\"a\", W/\"tag\""), &etag));
        assert!(names(&HeaderValue::from_static("*"), &etag));
        assert!(!names(&HeaderValue::from_static("\"a\", \"b\""), &etag));
    }
}
