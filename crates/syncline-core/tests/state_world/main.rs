//! Replicas, writers that know only `ids`, and one storage area without compare-and-set.
//!
//! One machine ([`world`]) runs them; who moves next is decided by a seed, or by counting through all the ways there
//! are ([`ways`]). Phases of concurrent work are followed by calm, and then the [`ledger`] says what has to be true: nothing
//! that was stored is lost, nothing that was removed is back, and everybody shows what storage says.

mod fate;
mod ledger;
mod party;
mod ways;
mod world;

use syncline_sim::{check, find_failure};

use fate::Faults;
use world::Bug;

#[test]
fn st_20_nothing_is_lost_in_any_order_of_two_contexts() {
    let tried = ways::contexts(2, false, false, None);
    assert!(tried.ends > 10 && tried.states > 500, "only {tried:?}");
    println!("{tried:?}");
}

#[test]
fn st_20_nothing_is_lost_in_any_order_of_two_contexts_with_two_wishes_each() {
    let tried = ways::two_each(None);
    assert!(tried.ends > 10 && tried.states > 500, "only {tried:?}");
    println!("{tried:?}");
}

#[test]
fn st_20_nothing_is_lost_when_one_of_two_contexts_dies_at_any_step() {
    let tried = ways::contexts(2, true, true, None);
    assert!(tried.ends > 10 && tried.states > 500, "only {tried:?}");
    println!("{tried:?}");
}

#[test]
fn st_20_nothing_is_lost_in_any_order_of_three_contexts() {
    let tried = ways::contexts(3, false, true, None);
    assert!(tried.ends > 10 && tried.states > 500, "only {tried:?}");
    println!("{tried:?}");
}

#[test]
fn st_20_the_plain_algorithm_loses_updates() {
    let (lost, orders) = ways::plain_contexts();
    assert!(lost > 0 && lost < orders, "{lost} of {orders}");
    println!("the plain algorithm loses an update in {lost} of {orders} orders");
}

const SEEDS: u64 = 60;

/// Of a crowd, in which much more happens.
const SEEDS_CROWDED: u64 = 15;

fn storm(name: &str, faults: Faults) -> String {
    let seeds = if faults.crowded { SEEDS_CROWDED } else { SEEDS };
    let tallies = check(name, seeds, |seed| fate::storm(seed, &faults, None));
    let total = tallies.iter().fold([0; 6], |mut sum, tally| {
        sum.iter_mut().zip(tally).for_each(|(sum, count)| *sum += count);
        sum
    });
    let [ops, writes, repairs, crashes, refusals, lost] = total;
    // One seed alone is a replay.
    let busy = ops > 10 * tallies.len() as u64 && writes > ops / 10 && repairs > 0;
    assert!(busy || tallies.len() == 1, "{total:?}");
    format!(
        "{name}: {} schedules, {ops} operations, {writes} writes, {repairs} dropped updates written again, \
         {crashes} crashes, {refusals} refused writes, {lost} events and messages lost, doubled or late",
        tallies.len()
    )
}

#[test]
fn st_20_nothing_is_lost_in_a_storm_with_crashes() {
    let told =
        storm("st_20_nothing_is_lost_in_a_storm_with_crashes", Faults { crashes: true, ..Faults::default() });
    println!("{told}");
}

#[test]
fn st_05_a_crash_within_a_write_leaves_nothing_listed_that_is_not_stored() {
    let told = storm(
        "st_05_a_crash_within_a_write_leaves_nothing_listed_that_is_not_stored",
        Faults { crashes: true, torn: true, ..Faults::default() },
    );
    println!("{told}");
}

#[test]
fn st_20_nothing_is_lost_beside_writers_that_know_only_ids() {
    let told = storm(
        "st_20_nothing_is_lost_beside_writers_that_know_only_ids",
        Faults { plain: true, ..Faults::default() },
    );
    println!("{told}");
}

#[test]
fn st_13_lost_doubled_and_late_messages_and_events_end_in_the_stored_truth() {
    let told = storm(
        "st_13_lost_doubled_and_late_messages_and_events_end_in_the_stored_truth",
        Faults { unreliable: true, ..Faults::default() },
    );
    println!("{told}");
}

#[test]
fn st_11_a_full_storage_loses_nothing_but_what_it_refused() {
    let told = storm(
        "st_11_a_full_storage_loses_nothing_but_what_it_refused",
        Faults { quota: true, ..Faults::default() },
    );
    println!("{told}");
}

/// A value was said to be stored because a reset had removed it; the reset was refused.
#[test]
fn st_11_a_schedule_that_once_lost_a_value() {
    fate::storm(9_069, &Faults { quota: true, ..Faults::default() }, None);
}

#[test]
fn st_23_clocks_that_jump_lose_nothing() {
    let told = storm(
        "st_23_clocks_that_jump_lose_nothing",
        Faults { jumps: true, crashes: true, ..Faults::default() },
    );
    println!("{told}");
}

#[test]
fn st_22_layouts_change_while_everybody_writes() {
    let told =
        storm("st_22_layouts_change_while_everybody_writes", Faults { layouts: true, ..Faults::default() });
    println!("{told}");
}

/// With all entities under one key, six contexts that each added one put off the index for ever, because every write of
/// another made the key look unread: nobody was answered and the key was rewritten hundreds of times a second.
#[test]
fn st_35_many_contexts_with_all_entities_under_one_key_come_to_rest() {
    let told = storm(
        "st_35_many_contexts_with_all_entities_under_one_key_come_to_rest",
        Faults { crowded: true, crashes: true, ..Faults::default() },
    );
    println!("{told}");
}

/// A storage that was cleared under an open context was taken for a reset at the moment of the last change known, which was
/// the very change to be stored: it was acknowledged and lost.
#[test]
fn st_33_what_is_stored_after_storage_was_cleared_is_there() {
    for layouts in [false, true] {
        let told = storm(
            "st_33_what_is_stored_after_storage_was_cleared_is_there",
            Faults { vanishes: true, layouts, ..Faults::default() },
        );
        println!("{told}");
    }
}

/// A context whose clock was years ahead wrote its stamps again whenever others had cut them back, and one whose clock was years
/// behind took what had just been added for old.
#[test]
fn st_34_clocks_hours_and_years_apart_lose_nothing_and_count_in_the_order_of_doing() {
    let name = "st_34_clocks_hours_and_years_apart_lose_nothing_and_count_in_the_order_of_doing";
    for crashes in [false, true] {
        let told = storm(name, Faults { apart: true, crashes, ..Faults::default() });
        println!("{told}");
    }
}

#[test]
fn st_34_clocks_years_apart_and_writers_that_know_only_ids() {
    let faults = Faults { apart: true, plain: true, ..Faults::default() };
    println!("{}", storm("st_34_clocks_years_apart_and_writers_that_know_only_ids", faults));
}

#[test]
fn st_30_a_context_that_stops_between_any_two_steps_holds_up_nobody_and_loses_nothing() {
    let name = "st_30_a_context_that_stops_between_any_two_steps_holds_up_nobody_and_loses_nothing";
    for layouts in [false, true] {
        println!("{}", storm(name, Faults { stops: true, overtaken: true, layouts, ..Faults::default() }));
    }
}

const ALL_AT_ONCE: Faults = Faults {
    stops: true,
    overtaken: true,
    crashes: true,
    vanishes: true,
    apart: true,
    torn: false,
    plain: false,
    unreliable: false,
    quota: false,
    jumps: false,
    layouts: false,
    crowded: false,
};

/// Storage was cleared while a context loaded: it read the index again and again, and never the values that the index waited for.
#[test]
fn st_33_a_schedule_in_which_a_loading_context_once_read_for_ever() {
    fate::storm(8_373, &ALL_AT_ONCE, None);
}

/// A context that stood still in the middle of a change of layout wrote an index without what was added meanwhile. It heard of the
/// addition, and did not write it where the new layout keeps it; the one that had added it died.
#[test]
fn st_22_a_schedule_in_which_an_addition_was_once_lost_between_two_layouts() {
    fate::storm(5_090, &Faults { layouts: true, ..ALL_AT_ONCE }, None);
}

/// The layout changed while a context added: it took its key of the former layout, which says nothing any more, for a proof that the
/// value was stored, and put the value off while it wrote the index. It died, and the index listed what was nowhere.
#[test]
fn st_22_a_schedule_in_which_an_entity_was_once_listed_and_not_stored() {
    fate::storm(12_374, &Faults { layouts: true, ..ALL_AT_ONCE }, None);
}

/// A context was told of a value that had been written over in the meantime, and never looked.
#[test]
fn st_13_a_schedule_in_which_a_message_was_once_believed_more_than_storage() {
    fate::storm(6_873, &Faults { apart: true, crashes: true, ..Faults::default() }, None);
    fate::storm(597, &Faults { layouts: true, ..ALL_AT_ONCE }, None);
}

/// Everything that a page, a user or a machine does to a storage, at once.
#[test]
fn st_33_stops_deaths_vanished_storage_and_clocks_years_apart_lose_nothing_and_come_to_rest() {
    let name = "st_33_stops_deaths_vanished_storage_and_clocks_years_apart_lose_nothing_and_come_to_rest";
    for layouts in [false, true] {
        println!("{}", storm(name, Faults { layouts, ..ALL_AT_ONCE }));
    }
}

#[test]
fn st_20_a_replica_that_repairs_nothing_is_found() {
    let told = find_failure(300, |seed| fate::storm(seed, &Faults::default(), Some(Bug::Deaf)));
    let told = told.expect("found").1;
    assert!(told.contains("lost") || told.contains("shows something else"), "{told}");
}

#[test]
fn st_05_an_index_written_before_the_entity_is_found() {
    let faults = Faults { crashes: true, torn: true, ..Faults::default() };
    let told = find_failure(300, |seed| fate::storm(seed, &faults, Some(Bug::IndexFirst)));
    let told = told.expect("found").1;
    assert!(told.contains("which is not stored"), "{told}");
}

#[test]
fn st_20_a_plain_algorithm_among_the_replicas_contexts_is_found() {
    let told = find_failure(300, |seed| fate::storm(seed, &Faults::default(), Some(Bug::Plain)));
    assert!(told.expect("found").1.contains("lost"));
}
