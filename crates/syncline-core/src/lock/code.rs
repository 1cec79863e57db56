//! What can go wrong with a project lock in a page: seven codes, and what each means for whoever meets it.

use std::fmt;

/// Why an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// The browser has no Web Locks, refused one, or did not grant it in time.
    WebLockUnavailable,
    /// The caller's signal was aborted.
    WebLockAborted,
    /// The place of the record cannot be opened at all.
    FallbackOpenFailed,
    /// The record could not be read this time.
    FallbackReadFailed,
    /// The record could not be written or removed this time.
    FallbackWriteFailed,
    /// The lease is not the one this context holds, or it holds one already.
    LeaseMismatch,
    /// The lease has ended.
    LeaseExpired,
}

/// How loudly a failure is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Somebody wanted it so.
    Info,
    /// It may pass by itself.
    Warn,
    /// Something is broken.
    Error,
}

impl Code {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::WebLockUnavailable,
        Self::WebLockAborted,
        Self::FallbackOpenFailed,
        Self::FallbackReadFailed,
        Self::FallbackWriteFailed,
        Self::LeaseMismatch,
        Self::LeaseExpired,
    ];

    /// The stable word that programs compare.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WebLockUnavailable => "web-lock-unavailable",
            Self::WebLockAborted => "web-lock-aborted",
            Self::FallbackOpenFailed => "fallback-open-failed",
            Self::FallbackReadFailed => "fallback-read-failed",
            Self::FallbackWriteFailed => "fallback-write-failed",
            Self::LeaseMismatch => "lease-mismatch",
            Self::LeaseExpired => "lease-expired",
        }
    }

    /// Whether the same request may succeed later.
    #[must_use]
    pub const fn retryable(self) -> bool {
        matches!(self, Self::WebLockUnavailable | Self::FallbackReadFailed | Self::FallbackWriteFailed)
    }

    /// How loudly it is logged.
    #[must_use]
    pub const fn level(self) -> Level {
        match self {
            Self::WebLockAborted => Level::Info,
            Self::WebLockUnavailable | Self::FallbackReadFailed | Self::LeaseExpired => Level::Warn,
            Self::FallbackOpenFailed | Self::FallbackWriteFailed | Self::LeaseMismatch => Level::Error,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lk_05_every_code_with_its_word_retryable_and_level() {
        let table = [
            ("web-lock-unavailable", true, Level::Warn),
            ("web-lock-aborted", false, Level::Info),
            ("fallback-open-failed", false, Level::Error),
            ("fallback-read-failed", true, Level::Warn),
            ("fallback-write-failed", true, Level::Error),
            ("lease-mismatch", false, Level::Error),
            ("lease-expired", false, Level::Warn),
        ];
        assert_eq!(Code::ALL.map(|code| (code.as_str(), code.retryable(), code.level())), table);
    }
}
