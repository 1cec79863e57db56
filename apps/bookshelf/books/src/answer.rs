//! What comes back: an answer as status, headers and bytes, and why it may be of no use.
//!
//! Every reader goes through [`Answer::body`], so one place decides what a status means, how long to wait, and
//! how much is read at all. Whether and when to ask again is decided by the queue; [`Error`] carries the facts.

use std::borrow::Cow;
use std::time::Duration;

use syncline_core::queue::retry_after;
use syncline_core::text::{EXCERPT_MAX_CHARS, excerpt};
use syncline_core::time::Timestamp;

/// Largest body that is looked at. 500 records of the library are about a third of it.
pub const BODY_MAX_BYTES: usize = 8 * 1024 * 1024;

/// An answer as it came over the wire.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The header `Retry-After`, if there is one.
    pub retry_after: Option<&'a str>,
    /// The header `Content-Type`, if there is one.
    pub content_type: Option<&'a str>,
    /// The body; empty for HEAD.
    pub body: &'a [u8],
}

impl<'a> Answer<'a> {
    /// A plain answer without headers of interest.
    #[must_use]
    pub const fn new(status: u16, body: &'a [u8]) -> Self {
        Self { status, retry_after: None, content_type: None, body }
    }

    /// The body as text, if the status says that it is what was asked for. `wall` is the time of day.
    ///
    /// Bytes that are not UTF-8 become replacement characters: one bad letter must not cost a page of records.
    pub fn body(&self, wall: Timestamp) -> Result<Cow<'a, str>, Error> {
        self.check_status(wall)?;
        if self.body.len() > BODY_MAX_BYTES {
            return Err(Error::TooLarge { bytes: self.body.len() });
        }
        Ok(String::from_utf8_lossy(self.body))
    }

    /// What the status means.
    pub fn check_status(&self, wall: Timestamp) -> Result<(), Error> {
        let retry_after = || self.retry_after.and_then(|text| retry_after::parse(text, wall));
        match self.status {
            200..=299 => Ok(()),
            429 => Err(Error::TooManyRequests { retry_after: retry_after() }),
            408 | 425 | 500 | 502 | 503 | 504 => {
                Err(Error::Unavailable { status: self.status, retry_after: retry_after() })
            }
            status => Err(Error::Status { status, detail: excerpt(&String::from_utf8_lossy(self.start())) }),
        }
    }

    /// As much of the body as an explanation may be long.
    fn start(&self) -> &'a [u8] {
        &self.body[..self.body.len().min(4 * EXCERPT_MAX_CHARS)]
    }
}

/// Why an answer is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// We asked too fast.
    #[error("the API says that we ask too fast")]
    TooManyRequests {
        /// How long it wants us to wait, if it said so.
        retry_after: Option<Duration>,
    },
    /// The API is in trouble, and may not be soon.
    #[error("the API is unavailable (status {status})")]
    Unavailable {
        /// The status.
        status: u16,
        /// How long it wants us to wait, if it said so.
        retry_after: Option<Duration>,
    },
    /// Any other status: asking again would change nothing.
    #[error("the API answered with status {status}{}", after_colon(.detail))]
    Status {
        /// The status.
        status: u16,
        /// The start of what it had to say.
        detail: String,
    },
    /// The API understood, and said no.
    #[error("the API refused the request: {detail}")]
    Refused {
        /// What it had to say.
        detail: String,
    },
    /// More than [`BODY_MAX_BYTES`].
    #[error("the answer is {bytes} bytes long; at most {BODY_MAX_BYTES} are read")]
    TooLarge {
        /// How long it is.
        bytes: usize,
    },
    /// Not what the API is known to answer.
    #[error("the answer is malformed: {detail}")]
    Malformed {
        /// What is wrong.
        detail: String,
    },
}

impl Error {
    /// Whether asking again later may help.
    #[must_use]
    pub const fn retryable(&self) -> bool {
        matches!(self, Self::TooManyRequests { .. } | Self::Unavailable { .. })
    }

    /// How long the API asked us to wait.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::TooManyRequests { retry_after } | Self::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    pub(crate) fn malformed(why: impl std::fmt::Display) -> Self {
        Self::Malformed { detail: excerpt(&why.to_string()) }
    }
}

fn after_colon(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(": {detail}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2025-11-11T12:00:00Z
    const NOON: Timestamp = Timestamp::from_ms(1_762_862_400_000);

    #[test]
    fn qu_04_429_and_passing_faults_come_back_and_the_rest_does_not() {
        for status in [429, 408, 425, 500, 502, 503, 504] {
            let answer = Answer { retry_after: Some("9"), ..Answer::new(status, b"") };
            let error = answer.body(NOON).unwrap_err();
            assert_eq!(
                (error.retryable(), error.retry_after()),
                (true, Some(Duration::from_secs(9))),
                "{status}"
            );
        }
        assert!(matches!(
            Answer::new(429, b"").body(NOON),
            Err(Error::TooManyRequests { retry_after: None })
        ));
        for status in [0, 100, 301, 302, 304, 400, 401, 403, 404, 410, 451, 501, 505, 999] {
            let error = Answer::new(status, b" no\n such ").body(NOON).unwrap_err();
            assert_eq!(error, Error::Status { status, detail: "no such".into() });
            assert!(!error.retryable());
        }
        assert_eq!(Answer::new(204, b"").body(NOON), Ok("".into()));
    }

    #[test]
    fn bk_04_a_body_beyond_the_limit_is_not_read() {
        let body = vec![b' '; BODY_MAX_BYTES + 1];
        assert_eq!(Answer::new(200, &body).body(NOON), Err(Error::TooLarge { bytes: body.len() }));
        assert!(Answer::new(200, &body[1..]).body(NOON).is_ok());
        let Err(Error::Status { detail, .. }) = Answer::new(400, &[b'x'; 9_999]).body(NOON) else { panic!() };
        assert_eq!(detail.len(), EXCERPT_MAX_CHARS);
    }
}
