//! The session table against a model that nobody could get wrong: a map from id to its last beat.
//!
//! Random sequences of beats, goodbyes, sweeps and time (forwards, at rest, backwards) go to both; after every step
//! all answers must agree, and the announced changes must alternate.

use std::collections::BTreeMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use proptest::prelude::*;
use syncline_core::time::Timestamp;
use syncline_core::viewer::{BeatOutcome, OccupancyChange, SessionId, SessionTable, Summary, TTL};

type TestTable = SessionTable<BuildHasherDefault<DefaultHasher>>;

const CAP: usize = 6;

#[derive(Debug, Clone)]
enum Step {
    Beat {
        id: u8,
        visible: bool,
    },
    Bye {
        id: u8,
    },
    Expire,
    /// Time passes, or the clock is set back.
    Wait {
        ms: i64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0..10_u8;
    prop_oneof![
        6 => (id.clone(), any::<bool>()).prop_map(|(id, visible)| Step::Beat { id, visible }),
        2 => id.prop_map(|id| Step::Bye { id }),
        1 => Just(Step::Expire),
        3 => (0..40_000_i64).prop_map(|ms| Step::Wait { ms }),
        // The moments right before, at and after an expiry are where mistakes live.
        2 => (59_999..=60_001_i64).prop_map(|ms| Step::Wait { ms }),
        1 => (-30_000..0_i64).prop_map(|ms| Step::Wait { ms }),
    ]
}

#[derive(Default)]
struct Model {
    /// Last beat in ms, and visibility. Never cleaned up: what is old is simply not counted.
    beats: BTreeMap<u8, (u64, bool)>,
    occupied: bool,
}

impl Model {
    fn live(&self, now: u64) -> impl Iterator<Item = (u8, u64, bool)> {
        let alive = self.beats.iter().map(|(&id, &(at, visible))| (id, at, visible));
        alive.filter(move |(_, at, _)| now < at + 60_000)
    }

    fn counts(&self, now: u64) -> Summary {
        let viewers = self.live(now).count() as u64;
        Summary { viewers, visible: self.live(now).filter(|(.., visible)| *visible).count() as u64 }
    }

    fn is_live(&self, now: u64, id: u8) -> bool {
        self.live(now).any(|(live, ..)| live == id)
    }

    fn vacate(&mut self, now: u64) -> Option<OccupancyChange> {
        let vacated = self.occupied && self.live(now).next().is_none();
        self.occupied &= !vacated;
        vacated.then_some(OccupancyChange::Vacated)
    }

    fn beat(&mut self, now: u64, id: u8, visible: bool) -> BeatOutcome {
        let new = !self.is_live(now, id);
        if new && self.live(now).count() == CAP {
            return BeatOutcome::Refused { cap: CAP };
        }
        let vacated = self.vacate(now);
        self.beats.insert(id, (now, visible));
        let changes: &[OccupancyChange] = match (vacated, self.occupied) {
            (Some(_), _) => &[OccupancyChange::Vacated, OccupancyChange::Occupied],
            (None, false) => &[OccupancyChange::Occupied],
            (None, true) => &[],
        };
        self.occupied = true;
        BeatOutcome::Accepted { new, changes }
    }
}

fn session(id: u8) -> SessionId {
    // Each id is a prefix of the next.
    SessionId::new(&"abcdefghij"[..=usize::from(id)]).expect("a valid id")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn vw_02_the_session_table_agrees_with_a_plain_map(steps in prop::collection::vec(step(), 1..60)) {
        let mut table = TestTable::new(CAP, BuildHasherDefault::default());
        let mut model = Model::default();
        // `clock` is what the caller says, `now` the latest it said with anything that changed the table.
        let (mut clock, mut now) = (1_000_000_i64, 0_u64);
        let mut last_change = OccupancyChange::Vacated;
        for step in steps {
            if let Step::Wait { ms } = step {
                clock += ms;
            } else {
                now = now.max(clock as u64);
            }
            let at = Timestamp::from_ms(clock as u64);
            let mut announced = Vec::new();
            match step {
                Step::Beat { id, visible } => {
                    let beat = table.beat(at, &session(id), visible);
                    prop_assert_eq!(beat, model.beat(now, id, visible));
                    if let BeatOutcome::Accepted { changes, .. } = beat {
                        announced.extend(changes);
                    }
                }
                Step::Bye { id } => {
                    model.beats.remove(&id);
                    let change = table.bye(at, &session(id));
                    prop_assert_eq!(change, model.vacate(now));
                    announced.extend(change);
                }
                Step::Expire => {
                    let change = table.expire(at);
                    prop_assert_eq!(change, model.vacate(now));
                    announced.extend(change);
                }
                Step::Wait { .. } => {}
            }
            for change in announced {
                prop_assert_ne!(change, last_change, "two of a kind in a row");
                last_change = change;
            }
            agree(&table, &model, at, now.max(at.as_ms()))?;
        }
    }
}

/// Asks both at `at`, which counts as `now` where that is later.
fn agree(table: &TestTable, model: &Model, at: Timestamp, now: u64) -> Result<(), TestCaseError> {
    let counts = model.counts(now);
    prop_assert_eq!(table.counts(at), counts);
    prop_assert_eq!(table.has_active(at), counts.viewers > 0);
    for id in 0..10 {
        let beat = model.live(now).find(|(live, ..)| *live == id);
        let left = beat.map(|(_, beat_at, _)| TTL - Duration::from_millis(now - beat_at));
        prop_assert_eq!(table.contains(at, &session(id)), left);
    }
    let mut listed: Vec<_> = table.list(at, "abc", 99).into_iter().map(|(id, _)| id.to_string()).collect();
    listed.sort();
    let live: Vec<_> =
        model.live(now).filter(|(id, ..)| *id >= 2).map(|(id, ..)| session(id).to_string()).collect();
    prop_assert_eq!(listed, live);
    Ok(())
}
