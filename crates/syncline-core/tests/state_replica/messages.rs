//! Messages: when they are sent, how often, and what they may do.

use std::time::Duration;

use syncline_core::state::{Effect, Input, Report};

use super::harness::{Harness, index_of, value};

fn sent(harness: &Harness) -> Vec<(u64, String)> {
    let send = |effect: &Effect| {
        if let Effect::Send { send, text } = effect { Some((*send, text.clone())) } else { None }
    };
    harness.told.iter().filter_map(send).collect()
}

#[test]
fn st_07_a_delta_is_sent_only_when_the_write_is_stored() {
    let mut harness = Harness::started();
    harness.give(Input::Put { op: 1, id: "a".to_owned(), value: value(1) });
    harness.serve();
    assert!(sent(&harness).is_empty());
    harness.serve();
    let [(_, text)] = &sent(&harness)[..] else { panic!("{:?}", harness.told) };
    assert!(
        text.starts_with("{\"action\":\"entityDelta\",\"revision\":1,\"delta\":{\"a\":{\"sync\":"),
        "{text}"
    );
}

#[test]
fn st_09_it_is_sent_again_twice_and_silence_is_a_warning_not_a_failure() {
    let mut harness = Harness::started();
    harness.give(Input::Put { op: 1, id: "a".to_owned(), value: value(1) });
    harness.settle();
    assert!(harness.told.contains(&Effect::Resolve { op: 1 }), "stored is done, whoever hears of it");
    harness.pass(Duration::from_millis(199));
    assert_eq!(sent(&harness).len(), 1);
    harness.pass(Duration::from_millis(1));
    assert_eq!(sent(&harness).len(), 2);
    harness.pass(Duration::from_secs(5));
    assert_eq!(sent(&harness).len(), 3);
    assert!(harness.told.contains(&Effect::Report(Report::Unacknowledged)));
    harness.give(Input::Put { op: 2, id: "b".to_owned(), value: value(2) });
    harness.settle();
    harness.give(Input::Acked { send: 2 });
    harness.give(Input::Put { op: 3, id: "c".to_owned(), value: value(3) });
    harness.settle();
    harness.give(Input::NoReceiver { send: 3 });
    harness.pass(Duration::from_secs(5));
    assert_eq!(sent(&harness).len(), 5, "neither is sent again");
    assert!(harness.told.contains(&Effect::Report(Report::NoReceiver)));
}

#[test]
fn st_08_a_delta_for_what_is_not_listed_is_dropped_and_a_removal_removes_everywhere() {
    let mut harness = Harness::filled(3);
    harness.start();
    let delta = |delta: &str| Input::Message(format!("{{\"action\":\"entityDelta\",\"delta\":{delta}}}"));
    harness.give(delta("{\"ghost\":{\"n\":1}}"));
    harness.settle();
    assert!(!harness.view.contains_key("ghost"));
    harness.give(delta("{\"e0000\":null}"));
    assert!(!harness.view.contains_key("e0000"));
    harness.give(Input::Message(
        "{\"action\":\"entityPatch\",\"ops\":[{\"op\":\"remove\",\"entityId\":\"e0001\"}]}".to_owned(),
    ));
    harness.settle();
    assert_eq!(index_of(&harness.storage), ["e0002"]);
    assert_eq!(harness.view.keys().collect::<Vec<_>>(), ["e0002"]);
}

#[test]
fn st_13_late_and_doubled_messages_of_ours_bring_nothing_back() {
    let mut one = Harness::started();
    one.give(Input::Put { op: 1, id: "a".to_owned(), value: value(1) });
    one.settle();
    one.give(Input::Remove { op: 2, ids: vec!["a".to_owned()] });
    one.settle();
    one.give(Input::Put { op: 3, id: "a".to_owned(), value: value(3) });
    one.settle();
    let mut other = Harness::new(super::harness::config(2), one.storage.clone());
    other.start();
    for (_, text) in sent(&one).into_iter().rev().chain(sent(&one)) {
        other.give(Input::Message(text));
        other.settle();
        assert_eq!(other.view["a"], "{\"n\":3}");
    }
    for text in ["", "7", "{\"action\":7}", "{\"action\":\"entityDelta\",\"delta\":{\"a\":[]}}"] {
        other.give(Input::Message(text.to_owned()));
        other.settle();
    }
    assert_eq!(other.view["a"], "{\"n\":3}");
}

/// A context that had stood still wrote an older value over a newer one, whose writer died. A third one had been told of the newer
/// value after that, believed it, and never looked.
#[test]
fn st_13_what_a_message_said_is_looked_for_in_storage_and_written_again() {
    let mut one = Harness::started();
    one.give(Input::Put { op: 1, id: "a".to_owned(), value: value(1) });
    one.settle();
    let before = one.storage.clone();
    let mut other = Harness::new(super::harness::config(2), before.clone());
    other.start();
    one.give(Input::Put { op: 2, id: "a".to_owned(), value: value(2) });
    one.settle();
    let (_, newer) = sent(&one).pop().expect("it is told");
    other.give(Input::Message(newer));
    other.settle();
    assert_eq!((other.view["a"].as_str(), &other.storage), ("{\"n\":2}", &before));
    other.pass(Duration::from_secs(2));
    assert!(other.storage["trackedEntity:a"].contains("\"n\":2"), "{:?}", other.storage);
}
