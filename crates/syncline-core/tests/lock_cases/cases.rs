//! The seven cases of the specification, under their names, and what the other rows of its table ask of one tab.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use syncline_core::lock::protocol::{EventKind, Loss, Options, Place, Setup, Source, State};
use syncline_core::lock::{Code, Held, Input, LeaseId};
use syncline_core::retry::Policy;
use syncline_core::time::Timestamp;

use crate::tab::{File, Tab, WALL_START_MS, Web};

const OTHER: LeaseId = LeaseId::from_random([0xee; 16]);

fn keep() -> Options {
    Options { keep: true, ..Options::default() }
}

/// The file of a tab that holds the lock until `ms` after the start.
fn held_until(ms: u64) -> Rc<RefCell<File>> {
    let record = Some(Held { lease: OTHER, expires_at: Timestamp::from_ms(WALL_START_MS + ms) });
    Rc::new(RefCell::new(File { record, ..File::default() }))
}

#[test]
fn tc_01_a_web_lock_is_acquired_at_once() {
    let mut tab = Tab::new();
    let lease = tab.acquired(Options::default());
    assert_eq!(tab.kinds(), [EventKind::Acquired]);
    assert_eq!((lease.source, lease.source.did_fallback()), (Source::WebLock, false));
    assert_eq!(lease.expires_at.as_ms(), WALL_START_MS + 15_000);
    // The same lease stands in the record: a tab without Web Locks must see it.
    let record = tab.file.borrow().record.unwrap();
    assert_eq!((record.lease, record.expires_at), (lease.id, lease.expires_at));
    assert!(tab.certain() && tab.state() == State::Holding);
}

#[test]
fn tc_02_without_web_locks_the_file_is_taken() {
    let mut tab = Tab::new();
    tab.script.push_back(Web::NotSupported);
    let lease = tab.acquired(Options::default());
    assert_eq!(tab.kinds(), [EventKind::SwitchToFallback, EventKind::Acquired]);
    assert_eq!(tab.events[0].error, Some(Code::WebLockUnavailable));
    assert_eq!((lease.source, lease.source.did_fallback()), (Source::OpfsLock, true));
    assert_eq!(tab.file.borrow().record.map(|record| record.lease), Some(lease.id));
    assert_eq!(tab.logged, [Code::WebLockUnavailable]);
}

#[test]
fn tc_03_a_file_of_another_is_retried_with_growing_pauses() {
    let file = held_until(6_000);
    let mut tab = Tab::without_web_locks(&file);
    tab.acquire(Options::default());
    tab.pass(6_100);
    let pauses: Vec<_> = tab.events.iter().filter_map(|event| event.pause).collect();
    let told: Vec<_> = pauses.iter().map(|pause| (pause.attempt, pause.delay.as_millis())).collect();
    assert_eq!(told, [(1, 200), (2, 400), (3, 800), (4, 1_600), (5, 3_200)]);
    // The sixth attempt comes when the other's lease ends (6,001 ms), before its own time (6,200 ms).
    assert_eq!(tab.kinds().last(), Some(&EventKind::Acquired));
    assert_eq!(tab.source(), Some(Source::OpfsLock));
}

#[test]
fn tc_04_an_abort_ends_the_wait_and_does_not_fall_back() {
    let mut tab = Tab::new();
    tab.script.push_back(Web::Hangs);
    tab.acquire(Options::default());
    assert_eq!(tab.state(), State::Requesting);
    tab.bring(Input::Abort(tab.last_call()));
    assert_eq!(tab.kinds(), [EventKind::AcquireFailed]);
    assert_eq!(tab.failure(), Some(Code::WebLockAborted));
    assert_eq!((tab.state(), tab.file.borrow().record), (State::Idle, None));
    tab.pass(60_000);
    assert_eq!((tab.events.len(), tab.answers.len()), (1, 1));
    // A grant that was on its way is given back.
    let request = tab.asked[0];
    tab.web_held.push(request);
    tab.bring(Input::WebGranted(request));
    assert!(tab.web_held.is_empty() && !tab.certain());
}

#[test]
fn tc_05_a_renewal_extends_the_lease() {
    for script in [Web::Granted, Web::NotSupported] {
        let mut tab = Tab::new();
        tab.script.push_back(script);
        let first = tab.acquired(Options::default());
        tab.pass(10_000);
        tab.renew(first.id, 15_000);
        let renewed = tab.answers.last().unwrap().1.unwrap().unwrap();
        assert_eq!((renewed.id, renewed.source), (first.id, first.source));
        assert_eq!(renewed.expires_at.as_ms(), WALL_START_MS + 25_000);
        assert_eq!(tab.file.borrow().record.map(|record| record.expires_at), Some(renewed.expires_at));
        assert_eq!(tab.kinds().last(), Some(&EventKind::Renewed));
        tab.pass(13_000);
        assert!(tab.certain());
    }
}

#[test]
fn tc_06_a_file_that_cannot_be_removed_fails_the_release() {
    let mut tab = Tab::new();
    tab.script.push_back(Web::NotSupported);
    let lease = tab.acquired(Options::default());
    tab.file.borrow_mut().trouble.push_back(Input::WriteFailed);
    tab.release(lease.id);
    assert_eq!(tab.kinds().last(), Some(&EventKind::ReleaseFailed));
    assert_eq!((tab.failure(), tab.state()), (Some(Code::FallbackWriteFailed), State::Faulted));
    assert!(!tab.certain(), "whoever gives back has stopped");
    // The failure is retryable: the next try is a release like any other.
    tab.release(lease.id);
    assert_eq!((tab.failure(), tab.state()), (None, State::Idle));
    assert_eq!((tab.file.borrow().record, tab.announced), (None, 1));
}

#[test]
fn tc_07_an_expired_lease_is_noticed_and_must_be_acquired_anew() {
    let mut tab = Tab::new();
    let lease = tab.acquired(Options::default());
    tab.pass(15_000);
    assert_eq!(tab.kinds(), [EventKind::Acquired, EventKind::Expired]);
    assert_eq!((tab.losses.as_slice(), tab.state()), ([Loss::Expired].as_slice(), State::Idle));
    for operate in [|tab: &mut Tab, id| tab.renew(id, 15_000), Tab::release, Tab::commit] {
        let told = tab.events.len();
        operate(&mut tab, lease.id);
        assert_eq!(tab.failure(), Some(Code::LeaseExpired));
        assert_eq!(tab.kinds()[told..], [EventKind::Expired]);
    }
    assert_ne!(tab.acquired(Options::default()).id, lease.id);
}

#[test]
fn lk_10_an_operation_that_finds_the_lease_expired_says_so_once() {
    let mut tab = Tab::new();
    let lease = tab.acquired(Options::default());
    tab.jump(Duration::from_secs(20));
    tab.release(lease.id);
    assert_eq!(tab.kinds(), [EventKind::Acquired, EventKind::Expired]);
    assert_eq!(tab.failure(), Some(Code::LeaseExpired));
}

#[test]
fn lk_06_past_the_budget_the_lock_is_faulted_and_the_error_thrown() {
    let mut tab = Tab::without_web_locks(&held_until(60_000));
    let retry = Policy { max_attempts: 3, ..Options::default().retry };
    tab.acquire(Options { retry, ..Options::default() });
    tab.pass(10_000);
    use EventKind::{AcquireFailed, Backoff, SwitchToFallback};
    assert_eq!(tab.kinds(), [SwitchToFallback, Backoff, Backoff, AcquireFailed]);
    assert_eq!((tab.failure(), tab.state()), (Some(Code::WebLockUnavailable), State::Faulted));
    // Faulted is no grave.
    tab.pass(60_000);
    tab.acquired(Options::default());
}

#[test]
fn lk_06_what_cannot_be_retried_surfaces_at_once() {
    let mut tab = Tab::new();
    tab.file.borrow_mut().trouble.push_back(Input::OpenFailed);
    tab.acquire(Options::default());
    assert_eq!(tab.kinds(), [EventKind::AcquireFailed]);
    assert_eq!((tab.failure(), tab.state()), (Some(Code::FallbackOpenFailed), State::Faulted));
    assert!(tab.web_held.is_empty(), "a failed open must not leave the Web Lock behind");
}

#[test]
fn lk_05_what_may_pass_is_retried() {
    for (trouble, code) in
        [(Input::ReadFailed, Code::FallbackReadFailed), (Input::WriteFailed, Code::FallbackWriteFailed)]
    {
        let mut tab = Tab::new();
        tab.file.borrow_mut().trouble.push_back(trouble);
        tab.acquire(Options::default());
        assert_eq!((tab.state(), tab.events[0].error), (State::BackingOff, Some(code)));
        assert_eq!(tab.logged, [code]);
        tab.pass(200);
        assert_eq!((tab.state(), tab.source()), (State::Holding, Some(Source::WebLock)));
    }
}

#[test]
fn lk_08_acquiring_twice_from_one_tab_is_an_error_not_a_deadlock() {
    let mut tab = Tab::new();
    let lease = tab.acquired(Options::default());
    tab.acquire(Options::default());
    assert_eq!(tab.failure(), Some(Code::LeaseMismatch));
    tab.release(OTHER);
    assert_eq!(tab.failure(), Some(Code::LeaseMismatch));
    assert_eq!(tab.machine.lease(), Some(lease), "the lease in hand is not harmed");
}

#[test]
fn lk_03_a_kept_lease_is_renewed_every_five_seconds() {
    let mut tab = Tab::new();
    let lease = tab.acquired(keep());
    tab.pass(60_000);
    assert_eq!(tab.kinds().iter().filter(|kind| **kind == EventKind::Renewed).count(), 12);
    assert!(tab.certain());
    tab.release(lease.id);
    assert_eq!((tab.state(), tab.machine.wake_at()), (State::Idle, None));
}

#[test]
fn lk_20_the_web_lock_alone_is_not_enough() {
    let file = held_until(8_000);
    let mut tab = Tab::with(Setup { web_locks: true, place: Place::File }, &file);
    tab.acquire(Options::default());
    assert_eq!((tab.state(), tab.web_held.len()), (State::BackingOff, 0));
    tab.pass(8_001);
    assert_eq!(tab.source(), Some(Source::WebLock));
}

#[test]
fn lk_26_on_plain_http_the_record_lies_in_indexeddb() {
    let mut tab = Tab::with(Setup { web_locks: false, place: Place::Idb }, &Rc::default());
    let lease = tab.acquired(Options::default());
    assert_eq!(lease.source, Source::IdbLock);
    assert_eq!(lease.source.as_str(), "idb-lock");
}
