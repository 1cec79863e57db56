//! Defects put in on purpose: a checker that does not find them proves nothing.

use syncline_core::lock::protocol::Place;

use crate::explore::explore;
use crate::world::{Budget, Bug, World, seconds};
use crate::worlds::{FILE, WEB};

/// The way to the state that must not be, which the same world without the defect does not have.
fn found(bug: Bug, kinds: &[(bool, Place)], budget: Budget, expected: &str) -> String {
    let world = || World::new(kinds, budget, seconds(17));
    let violation = explore(world().with_bug(bug)).expect_err("the defect was not found");
    assert!(violation.what.contains(expected), "{}", violation.what);
    let sound = explore(world());
    assert!(sound.is_ok(), "{:?}", sound.err());
    format!("{bug:?}: {} after {} steps", violation.what, violation.trace.len())
}

#[test]
fn lk_25_reading_and_then_writing_without_exclusion_is_found() {
    println!("{}", found(Bug::ReadThenWrite, &[FILE, FILE], Budget::default(), "hold the lock at once"));
}

#[test]
fn lk_20_a_web_lock_without_the_record_is_found() {
    println!(
        "{}",
        found(Bug::FallbackWithoutRecord, &[WEB, FILE], Budget::default(), "hold the lock at once")
    );
    // As the plain design would have it: two tabs with Web Locks, of which the second gives up waiting.
    println!(
        "{}",
        found(Bug::FallbackWithoutRecord, &[WEB, WEB], Budget::default(), "hold the lock at once")
    );
}

#[test]
fn lk_24_stealing_back_is_found() {
    let budget = Budget { freezes: 1, ..Budget::default() };
    println!("{}", found(Bug::StealBack, &[WEB, WEB], budget, "steals what it was not granted"));
}

#[test]
fn lk_24_believing_after_a_resume_what_was_believed_before_is_found() {
    let budget = Budget { freezes: 1, ..Budget::default() };
    println!("{}", found(Bug::NoCheckAfterResume, &[WEB, WEB], budget, "hold the lock at once"));
}
