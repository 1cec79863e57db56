//! Devices in step through a node, each with contexts, a storage and a clock of its own.

mod device;
mod node;
mod owner;
mod storm;

use std::time::Duration;

use syncline_core::state::names::{AHEAD_MAX, HORIZON};
use syncline_core::state::{Input, LinkStatus};

use device::Device;
use node::Node;

fn two() -> (Device, Device, Node) {
    (Device::new(1, 1), Device::new(2, 1), Node::new("first"))
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("fits")
}

#[test]
fn st_23_changes_made_offline_reach_the_other_device() {
    let (mut one, mut other, mut node) = two();
    one.online = false;
    for n in 0..1_200 {
        one.put(0, n + 1, &format!("id{n}"), n);
    }
    one.sync(&mut node);
    assert_eq!((one.marks(), one.contexts[0].status.clone()), (1_200, LinkStatus::Unreachable));
    // The device dies offline; what it has not sent is remembered.
    one.kill(0);
    one.open();
    one.online = true;
    one.meet(&mut node);
    other.meet(&mut node);
    assert_eq!((one.marks(), one.contexts[0].status.clone()), (0, LinkStatus::InStep));
    assert_eq!((other.view().len(), other.view()), (1_200, one.view()));
    other.remove(0, 1, "id7");
    other.put(0, 2, "id8", 800);
    other.sync(&mut node);
    one.hand(0, Input::Told { number: node.last() });
    one.sync(&mut node);
    assert_eq!(one.view(), other.view());
    assert_eq!((one.view().get("id7"), one.view()["id8"].as_str()), (None, "{\"n\":800}"));
    one.hand(0, Input::Reset { op: 5_000 });
    one.put(0, 5_001, "after", 1);
    one.sync(&mut node);
    other.meet(&mut node);
    assert_eq!(other.view().keys().collect::<Vec<_>>(), ["after"]);
}

#[test]
fn st_23_the_later_writer_wins_and_what_was_removed_does_not_come_back() {
    let (mut one, mut other, mut node) = two();
    one.put(0, 1, "a", 1);
    one.put(0, 2, "b", 1);
    one.sync(&mut node);
    other.meet(&mut node);
    // Both offline. The other one's clock is later, though it comes back first.
    (one.online, other.online) = (false, false);
    one.put(0, 3, "a", 10);
    one.remove(0, 4, "b");
    one.sync(&mut node);
    other.pass(60_000);
    other.put(0, 1, "a", 20);
    other.put(0, 2, "b", 20);
    other.sync(&mut node);
    (one.online, other.online) = (true, true);
    other.meet(&mut node);
    one.meet(&mut node);
    other.meet(&mut node);
    for device in [&one, &other] {
        assert_eq!(device.view().iter().collect::<Vec<_>>(), [(&"a".to_owned(), &"{\"n\":20}".to_owned())]);
    }
    // Added again, it is there again.
    one.put(0, 5, "b", 30);
    one.sync(&mut node);
    other.meet(&mut node);
    assert_eq!(other.view()["b"], "{\"n\":30}");
}

/// The edit's stamp was later than the addition's, by a clock that was a few minutes ahead. It belonged to what had been removed.
#[test]
fn st_23_an_edit_of_what_was_removed_does_not_come_back_with_the_next_entity_of_that_name() {
    let (mut one, mut other, mut node) = two();
    one.put(0, 1, "a", 1);
    one.sync(&mut node);
    other.meet(&mut node);
    (other.online, other.off) = (false, 4 * 60_000);
    other.put(0, 1, "a", 2);
    other.sync(&mut node);
    one.remove(0, 2, "a");
    one.sync(&mut node);
    other.online = true;
    other.meet(&mut node);
    one.meet(&mut node);
    assert_eq!((one.view().len(), other.view().len()), (0, 0));
    // Nobody but the node has the edit any more, and this device never saw it.
    one.put(0, 3, "a", 3);
    one.sync(&mut node);
    other.meet(&mut node);
    for view in [one.view(), other.view(), &node.live()] {
        assert_eq!(view.iter().collect::<Vec<_>>(), [(&"a".to_owned(), &"{\"n\":3}".to_owned())]);
    }
}

#[test]
fn st_23_a_device_away_beyond_the_horizon_brings_nothing_back_and_loses_nothing_it_added() {
    let (mut one, mut other, mut node) = two();
    for (op, id) in [(1, "a"), (2, "b"), (3, "c")] {
        one.put(0, op, id, 1);
    }
    one.sync(&mut node);
    other.pass(120_000);
    other.meet(&mut node);
    other.online = false;
    other.put(0, 1, "added early", 5);
    other.put(0, 2, "a", 5);
    other.sync(&mut node);
    one.remove(0, 4, "a");
    one.sync(&mut node);
    let later = ms(HORIZON) + 60_000;
    assert_eq!(node.forget(one.wall() + later), 1, "the removal is forgotten");
    other.pass(later);
    // Edited again now: that is no reason to come back either.
    other.put(0, 3, "a", 6);
    other.put(0, 4, "added late", 7);
    other.sync(&mut node);
    other.online = true;
    other.meet(&mut node);
    one.pass(later);
    one.meet(&mut node);
    for device in [&one, &other] {
        assert_eq!(device.view().keys().collect::<Vec<_>>(), ["added early", "added late", "b", "c"]);
    }
    assert_eq!((node.live().len(), other.marks()), (4, 0));
}

#[test]
fn st_23_a_node_that_knows_nothing_of_a_device_is_sent_everything_it_has() {
    let (mut one, mut other, mut node) = two();
    (0..1_100).for_each(|n| one.put(0, n + 1, &format!("id{n}"), n));
    one.sync(&mut node);
    // The node's database was lost. What nobody has changed since is there again, too.
    let mut node = Node::new("second");
    one.put(0, 2_000, "id3", 3_000);
    one.sync(&mut node);
    one.meet(&mut node);
    other.meet(&mut node);
    assert_eq!((other.view().len(), other.view()), (1_100, one.view()));
    // Killed in the middle of it, it begins again.
    let mut node = Node::new("third");
    one.hand(0, Input::Told { number: 1 });
    one.calm();
    assert!((0..3).all(|_| {
        one.call(0, &mut node, device::NOON + one.now, false) && {
            one.calm();
            true
        }
    }));
    assert!(node.last() > 0 && node.live().len() < 1_100);
    one.kill(0);
    one.open();
    one.meet(&mut node);
    assert_eq!(node.live().len(), 1_100);
}

/// A node that had forgotten a removal took an older addition for news. A device that still knew of the removal kept to it and
/// said nothing: the two were out of step for good.
#[test]
fn st_23_what_a_device_knows_to_be_removed_later_it_tells_a_node_that_has_forgotten_it() {
    for removal in [Input::Remove { op: 3, ids: vec!["a".to_owned()] }, Input::Reset { op: 3 }] {
        let (mut one, mut other, mut node) = two();
        one.put(0, 1, "a", 1);
        one.sync(&mut node);
        other.meet(&mut node);
        one.hand(0, removal.clone());
        one.put(0, 4, "b", 2);
        one.sync(&mut node);
        // The node's database is lost, and the first to come has not heard of the removal.
        let mut node = Node::new("second");
        other.meet(&mut node);
        assert_eq!(node.live().len(), 1);
        one.meet(&mut node);
        other.meet(&mut node);
        assert_eq!(node.live().keys().collect::<Vec<_>>(), ["b"], "{removal:?}");
        assert_eq!((one.view(), other.view()), (&node.live(), &node.live()), "{removal:?}");
        assert_eq!((one.marks(), other.marks()), (0, 0));
        let last = node.last();
        one.meet(&mut node);
        other.meet(&mut node);
        assert_eq!(node.last(), last, "said once");
    }
}

#[test]
fn st_23_a_device_whose_clock_is_ahead_waits_until_it_is_right_and_then_loses_nothing() {
    let (mut one, mut other, mut node) = two();
    one.put(0, 1, "a", 1);
    one.sync(&mut node);
    other.off = 10 * 365 * 24 * 3_600_000;
    other.meet(&mut node);
    other.put(0, 1, "b", 2);
    other.meet(&mut node);
    assert_eq!((other.contexts[0].status.clone(), node.live().len()), (LinkStatus::ClockOff, 1));
    other.off = 0;
    other.pass(1);
    other.meet(&mut node);
    assert_eq!((other.marks(), node.live().len()), (0, 2));
    let ahead = node.ahead;
    one.meet(&mut node);
    one.put(0, 2, "b", 3);
    one.sync(&mut node);
    other.meet(&mut node);
    assert_eq!(other.view()["b"], "{\"n\":3}", "and it does not win for ever");
    assert!(ahead > 0 && node.ahead == ahead, "what was made by that clock, and nothing after it");
    // There is no last stamp that nobody could follow, whoever sends it.
    let mut rogue = Device::new(3, 1);
    rogue.off = ms(AHEAD_MAX) as i64 - 1_000;
    rogue.put(0, 1, "c", 1);
    rogue.meet(&mut node);
    assert_eq!(node.ahead, ahead);
    let early = node.push(&format!("{{\"after\":{},\"epoch\":\"first\",\"changes\":[{{\"id\":\"c\",\"added\":\"zzzz------------\"}}]}}", node.last()), one.wall());
    assert!(early.is_ok() && node.ahead == ahead + 1);
    one.meet(&mut node);
    one.put(0, 3, "c", 4);
    one.sync(&mut node);
    rogue.meet(&mut node);
    assert_eq!(rogue.view()["c"], "{\"n\":4}");
}

#[test]
fn st_23_another_context_takes_over_where_the_one_before_stopped() {
    let mut node = Node::new("first");
    let mut device = Device::new(1, 3);
    // Any context's changes are sent by the one that talks to the node.
    for at in 0..3 {
        device.put(at, 1, &format!("from {at}"), at as u64);
    }
    device.sync(&mut node);
    assert_eq!((node.live().len(), device.marks()), (3, 0));
    // It dies with a batch under way that the node has stored.
    device.put(1, 2, "d", 4);
    device.calm();
    let wall = device::NOON + device.now;
    assert!(device.call(0, &mut node, wall, true));
    device.kill(0);
    device.sync(&mut node);
    assert_eq!((node.live().len(), device.marks(), device.view().len()), (4, 0, 4));
    let last = node.last();
    device.meet(&mut node);
    assert_eq!(node.last(), last, "sent again it is no news");
}

#[test]
fn st_23_a_change_made_while_an_older_one_is_under_way_is_sent_too() {
    let mut node = Node::new("first");
    let mut device = Device::new(1, 2);
    device.sync(&mut node);
    device.put(0, 1, "a", 1);
    device.calm();
    // The batch is on its way; another context changes the same entity, and only then the answer comes.
    let call = device.contexts[0].calls.pop_front().expect("a batch");
    let syncline_core::state::Effect::Push { ask, body } = call else { panic!("{call:?}") };
    let text = node.push(&body, device::NOON + device.now).expect("taken");
    device.put(1, 1, "a", 2);
    while device.serve(1) {}
    device.hand(0, Input::Answered { ask, text });
    device.sync(&mut node);
    assert_eq!((node.live()["a"].as_str(), device.marks()), ("{\"n\":2}", 0));
}

#[test]
fn st_23_what_is_told_while_an_answer_is_on_its_way_is_asked_for() {
    for news in [|number| Input::Told { number }, |_| Input::Link { up: true }] {
        let (mut one, mut other, mut node) = two();
        one.sync(&mut node);
        other.put(0, 1, "a", 1);
        other.sync(&mut node);
        one.hand(0, Input::Told { number: node.last() });
        let call = one.contexts[0].calls.pop_front().expect("a question");
        let syncline_core::state::Effect::Pull { ask, query } = call else { panic!("{call:?}") };
        let text = node.pull(&query, device::NOON + one.now);
        other.put(0, 2, "b", 2);
        other.sync(&mut node);
        one.hand(0, news(node.last()));
        one.hand(0, Input::Answered { ask, text });
        one.sync(&mut node);
        assert_eq!((one.view().len(), one.view()), (2, other.view()));
    }
}
