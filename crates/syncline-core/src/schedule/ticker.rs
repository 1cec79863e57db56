//! Which firings of one job are due, given nothing but the time of day.
//!
//! The time of day jumps: machines sleep, clocks are set. Whatever it does, a ticker names no firing twice. Firings
//! passed over collapse to the newest one, so that waking from a night's sleep starts one run and not five
//! hundred. A clock set back repeats nothing that was done, and a clock that had been wrong by years and is put
//! right resumes at once. [`CatchUp`] says whether firings of an outage are made up for. Other processes are not known here; competing with them is the claim's business.

use std::time::Duration;

use super::{Bucket, Cron};
use crate::time::Timestamp;

/// How far back a process that starts, or whose clock is set back, still looks for a firing it may have missed.
const CATCH_UP: Duration = Duration::from_secs(60);

/// Stretches of firings remembered; a new one begins only where firings were passed over or the clock jumped.
const STRETCHES_MAX: usize = 64;

/// Firings of an outage that are made up for, one by one; the newest ones.
pub const CATCH_UP_FIRINGS_MAX: usize = 100;

/// How long ago a firing may be that is made up for.
const CATCH_UP_LONGEST: Duration = Duration::from_secs(30 * 24 * 3_600);

/// What is done about firings of an outage, when no node was there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CatchUp {
    /// Nothing, but for a firing of the last minute.
    #[default]
    None,
    /// The newest one is made up for.
    One,
    /// All of them, oldest first, up to [`CATCH_UP_FIRINGS_MAX`].
    All,
}

impl CatchUp {
    /// Every policy with its word.
    pub const WORDS: [(&'static str, Self); 3] =
        [("none", Self::None), ("one", Self::One), ("all", Self::All)];

    /// Its word in configuration and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(_, policy)| *policy == self).map_or("none", |(word, _)| word)
    }
}

/// The firings of one job in this process.
#[derive(Debug)]
pub struct Ticker {
    cron: Cron,
    catch_up: CatchUp,
    /// Firings up to here have been looked at.
    seen: Timestamp,
    /// The first firing after `seen`.
    next: Option<Timestamp>,
    /// Firings named so far, as stretches of consecutive ones, the current stretch last.
    named: Vec<Stretch>,
}

#[derive(Debug, Clone, Copy)]
struct Stretch {
    first: Timestamp,
    last: Timestamp,
}

impl Ticker {
    /// A ticker that starts at `wall`. A firing of the last minute is still due: a node that restarts must not
    /// drop the minute it restarted in.
    #[must_use]
    pub fn new(cron: Cron, wall: Timestamp) -> Self {
        Self::resuming(cron, wall, CatchUp::None, None)
    }

    /// The same for a job whose last firing that any node dealt with is known: what came after it is made up for as `catch_up` says.
    #[must_use]
    pub fn resuming(cron: Cron, wall: Timestamp, catch_up: CatchUp, last: Option<Timestamp>) -> Self {
        let mut ticker = Self { cron, catch_up, seen: Timestamp::ZERO, next: None, named: Vec::new() };
        let recent = wall.saturating_before(CATCH_UP);
        let last = last.filter(|_| catch_up != CatchUp::None);
        let from = last.map_or(recent, |last| last.max(wall.saturating_before(CATCH_UP_LONGEST)).min(recent));
        ticker.look_from(from);
        ticker
    }

    /// The newest firing that is due at `wall`, if any. Never the same one twice.
    pub fn due(&mut self, wall: Timestamp) -> Option<Bucket> {
        if wall < self.seen {
            self.look_from(wall.saturating_before(CATCH_UP));
        }
        while let Some(next) = self.next.filter(|next| *next <= wall) {
            let fired = match self.catch_up {
                CatchUp::All => self.oldest_of_newest(next, wall),
                CatchUp::None | CatchUp::One => self.cron.last_at(wall)?,
            };
            self.look_from(if self.catch_up == CatchUp::All { fired } else { wall });
            if self.name(fired) {
                return Some(self.cron.bucket(fired));
            }
        }
        None
    }

    /// Of the firings from `first` to `wall` the first that is still made up for.
    fn oldest_of_newest(&self, first: Timestamp, wall: Timestamp) -> Timestamp {
        let mut oldest = self.cron.last_at(wall).unwrap_or(first);
        for _ in 1..CATCH_UP_FIRINGS_MAX {
            let before = oldest.as_ms().checked_sub(1_000).map(Timestamp::from_ms);
            match before.and_then(|before| self.cron.last_at(before)).filter(|before| *before >= first) {
                Some(before) => oldest = before,
                None => break,
            }
        }
        oldest
    }

    /// The firing whose time it is at `wall`, due or not: the bucket that an arriving viewer's run belongs to.
    #[must_use]
    pub fn current(&self, wall: Timestamp) -> Option<Bucket> {
        self.cron.last_at(wall).map(|fired| self.cron.bucket(fired))
    }

    /// When to ask again.
    #[must_use]
    pub fn next_at(&self) -> Option<Timestamp> {
        self.next
    }

    /// The expression it follows.
    #[must_use]
    pub fn cron(&self) -> &Cron {
        &self.cron
    }

    fn look_from(&mut self, seen: Timestamp) {
        self.seen = seen;
        self.next = self.cron.next_after(seen);
    }

    /// Remembers `fired`; false when it was remembered already.
    fn name(&mut self, fired: Timestamp) -> bool {
        if self.named.iter().any(|stretch| (stretch.first..=stretch.last).contains(&fired)) {
            return false;
        }
        match self.named.last_mut() {
            Some(current) if self.cron.next_after(current.last) == Some(fired) => current.last = fired,
            _ => {
                if self.named.len() == STRETCHES_MAX {
                    self.named.remove(0);
                }
                self.named.push(Stretch { first: fired, last: fired });
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const NOON: Timestamp = Timestamp::from_ms(1_762_862_400_000);
    const HOUR_S: u64 = 3_600;

    fn ticker(expression: &str, wall: Timestamp) -> Ticker {
        Ticker::new(Cron::parse(expression).unwrap(), wall)
    }

    /// The bucket due `seconds` after noon, as its time of day.
    fn due(ticker: &mut Ticker, seconds: u64) -> Option<String> {
        let bucket = ticker.due(NOON + Duration::from_secs(seconds))?.to_string();
        Some(bucket.split('T').nth(1).unwrap().to_owned())
    }

    fn is(time: &str) -> Option<String> {
        Some(time.to_owned())
    }

    #[test]
    fn vw_06_each_minute_is_due_once() {
        let mut every_minute = ticker("* * * * *", NOON);
        assert_eq!(due(&mut every_minute, 0), is("12:00"));
        assert_eq!(every_minute.next_at(), Some(NOON + Duration::from_secs(60)));
        assert_eq!(due(&mut every_minute, 1), None);
        assert_eq!(due(&mut every_minute, 59), None);
        assert_eq!(due(&mut every_minute, 60), is("12:01"));
        assert_eq!(due(&mut every_minute, 60), None);
    }

    #[test]
    fn vw_06_minutes_slept_through_collapse_to_the_newest() {
        let mut every_minute = ticker("* * * * *", NOON);
        assert_eq!(due(&mut every_minute, 0), is("12:00"));
        assert_eq!(due(&mut every_minute, 8 * HOUR_S + 30), is("20:00"));
        assert_eq!(due(&mut every_minute, 8 * HOUR_S + 31), None);
    }

    #[test]
    fn vw_24_a_clock_set_back_repeats_nothing_and_new_minutes_come_as_usual() {
        let mut every_minute = ticker("* * * * *", NOON);
        for minute in 0..=10 {
            assert!(due(&mut every_minute, minute * 60).is_some());
        }
        for second in 5 * 60..11 * 60 {
            assert_eq!(due(&mut every_minute, second), None);
        }
        assert_eq!(due(&mut every_minute, 11 * 60), is("12:11"));
    }

    #[test]
    fn vw_24_a_clock_wrong_by_years_and_put_right_resumes_at_once() {
        let mut every_minute = ticker("* * * * *", NOON);
        assert_eq!(due(&mut every_minute, 0), is("12:00"));
        assert_eq!(due(&mut every_minute, 10 * 365 * 24 * HOUR_S), is("12:00"));
        assert_eq!(due(&mut every_minute, 30), None);
        assert_eq!(due(&mut every_minute, 60), is("12:01"));
    }

    #[test]
    fn vw_23_a_restarted_process_finds_the_minute_it_restarted_in() {
        let mut every_minute = ticker("* * * * *", NOON + Duration::from_secs(25));
        assert_eq!(due(&mut every_minute, 25), is("12:00"));
        // A day-old firing is nobody's business any more.
        let mut daily = ticker("0 3 * * *", NOON);
        assert_eq!(due(&mut daily, 0), None);
        assert_eq!(due(&mut daily, 15 * HOUR_S), is("03:00"));
    }

    #[test]
    fn vw_31_firings_of_an_outage_are_made_up_for_as_the_policy_says() {
        let after = |catch_up, last_s: u64, seconds: u64| {
            let wall = NOON + Duration::from_secs(seconds);
            let cron = Cron::parse("0 * * * *").unwrap();
            let mut ticker = Ticker::resuming(cron, wall, catch_up, Some(NOON + Duration::from_secs(last_s)));
            std::iter::from_fn(|| due(&mut ticker, seconds)).collect::<Vec<_>>()
        };
        let late = 5 * HOUR_S + 1_800;
        assert_eq!(after(CatchUp::None, HOUR_S, late), [""; 0]);
        assert_eq!(after(CatchUp::One, HOUR_S, late), ["17:00"]);
        assert_eq!(after(CatchUp::All, HOUR_S, late), ["14:00", "15:00", "16:00", "17:00"]);
        assert_eq!(after(CatchUp::All, 5 * HOUR_S, late), [""; 0], "nothing was missed");
        // A year away: the newest of them, as many as there is patience for.
        let all = after(CatchUp::All, 0, 365 * 24 * HOUR_S);
        assert_eq!(all.len(), CATCH_UP_FIRINGS_MAX);
        assert_eq!(all.last().unwrap(), "12:00");
        // Within a process that was asleep, too.
        let mut asleep = Ticker::resuming(Cron::parse("0 * * * *").unwrap(), NOON, CatchUp::All, None);
        assert_eq!(due(&mut asleep, 0), is("12:00"));
        let woken: Vec<_> = std::iter::from_fn(|| due(&mut asleep, 3 * HOUR_S + 5)).collect();
        assert_eq!(woken, ["13:00", "14:00", "15:00"]);
        assert_eq!(due(&mut asleep, HOUR_S), None, "a clock set back repeats nothing");
    }

    #[test]
    fn vw_25_an_arrival_belongs_to_the_firing_whose_time_it_is() {
        let hourly = ticker("0 * * * *", NOON);
        let current = hourly.current(NOON + Duration::from_secs(1_234)).unwrap();
        assert_eq!(current.to_string(), "2025-11-11T12:00");
    }

    #[test]
    fn vw_06_the_memory_of_firings_is_bounded() {
        let mut every_minute = ticker("* * * * *", NOON);
        for night in 0..1_000 {
            assert!(due(&mut every_minute, night * 24 * HOUR_S).is_some());
        }
        assert_eq!(every_minute.named.len(), STRETCHES_MAX);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn vw_06_however_the_clock_jumps_no_firing_is_named_twice(
            seconds in any::<bool>(),
            // Fewer steps than stretches remembered: within its memory the ticker is exact.
            steps in prop::collection::vec(prop_oneof![4 => 0..90_i64, 1 => -7_200..7_200_i64], 1..STRETCHES_MAX),
        ) {
            let mut ticker = ticker(if seconds { "*/20 * * * * *" } else { "* * * * *" }, NOON);
            let (mut wall, mut named) = (NOON.as_ms() as i64, HashSet::new());
            for step in steps {
                wall += step * 1_000;
                if let Some(bucket) = ticker.due(Timestamp::from_ms(wall as u64)) {
                    prop_assert!(named.insert(bucket), "{bucket} was named twice");
                    prop_assert!(bucket.starts_at().as_ms() as i64 <= wall);
                }
            }
        }
    }
}
