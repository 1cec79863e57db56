//! What callers may show beside the owner's token: none yet.

use std::sync::Arc;

use http::HeaderValue;
use syncline_core::time::Timestamp;

use super::Principal;

/// Why a credential is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is no credential of ours.
    Unknown,
    /// Its time is over.
    Expired,
    /// It is broken, and this is what is wrong with it.
    Invalid(&'static str),
    /// It was taken back.
    Revoked,
}

/// The credentials of a node.
#[derive(Debug, Clone, Default)]
pub struct Credentials;

impl Credentials {
    /// Who shows it.
    pub fn principal(&self, _bearer: &[u8], _now: Timestamp) -> Result<Arc<Principal>, Refusal> {
        Err(Refusal::Unknown)
    }

    /// Whether any of them lists an origin.
    pub fn lists_origin(&self, _origin: &HeaderValue) -> bool {
        false
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        true
    }
}
