//! The worlds that are explored, and what must hold in all of them.

use std::env;

use syncline_core::lock::protocol::Place;

use crate::explore::{Seen, explore};
use crate::world::{Budget, World, seconds};

pub(crate) const WEB: (bool, Place) = (true, Place::File);
pub(crate) const FILE: (bool, Place) = (false, Place::File);
pub(crate) const IDB: (bool, Place) = (false, Place::Idb);
/// Web Locks without a private file system: a private window.
const WEB_IDB: (bool, Place) = (true, Place::Idb);

const NONE: Budget = Budget {
    crashes: 0,
    freezes: 0,
    hides: 0,
    jumps: 0,
    mono_jumps: 0,
    troubles: 0,
    lost: 0,
    slow: 0,
    releases: 0,
    commits: 0,
};

/// Explores each world and says what was seen; fails with the way to the state that must not be.
fn prove(kinds: &[(bool, Place)], budgets: &[Budget], until_ms: u64) -> String {
    let mut all = Seen::default();
    for budget in budgets {
        match explore(World::new(kinds, *budget, until_ms)) {
            Ok(seen) => {
                assert!(seen.held > 0, "nobody ever held the lock: {budget:?}");
                all = all.with(seen);
            }
            Err(violation) => {
                panic!("{kinds:?} {budget:?}: {}\n{:?}", violation.what, violation.trace);
            }
        }
    }
    format!("{kinds:?}: {} worlds, {all:?}\n", budgets.len())
}

/// More of everything when there is time for it.
fn deep() -> bool {
    env::var_os("SYNCLINE_ROUNDS").is_some()
}

/// One fault of each kind. A frozen tab multiplies the states, so it has a shorter time of its own.
fn single_faults() -> Vec<Budget> {
    vec![
        Budget { releases: 2, ..NONE },
        Budget { crashes: 1, ..NONE },
        Budget { crashes: 1, lost: 1, ..NONE },
        Budget { hides: 1, ..NONE },
        Budget { jumps: 1, ..NONE },
        Budget { mono_jumps: 1, ..NONE },
        Budget { troubles: 1, ..NONE },
        Budget { slow: 1, ..NONE },
        Budget { commits: 1, releases: 1, ..NONE },
    ]
}

fn two_tabs(kinds: [(bool, Place); 2]) -> String {
    let mut told = prove(&kinds, &single_faults(), seconds(if deep() { 32 } else { 22 }));
    // Long enough for what a tab does that thaws when the lease ends, and for the pause after it.
    told += &prove(&kinds, &[Budget { freezes: 1, ..NONE }], seconds(20));
    if deep() {
        let pairs = [
            Budget { crashes: 1, troubles: 1, ..NONE },
            Budget { crashes: 1, hides: 1, ..NONE },
            Budget { troubles: 2, ..NONE },
            Budget { jumps: 1, slow: 1, ..NONE },
        ];
        told += &prove(&kinds, &pairs, seconds(17));
    }
    told
}

#[test]
fn lk_20_one_holder_of_two_tabs_on_web_locks() {
    println!("{}", two_tabs([WEB, WEB]));
}

#[test]
fn lk_20_one_holder_of_a_tab_on_web_locks_and_one_on_the_file() {
    println!("{}", two_tabs([WEB, FILE]));
}

#[test]
fn lk_20_one_holder_of_two_tabs_on_the_file() {
    println!("{}", two_tabs([FILE, FILE]));
}

#[test]
fn lk_26_one_holder_of_two_tabs_on_indexeddb() {
    println!("{}", two_tabs([IDB, IDB]));
}

#[test]
fn lk_26_one_holder_of_two_tabs_on_indexeddb_one_with_web_locks() {
    println!("{}", two_tabs([WEB_IDB, IDB]));
}

/// Clocks that jump forth and back between two checks deceive everybody who asks only the clocks; what is written under
/// the record's own exclusion still comes in the order of the grants.
#[test]
fn lk_12_commits_come_in_the_order_of_the_grants_whatever_the_clocks_do() {
    let kinds = if deep() { [FILE, FILE] } else { [IDB, IDB] };
    let budget = Budget { jumps: 2, commits: 2, ..NONE };
    let mut world = World::new(&kinds, budget, seconds(5));
    let deceived = explore(world.clone()).expect_err("two jumps that cancel each other deceive the clocks");
    assert!(deceived.what.contains("hold the lock at once"), "{}", deceived.what);
    world.clocks_deceive = true;
    match explore(world) {
        Ok(seen) => println!("{kinds:?}: {seen:?}"),
        Err(violation) => panic!("{kinds:?}: {}\n{:?}", violation.what, violation.trace),
    }
}

fn three_tabs(kinds: [(bool, Place); 3]) -> String {
    let until_ms = seconds(if deep() { 20 } else { 16 });
    // Tabs that ask at the record meet there at every step: with two of them some faults fill minutes, and wait for a soak.
    let many = kinds.iter().filter(|(web_locks, _)| !web_locks).count() > 1;
    let brief_ms = seconds(match (many, deep()) {
        (true, _) => 1,
        (false, false) => 3,
        (false, true) => 5,
    });
    let told = prove(&kinds, &[Budget { crashes: 1, ..NONE }], until_ms);
    let brief = [
        Budget { releases: 1, ..NONE },
        Budget { hides: 1, ..NONE },
        Budget { jumps: 1, ..NONE },
        Budget { troubles: 1, ..NONE },
        Budget { slow: 1, ..NONE },
    ];
    let brief = if many && !deep() { &brief[..1] } else { &brief[..] };
    told + &prove(&kinds, brief, brief_ms)
}

#[test]
fn lk_20_one_holder_of_three_tabs_on_web_locks() {
    println!("{}", three_tabs([WEB, WEB, WEB]));
}

#[test]
fn lk_20_one_holder_of_three_tabs_of_which_one_is_on_the_file() {
    println!("{}", three_tabs([WEB, WEB, FILE]));
}

#[test]
fn lk_20_one_holder_of_three_tabs_of_which_two_are_on_the_file() {
    println!("{}", three_tabs([WEB, FILE, FILE]));
}

#[test]
fn lk_26_one_holder_of_three_tabs_on_indexeddb() {
    println!("{}", three_tabs([IDB, IDB, IDB]));
}
