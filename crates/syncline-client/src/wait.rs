//! How long a command waits: `--wait 30s`, the same for all of them.

use std::str::FromStr;
use std::time::{Duration, Instant};

/// How long to wait. Written as a number with a unit (`500ms`, `30s`, `5m`, `1h`), as seconds without one, or as `forever`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// No longer than this; not at all if it is zero.
    For(Duration),
    /// As long as it takes.
    Forever,
}

impl Wait {
    /// Whether there is nothing to wait.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Wait::For(Duration::ZERO)
    }

    /// Until when, from now on; `None` for ever.
    #[must_use]
    pub fn deadline(self) -> Option<Instant> {
        match self {
            // What no clock can reach is for ever.
            Wait::For(time) => Instant::now().checked_add(time),
            Wait::Forever => None,
        }
    }

    /// What `work` brings, or `None` if the time is over before.
    pub async fn limit<T>(self, work: impl Future<Output = T>) -> Option<T> {
        match self.deadline() {
            Some(deadline) => tokio::time::timeout_at(deadline.into(), work).await.ok(),
            None => Some(work.await),
        }
    }
}

impl FromStr for Wait {
    type Err = String;

    fn from_str(text: &str) -> Result<Wait, String> {
        let refused = || format!("{text:?} is no duration; write it as 500ms, 30s, 5m, 1h, or forever");
        if text == "forever" {
            return Ok(Wait::Forever);
        }
        let digits = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let number: f64 = number.parse().map_err(|_| refused())?;
        let seconds = match unit {
            "ms" => number / 1_000.0,
            "s" | "" => number,
            "m" | "min" => number * 60.0,
            "h" => number * 3_600.0,
            _ => return Err(refused()),
        };
        Duration::try_from_secs_f64(seconds).map(Wait::For).map_err(|_| refused())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cn_23_a_time_to_wait_has_a_unit_or_is_in_seconds_or_for_ever() {
        for (text, ms) in [
            ("0", 0),
            ("0s", 0),
            ("5", 5_000),
            ("0.5", 500),
            ("500ms", 500),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(text.parse(), Ok(Wait::For(Duration::from_millis(ms))), "{text}");
        }
        assert_eq!("forever".parse(), Ok(Wait::Forever));
        assert!(Wait::For(Duration::ZERO).is_none() && !Wait::Forever.is_none());
        for text in ["", "-1", "s", "5 s", "5d", "tide", "1e9", "NaN", "."] {
            let refused = text.parse::<Wait>().unwrap_err();
            assert!(refused.contains("500ms, 30s"), "{text}: {refused}");
        }
    }
}
