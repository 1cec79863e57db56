//! What runs cost and what skips saved, in whole millionths of a dollar.
//!
//! Integers, so that a year of sums is exact and two nodes that add the same history agree.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Decision, Reason};

/// An amount of money in millionths of a US dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cost(u64);

impl Cost {
    /// What one run costs unless the job says otherwise: 0.002 USD.
    pub const DEFAULT: Self = Self::from_micro_usd(2_000);

    /// The largest price a run may have: 1,000,000 USD.
    pub const MAX: Self = Self::from_micro_usd(1_000_000_000_000);

    /// An amount in millionths of a dollar.
    #[must_use]
    pub const fn from_micro_usd(micro_usd: u64) -> Self {
        Self(micro_usd)
    }

    /// An amount in dollars, rounded to the nearest millionth; up to [`Cost::MAX`].
    pub fn from_usd(usd: f64) -> Result<Self, InvalidCost> {
        let micro_usd = (usd * 1e6).round();
        // Written so that not-a-number fails too.
        if micro_usd >= 0.0 && micro_usd <= Self::MAX.0 as f64 {
            Ok(Self(micro_usd as u64))
        } else {
            Err(InvalidCost)
        }
    }

    /// Millionths of a dollar.
    #[must_use]
    pub const fn as_micro_usd(self) -> u64 {
        self.0
    }

    /// Dollars, for display and JSON.
    #[must_use]
    pub fn as_usd(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The price of `times` runs.
    #[must_use]
    pub const fn times(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

/// An amount that is negative, not a number or above [`Cost::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a cost is a number of dollars from 0 to 1000000")]
pub struct InvalidCost;

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} USD", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

impl FromStr for Cost {
    type Err = InvalidCost;

    fn from_str(text: &str) -> Result<Self, InvalidCost> {
        Self::from_usd(text.trim().parse().map_err(|_| InvalidCost)?)
    }
}

/// How often each decision fell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// In the order of [`Reason::ALL`].
    counts: [u64; Reason::ALL.len()],
}

impl Tally {
    /// Counts one decision.
    pub fn count(&mut self, decision: Decision) {
        self.add(decision.reason(), 1);
    }

    /// Counts `times` decisions for `reason`.
    pub fn add(&mut self, reason: Reason, times: u64) {
        let count = &mut self.counts[reason as usize];
        *count = count.saturating_add(times);
    }

    /// How often `reason` was given.
    #[must_use]
    pub fn of(&self, reason: Reason) -> u64 {
        self.counts[reason as usize]
    }

    /// Runs, for whatever reason.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.sum(Reason::runs)
    }

    /// What the runs cost.
    #[must_use]
    pub fn spent(&self, cost: Cost) -> Cost {
        cost.times(self.runs())
    }

    /// What the skips saved: those for want of a viewer or of a changed input.
    #[must_use]
    pub fn saved(&self, cost: Cost) -> Cost {
        cost.times(self.sum(Reason::saves))
    }

    fn sum(&self, counts: impl Fn(Reason) -> bool) -> u64 {
        let counted = Reason::ALL.into_iter().filter(|&reason| counts(reason));
        counted.fold(0, |sum: u64, reason| sum.saturating_add(self.of(reason)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vw_09_money_is_counted_in_whole_millionths() {
        assert_eq!("0.002".parse(), Ok(Cost::DEFAULT));
        assert_eq!(Cost::from_usd(0.1).unwrap().times(3).to_string(), "0.300000 USD");
        assert_eq!(Cost::from_usd(1_000_000.0), Ok(Cost::MAX));
        for bad in ["-0.01", "NaN", "inf", "1000001", "", "two"] {
            assert_eq!(bad.parse::<Cost>(), Err(InvalidCost), "{bad}");
        }
        assert_eq!(Cost::MAX.times(u64::MAX).as_micro_usd(), u64::MAX);
    }

    #[test]
    fn vw_09_only_skips_that_spared_a_run_count_as_saved() {
        let mut tally = Tally::default();
        for reason in Reason::ALL {
            tally.add(reason, 10);
        }
        tally.count(Reason::NoViewer.into());
        assert_eq!(tally.of(Reason::NoViewer), 11);
        assert_eq!(tally.runs(), 60);
        assert_eq!(tally.spent(Cost::DEFAULT), Cost::from_micro_usd(120_000));
        // Eleven for want of a viewer, ten unchanged; another node's minutes and overlaps save nothing.
        assert_eq!(tally.saved(Cost::DEFAULT), Cost::from_micro_usd(42_000));
    }
}
