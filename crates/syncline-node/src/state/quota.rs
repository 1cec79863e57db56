//! Whether a caller may put more into its spaces: how many it has, and how large they are together.
//!
//! A caller's spaces are those that its own grants let it write: of a person the grants with a place for its subject, of a
//! tenant those with a place for the tenant's claim, of a key all that it has. Spaces that many share by a plain grant count for
//! nobody. They are counted every few seconds; in between everything that is sent is added.

use std::time::Duration;

use syncline_core::access::Grants;
use syncline_core::access::quota::Exceeded;

use super::States;
use super::http::in_prefix;
use crate::access::{KnownSpaces, Principal, QuotaHolder};
use crate::clock;
use crate::http::visible::{Page, Visible};
use crate::http::{CallerQuota, Error, exceeded};

/// Spaces that are counted of one caller at most; who has more has too many.
const COUNTED_MAX: usize = 1_000;

/// When to try again: something has to be removed first.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Refuses a batch of so many bytes that would make a caller's spaces too many or too large.
pub(super) async fn check(
    states: &States,
    caller: &Principal,
    quota: &CallerQuota,
    makes_space: bool,
    bytes: usize,
) -> Result<(), Error> {
    for (holder, most) in quota.of_spaces() {
        let now = clock::now();
        let mut known = match quota.known_spaces(holder, now) {
            Some(known) => known,
            None => {
                let grants = caller.own_grants(matches!(holder, QuotaHolder::Tenant(..)));
                let (count, bytes) = counted(states, grants).await?;
                KnownSpaces { at: now, count, bytes }
            }
        };
        let over = |setting| exceeded(Exceeded { setting, retry_after: RETRY_AFTER });
        if makes_space && most.spaces.is_some_and(|most| known.count >= most) {
            quota.learn_spaces(holder, known);
            return Err(over("spaces"));
        }
        if most.space_bytes.is_some_and(|most| known.bytes.saturating_add(bytes as u64) > most) {
            quota.learn_spaces(holder, known);
            return Err(over("space_bytes"));
        }
        known.count += u32::from(makes_space);
        known.bytes = known.bytes.saturating_add(bytes as u64);
        quota.learn_spaces(holder, known);
    }
    Ok(())
}

/// How many spaces these grants let somebody write, and how large they are.
async fn counted(states: &States, grants: &Grants) -> Result<(u32, u64), Error> {
    let visible = Visible::by(grants, "state", "write");
    let mut cut = visible.page(Page { prefix: "", after: None, limit: COUNTED_MAX });
    while let Some(part) = cut.next() {
        let (listed, more) = in_prefix(states, part).await?;
        cut.put(listed, more, |listed| &listed.name);
    }
    let (listed, _) = cut.end();
    let count = u32::try_from(listed.len()).unwrap_or(u32::MAX);
    Ok((count, listed.iter().map(|space| space.bytes).sum()))
}
