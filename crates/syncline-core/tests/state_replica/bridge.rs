//! Two devices and a node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use syncline_core::state::json::Json;
use syncline_core::state::names::HORIZON;
use syncline_core::state::{Change, Config, Effect, Input, Log, Unsent};

use super::desk::{Desk, config, value};

/// A device: its replica, what it has not sent, and how far it has read the node's log.
struct Device {
    desk: Desk,
    unsent: Unsent,
    cursor: u64,
    ops: u64,
}

impl Device {
    fn new(maker: u32) -> Self {
        Self::on(maker, BTreeMap::new())
    }

    fn on(maker: u32, storage: BTreeMap<String, String>) -> Self {
        let mut desk = Desk::new(Config { bridged: true, ..config(maker) }, storage);
        desk.start();
        let mut device = Self { desk, unsent: Unsent::default(), cursor: 0, ops: 0 };
        device.note();
        device
    }

    fn give(&mut self, input: impl FnOnce(u64) -> Input) {
        self.ops += 1;
        self.desk.give(input(self.ops));
        self.desk.settle();
        self.note();
    }

    fn put(&mut self, id: &str, n: u64) {
        self.give(|op| Input::Put { op, id: id.to_owned(), value: value(n) });
    }

    fn remove(&mut self, id: &str) {
        self.give(|op| Input::Remove { op, ids: vec![id.to_owned()] });
    }

    fn note(&mut self) {
        for effect in &self.desk.told {
            if let Effect::Unsent(ids) = effect {
                self.unsent.add(ids.iter().cloned());
            }
        }
        self.desk.told.clear();
    }

    /// Sends and fetches everything; changes pass through their text.
    fn sync(&mut self, log: &mut Log) {
        loop {
            let ids = self.unsent.next(self.desk.now);
            if ids.is_empty() {
                break;
            }
            let changes: Vec<Change> = ids.iter().filter_map(|id| self.desk.replica.change(id)).collect();
            let text = Change::write_all(&changes);
            let read = Change::read_all(&Json::read(&text).expect("JSON")).expect("changes");
            assert_eq!(read, changes);
            read.iter().for_each(|change| {
                log.merge(change, self.desk.wall);
            });
            self.unsent.confirm();
            self.desk.give(Input::Sent(changes));
            self.desk.settle();
        }
        let (mut present, mut within_whole) = (BTreeSet::new(), false);
        loop {
            let page = log.page(self.cursor, within_whole);
            present.extend(page.changes.iter().map(|change| change.id().to_owned()));
            self.cursor = page.cursor;
            within_whole = page.whole;
            self.give(|op| Input::Remote { op, changes: page.changes });
            if !page.more {
                break;
            }
        }
        if within_whole {
            let changes = self.desk.replica.missing_from(&present);
            self.give(|op| Input::Remote { op, changes });
        }
        assert!(self.unsent.is_empty(), "what came from the node is not sent back");
    }

    fn marks(&self) -> usize {
        self.desk.storage.keys().filter(|key| key.starts_with("syncUnsent:")).count()
    }
}

#[test]
fn st_23_changes_made_offline_reach_the_other_device() {
    let (mut one, mut other, mut log) = (Device::new(1), Device::new(2), Log::new());
    for n in 0..1_200 {
        one.desk.give(Input::Put { op: n + 1, id: format!("id{n}"), value: value(n) });
    }
    one.desk.settle();
    assert_eq!(one.marks(), 1_200);
    // The device dies offline; what it has not sent is remembered.
    let mut one = Device::on(3, one.desk.storage);
    one.sync(&mut log);
    other.sync(&mut log);
    assert_eq!(one.marks(), 0);
    assert_eq!((other.desk.view.len(), &other.desk.view), (1_200, &one.desk.view));
    other.remove("id7");
    other.put("id8", 800);
    other.sync(&mut log);
    one.sync(&mut log);
    assert_eq!(one.desk.view, other.desk.view);
    assert_eq!((one.desk.view.get("id7"), one.desk.view["id8"].as_str()), (None, "{\"n\":800}"));
    one.give(|op| Input::Reset { op });
    one.put("after", 1);
    one.sync(&mut log);
    other.sync(&mut log);
    assert_eq!(other.desk.view.keys().collect::<Vec<_>>(), ["after"]);
}

#[test]
fn st_23_the_later_writer_wins_and_what_was_removed_does_not_come_back() {
    let (mut one, mut other, mut log) = (Device::new(1), Device::new(2), Log::new());
    one.put("a", 1);
    one.put("b", 1);
    one.sync(&mut log);
    other.sync(&mut log);
    // Both offline. The other one's clock is later, though it comes back first.
    one.put("a", 10);
    one.remove("b");
    other.desk.pass(Duration::from_secs(60));
    other.put("a", 20);
    other.put("b", 20);
    other.sync(&mut log);
    one.sync(&mut log);
    other.sync(&mut log);
    for device in [&one, &other] {
        assert_eq!(device.desk.view, BTreeMap::from([("a".to_owned(), "{\"n\":20}".to_owned())]));
    }
    // Added again, it is there again.
    one.put("b", 30);
    one.sync(&mut log);
    other.sync(&mut log);
    assert_eq!(other.desk.view["b"], "{\"n\":30}");
}

#[test]
fn st_23_a_device_that_was_away_beyond_the_horizon_brings_nothing_back() {
    let (mut one, mut other, mut log) = (Device::new(1), Device::new(2), Log::new());
    for id in ["a", "b", "c"] {
        one.put(id, 1);
    }
    one.sync(&mut log);
    other.sync(&mut log);
    one.remove("a");
    other.put("a", 5);
    one.sync(&mut log);
    let later = HORIZON + Duration::from_secs(60);
    let rows = log.forget(one.desk.wall + later);
    assert_eq!(rows.len(), 1, "the removal is forgotten");
    other.desk.wall = other.desk.wall + later;
    other.desk.now = other.desk.now + later;
    other.desk.give(Input::Timer);
    other.desk.settle();
    other.note();
    other.sync(&mut log);
    assert_eq!(other.desk.view.keys().collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(log.page(0, false).changes.len(), 2);
}

#[test]
fn st_23_merging_again_is_no_news_and_a_clock_far_ahead_is_cut_back() {
    let (mut one, mut log) = (Device::new(1), Log::new());
    one.put("a", 1);
    let change = one.desk.replica.change("a").expect("known");
    let (number, kept) = log.merge(&change, one.desk.wall).expect("news");
    assert_eq!(log.merge(&change, one.desk.wall), None);
    let mut restored = Log::restore(vec![(number, kept)], 0);
    assert_eq!(restored.merge(&change, one.desk.wall), None);
    assert_eq!(restored.page(0, false), log.page(0, false));
    let mut ahead = Device::new(2);
    ahead.desk.wall = ahead.desk.wall + Duration::from_secs(10 * 365 * 24 * 3_600);
    ahead.desk.give(Input::Timer);
    ahead.desk.settle();
    ahead.put("a", 66);
    let bad = ahead.desk.replica.change("a").expect("known");
    log.merge(&bad, one.desk.wall).expect("news");
    one.sync(&mut log);
    assert_eq!(one.desk.view["a"], "{\"n\":66}");
    one.put("a", 2);
    one.sync(&mut log);
    let Change::Entity { stored: Some(stored), .. } = &log.page(0, false).changes[0] else { panic!() };
    assert_eq!(stored.value.text(), "{\"n\":2}");
}
