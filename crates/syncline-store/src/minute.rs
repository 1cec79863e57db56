//! The moment, once a minute, in which a process does what it does although nothing happened.
//!
//! Sweeps, and looks that only make sure nothing was missed, all wait for the same moment. So a database with nothing to do is
//! asked once a minute and is left alone in between, however many systems a node has.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// How far these moments are apart.
pub const MINUTE: Duration = Duration::from_secs(60);

/// Ends at the next such moment of this process.
pub async fn next_minute() {
    sleep_until(after(Instant::now())).await;
}

/// The last such moment at or before `latest` that is still to come, or `latest` where none is: for looks that may be early and
/// not late.
#[must_use]
pub fn minute_before(latest: Instant) -> Instant {
    let last = floor(latest);
    if last > Instant::now() { last } else { latest }
}

fn after(now: Instant) -> Instant {
    floor(now) + MINUTE
}

fn floor(at: Instant) -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let origin = *ORIGIN.get_or_init(Instant::now);
    let passed = at.saturating_duration_since(origin).as_secs() / MINUTE.as_secs();
    origin + MINUTE * u32::try_from(passed).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn op_05_everybody_waits_for_the_same_moment_and_nobody_longer_than_a_minute() {
        next_minute().await;
        let first = Instant::now();
        tokio::time::sleep(Duration::from_secs(7)).await;
        let early = tokio::spawn(async {
            next_minute().await;
            Instant::now()
        });
        tokio::time::sleep(Duration::from_secs(20)).await;
        next_minute().await;
        assert_eq!((Instant::now() - first, early.await.unwrap()), (MINUTE, Instant::now()));
        assert_eq!(minute_before(Instant::now() + Duration::from_secs(300)), first + MINUTE * 6);
        assert_eq!(minute_before(Instant::now() + Duration::from_secs(310)), first + MINUTE * 6);
        let soon = Instant::now() + Duration::from_secs(2);
        assert_eq!(minute_before(soon), soon, "no such moment is in between");
    }
}
