//! Pages that go and come back, thieves, clocks that jump, storage in trouble.

use std::rc::Rc;
use std::time::Duration;

use syncline_core::lock::protocol::{EventKind, Loss, Options, Place, Setup, Source, State};
use syncline_core::lock::{Code, Held, Input, LeaseId, Moment, Output};
use syncline_core::time::Timestamp;

use crate::tab::{Tab, WALL_START_MS, Web};

const OTHER: LeaseId = LeaseId::from_random([0xee; 16]);
const FRESH: LeaseId = LeaseId::from_random([0xdd; 16]);

fn keep() -> Options {
    Options { keep: true, come_back: true, ..Options::default() }
}

fn write_record(tab: &Tab, lease: LeaseId, ms: u64) {
    let expires_at = Timestamp::from_ms(WALL_START_MS + ms);
    tab.file.borrow_mut().record = Some(Held { lease, expires_at });
}

#[test]
fn lk_24_a_page_that_goes_gives_the_lock_back_and_one_that_returns_asks_again() {
    let mut tab = Tab::new();
    tab.acquired(keep());
    tab.bring(Input::Hide);
    assert_eq!((tab.state(), tab.losses.as_slice()), (State::Idle, [Loss::Hidden].as_slice()));
    assert!(tab.web_held.is_empty() && tab.file.borrow().record.is_none() && tab.announced == 1);
    tab.pass(60_000);
    assert_eq!(tab.state(), State::Idle);
    tab.bring(Input::Show { lease: FRESH });
    assert_eq!(tab.machine.lease().map(|lease| lease.id), Some(FRESH));
    assert_eq!(tab.kinds(), [EventKind::Acquired, EventKind::Released, EventKind::Acquired]);
}

#[test]
fn lk_31_a_page_that_closes_its_document_wants_nothing_more_when_it_is_back() {
    let mut tab = Tab::new();
    tab.acquired(keep());
    tab.bring(Input::Hide);
    tab.script.push_back(Web::Hangs);
    tab.bring(Input::Show { lease: FRESH });
    assert_eq!(tab.state(), State::Requesting);
    tab.bring(Input::Forget);
    tab.pass(60_000);
    assert_eq!((tab.state(), tab.web_held.len(), tab.asked.len()), (State::Idle, 0, 2));

    tab.acquired(keep());
    tab.bring(Input::Hide);
    tab.bring(Input::Forget);
    tab.bring(Input::Show { lease: OTHER });
    assert_eq!((tab.state(), tab.web_held.len()), (State::Idle, 0));
}

#[test]
fn lk_24_a_waiter_leaves_no_request_behind_in_the_cache() {
    let mut tab = Tab::new();
    tab.script.extend([Web::Hangs, Web::Granted]);
    tab.acquire(Options::default());
    tab.bring(Input::Hide);
    assert_eq!((tab.state(), tab.machine.wake_at()), (State::BackingOff, None));
    tab.pass(600_000);
    assert_eq!(tab.asked.len(), 1);
    tab.bring(Input::Show { lease: FRESH });
    assert_eq!((tab.state(), tab.asked.len(), tab.answers.len()), (State::Holding, 2, 1));
}

#[test]
fn lk_24_a_waiter_asks_again_every_few_seconds_however_long_it_may_wait() {
    let mut tab = Tab::new();
    write_record(&tab, OTHER, 100_000);
    tab.script.extend([Web::Hangs; 20]);
    tab.acquire(Options { max_wait: Duration::from_secs(3_600), ..Options::default() });
    tab.pass(60_000);
    assert!((8..=14).contains(&tab.asked.len()), "{}", tab.asked.len());
    assert_eq!((tab.stolen, tab.web_held.len()), (0, 0), "a lease in force is not stolen");
}

#[test]
fn lk_24_only_an_ended_lease_is_stolen_and_right_when_it_ends() {
    let mut tab = Tab::new();
    write_record(&tab, OTHER, 14_000);
    tab.script.extend([Web::Hangs; 9]);
    tab.acquire(Options::default());
    tab.pass(14_000);
    assert_eq!(tab.stolen, 0);
    tab.pass(300);
    assert_eq!((tab.stolen, tab.source()), (1, Some(Source::WebLock)));
    assert!(tab.file.borrow().record.is_some_and(|record| record.lease != OTHER));
}

#[test]
fn lk_24_a_web_lock_that_hangs_over_a_free_record_is_left_to_whoever_has_it() {
    let mut tab = Tab::new();
    tab.script.push_back(Web::Hangs);
    tab.acquire(Options::default());
    tab.pass(5_000);
    assert_eq!((tab.stolen, tab.source()), (0, Some(Source::OpfsLock)));
}

#[test]
fn lk_24_whoever_was_stolen_from_stops_and_does_not_steal_back() {
    let mut tab = Tab::new();
    tab.acquired(keep());
    let request = tab.web_held.pop().unwrap();
    write_record(&tab, OTHER, 15_000);
    tab.bring(Input::WebLost(request));
    assert_eq!((tab.state(), tab.losses.as_slice()), (State::Idle, [Loss::TakenOver].as_slice()));
    tab.pass(60_000);
    assert_eq!((tab.stolen, tab.file.borrow().record.map(|record| record.lease)), (0, Some(OTHER)));
}

#[test]
fn lk_24_after_a_freeze_the_first_thing_known_is_the_loss() {
    for (mono_ms, wall_ms) in [(14_000, 14_000), (0, 14_000), (14_000, 0)] {
        let mut tab = Tab::new();
        tab.acquired(keep());
        tab.now = Moment {
            mono: tab.now.mono + Duration::from_millis(mono_ms),
            wall: tab.now.wall + Duration::from_millis(wall_ms),
        };
        assert!(!tab.certain());
        tab.bring(Input::Show { lease: FRESH });
        assert_eq!(tab.losses, [Loss::Expired], "{mono_ms} {wall_ms}");
    }
}

#[test]
fn lk_24_a_renewal_that_finds_another_in_the_record_ends_the_lease() {
    let mut tab = Tab::new();
    let lease = tab.acquired(keep());
    write_record(&tab, OTHER, 15_000);
    tab.commit(lease.id);
    assert_eq!((tab.commits, tab.failure()), (0, Some(Code::LeaseExpired)));
    assert_eq!(tab.losses, [Loss::TakenOver]);
    assert_eq!(tab.file.borrow().record.map(|record| record.lease), Some(OTHER));
}

#[test]
fn lk_12_a_commit_happens_while_the_record_is_open_and_renews_the_lease() {
    let mut tab = Tab::new();
    let lease = tab.acquired(keep());
    tab.pass(4_000);
    tab.commit(lease.id);
    assert_eq!((tab.commits, tab.failure()), (1, None));
    assert_eq!(tab.machine.lease().unwrap().expires_at.as_ms(), WALL_START_MS + 19_000);
}

#[test]
fn lk_24_a_kept_lease_that_cannot_be_renewed_is_lost_before_it_ends() {
    let mut tab = Tab::new();
    tab.acquired(keep());
    tab.file.borrow_mut().trouble.extend([Input::ReadFailed; 20]);
    tab.pass(13_499);
    assert!(tab.certain() && tab.losses.is_empty());
    tab.pass(1);
    assert!(!tab.certain());
    assert_eq!(tab.losses, [Loss::Expired]);
}

#[test]
fn lk_25_a_failing_read_is_no_free_record_and_a_busy_one_is_tried_again() {
    let mut tab = Tab::new();
    write_record(&tab, OTHER, 14_000);
    tab.file.borrow_mut().trouble.extend([Input::OpenBusy, Input::OpenBusy, Input::ReadFailed]);
    tab.acquire(Options::default());
    tab.pass(100);
    assert_eq!((tab.state(), tab.events.len()), (State::BackingOff, 1));
    tab.pass(10_000);
    assert_eq!(tab.file.borrow().record.map(|record| record.lease), Some(OTHER));
}

#[test]
fn lk_25_nonsense_in_the_record_is_reported_and_respected_for_one_longest_lease() {
    let mut tab = Tab::without_web_locks(&Rc::default());
    tab.file.borrow_mut().record = Some(Held::UNREADABLE);
    tab.acquire(Options::default());
    assert_eq!(tab.kinds()[1], EventKind::RecordDoubtful);
    assert_eq!(tab.file.borrow().record.unwrap().expires_at.as_ms(), WALL_START_MS + 60_000);
    tab.pass(60_000);
    assert_eq!(tab.state(), State::BackingOff);
    tab.pass(1);
    assert_eq!(tab.state(), State::Holding);
    assert_eq!(tab.kinds().iter().filter(|kind| **kind == EventKind::RecordDoubtful).count(), 1);
}

#[test]
fn lk_21_a_waiter_goes_at_once_when_it_hears_of_a_release() {
    let mut tab = Tab::without_web_locks(&Rc::default());
    write_record(&tab, OTHER, 14_000);
    tab.acquire(Options::default());
    tab.pass(5_000);
    tab.file.borrow_mut().record = None;
    tab.bring(Input::Woken);
    assert_eq!(tab.state(), State::Holding);
}

#[test]
fn lk_21_a_release_heard_of_in_the_middle_of_an_attempt_is_not_forgotten_when_that_fails() {
    for (woken, state) in [(true, State::Switching), (false, State::BackingOff)] {
        let mut tab = Tab::without_web_locks(&Rc::default());
        let (now, call, options) = (tab.now, tab.last_call(), Options::default());
        tab.machine.handle(now, Input::Acquire { call, lease: FRESH, options });
        // The lease in it has ended; meanwhile its owner, back from a long freeze, gives it back, and is faster.
        let ended = Held { lease: OTHER, expires_at: Timestamp::from_ms(WALL_START_MS - 1_000) };
        tab.machine.handle(now, Input::Opened(Some(ended)));
        if woken {
            tab.machine.handle(now, Input::Woken);
        }
        let next = tab.machine.handle(now, Input::WriteFailed);
        assert_eq!((tab.state(), next.contains(&Output::Open)), (state, woken), "{next:?}");
    }
}

#[test]
fn lk_07_an_abort_in_the_middle_of_the_record_takes_back_what_was_written() {
    let mut tab = Tab::new();
    let options = Options::default();
    let call = syncline_core::lock::protocol::Call(7);
    let lease = FRESH;
    let setup = Setup { web_locks: false, place: Place::File };
    let mut machine = syncline_core::lock::Machine::new(setup);
    let mut outputs = machine.handle(tab.now, Input::Acquire { call, lease, options });
    outputs.extend(machine.handle(tab.now, Input::Opened(None)));
    outputs.extend(machine.handle(tab.now, Input::Abort(call)));
    assert_eq!(machine.state(), State::Idle);
    assert_eq!(machine.handle(tab.now, Input::Written), [Output::Write(None)]);
    assert_eq!(machine.handle(tab.now, Input::Written), [Output::Announce, Output::Close]);
    // And a request made meanwhile waits for the record to be closed, not for ever.
    tab.acquired(options);
}

#[test]
fn lk_22_storage_that_runs_full_is_told_before_it_hurts() {
    let mut tab = Tab::new();
    let quota = 1_000_000_000;
    for used in [0, 949_000_000, 950_000_001, 960_000_000, 10, 990_000_000] {
        tab.bring(Input::Storage { used, quota });
    }
    tab.bring(Input::StorageDenied);
    assert_eq!(tab.kinds(), [EventKind::StorageLow, EventKind::StorageLow, EventKind::StorageDenied]);
}

#[test]
fn calls_during_a_release_wait_for_its_end() {
    let mut tab = Tab::new();
    let lease = tab.acquired(Options::default());
    tab.file.borrow_mut().trouble.push_back(Input::OpenBusy);
    tab.release(lease.id);
    assert_eq!(tab.state(), State::Releasing);
    tab.acquire(Options::default());
    assert_eq!((tab.state(), tab.answers.len()), (State::Releasing, 1));
    tab.pass(50);
    assert_eq!((tab.state(), tab.answers.len()), (State::Holding, 3));
}
