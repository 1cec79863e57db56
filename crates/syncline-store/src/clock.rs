//! The clock of an embedded store: steady, whatever happens to the time of day.
//!
//! A [`SteadyClock`] is the machine's time since boot plus an offset fixed once per boot. Steps of the wall clock
//! do not move it, time spent suspended counts, and because the offset is kept in the database every process on
//! the same file and every restart reads the same clock. Where the system has no name for its boot the offset is
//! fixed once per open instead.
//!
//! Times that people read (when a run started) are wall time and come from [`TimeSource::wall_ms`]; nothing is
//! ever decided by them alone. PostgreSQL stores use the database's own clock and none of this.

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// What a steady clock is made of. The machine is the only one outside tests.
pub(crate) trait TimeSource: Send + Sync + 'static {
    /// Milliseconds since the epoch; may jump.
    fn wall_ms(&self) -> i64;
    /// Milliseconds since the machine started, suspended time included; never jumps.
    fn since_boot_ms(&self) -> i64;
    /// A name that changes with every boot and with nothing else.
    fn boot_id(&self) -> Option<String>;
}

/// The clocks of this machine.
pub(crate) struct Machine;

impl TimeSource for Machine {
    fn wall_ms(&self) -> i64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
    }

    fn since_boot_ms(&self) -> i64 {
        #[cfg(target_os = "linux")]
        let clock = ClockId::Boottime;
        // Elsewhere this is the closest there is; on macOS it counts suspended time as well.
        #[cfg(not(target_os = "linux"))]
        let clock = ClockId::Monotonic;
        let time = clock_gettime(clock);
        time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
    }

    fn boot_id(&self) -> Option<String> {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim().to_owned())
    }
}

/// Milliseconds that only ever move forward, at the pace of real time.
#[derive(Clone)]
pub(crate) struct SteadyClock {
    source: Arc<dyn TimeSource>,
    offset_ms: i64,
}

impl SteadyClock {
    /// A clock that agrees with the wall clock at this moment.
    pub(crate) fn anchored_now(source: Arc<dyn TimeSource>) -> Self {
        let offset_ms = source.wall_ms() - source.since_boot_ms();
        Self { source, offset_ms }
    }

    /// The same clock with an offset that was fixed earlier in this boot.
    pub(crate) fn with_offset(self, offset_ms: i64) -> Self {
        Self { offset_ms, ..self }
    }

    pub(crate) fn offset_ms(&self) -> i64 {
        self.offset_ms
    }

    pub(crate) fn boot_id(&self) -> Option<String> {
        self.source.boot_id()
    }

    /// Now, for everything that expires.
    pub(crate) fn now_ms(&self) -> i64 {
        self.source.since_boot_ms().saturating_add(self.offset_ms)
    }

    /// Now, for people.
    pub(crate) fn wall_ms(&self) -> i64 {
        self.source.wall_ms()
    }
}

impl fmt::Debug for SteadyClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SteadyClock").field("offset_ms", &self.offset_ms).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod fake {
    //! A machine whose clocks the test moves.

    use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

    use super::TimeSource;

    /// Starts in 2025, up for a day.
    pub(crate) struct FakeMachine {
        wall_ms: AtomicI64,
        since_boot_ms: AtomicI64,
        boots: AtomicU32,
    }

    impl FakeMachine {
        pub(crate) fn new() -> Self {
            Self {
                wall_ms: AtomicI64::new(1_762_862_400_000),
                since_boot_ms: AtomicI64::new(86_400_000),
                boots: AtomicU32::new(1),
            }
        }

        /// Lets time pass, awake or suspended.
        pub(crate) fn advance(&self, ms: i64) {
            self.wall_ms.fetch_add(ms, Ordering::Relaxed);
            self.since_boot_ms.fetch_add(ms, Ordering::Relaxed);
        }

        /// Sets the wall clock forward or back while no time passes.
        pub(crate) fn jump(&self, ms: i64) {
            self.wall_ms.fetch_add(ms, Ordering::Relaxed);
        }

        /// Starts the machine anew, which takes no time.
        pub(crate) fn reboot(&self) {
            self.since_boot_ms.store(0, Ordering::Relaxed);
            self.boots.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl TimeSource for FakeMachine {
        fn wall_ms(&self) -> i64 {
            self.wall_ms.load(Ordering::Relaxed)
        }

        fn since_boot_ms(&self) -> i64 {
            self.since_boot_ms.load(Ordering::Relaxed)
        }

        fn boot_id(&self) -> Option<String> {
            Some(format!("boot-{}", self.boots.load(Ordering::Relaxed)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fake::FakeMachine;
    use super::*;

    #[test]
    fn vw_24_a_wall_clock_jump_does_not_move_the_steady_clock() {
        let machine = Arc::new(FakeMachine::new());
        let clock = SteadyClock::anchored_now(Arc::clone(&machine) as Arc<dyn TimeSource>);
        let start = clock.now_ms();
        assert_eq!(start, clock.wall_ms());
        machine.jump(-3_600_000);
        assert_eq!(clock.now_ms(), start);
        machine.advance(60_000);
        machine.jump(10 * 365 * 86_400_000);
        assert_eq!(clock.now_ms(), start + 60_000);
    }

    #[test]
    fn this_machine_names_its_boot_and_its_clocks_move_forward() {
        let (boot, before) = (Machine.boot_id(), Machine.since_boot_ms());
        assert_eq!(Machine.boot_id(), boot);
        assert!(before > 0);
        assert!(Machine.since_boot_ms() >= before);
    }
}
