//! How many watched over the last day: every ten seconds for an hour, every minute before that.
//!
//! In memory and bounded; a restart begins a new one.

use std::collections::VecDeque;

use serde::Serialize;
use utoipa::ToSchema;

/// Samples kept as they came: an hour of them.
const FINE_MAX: usize = 360;

/// Samples joined into one when they grow old.
const JOINED: usize = 6;

/// Joined samples kept: the rest of a day.
const COARSE_MAX: usize = 23 * 60;

/// How many watched at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct Sample {
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// Live sessions on all nodes.
    pub viewers: u64,
    /// Those whose page was in sight.
    pub visible: u64,
}

#[derive(Default)]
pub(super) struct History {
    coarse: VecDeque<Sample>,
    fine: VecDeque<Sample>,
}

impl History {
    pub(super) fn push(&mut self, sample: Sample) {
        self.fine.push_back(sample);
        if self.fine.len() >= FINE_MAX + JOINED {
            // The most there were, so that a short visit does not vanish with age.
            let joined = self.fine.drain(..JOINED).reduce(|first, later| Sample {
                at: first.at,
                viewers: first.viewers.max(later.viewers),
                visible: first.visible.max(later.visible),
            });
            self.coarse.extend(joined);
        }
        if self.coarse.len() > COARSE_MAX {
            self.coarse.pop_front();
        }
    }

    /// All samples, oldest first.
    pub(super) fn samples(&self) -> Vec<Sample> {
        self.coarse.iter().chain(&self.fine).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_kept_in_order_and_a_short_visit_does_not_vanish() {
        let mut history = History::default();
        for number in 0..3 * 8_640_u64 {
            let viewers = u64::from(number == 2 * 8_640 + 3);
            history.push(Sample { at: number * 10_000, viewers, visible: 0 });
        }
        let samples = history.samples();
        assert!(samples.len() <= COARSE_MAX + FINE_MAX + JOINED);
        assert!(samples.is_sorted_by_key(|sample| sample.at));
        assert_eq!(samples.iter().filter(|sample| sample.viewers == 1).count(), 1);
        let span_ms = samples.last().unwrap().at - samples[0].at;
        assert!(span_ms.abs_diff(24 * 3_600_000) < 120_000, "{span_ms}");
    }
}
