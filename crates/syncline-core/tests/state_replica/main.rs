//! What one replica does, effect by effect: start, updates, messages, refusals, orphans, schemas, foreign contents.

mod desk;
mod keep;
mod messages;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use syncline_core::state::names::{BATCH_MAX, QUEUE_MAX};
use syncline_core::state::{Config, Effect, Error, Failure, Input, Layout, Report, Value};

use desk::{Desk, config, index_of, value};

#[test]
fn st_10_start_reads_settings_index_and_listed_entities_in_batches_and_then_the_queue() {
    let mut desk = Desk::filled(4_200);
    desk.storage.insert("trackedEntity:orphan".to_owned(), "{\"n\":7}".to_owned());
    desk.give(Input::Start);
    assert_eq!(desk.asked(), ["schemaVersion", "syncCursor", "syncSettings", "trackedEntities:index"]);
    // Heard while loading: a value, then another one for the same entity.
    for n in [50, 51] {
        let (key, text) = ("trackedEntity:e0001".to_owned(), format!("{{\"n\":{n}}}"));
        desk.storage.insert(key.clone(), text.clone());
        desk.give(Input::Changed(vec![(key, Some(text))]));
    }
    desk.serve();
    let mut batches = Vec::new();
    while !desk.asked().is_empty() && !desk.replica.is_bootstrapped() {
        assert!(desk.view.is_empty() && desk.asked().iter().all(|key| key.starts_with("trackedEntity:e")));
        batches.push(desk.asked().len());
        desk.serve();
    }
    assert_eq!(batches, [2_000, 2_000, 200]);
    desk.settle();
    assert_eq!(desk.view.len(), 4_200, "the orphan is not shown and no error");
    assert_eq!(desk.view["e0001"], "{\"n\":51}");
    assert!(!desk.told.iter().any(|effect| matches!(effect, Effect::Report(_))));
}

#[test]
fn st_10_more_than_the_queue_holds_means_that_everything_is_read_again() {
    let mut desk = Desk::filled(3);
    desk.give(Input::Start);
    desk.serve();
    // What was asked for is answered as it was; then all of this happens, and most of it cannot be kept.
    let held = desk.answer();
    for n in 0..=QUEUE_MAX {
        let text = format!("{{\"n\":{n}}}");
        desk.storage.insert("trackedEntity:e0002".to_owned(), text.clone());
        desk.give(Input::Changed(vec![("trackedEntity:e0002".to_owned(), Some(text))]));
    }
    desk.give(held);
    desk.settle();
    assert!(desk.told.contains(&Effect::Report(Report::Overflow)));
    assert_eq!(desk.view["e0002"], format!("{{\"n\":{QUEUE_MAX}}}"));
}

#[test]
fn st_05_the_entity_is_stored_before_the_index_and_removed_after_it() {
    let mut desk = Desk::started();
    desk.give(Input::Put { op: 1, id: "a".to_owned(), value: value(1) });
    desk.serve();
    let Some(Effect::Set { entries, .. }) = desk.asks.front().cloned() else { panic!("{:?}", desk.asks) };
    let keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["trackedEntity:a", "trackedEntities:index"]);
    desk.settle();
    desk.give(Input::Remove { op: 2, ids: vec!["a".to_owned(), "not there".to_owned()] });
    desk.serve();
    assert!(matches!(desk.asks.front(), Some(Effect::Set { entries, .. }) if entries.len() == 1));
    desk.serve();
    assert!(matches!(desk.asks.front(), Some(Effect::Remove { keys, .. }) if keys == &["trackedEntity:a"]));
    assert!(desk.told.contains(&Effect::Resolve { op: 2 }), "the index is what counts");
    desk.settle();
    desk.give(Input::Remove { op: 3, ids: vec!["a".to_owned()] });
    assert!(desk.asks.is_empty(), "removing what is not there changes nothing");
    assert!(desk.told.contains(&Effect::Resolve { op: 3 }));
}

#[test]
fn st_11_what_was_put_before_a_removal_that_is_refused_is_stored_and_only_then_said_to_be() {
    for removal in [Input::Reset { op: 2 }, Input::Remove { op: 2, ids: vec!["e0000".to_owned()] }] {
        for layout in [Layout::A, Layout::B] {
            let mut desk = Desk::filled(2);
            desk.start();
            desk.give(Input::SetLayout { op: 9, layout });
            desk.settle();
            desk.give(Input::Put { op: 1, id: "e0000".to_owned(), value: value(5) });
            desk.give(removal.clone());
            // An index without it never finds room; the value does.
            while let Some(ask) = desk.asks.front() {
                let removes = |(key, text): &(String, String)| {
                    key == "trackedEntities:index"
                        && !text.split_once(']').is_some_and(|(ids, _)| ids.contains("e0000"))
                };
                match ask {
                    Effect::Set { entries, .. } if entries.iter().any(removes) => desk.refuse(Failure::Quota),
                    _ => desk.serve(),
                }
            }
            desk.settle();
            let case = format!("{removal:?}, {layout:?}: {:?}", desk.told);
            assert!(desk.told.contains(&Effect::Reject { op: 2, error: Error::Quota }), "{case}");
            assert!(desk.told.contains(&Effect::Resolve { op: 1 }), "{case}");
            assert_eq!(desk.view["e0000"], "{\"n\":5}", "{case}");
            let stored = desk.storage.values().filter(|text| text.contains("\"n\":5")).count();
            assert_eq!(stored, 1, "{case}");
        }
    }
}

#[test]
fn st_11_an_update_renders_at_once_and_returns_to_the_stored_truth_when_refused() {
    let mut desk = Desk::filled(2);
    desk.start();
    desk.give(Input::Put { op: 1, id: "e0000".to_owned(), value: value(5) });
    assert_eq!(desk.view["e0000"], "{\"n\":5}", "before anything is stored");
    desk.serve();
    desk.refuse(Failure::Quota);
    desk.settle();
    assert_eq!(desk.view["e0000"], "{\"n\":0}");
    assert!(desk.told.contains(&Effect::Reject { op: 1, error: Error::Quota }));
    assert!(!Error::Quota.retryable() && Error::Storage.retryable());
    // Of several at once only the one that does not fit is refused.
    for (op, id) in [(2, "small"), (3, "large"), (4, "e0001")] {
        desk.give(Input::Put { op, id: id.to_owned(), value: value(op) });
    }
    while !desk.asks.is_empty() {
        let large = |(key, _): &(String, String)| key.ends_with(":large");
        match desk.asks.front() {
            Some(Effect::Set { entries, .. }) if entries.iter().any(large) => desk.refuse(Failure::Quota),
            _ => desk.serve(),
        }
    }
    desk.settle();
    let ends = |op| {
        desk.told.iter().find(
            |effect| matches!(effect, Effect::Resolve { op: o } | Effect::Reject { op: o, .. } if *o == op),
        )
    };
    assert_eq!(ends(2), Some(&Effect::Resolve { op: 2 }));
    assert_eq!(ends(3), Some(&Effect::Reject { op: 3, error: Error::Quota }));
    assert_eq!(ends(4), Some(&Effect::Resolve { op: 4 }));
    assert_eq!(index_of(&desk.storage), ["e0000", "e0001", "small"]);
    assert!(!desk.view.contains_key("large"));
}

#[test]
fn st_12_only_the_touched_entity_is_rendered_and_foreign_keys_do_nothing() {
    let mut desk = Desk::filled(100);
    desk.start();
    desk.told.clear();
    for key in ["theirs", "trackedEntitiesX", "trackedEntity", "syncSettings2"] {
        desk.give(Input::Changed(vec![(key.to_owned(), Some("{}".to_owned()))]));
    }
    assert!(desk.told.is_empty() && desk.asks.is_empty());
    desk.write("trackedEntity:e0007", "{\"n\":70}");
    desk.settle();
    let rendered: Vec<_> =
        desk.told.iter().filter(|effect| matches!(effect, Effect::Render { .. })).collect();
    assert!(matches!(rendered[..], [Effect::Render { id, .. }] if id == "e0007"), "{rendered:?}");
    // The same again is nothing new.
    desk.told.clear();
    desk.write("trackedEntity:e0007", "{\"n\":70}");
    assert!(desk.told.is_empty());
    desk.write("trackedEntities:index", "{\"ids\":[]}");
    desk.settle();
    assert!(desk.view.is_empty() && desk.told.contains(&Effect::Clear));
}

#[test]
fn st_13_a_context_s_own_echo_renders_nothing() {
    let mut desk = Desk::started();
    desk.give(Input::Put { op: 1, id: "a".to_owned(), value: value(1) });
    desk.settle();
    desk.pass(Duration::from_secs(2));
    let renders = desk.told.iter().filter(|effect| matches!(effect, Effect::Render { .. })).count();
    assert_eq!(renders, 1);
    desk.told.clear();
    let all: Vec<_> = desk.storage.iter().map(|(key, text)| (key.clone(), Some(text.clone()))).collect();
    for _ in 0..3 {
        desk.give(Input::Changed(all.clone()));
    }
    assert!(desk.told.is_empty() && desk.asks.is_empty(), "{:?} {:?}", desk.told, desk.asks);
}

#[test]
fn st_36_settings_that_the_application_refuses_are_neither_written_nor_followed() {
    let check = |settings: &Value| settings.text().contains("\"size\":");
    let mut desk =
        Desk::new(Config { check_settings: Some(Rc::new(check)), ..config(1) }, BTreeMap::default());
    desk.give(Input::Start);
    desk.settle();
    let settings = |text: &str| Value::read(text).expect("a document");
    let before = desk.storage.clone();
    desk.give(Input::SetSettings { op: 1, value: settings("{\"colour\":\"red\"}") });
    assert!(desk.asks.is_empty());
    assert_eq!(desk.told.last(), Some(&Effect::Reject { op: 1, error: Error::BadSettings }));
    assert_eq!(desk.storage, before);
    let good = "{\"colour\":\"red\",\"size\":1}";
    desk.give(Input::SetSettings { op: 2, value: settings(good) });
    desk.settle();
    assert_eq!(desk.storage["syncSettings"], good);
    // Another context's settings are followed; foreign contents are reported and not followed.
    let other = good.replace("red", "blue");
    desk.write("syncSettings", &other);
    desk.settle();
    assert_eq!(desk.replica.settings().map(Value::text), Some(other.as_str()));
    desk.write("syncSettings", "{\"colour\":7}");
    desk.settle();
    assert_eq!(desk.replica.settings().map(Value::text), Some(other.as_str()));
    assert!(desk.told.contains(&Effect::Report(Report::Poisoned { key: "syncSettings".to_owned() })));
}

#[test]
fn st_20_a_thousand_operations_at_once_take_few_writes() {
    let mut desk = Desk::started();
    for op in 1..=1_000 {
        desk.give(Input::Put { op, id: format!("id{op}"), value: value(op) });
    }
    let mut writes = 0;
    while let Some(ask) = desk.asks.front() {
        if let Effect::Set { entries, .. } = ask {
            writes += 1;
            assert!(entries.len() <= 2 * BATCH_MAX + 1);
        }
        desk.serve();
    }
    assert_eq!(index_of(&desk.storage).len(), 1_000);
    assert!(writes <= 6, "{writes}");
}
