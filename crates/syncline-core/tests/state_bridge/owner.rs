//! Whose a storage is: what is in it goes out under the name it was first exchanged for, and under no other.

use syncline_core::state::{Input, LinkStatus};

use super::device::Device;
use super::node::Node;

#[test]
fn ac_10_a_storage_belongs_to_the_first_name_it_is_exchanged_for_also_after_a_restart() {
    let (mut device, mut node) = (Device::new(1, 1), Node::new("first"));
    assert_eq!(device.contexts[0].replica.admits("7"), Some(true));
    assert_eq!(device.contexts[0].replica.admits("8"), Some(false));
    device.put(0, 1, "apples", 3);
    device.meet(&mut node);
    assert_eq!(device.contexts[0].status, LinkStatus::InStep);
    // The next context, and the one after the browser was restarted, know it from the storage.
    device.open();
    device.calm();
    device.kill(0);
    device.calm();
    let next = &mut device.contexts[0].replica;
    assert_eq!((next.admits("8"), next.admits("7")), (Some(false), Some(true)));
}

#[test]
fn ac_10_the_name_is_stored_before_anything_was_sent_and_survives_an_outage() {
    let mut device = Device::new(1, 1);
    let mut node = Node::new("first");
    device.online = false;
    device.put(0, 1, "\"apples\" \u{1f34f}", 3);
    assert_eq!(device.contexts[0].replica.admits("auth0|7 \"quoted\""), Some(true));
    device.sync(&mut node);
    device.kill(0);
    device.open();
    device.calm();
    let replica = &mut device.contexts[0].replica;
    assert_eq!(replica.unsent(), 1);
    assert_eq!(replica.admits("8"), Some(false));
    assert_eq!(replica.admits("auth0|7 \"quoted\""), Some(true));
}

#[test]
fn ac_10_a_storage_that_was_erased_is_anybodys_and_one_that_was_cleared_under_a_page_is_not() {
    let (mut device, mut node) = (Device::new(1, 1), Node::new("first"));
    assert_eq!(device.contexts[0].replica.admits("7"), Some(true));
    device.put(0, 1, "apples", 3);
    device.meet(&mut node);
    // A page that is open writes what it knows again: that is still somebody's.
    device.clear();
    device.calm();
    assert_eq!(device.contexts[0].replica.admits("8"), Some(false));
    device.kill(0);
    device.storage.clear();
    device.open();
    assert_eq!(device.contexts[0].replica.admits("8"), None, "nothing is known before it is loaded");
    device.calm();
    assert_eq!(device.contexts[0].replica.admits("8"), Some(true));
}

#[test]
fn ac_10_unsent_changes_are_counted_by_entity_until_the_node_has_them() {
    let (mut device, mut node) = (Device::new(1, 2), Node::new("first"));
    device.online = false;
    device.put(0, 1, "apples", 3);
    device.put(0, 2, "apples", 4);
    device.put(1, 3, "pears", 1);
    device.sync(&mut node);
    assert_eq!(device.contexts.iter().map(|context| context.replica.unsent()).collect::<Vec<_>>(), [2, 2]);
    device.hand(0, Input::Reset { op: 4 });
    device.sync(&mut node);
    let unsent =
        |device: &Device| device.contexts.iter().map(|context| context.replica.unsent()).collect::<Vec<_>>();
    assert_eq!(unsent(&device), [1, 1], "the reset alone");
    device.online = true;
    device.meet(&mut node);
    assert_eq!(unsent(&device), [0, 0]);
}
