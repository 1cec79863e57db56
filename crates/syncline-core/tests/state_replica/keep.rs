//! What storage holds in the long run: orphans, layouts, schemas, contents nobody can read.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use syncline_core::state::json::Json;
use syncline_core::state::{Config, Effect, Error, Input, Layout, Report, Value};

use super::desk::{Desk, config, index_of, value};

/// Keys of what a reset had removed stayed for a minute: "remove all", and the storage was still full.
#[test]
fn st_14_a_reset_empties_the_index_then_removes_what_it_listed_and_nothing_else() {
    let mut desk = Desk::filled(20);
    desk.storage.insert("theirs".to_owned(), "1".to_owned());
    desk.storage.insert("trackedEntity:orphan".to_owned(), "{}".to_owned());
    desk.start();
    let before: Vec<String> = desk.storage.keys().cloned().collect();
    desk.give(Input::Reset { op: 1 });
    assert!(desk.view.is_empty() && desk.told.contains(&Effect::Clear));
    while !desk.told.contains(&Effect::Resolve { op: 1 }) {
        assert_eq!(desk.storage.keys().cloned().collect::<Vec<_>>(), before, "the index first");
        desk.serve();
    }
    assert_eq!(index_of(&desk.storage), [""; 0]);
    desk.settle();
    let left = ["theirs", "trackedEntities:index", "trackedEntity:orphan"];
    assert_eq!(desk.storage.keys().collect::<Vec<_>>(), left);
}

/// A reset that is refused removes nothing.
#[test]
fn st_35_a_reset_that_is_refused_keeps_everything() {
    let mut desk = Desk::filled(3);
    desk.start();
    let before = desk.storage.clone();
    desk.give(Input::Reset { op: 1 });
    while !matches!(desk.asks.front(), Some(Effect::Set { .. })) {
        desk.serve();
    }
    desk.refuse(syncline_core::state::Failure::Quota);
    desk.settle();
    assert!(desk.told.contains(&Effect::Reject { op: 1, error: Error::Quota }));
    assert_eq!((desk.view.len(), desk.storage.len()), (3, before.len()));
}

#[test]
fn st_14_a_sweep_removes_orphans_after_a_while_but_none_written_lately() {
    let mut desk = Desk::filled(2);
    let old = "{\"sync\":\"0---------------\",\"n\":1}";
    desk.storage.insert("trackedEntity:old".to_owned(), old.to_owned());
    desk.storage.insert("trackedEntity:adopted".to_owned(), "{\"n\":9}".to_owned());
    desk.storage.insert("trackedEntities:index:16:3".to_owned(), "{\"ids\":[],\"stamps\":{}}".to_owned());
    desk.storage.insert("theirs".to_owned(), "1".to_owned());
    desk.start();
    desk.give(Input::Sweep { op: 1 });
    desk.settle();
    assert!(desk.told.contains(&Effect::Resolve { op: 1 }));
    assert!(desk.storage.contains_key("trackedEntity:old"), "not at once");
    // Meanwhile somebody adds one of them.
    desk.pass(Duration::from_secs(30));
    desk.write("trackedEntities:index", "{\"ids\":[\"e0000\",\"e0001\",\"adopted\"]}");
    desk.settle();
    // And another context writes an entity, whose index has not followed yet.
    let stamp = syncline_core::state::Clock::new(9).tick(desk.wall + Duration::from_secs(31)).text();
    desk.storage.insert("trackedEntity:old".to_owned(), format!("{{\"sync\":\"{stamp}\",\"n\":2}}"));
    desk.pass(Duration::from_secs(31));
    assert!(desk.storage.contains_key("trackedEntity:old"), "written after the search");
    assert!(desk.storage.contains_key("trackedEntity:adopted") && desk.storage.contains_key("theirs"));
    assert!(!desk.storage.contains_key("trackedEntities:index:16:3"));
    desk.pass(Duration::from_secs(200));
    assert!(!desk.storage.contains_key("trackedEntity:old"));
    assert_eq!(desk.view.len(), 3);
}

#[test]
fn st_22_layouts_migrate_into_each_other() {
    let mut desk = Desk::filled(700);
    desk.start();
    let all = desk.view.clone();
    let c = Layout::sharded(700);
    for (op, layout) in (1..).zip([c, Layout::A, Layout::B, Layout::A, c, Layout::B]) {
        desk.give(Input::SetLayout { op, layout });
        desk.settle();
        assert!(desk.told.contains(&Effect::Resolve { op }), "{layout:?}");
        desk.give(Input::Put { op: 100 + op, id: "e0003".to_owned(), value: value(3) });
        desk.pass(Duration::from_secs(200));
        let mut other = Desk::new(config(2), desk.storage.clone());
        other.start();
        assert_eq!((&other.view, other.replica.layout()), (&all, layout));
        // Nothing of the layout before is left.
        let has = |prefix: &str| desk.storage.keys().any(|key| key.starts_with(prefix));
        assert_eq!(has("trackedEntity:"), layout != Layout::A, "{layout:?}");
        assert_eq!(desk.storage.contains_key("trackedEntities"), layout == Layout::A, "{layout:?}");
        assert_eq!(has("trackedEntities:index:"), layout == c, "{layout:?}");
    }
}

#[test]
fn st_22_adding_one_of_very_many_costs_no_more_than_adding_one_of_few() {
    let cost = |count: u64| {
        let mut desk = Desk::filled(count);
        desk.start();
        desk.give(Input::SetLayout { op: 1, layout: Layout::sharded(count as usize) });
        desk.settle();
        desk.pass(Duration::from_secs(1));
        let mut bytes = 0;
        for op in 2..12 {
            desk.give(Input::Put { op, id: format!("new{op}"), value: value(op) });
            while let Some(ask) = desk.asks.front() {
                if let Effect::Set { entries, .. } = ask {
                    bytes += entries.iter().map(|(key, text)| key.len() + text.len()).sum::<usize>();
                }
                desk.serve();
            }
        }
        bytes / 10
    };
    let (few, many) = (cost(500), cost(9_000));
    assert!(many < few * 2, "{few} bytes of 500, {many} bytes of 9,000");
}

#[test]
fn st_22_shards_grow_in_number_before_they_grow_in_size() {
    let mut desk = Desk::filled(0);
    desk.start();
    desk.give(Input::SetLayout { op: 1, layout: Layout::C(16) });
    desk.settle();
    for op in 2..=602 {
        desk.give(Input::Put { op, id: format!("id{op}"), value: value(op) });
    }
    desk.settle();
    desk.pass(Duration::from_secs(2));
    assert_eq!((desk.replica.layout(), desk.view.len()), (Layout::C(32), 601));
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
    let storage = Desk::filled(600).storage;
    let migrated = "{\"n\":5,\"v1\":true,\"v2\":true}";
    // Cut off after each number of writes there is, a new context finishes the work.
    let mut cut = 0;
    loop {
        let mut desk = Desk::new(versioned(3), storage.clone());
        desk.give(Input::Start);
        let mut writes = 0;
        while let Some(ask) = desk.asks.front() {
            writes += usize::from(matches!(ask, Effect::Set { .. }));
            if writes > cut {
                break;
            }
            desk.serve();
        }
        let finished = writes <= cut;
        let mut second = Desk::new(versioned(3), desk.storage);
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
    let mut desk = Desk::filled(2);
    desk.storage.insert("schemaVersion".to_owned(), "9".to_owned());
    let before = desk.storage.clone();
    desk.give(Input::Start);
    desk.give(Input::Put { op: 1, id: "a".to_owned(), value: value(1) });
    desk.settle();
    assert!(desk.told.contains(&Effect::Report(Report::NewerSchema { stored: 9 })));
    assert!(desk.told.contains(&Effect::Reject { op: 1, error: Error::Closed }));
    assert_eq!(desk.storage, before);
}

#[test]
fn st_26_poisoned_entities_are_set_aside_and_the_rest_loads() {
    let mut desk = Desk::filled(5);
    for (id, text) in [("e0001", "7"), ("e0002", "[1]"), ("e0003", "\"x\"")] {
        desk.storage.insert(format!("trackedEntity:{id}"), text.to_owned());
    }
    desk.start();
    assert_eq!(desk.view.keys().collect::<Vec<_>>(), ["e0000", "e0004"]);
    let poisoned =
        desk.told.iter().filter(|effect| matches!(effect, Effect::Report(Report::Poisoned { .. })));
    assert_eq!(poisoned.count(), 3);
    assert_eq!(desk.storage["trackedEntity:e0001"], "7", "left where it is");
    desk.give(Input::Put { op: 1, id: "e0001".to_owned(), value: value(1) });
    desk.settle();
    assert_eq!(desk.view["e0001"], "{\"n\":1}");
    assert_eq!(desk.storage["syncAside:trackedEntity:e0001"], "7", "and kept when it is overwritten");
}

#[test]
fn st_26_a_poisoned_index_is_rebuilt_from_the_entities() {
    let mut desk = Desk::filled(5);
    desk.storage.insert("trackedEntities:index".to_owned(), "\"garbage\"".to_owned());
    desk.start();
    assert_eq!(desk.view.len(), 5);
    assert_eq!(index_of(&desk.storage).len(), 5);
    assert_eq!(desk.storage["syncAside:trackedEntities:index"], "\"garbage\"");
    // Poisoned while it runs: what is known is written again.
    desk.write("trackedEntities:index", "[]");
    desk.settle();
    assert_eq!(index_of(&desk.storage).len(), 5);
}

#[test]
fn st_25_a_context_that_is_cut_off_goes_quiet() {
    let mut desk = Desk::new(config(1), BTreeMap::new());
    desk.start();
    desk.give(Input::Put { op: 1, id: "a".to_owned(), value: value(1) });
    desk.give(Input::Close);
    assert!(desk.told.contains(&Effect::Reject { op: 1, error: Error::Closed }));
    desk.told.clear();
    desk.asks.clear();
    desk.give(Input::Changed(vec![("trackedEntities:index".to_owned(), None)]));
    desk.give(Input::Timer);
    desk.give(Input::Start);
    assert!(desk.told.is_empty() && desk.asks.is_empty() && desk.wake_at.is_none());
}

#[test]
fn st_04_entities_lie_where_readers_that_know_nothing_of_us_look_for_them() {
    let value = Value::read("{\"checked\":true,\"timestamp\":1730000000000}").unwrap();
    let mut desk = Desk::started();
    desk.give(Input::Put { op: 1, id: "a".to_owned(), value });
    desk.settle();
    assert_eq!(desk.storage.keys().collect::<Vec<_>>(), ["trackedEntities:index", "trackedEntity:a"]);
    assert_eq!(index_of(&desk.storage), ["a"]);
    let shows =
        |json: &Json| (json.member("checked").cloned(), json.member("timestamp").and_then(Json::as_whole));
    let expected = (Some(Json::Bool(true)), Some(1_730_000_000_000));
    assert_eq!(shows(&Json::read(&desk.storage["trackedEntity:a"]).unwrap()), expected);
    desk.give(Input::SetLayout { op: 2, layout: Layout::A });
    desk.settle();
    desk.pass(Duration::from_secs(130));
    assert_eq!(desk.storage.keys().collect::<Vec<_>>(), ["trackedEntities", "trackedEntities:index"]);
    let packed = Json::read(&desk.storage["trackedEntities"]).unwrap();
    assert_eq!(shows(packed.member("a").unwrap()), expected);
    assert_eq!(desk.view["a"], "{\"checked\":true,\"timestamp\":1730000000000}");
}

#[test]
fn st_06_an_entity_that_the_index_does_not_list_is_never_shown_and_never_an_error() {
    let mut desk = Desk::filled(2);
    desk.storage.insert("trackedEntity:orphan".to_owned(), "{\"n\":7}".to_owned());
    desk.storage.insert("trackedEntity:broken".to_owned(), "no JSON".to_owned());
    desk.start();
    desk.write("trackedEntity:orphan", "{\"n\":8}");
    desk.give(Input::Message("{\"action\":\"entityDelta\",\"delta\":{\"orphan\":{\"n\":9}}}".to_owned()));
    desk.give(Input::Remove { op: 1, ids: vec!["orphan".to_owned()] });
    desk.give(Input::Refresh);
    desk.settle();
    assert_eq!(desk.view.keys().collect::<Vec<_>>(), ["e0000", "e0001"]);
    assert!(!desk.told.iter().any(|effect| matches!(effect, Effect::Report(_) | Effect::Reject { .. })));
    // Listed, it is shown.
    desk.write("trackedEntities:index", "{\"ids\":[\"e0000\",\"e0001\",\"orphan\"]}");
    desk.settle();
    assert_eq!(desk.view["orphan"], "{\"n\":8}");
}

#[test]
fn st_02_whatever_happened_unseen_the_view_becomes_what_storage_says() {
    let mut desk = Desk::filled(3);
    desk.start();
    desk.pass(Duration::from_secs(10));
    // Nobody tells this context of any of it.
    desk.storage
        .insert("trackedEntities:index".to_owned(), "{\"ids\":[\"e0001\",\"e0002\",\"new\"]}".to_owned());
    desk.storage.insert("trackedEntity:e0001".to_owned(), "{\"n\":100}".to_owned());
    desk.storage.insert("trackedEntity:new".to_owned(), "{\"n\":200}".to_owned());
    desk.give(Input::Refresh);
    desk.settle();
    let expected = [("e0001", "{\"n\":100}"), ("e0002", "{\"n\":2}"), ("new", "{\"n\":200}")];
    let expected = expected.map(|(id, text)| (id.to_owned(), text.to_owned()));
    assert_eq!(desk.view, BTreeMap::from(expected));
}
