//! A document that saves itself, case by case: what is written when, and what the user sees.

use syncline_core::lock::autosave::{AutoSave, Input, Output, Status};
use syncline_core::lock::protocol::Loss;
use syncline_core::time::Timestamp;

use Input::*;

/// Feeds `(at ms, input)` with a certain lease and compares what is to be done.
fn follow(autosave: &mut AutoSave, steps: &[(u64, Input, &[Output])]) {
    for (step, (at_ms, input, expected)) in steps.iter().enumerate() {
        let outputs = autosave.handle(Timestamp::from_ms(*at_ms), true, *input);
        assert_eq!(outputs, *expected, "step {step}: {input:?} at {at_ms}");
    }
}

const CHANGED: Input = Changed { line: 1, version: 5 };

const fn show(status: Status) -> Output {
    Output::Show(status)
}

/// A document open as version 4, with the lock held, at 0 ms.
fn opened() -> AutoSave {
    let mut autosave = AutoSave::new();
    follow(
        &mut autosave,
        &[
            (0, Open { stamp: 4 }, &[Output::Adopt { line: 1 }, Output::Acquire, show(Status::Opening)]),
            (0, Acquired, &[Output::Load]),
            (0, Loaded { stamp: 4 }, &[show(Status::Saved)]),
        ],
    );
    autosave
}

#[test]
fn lk_12_a_change_is_saved_half_a_second_later_as_the_next_version() {
    let mut autosave = opened();
    follow(&mut autosave, &[(1_000, CHANGED, &[show(Status::Saving)]), (1_300, CHANGED, &[])]);
    assert_eq!(autosave.wake_at(), Some(Timestamp::from_ms(1_800)));
    follow(
        &mut autosave,
        &[
            (1_799, Timer, &[]),
            (1_800, Timer, &[Output::WriteTemp { stamp: 5 }]),
            (1_850, TempWritten, &[Output::Switch]),
            (1_870, Switched, &[Output::Announce { stamp: 5 }, show(Status::Saved)]),
        ],
    );
    assert!(autosave.clean() && autosave.wake_at().is_none());
}

#[test]
fn lk_12_whoever_types_on_and_on_is_saved_every_two_seconds() {
    let mut autosave = opened();
    let mut saved_at = None;
    for at_ms in (0..8_000).step_by(100) {
        let outputs = autosave.handle(Timestamp::from_ms(at_ms), true, CHANGED);
        if outputs.contains(&Output::WriteTemp { stamp: 5 }) {
            saved_at = Some(at_ms);
        }
    }
    assert_eq!(saved_at, Some(2_000));
}

#[test]
fn lk_12_what_changes_during_a_save_is_saved_by_the_next() {
    let mut autosave = opened();
    follow(
        &mut autosave,
        &[
            (0, CHANGED, &[show(Status::Saving)]),
            (500, Timer, &[Output::WriteTemp { stamp: 5 }]),
            (510, CHANGED, &[]),
            (520, TempWritten, &[Output::Switch]),
            (530, Switched, &[Output::Announce { stamp: 5 }]),
            (1_010, Timer, &[Output::WriteTemp { stamp: 6 }]),
        ],
    );
}

#[test]
fn lk_12_an_uncertain_lease_neither_begins_nor_ends_a_save() {
    let mut autosave = opened();
    autosave.handle(Timestamp::from_ms(0), true, CHANGED);
    assert_eq!(autosave.handle(Timestamp::from_ms(500), false, Timer), []);
    assert_eq!(autosave.handle(Timestamp::from_ms(750), true, Timer), [Output::WriteTemp { stamp: 5 }]);
    assert_eq!(autosave.handle(Timestamp::from_ms(800), false, TempWritten), []);
    assert!(!autosave.clean() && autosave.wake_at().is_some());
    // And once more when it is certain again.
    assert_eq!(autosave.handle(Timestamp::from_ms(2_000), true, Timer), [Output::WriteTemp { stamp: 5 }]);
}

#[test]
fn lk_12_another_tab_has_it_then_this_one() {
    let mut autosave = AutoSave::new();
    follow(
        &mut autosave,
        &[
            (0, Open { stamp: 4 }, &[Output::Adopt { line: 1 }, Output::Acquire, show(Status::Opening)]),
            (5_000, Waiting, &[Output::Load, show(Status::ReadOnly)]),
            (5_010, Loaded { stamp: 4 }, &[]),
            (5_500, Waiting, &[]),
            (6_000, Heard { stamp: 5 }, &[Output::Load]),
            (6_010, Loaded { stamp: 5 }, &[Output::Adopt { line: 2 }]),
            (6_020, Heard { stamp: 5 }, &[]),
            (9_000, Acquired, &[Output::Load, show(Status::Opening)]),
            (9_010, Loaded { stamp: 6 }, &[Output::Adopt { line: 3 }, show(Status::Saved)]),
        ],
    );
}

/// A reader was told of version 5 and reads it; meanwhile the holder saves version 6 and goes. The answer on its way
/// says 5, and saving on top of that would bury 6.
#[test]
fn lk_12_what_was_read_before_the_lock_was_held_does_not_count() {
    let mut autosave = AutoSave::new();
    follow(
        &mut autosave,
        &[
            (0, Open { stamp: 4 }, &[Output::Adopt { line: 1 }, Output::Acquire, show(Status::Opening)]),
            (10, Waiting, &[Output::Load, show(Status::ReadOnly)]),
            (20, Heard { stamp: 5 }, &[]),
            (30, Acquired, &[show(Status::Opening)]),
            (40, Loaded { stamp: 5 }, &[Output::Load]),
            (50, Loaded { stamp: 6 }, &[Output::Adopt { line: 2 }, show(Status::Saved)]),
        ],
    );
}

#[test]
fn lk_12_a_lost_lease_stops_the_save_and_is_asked_for_again() {
    for (loss, status) in [(Loss::Expired, Status::Lost), (Loss::TakenOver, Status::TakenOver)] {
        let mut autosave = opened();
        follow(
            &mut autosave,
            &[
                (0, CHANGED, &[show(Status::Saving)]),
                (500, Timer, &[Output::WriteTemp { stamp: 5 }]),
                (510, Lost(loss), &[Output::Acquire, show(status)]),
                (520, TempWritten, &[]),
                (60_000, Timer, &[]),
                (60_000, Acquired, &[Output::Load, show(Status::Opening)]),
                // Nobody else saved meanwhile: what was typed is saved now.
                (60_010, Loaded { stamp: 4 }, &[Output::WriteTemp { stamp: 5 }, show(Status::Saving)]),
            ],
        );
    }
}

#[test]
fn lk_12_lost_and_held_by_another_is_taken_over() {
    let mut autosave = opened();
    autosave.handle(Timestamp::ZERO, false, Lost(Loss::Expired));
    follow(&mut autosave, &[(10, Waiting, &[Output::Load, show(Status::TakenOver)])]);
}

#[test]
fn lk_12_a_version_nobody_here_has_seen_is_not_written_over_unasked() {
    let back = |answer: Input, expected: &[Output]| {
        let mut autosave = opened();
        follow(
            &mut autosave,
            &[
                (0, CHANGED, &[show(Status::Saving)]),
                (10, Lost(Loss::TakenOver), &[Output::Acquire, show(Status::TakenOver)]),
                (20_000, Acquired, &[Output::Load, show(Status::Opening)]),
                (20_010, Loaded { stamp: 9 }, &[Output::Conflict { stored: 9 }, show(Status::Conflict)]),
                (30_000, Timer, &[]),
                (30_000, CHANGED, &[]),
                (30_010, answer, expected),
            ],
        );
    };
    back(KeepMine, &[Output::WriteTemp { stamp: 10 }, show(Status::Saving)]);
    back(TakeTheirs, &[Output::Adopt { line: 2 }, show(Status::Saved)]);
}

#[test]
fn lk_12_a_switch_that_arrives_after_the_loss_still_counts() {
    let mut autosave = opened();
    follow(
        &mut autosave,
        &[
            (0, CHANGED, &[show(Status::Saving)]),
            (500, Timer, &[Output::WriteTemp { stamp: 5 }]),
            (510, TempWritten, &[Output::Switch]),
            (520, Lost(Loss::Expired), &[Output::Acquire, show(Status::Lost)]),
            (530, Switched, &[Output::Announce { stamp: 5 }]),
            (9_000, Acquired, &[Output::Load, show(Status::Opening)]),
            (9_010, Loaded { stamp: 5 }, &[show(Status::Saved)]),
        ],
    );
}

#[test]
fn lk_12_a_failed_save_says_so_and_is_tried_again_with_growing_pauses() {
    let mut autosave = opened();
    let write: &[Output] = &[Output::WriteTemp { stamp: 5 }];
    follow(
        &mut autosave,
        &[
            (0, CHANGED, &[show(Status::Saving)]),
            (500, Timer, write),
            (500, TempFailed, &[show(Status::Unsaved)]),
            (1_499, Timer, &[]),
            (1_500, Timer, write),
            (1_500, TempWritten, &[Output::Switch]),
            (1_500, SwitchFailed, &[]),
            (3_499, Timer, &[]),
            (3_500, Timer, write),
            (3_500, TempWritten, &[Output::Switch]),
            (3_500, Switched, &[Output::Announce { stamp: 5 }, show(Status::Saved)]),
        ],
    );
}

#[test]
fn lk_24_a_page_that_goes_saves_first_and_then_lets_go() {
    let mut autosave = opened();
    follow(
        &mut autosave,
        &[
            (0, CHANGED, &[show(Status::Saving)]),
            (10, Hide, &[Output::WriteTemp { stamp: 5 }]),
            (20, TempWritten, &[Output::Switch]),
            (30, Switched, &[Output::Announce { stamp: 5 }, Output::Yield, show(Status::Saved)]),
            (40, Lost(Loss::Hidden), &[show(Status::Lost)]),
            (90_000, Show, &[]),
            (90_010, Acquired, &[Output::Load, show(Status::Opening)]),
            (90_020, Loaded { stamp: 5 }, &[show(Status::Saved)]),
        ],
    );
    // Nothing to save: at once. A save that hangs: a second at most.
    follow(&mut opened(), &[(10, Hide, &[Output::Yield])]);
    let mut slow = opened();
    follow(
        &mut slow,
        &[
            (0, CHANGED, &[show(Status::Saving)]),
            (10, Hide, &[Output::WriteTemp { stamp: 5 }]),
            (1_010, Timer, &[Output::Yield]),
        ],
    );
}

#[test]
fn lk_05_a_lock_that_cannot_be_had_stops_the_saving_until_opened_again() {
    let mut autosave = opened();
    follow(
        &mut autosave,
        &[
            (0, Lost(Loss::Expired), &[Output::Acquire, show(Status::Lost)]),
            (10, Refused, &[]),
            (60_000, CHANGED, &[]),
            (70_000, Timer, &[]),
            (80_000, Open { stamp: 4 }, &[Output::Acquire]),
            (80_010, Acquired, &[Output::Load, show(Status::Opening)]),
            (80_020, Loaded { stamp: 4 }, &[Output::WriteTemp { stamp: 5 }, show(Status::Saving)]),
        ],
    );
}

#[test]
fn a_stored_version_that_cannot_be_read_is_read_again_and_nothing_saved_before() {
    let mut autosave = AutoSave::new();
    follow(
        &mut autosave,
        &[
            (0, Open { stamp: 4 }, &[Output::Adopt { line: 1 }, Output::Acquire, show(Status::Opening)]),
            (0, Acquired, &[Output::Load]),
            (0, CHANGED, &[]),
            (10, LoadFailed, &[]),
            (1_010, Timer, &[Output::Load]),
            (1_020, Loaded { stamp: 4 }, &[Output::WriteTemp { stamp: 5 }, show(Status::Saving)]),
        ],
    );
}

#[test]
fn closing_gives_the_lock_back() {
    let mut autosave = opened();
    follow(&mut autosave, &[(0, Close, &[Output::Release]), (10, CHANGED, &[]), (9_000, Timer, &[])]);
}

#[test]
fn lk_30_a_change_of_a_text_that_was_overtaken_is_refused() {
    let mut autosave = AutoSave::new();
    follow(
        &mut autosave,
        &[
            (0, Open { stamp: 4 }, &[Output::Adopt { line: 1 }, Output::Acquire, show(Status::Opening)]),
            (10, Waiting, &[Output::Load, show(Status::ReadOnly)]),
            (15, Loaded { stamp: 4 }, &[]),
            (20, Acquired, &[Output::Load, show(Status::Opening)]),
            (30, Loaded { stamp: 9 }, &[Output::Adopt { line: 2 }, show(Status::Saved)]),
            // Typed before the page had heard of version 9.
            (40, CHANGED, &[]),
            (9_000, Timer, &[]),
            (9_010, Changed { line: 2, version: 12 }, &[show(Status::Saving)]),
            (9_510, Timer, &[Output::WriteTemp { stamp: 12 }]),
        ],
    );
    assert!(!autosave.accepts(1) && autosave.accepts(2));
}

#[test]
fn lk_30_a_document_that_vanished_is_stored_again_by_the_holder_alone() {
    let mut reader = AutoSave::new();
    let stamp = (1 << 32) + (50 << 10) + 4;
    follow(
        &mut reader,
        &[
            (0, Open { stamp: 4 }, &[Output::Adopt { line: 1 }, Output::Acquire, show(Status::Opening)]),
            (10, Waiting, &[Output::Load, show(Status::ReadOnly)]),
            // Nothing is stored: it goes on showing what it has.
            (30, Loaded { stamp: 0 }, &[]),
            (40, Acquired, &[Output::Load, show(Status::Opening)]),
            (50, Loaded { stamp: 0 }, &[Output::WriteTemp { stamp }, show(Status::Saving)]),
        ],
    );
}
