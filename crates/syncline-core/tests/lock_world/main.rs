//! Long random lives: two to four tabs with the real lock and the real AutoSave, in every mix of mechanisms, that crash,
//! freeze, go and come back while the clock is set, files fail, wake-ups get lost and storage is cleared.

mod browser;
mod fate;
mod page;
mod tab;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use syncline_core::lock::protocol::Request;
use syncline_core::lock::{Held, Input};
use syncline_sim::{Actor, ActorId, Context, Event, check, find_failure};

use crate::fate::Life;
use crate::page::{Style, Text};

type World = syncline_sim::World<Party>;
type Shared = Rc<RefCell<Tally>>;

enum Party {
    Browser(Box<browser::Browser>),
    Tab(Box<tab::Tab>),
}

#[derive(Debug, Clone)]
enum Note {
    RequestWeb(Request),
    StealWeb(Request),
    LetGo(Request),
    Open(u64),
    Write(Option<Held>),
    Close(u64),
    Rename {
        stamp: u64,
        text: Text,
        unseen_allowed: bool,
    },
    Renamed {
        done: bool,
    },
    /// Asks for the stored document.
    Load,
    Loaded(Option<(u64, Text)>),
    /// For the other tabs: the lock is free; a version was saved.
    Free,
    Saved(u64),
    Heard(u64),
    Lock(Input),
    Gone(ActorId),
    Hide,
    Show,
}

/// Faults to plant, each of which must be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    ReadThenWrite,
    NoCheckAfterResume,
    /// A change is accepted whatever it grew out of.
    AnyLine,
}

/// How often what happened.
#[derive(Debug, Clone, Default)]
struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }
}

impl Actor for Party {
    type Message = Note;

    fn handle(&mut self, event: Event<Note>, context: &mut Context<'_, Note>) {
        match self {
            Self::Browser(browser) => browser.handle(event, context),
            Self::Tab(tab) => tab.handle(event, context),
        }
    }
}

/// All that happened, as text. A kind of event that never happened would prove nothing.
fn report(name: &str, runs: &[Tally]) -> String {
    let mut total = BTreeMap::new();
    for (what, count) in runs.iter().flat_map(|tally| &tally.0) {
        *total.entry(*what).or_insert(0) += count;
    }
    let seeds = runs.len() as u64;
    for (what, least_per_10) in [
        ("grants", 200),
        ("saves", 500),
        ("steals", 5),
        ("losses", 50),
        ("conflicts", 5),
        ("words", 1_000),
        ("lost races", 5),
        ("failing reads", 20),
        ("failing writes", 10),
        ("hanging requests", 5),
        ("crashes", 50),
        ("freezes", 50),
        ("hides", 50),
        ("clocks set", 20),
    ] {
        let count = total.get(what).copied().unwrap_or(0);
        assert!(
            count >= least_per_10 * seeds / 10,
            "{name}: only {count} {what} in {seeds} seeds: {total:?}"
        );
    }
    format!("{name}: {seeds} seeds, {total:?}")
}

#[test]
fn lk_20_one_holder_through_long_lives_and_nothing_stored_without_the_lock() {
    let name = "lk_20_one_holder_through_long_lives_and_nothing_stored_without_the_lock";
    let runs = check(name, 20, |seed| fate::play(seed, Life::default()));
    println!("{}", report(name, &runs));
}

#[test]
fn lk_12_whatever_the_clocks_do_saves_come_in_the_order_of_the_grants() {
    let name = "lk_12_whatever_the_clocks_do_saves_come_in_the_order_of_the_grants";
    let runs = check(name, 20, |seed| fate::play(seed, Life { wild: true, ..Life::default() }));
    println!("{}", report(name, &runs));
}

/// An application that ignores what other tabs wrote can lose its own words, but never theirs.
#[test]
fn lk_30_a_page_that_never_looks_at_what_comes_overwrites_nothing() {
    let name = "lk_30_a_page_that_never_looks_at_what_comes_overwrites_nothing";
    let runs = check(name, 100, |seed| fate::play(seed, Life { style: Style::Blind, ..Life::default() }));
    let refused: u64 = runs.iter().map(|tally| tally.0.get("refused changes").copied().unwrap_or(0)).sum();
    assert!(refused > 0, "nothing was refused, so nothing was shown");
    println!("{name}: {} seeds, {refused} changes refused", runs.len());
}

/// The pages of these lives are bound, often busy, and hear of a new text seconds after their worker has taken it.
#[test]
fn lk_30_no_stored_word_is_missing_from_a_later_version() {
    let name = "lk_30_no_stored_word_is_missing_from_a_later_version";
    let runs = check(name, 100, |seed| fate::play(seed, Life { decides: false, ..Life::default() }));
    println!("{}", report(name, &runs));
}

/// What was stored before is gone; what is stored after is judged as ever, and no tab takes it for something it had seen.
#[test]
fn lk_30_after_site_data_was_cleared_nothing_is_overwritten_unseen() {
    let name = "lk_30_after_site_data_was_cleared_nothing_is_overwritten_unseen";
    let life = Life { wild: true, clears: true, ..Life::default() };
    let runs = check(name, 100, |seed| fate::play(seed, life));
    let cleared: u64 = runs.iter().map(|tally| tally.0.get("clearings").copied().unwrap_or(0)).sum();
    assert!(cleared >= runs.len() as u64 / 2, "storage was cleared only {cleared} times");
    println!("{}", report(name, &runs));
}

#[test]
fn planted_faults_are_found() {
    for (bug, style) in [
        (Bug::ReadThenWrite, Style::Bound),
        (Bug::NoCheckAfterResume, Style::Bound),
        (Bug::AnyLine, Style::Blind),
        // Here only a page that is busy at the wrong moment is overtaken.
        (Bug::AnyLine, Style::Bound),
    ] {
        let life = Life { bug: Some(bug), style, ..Life::default() };
        let (seed, told) = find_failure(50, |seed| fate::play(seed, life))
            .unwrap_or_else(|| panic!("{bug:?} was not found"));
        let expected =
            ["hold the lock", "without the lock", "later holder", "is missing", "without the record"];
        assert!(expected.iter().any(|expected| told.contains(expected)), "{bug:?}: {told}");
        println!("{bug:?}, seed {seed}: {told}");
    }
}
