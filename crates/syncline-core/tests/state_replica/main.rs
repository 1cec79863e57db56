//! What one replica does, effect by effect: start, updates, messages, refusals, orphans, schemas, foreign contents.

mod harness;
mod keep;
mod messages;
mod swap;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use syncline_core::state::names::{BATCH_MAX, QUEUE_MAX};
use syncline_core::state::{Config, Effect, Error, Failure, Input, Layout, Report, Value};

use harness::{Harness, config, index_of, value};

#[test]
fn st_10_start_reads_settings_index_and_listed_entities_in_batches_and_then_the_queue() {
    let mut harness = Harness::filled(4_200);
    harness.storage.insert("trackedEntity:orphan".to_owned(), "{\"n\":7}".to_owned());
    harness.give(Input::Start);
    assert_eq!(harness.asked(), ["schemaVersion", "syncCursor", "syncSettings", "trackedEntities:index"]);
    // Heard while loading: a value, then another one for the same entity.
    for n in [50, 51] {
        let (key, text) = ("trackedEntity:e0001".to_owned(), format!("{{\"n\":{n}}}"));
        harness.storage.insert(key.clone(), text.clone());
        harness.give(Input::Changed(vec![(key, Some(text))]));
    }
    harness.serve();
    let mut batches = Vec::new();
    while !harness.asked().is_empty() && !harness.is_ready {
        assert!(
            harness.view.is_empty() && harness.asked().iter().all(|key| key.starts_with("trackedEntity:e"))
        );
        batches.push(harness.asked().len());
        harness.serve();
    }
    assert_eq!(batches, [2_000, 2_000, 200]);
    harness.settle();
    assert_eq!(harness.view.len(), 4_200, "the orphan is not shown and no error");
    assert_eq!(harness.view["e0001"], "{\"n\":51}");
    assert!(!harness.told.iter().any(|effect| matches!(effect, Effect::Report(_))));
}

#[test]
fn st_10_more_than_the_queue_holds_means_that_everything_is_read_again() {
    let mut harness = Harness::filled(3);
    harness.give(Input::Start);
    harness.serve();
    // What was asked for is answered as it was; then all of this happens, and most of it cannot be kept.
    let held = harness.answer();
    for n in 0..=QUEUE_MAX {
        let text = format!("{{\"n\":{n}}}");
        harness.storage.insert("trackedEntity:e0002".to_owned(), text.clone());
        harness.give(Input::Changed(vec![("trackedEntity:e0002".to_owned(), Some(text))]));
    }
    harness.give(held);
    harness.settle();
    assert!(harness.told.contains(&Effect::Report(Report::Overflow)));
    assert_eq!(harness.view["e0002"], format!("{{\"n\":{QUEUE_MAX}}}"));
}

#[test]
fn st_05_the_entity_is_stored_before_the_index_and_removed_after_it() {
    let mut harness = Harness::started();
    harness.give(Input::Put { op: 1, id: "a".to_owned(), value: value(1) });
    harness.serve();
    let Some(Effect::Set { entries, .. }) = harness.asks.front().cloned() else {
        panic!("{:?}", harness.asks)
    };
    let keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["trackedEntity:a", "trackedEntities:index"]);
    harness.settle();
    harness.give(Input::Remove { op: 2, ids: vec!["a".to_owned(), "not there".to_owned()] });
    harness.serve();
    assert!(matches!(harness.asks.front(), Some(Effect::Set { entries, .. }) if entries.len() == 1));
    harness.serve();
    assert!(
        matches!(harness.asks.front(), Some(Effect::Remove { keys, .. }) if keys == &["trackedEntity:a"])
    );
    assert!(harness.told.contains(&Effect::Resolve { op: 2 }), "the index is what counts");
    harness.settle();
    harness.give(Input::Remove { op: 3, ids: vec!["a".to_owned()] });
    assert!(harness.asks.is_empty(), "removing what is not there changes nothing");
    assert!(harness.told.contains(&Effect::Resolve { op: 3 }));
}

/// A second put of an entity that was just added was acknowledged as soon as its value was stored. The index that lists it
/// comes later where there is much to store: a context that died in between left an orphan.
#[test]
fn st_20_a_value_is_acknowledged_only_when_its_entity_is_listed_whichever_put_added_it() {
    let mut harness = Harness::new(config(1), BTreeMap::new());
    harness.give(Input::Start);
    for op in 0..=BATCH_MAX as u64 {
        harness.give(Input::Put { op, id: format!("a{op:04}"), value: value(op) });
    }
    let again = 1_000;
    harness.give(Input::Put { op: again, id: "a0000".to_owned(), value: value(again) });
    while !harness.told.contains(&Effect::Resolve { op: again }) {
        harness.serve();
    }
    assert_eq!(index_of(&harness.storage).len(), BATCH_MAX + 1);
}

/// Refuses every write of the index; the rest is stored.
fn serve_without_index(harness: &mut Harness) {
    let is_index = |(key, _): &(String, String)| key == "trackedEntities:index";
    while let Some(ask) = harness.asks.front() {
        match ask {
            Effect::Set { entries, .. } if entries.iter().any(is_index) => harness.refuse(Failure::Quota),
            _ => harness.serve(),
        }
    }
}

/// The value of a new entity was stored, the index was refused. Another context had listed the same entity meanwhile: the value
/// of a put that was refused stood for everybody.
#[test]
fn st_11_a_put_that_is_refused_leaves_the_value_that_another_context_put() {
    let mut harness = Harness::started();
    harness.give(Input::Put { op: 1, id: "before".to_owned(), value: value(1) });
    harness.settle();
    harness.give(Input::Put { op: 2, id: "a".to_owned(), value: value(2) });
    let stamp = syncline_core::state::Clock::new(9).tick(harness.wall).text();
    let theirs = format!("{{\"sync\":\"{stamp}\",\"n\":9}}");
    harness.storage.insert("trackedEntity:a".to_owned(), theirs.clone());
    // It had read the index before the first put.
    let index = format!("{{\"ids\":[\"a\"],\"stamps\":{{\"a\":\"{stamp}\"}}}}");
    harness.storage.insert("trackedEntities:index".to_owned(), index);
    serve_without_index(&mut harness);
    assert!(harness.told.contains(&Effect::Reject { op: 2, error: Error::Quota }), "{:?}", harness.told);
    assert_eq!(harness.storage["trackedEntity:a"], theirs);
    assert_eq!(harness.view["a"], "{\"n\":9}");
}

#[test]
fn st_11_what_was_put_before_a_removal_that_is_refused_is_stored_and_only_then_said_to_be() {
    for removal in [Input::Reset { op: 2 }, Input::Remove { op: 2, ids: vec!["e0000".to_owned()] }] {
        for layout in [Layout::A, Layout::B] {
            let mut harness = Harness::filled(2);
            harness.start();
            harness.give(Input::SetLayout { op: 9, layout });
            harness.settle();
            harness.give(Input::Put { op: 1, id: "e0000".to_owned(), value: value(5) });
            harness.give(removal.clone());
            // An index without it never finds room; the value does.
            while let Some(ask) = harness.asks.front() {
                let removes = |(key, text): &(String, String)| {
                    key == "trackedEntities:index"
                        && !text.split_once(']').is_some_and(|(ids, _)| ids.contains("e0000"))
                };
                match ask {
                    Effect::Set { entries, .. } if entries.iter().any(removes) => {
                        harness.refuse(Failure::Quota);
                    }
                    _ => harness.serve(),
                }
            }
            harness.settle();
            let case = format!("{removal:?}, {layout:?}: {:?}", harness.told);
            assert!(harness.told.contains(&Effect::Reject { op: 2, error: Error::Quota }), "{case}");
            assert!(harness.told.contains(&Effect::Resolve { op: 1 }), "{case}");
            assert_eq!(harness.view["e0000"], "{\"n\":5}", "{case}");
            let stored = harness.storage.values().filter(|text| text.contains("\"n\":5")).count();
            assert_eq!(stored, 1, "{case}");
        }
    }
}

#[test]
fn st_11_an_update_renders_at_once_and_returns_to_the_stored_truth_when_refused() {
    let mut harness = Harness::filled(2);
    harness.start();
    harness.give(Input::Put { op: 1, id: "e0000".to_owned(), value: value(5) });
    assert_eq!(harness.view["e0000"], "{\"n\":5}", "before anything is stored");
    harness.serve();
    harness.refuse(Failure::Quota);
    harness.settle();
    assert_eq!(harness.view["e0000"], "{\"n\":0}");
    assert!(harness.told.contains(&Effect::Reject { op: 1, error: Error::Quota }));
    assert!(!Error::Quota.retryable() && Error::Storage.retryable());
    // Of several at once only the one that does not fit is refused.
    for (op, id) in [(2, "small"), (3, "large"), (4, "e0001")] {
        harness.give(Input::Put { op, id: id.to_owned(), value: value(op) });
    }
    while !harness.asks.is_empty() {
        let large = |(key, _): &(String, String)| key.ends_with(":large");
        match harness.asks.front() {
            Some(Effect::Set { entries, .. }) if entries.iter().any(large) => harness.refuse(Failure::Quota),
            _ => harness.serve(),
        }
    }
    harness.settle();
    let ends = |op| {
        harness.told.iter().find(
            |effect| matches!(effect, Effect::Resolve { op: o } | Effect::Reject { op: o, .. } if *o == op),
        )
    };
    assert_eq!(ends(2), Some(&Effect::Resolve { op: 2 }));
    assert_eq!(ends(3), Some(&Effect::Reject { op: 3, error: Error::Quota }));
    assert_eq!(ends(4), Some(&Effect::Resolve { op: 4 }));
    assert_eq!(index_of(&harness.storage), ["e0000", "e0001", "small"]);
    assert!(!harness.view.contains_key("large"));
}

#[test]
fn st_12_only_the_touched_entity_is_rendered_and_foreign_keys_do_nothing() {
    let mut harness = Harness::filled(100);
    harness.start();
    harness.told.clear();
    for key in ["theirs", "trackedEntitiesX", "trackedEntity", "syncSettings2"] {
        harness.give(Input::Changed(vec![(key.to_owned(), Some("{}".to_owned()))]));
    }
    assert!(harness.told.is_empty() && harness.asks.is_empty());
    harness.write("trackedEntity:e0007", "{\"n\":70}");
    harness.settle();
    let rendered: Vec<_> =
        harness.told.iter().filter(|effect| matches!(effect, Effect::Render { .. })).collect();
    assert!(matches!(rendered[..], [Effect::Render { id, .. }] if id == "e0007"), "{rendered:?}");
    // The same again is nothing new.
    harness.told.clear();
    harness.write("trackedEntity:e0007", "{\"n\":70}");
    assert!(harness.told.is_empty());
    harness.write("trackedEntities:index", "{\"ids\":[]}");
    harness.settle();
    assert!(harness.view.is_empty() && harness.told.contains(&Effect::Clear));
}

#[test]
fn st_13_a_context_s_own_echo_renders_nothing() {
    let mut harness = Harness::started();
    harness.give(Input::Put { op: 1, id: "a".to_owned(), value: value(1) });
    harness.settle();
    harness.pass(Duration::from_secs(2));
    let renders = harness.told.iter().filter(|effect| matches!(effect, Effect::Render { .. })).count();
    assert_eq!(renders, 1);
    harness.told.clear();
    let all: Vec<_> = harness.storage.iter().map(|(key, text)| (key.clone(), Some(text.clone()))).collect();
    for _ in 0..3 {
        harness.give(Input::Changed(all.clone()));
    }
    assert!(harness.told.is_empty() && harness.asks.is_empty(), "{:?} {:?}", harness.told, harness.asks);
}

#[test]
fn st_36_settings_that_the_application_refuses_are_neither_written_nor_followed() {
    let check = |settings: &Value| settings.text().contains("\"size\":");
    let mut harness =
        Harness::new(Config { check_settings: Some(Rc::new(check)), ..config(1) }, BTreeMap::default());
    harness.give(Input::Start);
    harness.settle();
    let settings = |text: &str| Value::read(text).expect("a document");
    let before = harness.storage.clone();
    harness.give(Input::SetSettings { op: 1, value: settings("{\"colour\":\"red\"}") });
    assert!(harness.asks.is_empty());
    assert_eq!(harness.told.last(), Some(&Effect::Reject { op: 1, error: Error::BadSettings }));
    assert_eq!(harness.storage, before);
    let good = "{\"colour\":\"red\",\"size\":1}";
    harness.give(Input::SetSettings { op: 2, value: settings(good) });
    harness.settle();
    assert_eq!(harness.storage["syncSettings"], good);
    // Another context's settings are followed; foreign contents are reported and not followed.
    let other = good.replace("red", "blue");
    harness.write("syncSettings", &other);
    harness.settle();
    assert_eq!(harness.replica.settings().map(Value::text), Some(other.as_str()));
    harness.write("syncSettings", "{\"colour\":7}");
    harness.settle();
    assert_eq!(harness.replica.settings().map(Value::text), Some(other.as_str()));
    assert!(harness.told.contains(&Effect::Report(Report::Poisoned { key: "syncSettings".to_owned() })));
}

#[test]
fn st_20_a_thousand_operations_at_once_take_few_writes() {
    let mut harness = Harness::started();
    for op in 1..=1_000 {
        harness.give(Input::Put { op, id: format!("id{op}"), value: value(op) });
    }
    let mut writes = 0;
    while let Some(ask) = harness.asks.front() {
        if let Effect::Set { entries, .. } = ask {
            writes += 1;
            assert!(entries.len() <= 2 * BATCH_MAX + 1);
        }
        harness.serve();
    }
    assert_eq!(index_of(&harness.storage).len(), 1_000);
    assert!(writes <= 6, "{writes}");
}
