//! A log line that a flood must not repeat: at most one a minute, with the count of those that were left out.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long after one line the next may come.
const EVERY: Duration = Duration::from_secs(60);

/// How often something happened since it was last written down.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle {
    last: Mutex<(Option<Instant>, u64)>,
}

impl LogThrottle {
    /// It has happened. If a line about it is due: how often since the last one.
    pub(crate) fn due(&self) -> Option<u64> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.1 += 1;
        if last.0.is_some_and(|at| at.elapsed() < EVERY) {
            return None;
        }
        last.0 = Some(Instant::now());
        Some(std::mem::take(&mut last.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_is_logged_at_once_and_the_others_once_a_minute() {
        let log_throttle = LogThrottle::default();
        assert_eq!(log_throttle.due(), Some(1));
        assert!((0..1_000).all(|_| log_throttle.due().is_none()));
        tokio::time::advance(EVERY).await;
        assert_eq!(log_throttle.due(), Some(1_001));
        assert_eq!(log_throttle.due(), None);
    }
}
