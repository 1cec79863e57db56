//! Messages: when they are sent, how often, and what they may do.

use std::time::Duration;

use syncline_core::state::{Effect, Input, Report};

use super::desk::{Desk, index_of, value};

fn sent(desk: &Desk) -> Vec<(u64, String)> {
    let send = |effect: &Effect| {
        if let Effect::Send { send, text } = effect { Some((*send, text.clone())) } else { None }
    };
    desk.told.iter().filter_map(send).collect()
}

#[test]
fn st_07_a_delta_is_sent_only_when_the_write_is_stored() {
    let mut desk = Desk::started();
    desk.give(Input::Put { op: 1, id: "a".to_owned(), value: value(1) });
    desk.serve();
    assert!(sent(&desk).is_empty());
    desk.serve();
    let [(_, text)] = &sent(&desk)[..] else { panic!("{:?}", desk.told) };
    assert!(
        text.starts_with("{\"action\":\"entityDelta\",\"revision\":1,\"delta\":{\"a\":{\"sync\":"),
        "{text}"
    );
}

#[test]
fn st_09_it_is_sent_again_twice_and_silence_is_a_warning_not_a_failure() {
    let mut desk = Desk::started();
    desk.give(Input::Put { op: 1, id: "a".to_owned(), value: value(1) });
    desk.settle();
    assert!(desk.told.contains(&Effect::Resolve { op: 1 }), "stored is done, whoever hears of it");
    desk.pass(Duration::from_millis(199));
    assert_eq!(sent(&desk).len(), 1);
    desk.pass(Duration::from_millis(1));
    assert_eq!(sent(&desk).len(), 2);
    desk.pass(Duration::from_secs(5));
    assert_eq!(sent(&desk).len(), 3);
    assert!(desk.told.contains(&Effect::Report(Report::Unacknowledged)));
    desk.give(Input::Put { op: 2, id: "b".to_owned(), value: value(2) });
    desk.settle();
    desk.give(Input::Acked { send: 2 });
    desk.give(Input::Put { op: 3, id: "c".to_owned(), value: value(3) });
    desk.settle();
    desk.give(Input::NoReceiver { send: 3 });
    desk.pass(Duration::from_secs(5));
    assert_eq!(sent(&desk).len(), 5, "neither is sent again");
    assert!(desk.told.contains(&Effect::Report(Report::NoReceiver)));
}

#[test]
fn st_08_a_delta_for_what_is_not_listed_is_dropped_and_a_removal_removes_everywhere() {
    let mut desk = Desk::filled(3);
    desk.start();
    let delta = |delta: &str| Input::Message(format!("{{\"action\":\"entityDelta\",\"delta\":{delta}}}"));
    desk.give(delta("{\"ghost\":{\"n\":1}}"));
    desk.settle();
    assert!(!desk.view.contains_key("ghost"));
    desk.give(delta("{\"e0000\":null}"));
    assert!(!desk.view.contains_key("e0000"));
    desk.give(Input::Message(
        "{\"action\":\"entityPatch\",\"ops\":[{\"op\":\"remove\",\"entityId\":\"e0001\"}]}".to_owned(),
    ));
    desk.settle();
    assert_eq!(index_of(&desk.storage), ["e0002"]);
    assert_eq!(desk.view.keys().collect::<Vec<_>>(), ["e0002"]);
}

#[test]
fn st_13_late_and_doubled_messages_of_ours_bring_nothing_back() {
    let mut one = Desk::started();
    one.give(Input::Put { op: 1, id: "a".to_owned(), value: value(1) });
    one.settle();
    one.give(Input::Remove { op: 2, ids: vec!["a".to_owned()] });
    one.settle();
    one.give(Input::Put { op: 3, id: "a".to_owned(), value: value(3) });
    one.settle();
    let mut other = Desk::new(super::desk::config(2), one.storage.clone());
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
