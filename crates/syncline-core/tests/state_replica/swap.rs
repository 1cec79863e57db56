//! Storages that swap: a new value is written and what was there is read, in one step.

use std::collections::BTreeMap;

use syncline_core::state::json::Json;
use syncline_core::state::{Config, Effect, Failure, Input, Report};

use super::harness::{Harness, config, value};

const KEY: &str = "trackedEntity:a";

/// A replica with an entity `a`, on a storage that swaps.
fn swapping() -> Harness {
    let mut harness = Harness::new(Config { swaps: true, ..config(1) }, BTreeMap::default());
    harness.start();
    harness.give(Input::Put { op: 1, id: "a".to_owned(), value: value(1) });
    harness.settle();
    harness
}

fn stored(harness: &Harness) -> Json {
    Json::read(&harness.storage[KEY]).expect("JSON")
}

#[test]
fn st_37_a_new_value_takes_one_question() {
    let mut harness = swapping();
    harness.give(Input::Put { op: 2, id: "a".to_owned(), value: value(2) });
    assert!(matches!(harness.asks.front(), Some(Effect::Swap { entries, .. }) if entries.len() == 1));
    harness.serve();
    assert!(harness.asks.is_empty() && harness.told.contains(&Effect::Resolve { op: 2 }));
    assert_eq!(stored(&harness).member("n").and_then(Json::as_whole), Some(2));
    // What is not listed yet is written with the index, which others write too.
    harness.give(Input::Put { op: 3, id: "b".to_owned(), value: value(3) });
    assert!(matches!(harness.asks.front(), Some(Effect::Get { .. })));
}

/// Somebody whose clock is ahead wrote the entity and died before telling anybody.
#[test]
fn st_37_a_value_that_nobody_told_of_is_not_written_over_by_an_earlier_stamp() {
    let mut harness = swapping();
    let later = "{\"sync\":\"1---------------\",\"n\":7}";
    harness.storage.insert(KEY.to_owned(), later.to_owned());
    harness.give(Input::Put { op: 2, id: "a".to_owned(), value: value(2) });
    harness.serve();
    assert!(!harness.told.contains(&Effect::Resolve { op: 2 }), "it is not the last word yet");
    harness.settle();
    assert!(harness.told.contains(&Effect::Resolve { op: 2 }));
    let stamp = stored(&harness).member("sync").and_then(Json::as_text).unwrap().to_owned();
    assert!(stamp.as_str() > "1---------------", "{stamp}");
    assert_eq!(harness.view["a"], "{\"n\":2}");
}

#[test]
fn st_37_what_nobody_can_read_is_set_aside_after_a_swap_too() {
    let mut harness = swapping();
    harness.storage.insert(KEY.to_owned(), "[1".to_owned());
    harness.give(Input::Put { op: 2, id: "a".to_owned(), value: value(2) });
    harness.settle();
    assert_eq!(harness.storage["syncAside:trackedEntity:a"], "[1");
    assert!(harness.told.contains(&Effect::Report(Report::Poisoned { key: KEY.to_owned() })));
    assert!(harness.told.contains(&Effect::Resolve { op: 2 }));
}

#[test]
fn st_37_a_swap_that_is_refused_is_taken_back() {
    let mut harness = swapping();
    harness.give(Input::Put { op: 2, id: "a".to_owned(), value: value(2) });
    harness.refuse(Failure::Quota);
    harness.settle();
    assert!(harness.told.iter().any(|effect| matches!(effect, Effect::Reject { op: 2, .. })));
    assert_eq!(harness.view["a"], "{\"n\":1}");
    assert_eq!(stored(&harness).member("n").and_then(Json::as_whole), Some(1));
}
