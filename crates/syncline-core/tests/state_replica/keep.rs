//! What storage holds in the long run: orphans, layouts, schemas, contents nobody can read.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use syncline_core::state::json::Json;
use syncline_core::state::{Config, Effect, Error, Input, Layout, Report, Value};

use super::harness::{Harness, config, index_of, value};

/// Keys of what a reset had removed stayed for a minute: "remove all", and the storage was still full.
#[test]
fn st_14_a_reset_empties_the_index_then_removes_what_it_listed_and_nothing_else() {
    let mut harness = Harness::filled(20);
    harness.storage.insert("theirs".to_owned(), "1".to_owned());
    harness.storage.insert("trackedEntity:orphan".to_owned(), "{}".to_owned());
    harness.start();
    let before: Vec<String> = harness.storage.keys().cloned().collect();
    harness.give(Input::Reset { op: 1 });
    assert!(harness.view.is_empty() && harness.told.contains(&Effect::Clear));
    while !harness.told.contains(&Effect::Resolve { op: 1 }) {
        assert_eq!(harness.storage.keys().cloned().collect::<Vec<_>>(), before, "the index first");
        harness.serve();
    }
    assert_eq!(index_of(&harness.storage), [""; 0]);
    harness.settle();
    let left = ["theirs", "trackedEntities:index", "trackedEntity:orphan"];
    assert_eq!(harness.storage.keys().collect::<Vec<_>>(), left);
}

/// A reset that is refused removes nothing.
#[test]
fn st_35_a_reset_that_is_refused_keeps_everything() {
    let mut harness = Harness::filled(3);
    harness.start();
    let before = harness.storage.clone();
    harness.give(Input::Reset { op: 1 });
    while !matches!(harness.asks.front(), Some(Effect::Set { .. })) {
        harness.serve();
    }
    harness.refuse(syncline_core::state::Failure::Quota);
    harness.settle();
    assert!(harness.told.contains(&Effect::Reject { op: 1, error: Error::Quota }));
    assert_eq!((harness.view.len(), harness.storage.len()), (3, before.len()));
}

#[test]
fn st_14_a_sweep_removes_orphans_after_a_while_but_none_written_lately() {
    let mut harness = Harness::filled(2);
    let old = "{\"sync\":\"0---------------\",\"n\":1}";
    harness.storage.insert("trackedEntity:old".to_owned(), old.to_owned());
    harness.storage.insert("trackedEntity:adopted".to_owned(), "{\"n\":9}".to_owned());
    harness.storage.insert("trackedEntities:index:16:3".to_owned(), "{\"ids\":[],\"stamps\":{}}".to_owned());
    harness.storage.insert("theirs".to_owned(), "1".to_owned());
    harness.start();
    harness.give(Input::Sweep { op: 1 });
    harness.settle();
    assert!(harness.told.contains(&Effect::Resolve { op: 1 }));
    assert!(harness.storage.contains_key("trackedEntity:old"), "not at once");
    // Meanwhile somebody adds one of them.
    harness.pass(Duration::from_secs(30));
    harness.write("trackedEntities:index", "{\"ids\":[\"e0000\",\"e0001\",\"adopted\"]}");
    harness.settle();
    // And another context writes an entity, whose index has not followed yet.
    let stamp = syncline_core::state::Clock::new(9).tick(harness.wall + Duration::from_secs(31)).text();
    harness.storage.insert("trackedEntity:old".to_owned(), format!("{{\"sync\":\"{stamp}\",\"n\":2}}"));
    harness.pass(Duration::from_secs(31));
    assert!(harness.storage.contains_key("trackedEntity:old"), "written after the search");
    assert!(harness.storage.contains_key("trackedEntity:adopted") && harness.storage.contains_key("theirs"));
    assert!(!harness.storage.contains_key("trackedEntities:index:16:3"));
    harness.pass(Duration::from_secs(200));
    assert!(!harness.storage.contains_key("trackedEntity:old"));
    assert_eq!(harness.view.len(), 3);
}

#[test]
fn st_22_layouts_migrate_into_each_other() {
    let mut harness = Harness::filled(700);
    harness.start();
    let all = harness.view.clone();
    let c = Layout::sharded(700);
    for (op, layout) in (1..).zip([c, Layout::A, Layout::B, Layout::A, c, Layout::B]) {
        harness.give(Input::SetLayout { op, layout });
        harness.settle();
        assert!(harness.told.contains(&Effect::Resolve { op }), "{layout:?}");
        harness.give(Input::Put { op: 100 + op, id: "e0003".to_owned(), value: value(3) });
        harness.pass(Duration::from_secs(200));
        let mut other = Harness::new(config(2), harness.storage.clone());
        other.start();
        assert_eq!((&other.view, other.replica.layout()), (&all, layout));
        // Nothing of the layout before is left.
        let has = |prefix: &str| harness.storage.keys().any(|key| key.starts_with(prefix));
        assert_eq!(has("trackedEntity:"), layout != Layout::A, "{layout:?}");
        assert_eq!(harness.storage.contains_key("trackedEntities"), layout == Layout::A, "{layout:?}");
        assert_eq!(has("trackedEntities:index:"), layout == c, "{layout:?}");
    }
}

#[test]
fn st_22_adding_one_of_very_many_costs_no_more_than_adding_one_of_few() {
    let cost = |count: u64| {
        let mut harness = Harness::filled(count);
        harness.start();
        harness.give(Input::SetLayout { op: 1, layout: Layout::sharded(count as usize) });
        harness.settle();
        harness.pass(Duration::from_secs(1));
        let mut bytes = 0;
        for op in 2..12 {
            harness.give(Input::Put { op, id: format!("new{op}"), value: value(op) });
            while let Some(ask) = harness.asks.front() {
                if let Effect::Set { entries, .. } = ask {
                    bytes += entries.iter().map(|(key, text)| key.len() + text.len()).sum::<usize>();
                }
                harness.serve();
            }
        }
        bytes / 10
    };
    let (few, many) = (cost(500), cost(9_000));
    assert!(many < few * 2, "{few} bytes of 500, {many} bytes of 9,000");
}

#[test]
fn st_22_shards_grow_in_number_before_they_grow_in_size() {
    let mut harness = Harness::filled(0);
    harness.start();
    harness.give(Input::SetLayout { op: 1, layout: Layout::C(16) });
    harness.settle();
    for op in 2..=602 {
        harness.give(Input::Put { op, id: format!("id{op}"), value: value(op) });
    }
    harness.settle();
    harness.pass(Duration::from_secs(2));
    assert_eq!((harness.replica.layout(), harness.view.len()), (Layout::C(32), 601));
}

fn versioned(version: u32) -> Config {
    let migrate = |from, id: &str, value: &Value| {
        let (from, id) = (from, id.to_owned());
        if id == "e0001" {
            return None;
        }
        Value::read(&value.text().replace('{', &format!("{{\"v{from}\":true,"))).ok()
    };
    Config { schema_version: version, migrate: Some(Rc::new(migrate)), ..config(version) }
}

#[test]
fn st_21_migrations_run_once_in_order_even_if_interrupted() {
    let storage = Harness::filled(600).storage;
    let migrated = "{\"n\":5,\"v1\":true,\"v2\":true}";
    // Cut off after each number of writes there is, a new context finishes the work.
    let mut cut = 0;
    loop {
        let mut harness = Harness::new(versioned(3), storage.clone());
        harness.give(Input::Start);
        let mut writes = 0;
        while let Some(ask) = harness.asks.front() {
            writes += usize::from(matches!(ask, Effect::Set { .. }));
            if writes > cut {
                break;
            }
            harness.serve();
        }
        let finished = writes <= cut;
        let mut second = Harness::new(versioned(3), harness.storage);
        second.start();
        assert_eq!(second.view["e0005"], migrated, "after {cut} writes");
        assert_eq!(second.view["e0001"], "{\"n\":1}", "what cannot be migrated is left alone");
        assert_eq!(second.storage["schemaVersion"], "3");
        if finished {
            break;
        }
        let left = Report::NotMigrated { id: "e0001".to_owned() };
        assert!(cut > 0 || second.told.contains(&Effect::Report(left)));
        cut += 1;
    }
    assert!(cut >= 2, "{cut}");
}

#[test]
fn st_21_a_newer_schema_is_left_alone() {
    let mut harness = Harness::filled(2);
    harness.storage.insert("schemaVersion".to_owned(), "9".to_owned());
    let before = harness.storage.clone();
    harness.give(Input::Start);
    harness.give(Input::Put { op: 1, id: "a".to_owned(), value: value(1) });
    harness.settle();
    assert!(harness.told.contains(&Effect::Report(Report::NewerSchema { stored: 9 })));
    assert!(harness.told.contains(&Effect::Reject { op: 1, error: Error::Closed }));
    assert_eq!(harness.storage, before);
}

#[test]
fn st_26_poisoned_entities_are_set_aside_and_the_rest_loads() {
    let mut harness = Harness::filled(5);
    for (id, text) in [("e0001", "7"), ("e0002", "[1]"), ("e0003", "\"x\"")] {
        harness.storage.insert(format!("trackedEntity:{id}"), text.to_owned());
    }
    harness.start();
    assert_eq!(harness.view.keys().collect::<Vec<_>>(), ["e0000", "e0004"]);
    let poisoned =
        harness.told.iter().filter(|effect| matches!(effect, Effect::Report(Report::Poisoned { .. })));
    assert_eq!(poisoned.count(), 3);
    assert_eq!(harness.storage["trackedEntity:e0001"], "7", "left where it is");
    harness.give(Input::Put { op: 1, id: "e0001".to_owned(), value: value(1) });
    harness.settle();
    assert_eq!(harness.view["e0001"], "{\"n\":1}");
    assert_eq!(harness.storage["syncAside:trackedEntity:e0001"], "7", "and kept when it is overwritten");
}

#[test]
fn st_26_a_poisoned_index_is_rebuilt_from_the_entities() {
    let mut harness = Harness::filled(5);
    harness.storage.insert("trackedEntities:index".to_owned(), "\"garbage\"".to_owned());
    harness.start();
    assert_eq!(harness.view.len(), 5);
    assert_eq!(index_of(&harness.storage).len(), 5);
    assert_eq!(harness.storage["syncAside:trackedEntities:index"], "\"garbage\"");
    // Poisoned while it runs: what is known is written again.
    harness.write("trackedEntities:index", "[]");
    harness.settle();
    assert_eq!(index_of(&harness.storage).len(), 5);
}

#[test]
fn st_25_a_context_that_is_cut_off_goes_quiet() {
    let mut harness = Harness::new(config(1), BTreeMap::new());
    harness.start();
    harness.give(Input::Put { op: 1, id: "a".to_owned(), value: value(1) });
    harness.give(Input::Close);
    assert!(harness.told.contains(&Effect::Reject { op: 1, error: Error::Closed }));
    harness.told.clear();
    harness.asks.clear();
    harness.give(Input::Changed(vec![("trackedEntities:index".to_owned(), None)]));
    harness.give(Input::Timer);
    harness.give(Input::Start);
    assert!(harness.told.is_empty() && harness.asks.is_empty() && harness.wake_at.is_none());
}

#[test]
fn st_04_entities_lie_where_readers_that_know_nothing_of_us_look_for_them() {
    let value = Value::read("{\"checked\":true,\"timestamp\":1730000000000}").unwrap();
    let mut harness = Harness::started();
    harness.give(Input::Put { op: 1, id: "a".to_owned(), value });
    harness.settle();
    assert_eq!(harness.storage.keys().collect::<Vec<_>>(), ["trackedEntities:index", "trackedEntity:a"]);
    assert_eq!(index_of(&harness.storage), ["a"]);
    let shows =
        |json: &Json| (json.member("checked").cloned(), json.member("timestamp").and_then(Json::as_whole));
    let expected = (Some(Json::Bool(true)), Some(1_730_000_000_000));
    assert_eq!(shows(&Json::read(&harness.storage["trackedEntity:a"]).unwrap()), expected);
    harness.give(Input::SetLayout { op: 2, layout: Layout::A });
    harness.settle();
    harness.pass(Duration::from_secs(130));
    assert_eq!(harness.storage.keys().collect::<Vec<_>>(), ["trackedEntities", "trackedEntities:index"]);
    let packed = Json::read(&harness.storage["trackedEntities"]).unwrap();
    assert_eq!(shows(packed.member("a").unwrap()), expected);
    assert_eq!(harness.view["a"], "{\"checked\":true,\"timestamp\":1730000000000}");
}

#[test]
fn st_06_an_entity_that_the_index_does_not_list_is_never_shown_and_never_an_error() {
    let mut harness = Harness::filled(2);
    harness.storage.insert("trackedEntity:orphan".to_owned(), "{\"n\":7}".to_owned());
    harness.storage.insert("trackedEntity:broken".to_owned(), "no JSON".to_owned());
    harness.start();
    harness.write("trackedEntity:orphan", "{\"n\":8}");
    harness.give(Input::Message("{\"action\":\"entityDelta\",\"delta\":{\"orphan\":{\"n\":9}}}".to_owned()));
    harness.give(Input::Remove { op: 1, ids: vec!["orphan".to_owned()] });
    harness.give(Input::Refresh);
    harness.settle();
    assert_eq!(harness.view.keys().collect::<Vec<_>>(), ["e0000", "e0001"]);
    assert!(!harness.told.iter().any(|effect| matches!(effect, Effect::Report(_) | Effect::Reject { .. })));
    // Listed, it is shown.
    harness.write("trackedEntities:index", "{\"ids\":[\"e0000\",\"e0001\",\"orphan\"]}");
    harness.settle();
    assert_eq!(harness.view["orphan"], "{\"n\":8}");
}

#[test]
fn st_02_whatever_happened_unseen_the_view_becomes_what_storage_says() {
    let mut harness = Harness::filled(3);
    harness.start();
    harness.pass(Duration::from_secs(10));
    // Nobody tells this context of any of it.
    harness
        .storage
        .insert("trackedEntities:index".to_owned(), "{\"ids\":[\"e0001\",\"e0002\",\"new\"]}".to_owned());
    harness.storage.insert("trackedEntity:e0001".to_owned(), "{\"n\":100}".to_owned());
    harness.storage.insert("trackedEntity:new".to_owned(), "{\"n\":200}".to_owned());
    harness.give(Input::Refresh);
    harness.settle();
    let expected = [("e0001", "{\"n\":100}"), ("e0002", "{\"n\":2}"), ("new", "{\"n\":200}")];
    let expected = expected.map(|(id, text)| (id.to_owned(), text.to_owned()));
    assert_eq!(harness.view, BTreeMap::from(expected));
}
