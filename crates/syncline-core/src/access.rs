//! Who may do what: grants that only add.
//!
//! A grant is written `system:name:verbs`, as in `state:cart-7:read,write` or `lock:doc:*:hold,see`. It is cut at its first
//! and its last colon, so a name may have colons. A name is exact or ends in `*`, and `*` alone means everything of that
//! system. There are no regular expressions, no rules that deny, and no order: a caller may do what at least one of its
//! grants allows.
//!
//! - [`Need`]: what one request asks for
//! - [`Grant`], [`Grants`]: what a caller was given
//! - [`GrantTemplate`], [`Ceiling`]: what an issuer may give, with places such as `{sub}` that a token's claims fill
//! - [`Refresh`]: when a client asks for the next token
//! - [`Revocations`]: tokens that were taken back before their end
//! - [`rate`], [`quota`]: how much a caller may use in a time, and at once
//! - [`guesses`]: wrong credentials of one address; [`refusals`]: what of refusals is recorded
//!
//! Guarantees: more grants never refuse more, narrowing never widens, and two values of a claim never fill one template with
//! the same names. Whether a token is genuine is not decided here.

mod grant;
pub mod guesses;
pub mod quota;
pub mod rate;
mod refresh;
pub mod refusals;
mod revocation;
mod template;

pub use grant::{Grant, Grants};
pub use refresh::{EARLY, Refresh, Step};
pub use revocation::{IssuedToken, Revocation, Revocations};
pub use template::{Ceiling, GrantTemplate};

use std::fmt;

/// Longest grant in bytes of UTF-8, written out with its claims filled in.
pub const GRANT_MAX_BYTES: usize = 1_024;

/// Most grants in one list: of a key, of an issuer, or of a token.
pub const GRANTS_MAX: usize = 100;

/// Verbs of what cannot be undone. They are recorded in the audit whoever uses them.
pub const IRREVERSIBLE: [&str; 5] = ["reset", "force", "manage", "run", "revoke"];

/// What one request needs: a verb of a system, on a thing with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need<'a> {
    /// The system, as in `state`.
    pub system: &'a str,
    /// What is to be done, as in `read`.
    pub verb: &'a str,
    /// The thing it is done to. `None` asks whether there may be any: the answer is then cut to what may be seen.
    pub name: Option<&'a str>,
}

impl fmt::Display for Need<'_> {
    /// The grant that would allow it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.system, self.name.unwrap_or("*"), self.verb)
    }
}

/// Why a text is no grant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidGrant {
    /// It has fewer than two colons.
    #[error("expected system:name:verbs, as in state:cart-7:read,write, found {0:?}")]
    NotThreeParts(String),
    /// It is longer than [`GRANT_MAX_BYTES`].
    #[error("a grant has at most {GRANT_MAX_BYTES} bytes, found {bytes}")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// The system is no word.
    #[error("a system is a word of a-z, 0-9 and -, as in state, found {0:?}")]
    System(String),
    /// A verb is no word, or there is none.
    #[error("verbs are words of a-z and - with commas between, as in read,write, found {0:?}")]
    Verb(String),
    /// The name is empty.
    #[error("the name is missing: write one, as in state:cart-7:read, or * for every name")]
    NoName,
    /// A star stands elsewhere than at the end.
    #[error("a * may only end a name, as in doc:*, found {0:?}")]
    Star(String),
    /// The name has a control character.
    #[error("the name {0:?} has a control character, and no name may have one")]
    Control(String),
    /// A brace opens or closes no place for a claim.
    #[error("a place for a claim is written {{sub}}, or {{sub#}} for the hash of its value, found {0:?}")]
    Place(String),
    /// What follows the place of a claim does not end its value.
    #[error(
        "what follows {place} does not end its value, so two values could reach the same names: put a separator \
         behind it, as in cart-{place}.*"
    )]
    Open {
        /// The place.
        place: String,
    },
    /// There is a place for a claim where there are no claims.
    #[error("{place} is filled from the claims of a token, and here is none: write the name itself")]
    Unfilled {
        /// The place.
        place: String,
    },
}
