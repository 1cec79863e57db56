//! The two clocks of a node.
//!
//! `now` counts from an arbitrary start, never goes back and goes on while the machine sleeps: a viewer's minute is over
//! after a minute of suspend (Linux's `CLOCK_BOOTTIME`). `wall` is the time of day and may jump; it names minutes and
//! dates records, and decides no time to live.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use syncline_core::time::Timestamp;

/// A monotonic clock as a part that tests replace.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The monotonic clock.
pub fn now() -> Timestamp {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(clock);
    Timestamp::from_ms(
        (time.tv_sec as u64).saturating_mul(1_000).saturating_add(time.tv_nsec as u64 / 1_000_000),
    )
}

/// The time of day. A clock set before 1970 reads as 1970.
pub fn wall() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ms(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}
