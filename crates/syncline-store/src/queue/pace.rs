//! A pace as text, small however many calls are in flight.
//!
//! The pace is written with every claim and every batch of answers, so its size is what a queue with a thousand calls in
//! flight pays for each. Ids only grow, so of each call just the step from the one before is kept, and with it the
//! age of its key, which is how the key's row is found: some four bytes a call.

use serde::{Deserialize, Serialize};
use syncline_core::queue::{Breaker, Call, Pace, Pause};

/// What calls are for, in the order of the pace's calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CallKeys {
    /// The ages of their keys.
    pub(crate) ages: Vec<i64>,
    /// The numbers of their groups, 0 for none.
    pub(crate) groups: Vec<i64>,
}

#[derive(Serialize, Deserialize)]
struct Text {
    version: u64,
    starts: u64,
    ends: u64,
    /// Steps from call to call.
    calls: Vec<u64>,
    /// Steps from age to age.
    ages: Vec<i64>,
    /// Steps from group to group; none where no call has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<i64>,
    /// Which of the calls were renewed, and how often.
    beats: Vec<(usize, u32)>,
    /// Which of the calls have a lease of their own, in milliseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    leases: Vec<(usize, u64)>,
    /// Which of the calls is the probe.
    probe: Option<usize>,
    pause: Option<Pause>,
    breaker: Breaker,
}

/// The text of `pace`, whose calls are for these keys.
pub(crate) fn encode(pace: &Pace, keys: &CallKeys) -> String {
    let mut last_id = 0;
    let calls = pace.calls.iter().map(|call| call.id - std::mem::replace(&mut last_id, call.id)).collect();
    let ages = steps(&keys.ages);
    let groups = if keys.groups.iter().all(|group| *group == 0) { Vec::new() } else { steps(&keys.groups) };
    let renewed = pace.calls.iter().enumerate().filter(|(_, call)| call.beat > 0);
    let text = Text {
        version: pace.version,
        starts: pace.starts,
        ends: pace.ends,
        calls,
        ages,
        groups,
        beats: renewed.map(|(index, call)| (index, call.beat)).collect(),
        leases: pace
            .calls
            .iter()
            .enumerate()
            .filter_map(|(index, call)| Some((index, call.lease_ms?)))
            .collect(),
        probe: pace.calls.iter().position(|call| call.probe),
        pause: pace.pause,
        breaker: pace.breaker,
    };
    serde_json::to_string(&text).expect("numbers and words have a text")
}

/// What [`encode`] made `text` of; `None` if that cannot be.
pub(crate) fn decode(text: &str) -> Option<(Pace, CallKeys)> {
    let text: Text = serde_json::from_str(text).ok()?;
    if text.calls.len() != text.ages.len()
        || !(text.groups.is_empty() || text.groups.len() == text.calls.len())
    {
        return None;
    }
    let mut id = 0_u64;
    let mut calls = Vec::with_capacity(text.calls.len());
    for step in text.calls {
        id = id.checked_add(step)?;
        calls.push(Call { id, beat: 0, probe: false, lease_ms: None });
    }
    for (index, beat) in text.beats {
        calls.get_mut(index)?.beat = beat;
    }
    for (index, lease_ms) in text.leases {
        calls.get_mut(index)?.lease_ms = Some(lease_ms);
    }
    if let Some(index) = text.probe {
        calls.get_mut(index)?.probe = true;
    }
    let groups = if text.groups.is_empty() { vec![0; text.ages.len()] } else { sums(&text.groups) };
    let keys = CallKeys { ages: sums(&text.ages), groups };
    let Text { version, starts, ends, pause, breaker, .. } = text;
    let pace = Pace { version, starts, ends, calls, pause, breaker };
    pace.is_plausible().then_some((pace, keys))
}

fn steps(numbers: &[i64]) -> Vec<i64> {
    let mut last = 0;
    numbers.iter().map(|&number| number.wrapping_sub(std::mem::replace(&mut last, number))).collect()
}

fn sums(steps: &[i64]) -> Vec<i64> {
    let sum = |last: &mut i64, step: &i64| {
        *last = last.wrapping_add(*step);
        Some(*last)
    };
    steps.iter().scan(0_i64, sum).collect()
}

/// The text of an API that nobody has called yet.
pub(crate) fn empty() -> String {
    encode(&Pace::default(), &CallKeys::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(calls: usize) -> (Pace, CallKeys) {
        let mut pace = Pace::default();
        for _ in 0..calls {
            pace.start();
        }
        let ages = (0..calls as i64).map(|n| 7_000 + n * 3).collect();
        (pace, CallKeys { ages, groups: vec![0; calls] })
    }

    #[test]
    fn qu_20_a_pace_survives_its_text() {
        let (mut pace, mut keys) = busy(5);
        pace.renew(2);
        pace.end(4, Breaker::Open { trips: 3 }, None);
        keys.ages.remove(3);
        keys.groups = vec![0, 0, 1 << 41, 7, 0];
        let probe = pace.start_for(Some(60_000));
        keys.ages.push(-12);
        assert!(pace.call(probe).unwrap().probe);
        assert_eq!(decode(&encode(&pace, &keys)), Some((pace, keys)));
        assert_eq!(decode(&empty()), Some((Pace::default(), CallKeys::default())));
    }

    #[test]
    fn qu_05_a_thousand_calls_take_a_few_kilobytes() {
        let (pace, ages) = busy(1_000);
        let text = encode(&pace, &ages);
        assert!(text.len() < 5_000, "{}", text.len());
        assert_eq!(decode(&text), Some((pace, ages)));
    }

    #[test]
    fn qu_26_what_nobody_wrote_is_unreadable() {
        let (pace, ages) = busy(2);
        let good = encode(&pace, &ages);
        for bad in
            ["", "{}", "null", &good[1..], &good.replace("[1,1]", "[1]"), &good.replace("[1,1]", "[1,0]")]
        {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
