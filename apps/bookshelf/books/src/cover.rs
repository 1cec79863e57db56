//! Where a book's cover picture is, in as few characters as possible.
//!
//! - [`CoverUrl`]: a URL that may be shown: http or https, bounded, free of anything that could break out
//! - [`Compressed`]: the six short forms a URL is exchanged in; every URL survives the round trip
//! - [`CoverCache`]: the covers a page remembers in localStorage, never more than 2 MiB
//!
//! Fetching pictures, and deciding which of several covers is the best, are the business of others.

mod cache;
mod compressed;
mod packed;
mod segment;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

pub use cache::{CoverCache, Inserted, Write};
pub use compressed::{Compressed, Malformed};
pub use segment::{KEY_PREFIX, SEGMENT_BYTES, SEGMENTS, STORED_MAX_BYTES};

/// Longest cover URL. The APIs' own are under 200; beyond this, caches and proxies start to differ.
pub const URL_MAX_BYTES: usize = 2_048;

/// A URL that may be used as a cover: `http` or `https`, with a host, without credentials, and without any
/// character that could end an attribute or be read as something else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct CoverUrl(String);

impl CoverUrl {
    /// Checks `text` and takes it as it is: a cover is found again by exactly the URL that was stored.
    pub fn parse(text: impl Into<String>) -> Result<Self, Refused> {
        let text = text.into();
        check(&text)?;
        Ok(Self(text))
    }

    /// The URL's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is not accepted as a cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Longer than [`URL_MAX_BYTES`].
    #[error("cover URL is {bytes} bytes long; at most {URL_MAX_BYTES} are allowed")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// Neither http nor https.
    #[error("cover URL must begin with http:// or https://")]
    Scheme,
    /// A space, control character, quote, angle bracket or backslash.
    #[error("cover URL has {character:?} at byte {at}, which must be percent-encoded")]
    Character {
        /// The character.
        character: char,
        /// Where it stands.
        at: usize,
    },
    /// Nothing between the slashes.
    #[error("cover URL names no host")]
    Host,
    /// A user name or password before the host.
    #[error("cover URL contains credentials")]
    Credentials,
}

fn check(text: &str) -> Result<(), Refused> {
    if text.len() > URL_MAX_BYTES {
        return Err(Refused::TooLong { bytes: text.len() });
    }
    let rest = after_scheme(text).ok_or(Refused::Scheme)?;
    // A page remembers tens of thousands of these, hardly one of which is not plain; the others are looked at again.
    if !text.bytes().all(|byte| PLAIN[usize::from(byte)])
        && let Some((at, character)) =
            text.char_indices().find(|(_, character)| !may_stand_in_url(*character))
    {
        return Err(Refused::Character { character, at });
    }
    let end = rest.bytes().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    let authority = &rest.as_bytes()[..end.unwrap_or(rest.len())];
    if authority.contains(&b'@') {
        return Err(Refused::Credentials);
    }
    if authority.is_empty() || authority[0] == b':' {
        return Err(Refused::Host);
    }
    Ok(())
}

/// The bytes that are a character by themselves and may stand in a URL.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = b'!';
    while byte <= b'~' {
        plain[byte as usize] = !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'`');
        byte += 1;
    }
    plain
};

fn after_scheme(text: &str) -> Option<&str> {
    let after = |scheme: &str| {
        let (start, rest) = text.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    after("http://").or_else(|| after("https://"))
}

/// Letters of any script are let through: browsers encode them. The rest could end an attribute, start a tag
/// or be read as a slash.
fn may_stand_in_url(character: char) -> bool {
    !(character.is_control()
        || character.is_whitespace()
        || matches!(character, '"' | '<' | '>' | '\\' | '`'))
}

impl fmt::Display for CoverUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for CoverUrl {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<CoverUrl> for String {
    fn from(url: CoverUrl) -> Self {
        url.0
    }
}

impl<'de> Deserialize<'de> for CoverUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bk_05_only_web_addresses_are_accepted_as_covers() {
        for good in [
            "https://ndlsearch.ndl.go.jp/thumbnail/9784000000079.jpg",
            "http://books.google.com/books/content?id=abc&printsec=frontcover",
            "https://thumbnail.image.rakuten.co.jp/@0_mall/book/cabinet/0079/9784000000079.jpg?_ex=200x200",
            "HTTPS://example.net",
            "http://127.0.0.1:8080/thumbnail/9784000000079.jpg",
            "https://例え.jp/表紙.jpg#1",
        ] {
            assert_eq!(CoverUrl::parse(good).map(String::from), Ok(good.into()));
        }
        for (bad, reason) in [
            ("", Refused::Scheme),
            ("n", Refused::Scheme),
            ("//example.net/a.jpg", Refused::Scheme),
            ("javascript:alert(1)//://", Refused::Scheme),
            ("javascript://example.net/%0aalert(1)", Refused::Scheme),
            ("data:image/svg+xml,<svg/>", Refused::Scheme),
            ("https:///a.jpg", Refused::Host),
            ("https://:80/a.jpg", Refused::Host),
            ("https://?q", Refused::Host),
            ("https://user:word@example.net/a.jpg", Refused::Credentials),
            ("https://example.net/a b.jpg", Refused::Character { character: ' ', at: 21 }),
            ("https://example.net/\"onerror=", Refused::Character { character: '"', at: 20 }),
            ("https:\\\\example.net", Refused::Scheme),
            ("https://example.net\\@example.org", Refused::Character { character: '\\', at: 19 }),
            ("https://example.net/a\u{0}", Refused::Character { character: '\u{0}', at: 21 }),
        ] {
            assert_eq!(CoverUrl::parse(bad), Err(reason), "{bad:?}");
        }
        for byte in 0..128_u8 {
            assert_eq!(PLAIN[usize::from(byte)], may_stand_in_url(char::from(byte)), "{byte}");
        }
        let long = format!("https://example.net/{}", "a".repeat(URL_MAX_BYTES));
        assert_eq!(CoverUrl::parse(long), Err(Refused::TooLong { bytes: URL_MAX_BYTES + 20 }));
    }
}
