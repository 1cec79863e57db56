//! How indexes merge, whoever wrote them.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::state::names::SHARDS_MIN;

const NOON: Timestamp = Timestamp::from_ms(1_730_000_000_000);
const LATER: Timestamp = Timestamp::from_ms(1_730_000_060_000);

/// An index with `ids`, added at noon.
fn index(ids: &[&str]) -> (Index, Clock) {
    let (mut index, mut clock) = (Index::default(), Clock::new(1));
    for id in ids {
        index.join(id, Entry { stamp: clock.tick(NOON), live: true });
    }
    (index, clock)
}

fn listed(index: &Index) -> Vec<&str> {
    index.ids().collect()
}

/// Absorbs `text`, then what is known, written down: that must say it all.
fn absorb(index: &mut Index, clock: &mut Clock, text: &str, wall: Timestamp) -> bool {
    let document = Document::read(text).unwrap();
    // Everything that was there at noon is news at noon.
    let recent = |_: &str| wall == NOON;
    let lacking = index.absorb(&document, Some(Place::Whole), clock, wall, &recent).lacking;
    let known = index.document(Place::Whole, wall);
    let text = known.text();
    let read = Document::read(&text).unwrap();
    assert_eq!(read, known);
    assert!(!index.absorb(&read, Some(Place::Whole), clock, wall, &recent).lacking);
    lacking
}

#[test]
fn st_20_what_a_later_write_dropped_is_noticed_and_kept() {
    let (mut index, mut clock) = index(&["a", "b"]);
    let older = "{\"ids\":[\"a\"],\"stamps\":{\"a\":\"0---------------\"}}";
    assert!(absorb(&mut index, &mut clock, older, LATER));
    assert_eq!(listed(&index), ["a", "b"]);
}

#[test]
fn st_20_writers_that_know_only_ids_are_understood() {
    // Added and removed long after the last change: meant as written.
    let (mut index, mut clock) = index(&["a", "b"]);
    assert!(absorb(&mut index, &mut clock, "{\"ids\":[\"a\",\"c\"]}", LATER));
    assert_eq!(listed(&index), ["a", "c"]);
    // Right after: such a writer cannot have seen it, so nothing was removed.
    let (mut index, mut clock) = self::index(&["a", "b"]);
    assert!(absorb(&mut index, &mut clock, "{\"ids\":[\"a\",\"c\"]}", NOON));
    assert_eq!(listed(&index), ["a", "b", "c"]);
    // One that keeps members it does not know says exactly what it removed, whenever it was.
    let known = index.document(Place::Whole, NOON).text();
    let spread = known.replace("[\"a\",\"b\",\"c\"]", "[\"a\",\"d\"]");
    assert!(absorb(&mut index, &mut clock, &spread, NOON));
    assert_eq!(listed(&index), ["a", "d"]);
    // And may add again what was removed, later.
    assert!(absorb(&mut index, &mut clock, "{\"ids\":[\"a\",\"b\",\"d\"]}", LATER));
    assert_eq!(listed(&index), ["a", "b", "d"]);
    // An empty list is a reset.
    assert!(absorb(&mut index, &mut clock, "{\"ids\":[]}", NOON));
    assert_eq!(listed(&index), [""; 0]);
}

#[test]
fn st_14_a_reset_is_one_stamp_and_what_comes_after_stays() {
    let (mut index, mut clock) = index(&["a", "b"]);
    let floor = clock.tick(NOON);
    assert_eq!(index.raise_floor(floor), ["a", "b"]);
    assert!(!index.join("a", Entry { stamp: Stamp::ZERO.next(), live: true }), "older than the reset");
    assert!(index.join("a", Entry { stamp: clock.tick(NOON), live: true }));
    assert_eq!((listed(&index), index.len()), (vec!["a"], 1));
    let text = index.document(Place::Whole, NOON).text();
    assert!(text.starts_with("{\"ids\":[\"a\"]") && !text.contains("gone"), "{text}");
}

#[test]
fn st_23_a_removal_is_remembered_to_the_horizon_and_the_last_ones_longer() {
    let ids: Vec<String> = (0..=GONE_KEPT).map(|number| format!("id{number:04}")).collect();
    let (mut index, mut clock) = index(&ids.iter().map(String::as_str).collect::<Vec<_>>());
    for id in &ids {
        index.join(id, Entry { stamp: clock.tick(NOON), live: false });
    }
    let within = index.document(Place::Whole, NOON + HORIZON);
    assert_eq!(within.gone.len(), GONE_KEPT + 1);
    let after = NOON + HORIZON + std::time::Duration::from_secs(2);
    let beyond = index.document(Place::Whole, after);
    assert_eq!(beyond.gone.len(), GONE_KEPT);
    assert!(find(&beyond.gone, "id0000").is_none(), "the oldest is forgotten");
    // Contexts that do not agree on the time do not fight over it.
    let mut fresh = Index::default();
    assert!(!absorb(&mut fresh, &mut clock, &within.text(), after));
    let text = beyond.text();
    assert!(absorb(&mut index, &mut clock, &text, NOON), "still to be remembered");
}

#[test]
fn st_34_stamps_from_far_ahead_are_taken_as_they_are_and_followed_by_later_ones() {
    for confirmed in [false, true] {
        let (mut index, mut clock) = index(&[]);
        if confirmed {
            clock.confirm(NOON, NOON);
        }
        let years_ahead = Clock::new(9).tick(NOON + HORIZON * 100).text();
        let text = format!("{{\"ids\":[\"a\"],\"stamps\":{{\"a\":\"{years_ahead}\"}}}}");
        assert!(!absorb(&mut index, &mut clock, &text, NOON), "nobody writes because of it");
        assert!(index.join("a", Entry { stamp: clock.tick(NOON), live: false }), "it can be removed");
    }
}

#[test]
fn st_23_what_is_forgotten_is_the_same_by_stamp_and_by_range_in_every_era() {
    for era in 0..super::ERAS {
        for age in [HORIZON / 2, HORIZON, HORIZON * 2] {
            let removed = Stamp::of(era, NOON.saturating_before(age));
            let ranges = forgotten_ranges(NOON).filter(|(from, to)| (*from..*to).contains(&removed)).count();
            assert_eq!(usize::from(is_forgotten(removed, NOON)), ranges, "{era} {age:?}");
        }
    }
}

#[test]
fn st_22_shards_say_together_what_one_document_said() {
    let names: Vec<String> = (0..200).map(|number| format!("id{number}")).collect();
    let (mut whole, mut clock) = index(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let layout = Layout::C(SHARDS_MIN);
    whole.join_layout(layout, clock.tick(NOON));
    let mut other = Index::default();
    for key in layout.index_keys() {
        let super::super::layout::Kind::Index(Some(place)) = layout.kind(&key) else { panic!("{key}") };
        let document = whole.document(place, NOON);
        assert!(!other.absorb(&document, Some(place), &mut clock, NOON, &|_| false).lacking);
    }
    assert_eq!(other, whole);
}

#[test]
fn st_26_poisoned_documents_are_no_documents_and_bad_ids_are_left_out() {
    for text in ["", "null", "[]", "{}", "{\"ids\":{}}", "{\"ids\":\"a\"}"] {
        assert_eq!(Document::read(text), None, "{text}");
    }
    let document = Document::read("{\"ids\":[1,null,\"\",\"a\",\"b\\n\"],\"stamps\":[],\"gone\":7}").unwrap();
    assert_eq!(document.ids.into_iter().collect::<Vec<_>>(), ["a"]);
}

proptest! {
    #[test]
    fn st_20_merging_forgets_order_and_repetition(
        facts in vec((0..4_u8, any::<bool>(), 1..40_u64), 1..20),
        floor in 0..30_u64,
        order in any::<u64>(),
    ) {
        let stamp = |at| Clock::new(1).tick(Timestamp::from_ms(at));
        let take = |index: &mut Index, (id, live, at): (u8, bool, u64)| {
            index.join(&id.to_string(), Entry { stamp: stamp(at), live });
        };
        let (mut one, mut other) = (Index::default(), Index::default());
        facts.iter().for_each(|&fact| take(&mut one, fact));
        one.raise_floor(stamp(floor));
        let mut shuffled = facts.clone();
        shuffled.extend(&facts);
        shuffled.sort_by_key(|fact| (u64::from(fact.0) * 31 + fact.2 * 17 + u64::from(fact.1)) ^ order);
        let (before, after) = shuffled.split_at(shuffled.len() / 3);
        before.iter().for_each(|&fact| take(&mut other, fact));
        other.raise_floor(stamp(floor));
        after.iter().for_each(|&fact| take(&mut other, fact));
        prop_assert_eq!(&one, &other);
        prop_assert_eq!(one.len(), one.ids().count());
    }
}
