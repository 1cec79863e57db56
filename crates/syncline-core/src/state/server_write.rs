//! A write by somebody who knows no stamps: a server that says "this entity is now so", or "it is gone".
//!
//! Guarantees: merged into what the node knows, the change counts, whatever clocks wrote before it; devices cannot tell it from
//! another device's. The caller checks conditions first and merges in the same transaction.

use super::bridge::{Change, Kept};
use super::index::Entry;
use super::stamp::{Clock, Stamp};
use super::value::{Stored, Value};
use crate::time::Timestamp;

/// The schema of a value whose writer does not say.
const FIRST_SCHEMA: u32 = 1;

/// What a server wants an entity to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerWrite {
    /// This value, of this version of the application's schema; the version that the entity has where it is `None`.
    Put {
        /// The value.
        value: Value,
        /// The version of the application's schema that it follows.
        schema: Option<u32>,
    },
    /// Gone.
    Remove,
}

impl ServerWrite {
    /// The change to merge, stamped by the node at `now`; `None`: there is nothing to remove. `known` is what the node has of the
    /// entity, `floor` the last reset, and `maker` is best drawn at random.
    #[must_use]
    pub fn change(
        self,
        id: &str,
        known: Option<&Kept>,
        floor: Stamp,
        maker: u32,
        now: Timestamp,
    ) -> Option<Change> {
        let known = known.filter(|known| known.entry.stamp > floor);
        let mut clock = Clock::new(maker);
        // The node's time of day is the one that counts: it opens a new era where somebody's was far ahead.
        clock.confirm(now, now);
        clock.meet(floor);
        if let Some(known) = known {
            clock.meet(known.stamp());
            clock.meet(known.stored.as_ref().map(|stored| stored.rank().0).unwrap_or_default());
        }
        let stamp = clock.tick(now);
        let live = known.filter(|known| known.entry.live);
        let kept = match self {
            Self::Remove => {
                live?;
                Kept { entry: Entry { stamp, live: false }, stored: None }
            }
            Self::Put { value, schema } => {
                let before = live.and_then(|live| live.stored.as_ref());
                let version = schema.or(before.map(|before| before.version)).unwrap_or(FIRST_SCHEMA).max(1);
                let entry = live.map_or(Entry { stamp, live: true }, |live| live.entry);
                // A change of a value belongs to the addition that it is a value of.
                let added = live.map(|live| {
                    before.map_or(live.entry.stamp, |before| before.rank().0.max(live.entry.stamp))
                });
                Kept { entry, stored: Some(Stored { value, stamp: Some(stamp), added, version }) }
            }
        };
        Some(Change::Entity { id: id.to_owned(), kept })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOON: Timestamp = Timestamp::from_ms(1_730_000_000_000);

    /// A stamp of any era and time of day, also years ahead of the node.
    fn stamps() -> impl Strategy<Value = Stamp> {
        (0_u64..3, 0_u64..4_000_000_000_000).prop_map(|(era, ms)| Stamp::of(era, Timestamp::from_ms(ms)))
    }

    fn kept() -> impl Strategy<Value = Kept> {
        let stored = (stamps(), prop::option::of(stamps()), 0_u32..4).prop_map(|(stamp, added, version)| {
            let value = Value::read("{\"n\":1}").unwrap();
            Stored { value, stamp: Some(stamp), added, version }
        });
        let entry = (stamps(), any::<bool>()).prop_map(|(stamp, live)| Entry { stamp, live });
        (entry, prop::option::of(stored)).prop_map(|(entry, stored)| Kept { entry, stored })
    }

    proptest! {
        #[test]
        fn cn_21_a_server_write_counts_whatever_clocks_wrote_before_it(
            known in prop::option::of(kept()),
            floor in stamps(),
            maker in any::<u32>(),
        ) {
            let value = Value::read("{\"n\":2}").unwrap();
            let put = ServerWrite::Put { value: value.clone(), schema: None };
            let change = put.change("a", known.as_ref(), floor, maker, NOON).unwrap();
            let Change::Entity { kept: news, .. } = &change else { panic!("{change:?}") };
            let written = Kept::merge(known.as_ref(), floor, news).expect("it is news");
            prop_assert!(written.entry.live);
            prop_assert_eq!(&written.stored.as_ref().unwrap().value, &value);
            let mut text = String::new();
            change.write(&mut text);
            prop_assert_eq!(Change::read(&super::super::json::Json::read(&text).unwrap()), Some(change));

            let removal = ServerWrite::Remove.change("a", Some(&written), floor, maker, NOON).unwrap();
            let Change::Entity { kept: news, .. } = &removal else { panic!("{removal:?}") };
            let removed = Kept::merge(Some(&written), floor, news).expect("it is news");
            prop_assert!(!removed.entry.live);
            prop_assert_eq!(ServerWrite::Remove.change("a", Some(&removed), floor, maker, NOON), None);

            let again = ServerWrite::Put { value: value.clone(), schema: Some(7) };
            let again = again.change("a", Some(&removed), floor, maker, NOON).unwrap();
            let Change::Entity { kept: news, .. } = &again else { panic!("{again:?}") };
            let added = Kept::merge(Some(&removed), floor, news).expect("it is news");
            prop_assert!(added.entry.live && added.stored.as_ref().is_some_and(|stored| stored.version == 7));
        }
    }

    #[test]
    fn cn_21_a_clock_that_was_years_ahead_does_not_take_the_node_along() {
        let ahead = Stamp::of(0, Timestamp::from_ms(NOON.as_ms() + 10 * 365 * 24 * 3_600_000));
        let known = Kept { entry: Entry { stamp: ahead, live: true }, stored: None };
        let put = ServerWrite::Put { value: Value::read("{}").unwrap(), schema: None };
        let change = put.change("a", Some(&known), Stamp::ZERO, 1, NOON).unwrap();
        let Change::Entity { kept, .. } = change else { panic!() };
        let stamp = kept.stored.unwrap().stamp.unwrap();
        assert!(stamp > ahead && stamp.wall() == NOON, "{stamp:?}");
    }
}
