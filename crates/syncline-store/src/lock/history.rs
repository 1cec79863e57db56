//! What a new history of the servers means for leases. Only PostgreSQL has one.
//!
//! A standby that is promoted begins a new timeline. Where commits waited for a standby, it has everything that was granted.
//! Where they did not, the last grants may be gone with the old primary, and their holders do not know. So the first who asks for a
//! lock on another timeline than before ends all leases, lets tokens go on far above those that are known, and has nobody granted
//! anything until the longest lease there may have been is over. That is counted from this moment on the server's clock, which is
//! after the promotion.
//!
//! Guarantees: [`settle`] is what grants and renewals need done before they can succeed; without it they find no row. Leases longer
//! than any before are announced to the floor first, so that a standby knows of them.

use crate::Error;
use crate::database::{Transaction, statements_of, values};

statements_of!("lock.postgres": FLOOR, KEEP_FLOOR, LAST_END, END_ALL, GO_ABOVE);

/// What the floor says where no longer lease is known: longer than the leases that holders usually ask for.
const LONGEST_USUAL_MS: i64 = 60_000;
/// A longer one is forgotten so long after it was asked for first.
const LONGEST_KEPT_MS: i64 = 3_600_000;
/// Tokens follow the time of day in microseconds. The clock of another server may be behind by an hour.
const TOKENS_ABOVE: i64 = 3_600_000_000;

/// The floor as it was found, and what the server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Floor {
    known_history: String,
    history: String,
    longest_ttl_ms: i64,
    longest_at_ms: i64,
    quiet_until_ms: i64,
    now_ms: i64,
}

/// What is to be done about it.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// Whether grants may be gone that nobody knows of.
    lost: bool,
    longest_ttl_ms: i64,
    longest_at_ms: i64,
    /// Whether the floor changes.
    changes: bool,
}

/// Makes the floor fit the server's history and a lease of `ttl_ms`, unless somebody else has just done so: what was refused before may
/// succeed now. For how much longer nobody is granted anything, in milliseconds.
pub(crate) async fn settle(
    transaction: &mut Transaction<'_>,
    ttl_ms: i64,
    clock_token_max: i64,
) -> Result<i64, Error> {
    let found: Option<(String, String, i64, i64, i64, i64)> =
        transaction.query_first(FLOOR.into(), &[]).await?;
    let Some((known_history, history, longest_ttl_ms, longest_at_ms, quiet_until_ms, now_ms)) = found else {
        return Err(Error::invalid("lock_floor", "has no row"));
    };
    let floor = Floor { known_history, history, longest_ttl_ms, longest_at_ms, quiet_until_ms, now_ms };
    let plan = plan(&floor, ttl_ms);
    let mut quiet_until_ms = floor.quiet_until_ms;
    if plan.lost {
        let last: Option<(i64, i64)> = transaction.query_first(LAST_END.into(), &[]).await?;
        let (last_end_ms, last_token) = last.unwrap_or_default();
        // Leases that are known may have been renewed, and those that are not are no longer than the longest.
        quiet_until_ms = quiet_until_ms.max(now_ms + floor.longest_ttl_ms).max(last_end_ms);
        let token = last_token.max((now_ms.saturating_mul(1_000)).min(clock_token_max)) + TOKENS_ABOVE;
        transaction.execute(END_ALL, &values![now_ms]).await?;
        transaction.execute(GO_ABOVE, &values![token, quiet_until_ms]).await?;
        tracing::warn!(
            before = floor.known_history,
            now = floor.history,
            quiet_sec = (quiet_until_ms - now_ms) / 1_000,
            "the database has another history: a standby was promoted that may lack the last grants of locks; all leases are ended, \
             and nothing is granted until those that are lost have ended"
        );
    }
    if plan.changes {
        let keep = values![floor.history, plan.longest_ttl_ms, plan.longest_at_ms];
        transaction.execute(KEEP_FLOOR, &keep).await?;
    }
    Ok((quiet_until_ms - now_ms).max(0))
}

fn plan(floor: &Floor, ttl_ms: i64) -> Plan {
    let Floor { known_history, history, longest_ttl_ms, longest_at_ms, now_ms, .. } = floor;
    let lost = timeline(known_history).is_some()
        && timeline(known_history) != timeline(history)
        && !known_history.ends_with(CONFIRMED);
    let old = *longest_ttl_ms > LONGEST_USUAL_MS
        && now_ms.saturating_sub(longest_at_ms + longest_ttl_ms) > LONGEST_KEPT_MS;
    let (kept_ttl_ms, kept_at_ms) =
        if old && !lost { (LONGEST_USUAL_MS, *now_ms) } else { (*longest_ttl_ms, *longest_at_ms) };
    let (longest_ttl_ms, longest_at_ms) =
        if ttl_ms > kept_ttl_ms { (ttl_ms, *now_ms) } else { (kept_ttl_ms, kept_at_ms) };
    let changes = known_history != history || longest_ttl_ms != floor.longest_ttl_ms;
    Plan { lost, longest_ttl_ms, longest_at_ms, changes }
}

/// What a history ends with where commits waited for a standby.
const CONFIRMED: &str = " confirmed";

/// `None` before the first grant, and where the server does not tell.
fn timeline(history: &str) -> Option<&str> {
    history.split(' ').next().filter(|timeline| !timeline.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000_000;

    fn floor(known: &str, now: &str) -> Floor {
        Floor {
            known_history: known.to_owned(),
            history: now.to_owned(),
            longest_ttl_ms: LONGEST_USUAL_MS,
            longest_at_ms: NOW - 1,
            quiet_until_ms: 0,
            now_ms: NOW,
        }
    }

    #[test]
    fn op_03_grants_are_lost_where_a_timeline_follows_another_whose_commits_nobody_confirmed() {
        for (known, now, lost, changes) in [
            ("", "00000001", false, true),
            ("00000001", "00000001", false, false),
            ("00000001", "00000002", true, true),
            ("00000001", "00000002 confirmed", true, true),
            ("00000001 confirmed", "00000002", false, true),
            ("00000001 confirmed", "00000002 confirmed", false, true),
            ("00000001 confirmed", "00000001", false, true),
            ("00000001", "00000001 confirmed", false, true),
            // A backup, or a new major version, begins anew.
            ("00000007", "00000001", true, true),
            // A server that does not tell.
            ("", "", false, false),
        ] {
            let plan = plan(&floor(known, now), 15_000);
            assert_eq!((plan.lost, plan.changes), (lost, changes), "{known:?} then {now:?}");
        }
    }

    #[test]
    fn op_03_the_longest_lease_is_known_before_it_is_granted_and_forgotten_an_hour_after_it_ended() {
        let longest = |known_ms: i64, said_ago_ms: i64, ttl_ms: i64| {
            let same = floor("00000001", "00000001");
            let floor = Floor { longest_ttl_ms: known_ms, longest_at_ms: NOW - said_ago_ms, ..same };
            let plan = plan(&floor, ttl_ms);
            (plan.longest_ttl_ms, plan.changes)
        };
        assert_eq!(longest(60_000, 1, 60_000), (60_000, false));
        assert_eq!(longest(60_000, 1, 60_001), (60_001, true));
        assert_eq!(longest(900_000, 4_500_000, 15_000), (900_000, false));
        assert_eq!(longest(900_000, 4_500_001, 15_000), (60_000, true));
        assert_eq!(longest(900_000, 4_500_001, 800_000), (800_000, true));
        let lost = Floor { longest_ttl_ms: 900_000, longest_at_ms: 0, ..floor("00000001", "00000002") };
        assert_eq!(plan(&lost, 0).longest_ttl_ms, 900_000, "it decides how long nobody is granted anything");
    }
}
