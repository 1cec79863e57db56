//! Entities that came from elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use syncline_core::outbox::{EntityType, EntryResult, Moment, SenderId, Stamp};
use syncline_store::inbox::{Arrival, BATCH_MAX, Inbox, LIST_MAX, Put};

use super::fixture::{Fixture, until};
use super::outbox::entry;

async fn open(fixture: &Fixture) -> Arc<dyn Inbox> {
    fixture.store.inbox(&["order", "invoice", "routing_rule", "schedule"].map(kind)).await.unwrap()
}

fn kind(name: &str) -> EntityType {
    EntityType::new(name).unwrap()
}

fn sender(name: &str) -> SenderId {
    SenderId::new(name).unwrap()
}

fn arrival(entry: i64, id: &str, payload: &str, at_us: i64) -> Arrival {
    Arrival {
        entry: (entry > 0).then_some(entry),
        entity_type: "routing_rule".to_owned(),
        entity_id: id.to_owned(),
        payload: payload.to_owned(),
        created_at: Moment::from_us(at_us),
    }
}

async fn payload(inbox: &dyn Inbox, id: &str) -> Option<String> {
    inbox.entity(&kind("routing_rule"), id).await.unwrap().map(|entity| entity.payload)
}

use EntryResult::{Applied, Duplicate, Stale};

pub(crate) async fn ss_24_an_entry_takes_effect_once_however_often_it_arrives(fixture: &Fixture) {
    let inbox = open(fixture).await;
    let a = sender("a");
    let batch = [arrival(1, "r1", "1", 10), arrival(2, "r1", "2", 20), arrival(3, "r2", "3", 5)];
    assert_eq!(inbox.apply(Some(&a), &batch).await.unwrap(), [Applied, Applied, Applied]);
    assert_eq!(payload(&*inbox, "r1").await.as_deref(), Some("2"));
    assert_eq!(inbox.apply(Some(&a), &batch).await.unwrap(), [Duplicate, Duplicate, Duplicate]);
    // The first one again after the second: nothing goes back.
    assert_eq!(inbox.apply(Some(&a), &batch[..1]).await.unwrap(), [Duplicate]);
    assert_eq!(payload(&*inbox, "r1").await.as_deref(), Some("2"));
    // The same number with another content is an error of the sender, and changes nothing.
    let reused = inbox.apply(Some(&a), &[arrival(3, "r2", "other", 99)]).await.unwrap();
    assert!(
        matches!(&reused[0], EntryResult::Refused { reason } if reason.contains("entry 3")),
        "{reused:?}"
    );
    assert_eq!(payload(&*inbox, "r2").await.as_deref(), Some("3"));
    // Another sender has numbers of its own.
    assert_eq!(inbox.apply(Some(&sender("b")), &[arrival(3, "r3", "b", 1)]).await.unwrap(), [Applied]);
}

pub(crate) async fn ss_24_batches_that_arrive_at_once_take_effect_once(fixture: &Fixture) {
    let inbox = open(fixture).await;
    let batch: Vec<Arrival> =
        (1..=200).map(|n| arrival(n, &format!("r{}", n % 50), &n.to_string(), n)).collect();
    let results = join_all((0..8).map(|n| {
        let (inbox, mut batch) = (Arc::clone(&inbox), batch.clone());
        async move {
            batch.rotate_left(n * 25);
            inbox.apply(Some(&sender("a")), &batch).await.unwrap()
        }
    }));
    let results = results.await;
    let taken: usize =
        results.iter().flatten().filter(|result| **result == Applied || **result == Stale).count();
    assert_eq!(taken, 200, "each entry is taken by one of the eight");
    for n in 151..=200 {
        assert_eq!(payload(&*inbox, &format!("r{}", n % 50)).await, Some(n.to_string()));
    }
}

pub(crate) async fn ss_10_an_older_change_never_overwrites_a_newer_one(fixture: &Fixture) {
    let inbox = open(fixture).await;
    let (a, b) = (sender("a"), sender("b"));
    assert_eq!(inbox.apply(Some(&a), &[arrival(5, "r", "a5", 100)]).await.unwrap(), [Applied]);
    assert_eq!(inbox.apply(Some(&a), &[arrival(4, "r", "a4", 200)]).await.unwrap(), [Stale]);
    assert_eq!(inbox.apply(Some(&b), &[arrival(1, "r", "b1", 99)]).await.unwrap(), [Stale]);
    assert_eq!(inbox.apply(Some(&b), &[arrival(2, "r", "b2", 101)]).await.unwrap(), [Applied]);
    // One sender's own numbers count, although its clock was set back.
    assert_eq!(inbox.apply(Some(&b), &[arrival(3, "r", "b3", 50)]).await.unwrap(), [Applied]);
    assert_eq!(payload(&*inbox, "r").await.as_deref(), Some("b3"));
    // A removal is a change like any other, and remembered.
    assert_eq!(inbox.apply(Some(&b), &[arrival(4, "r", "null", 300)]).await.unwrap(), [Applied]);
    assert_eq!(payload(&*inbox, "r").await, None);
    assert_eq!(inbox.apply(Some(&a), &[arrival(6, "r", "a6", 299)]).await.unwrap(), [Stale]);
    assert_eq!(payload(&*inbox, "r").await, None);
    assert_eq!(inbox.apply(Some(&a), &[arrival(7, "r", "a7", 301)]).await.unwrap(), [Applied]);
    assert_eq!(payload(&*inbox, "r").await.as_deref(), Some("a7"));
}

/// A receiver once cut times from ahead to its own clock, while the sender kept what it had written: with clocks ten minutes apart
/// each side compared with another number, and they differed for ever.
pub(crate) async fn ss_33_times_are_kept_as_written_and_an_edit_is_later_than_what_it_has_seen(
    fixture: &Fixture,
) {
    const DAY_US: i64 = 86_400_000_000;
    let inbox = open(fixture).await;
    let rule = kind("routing_rule");
    let put = async |payload: &str| match inbox.put(&rule, "r", payload, None).await.unwrap() {
        Put::Done(entity) => entity.changed_at.as_us(),
        other => panic!("{other:?}"),
    };
    let now_us = put("6").await;
    let mut entry = 0;
    let mut hear = async |payload: &str, at_us: i64| {
        entry += 1;
        inbox.apply(Some(&sender("b")), &[arrival(entry, "r", payload, at_us)]).await.unwrap().remove(0)
    };
    for days in [10, 3_000] {
        let ahead_us = now_us + days * DAY_US;
        assert_eq!(hear("5", ahead_us).await, Applied);
        let kept = inbox.entity(&rule, "r").await.unwrap().unwrap();
        assert_eq!((kept.payload.as_str(), kept.changed_at.as_us()), ("5", ahead_us));
        assert!(put("2").await > ahead_us, "whoever has seen it can replace it everywhere");
        assert_eq!(hear("1", ahead_us).await, Stale);
    }
    assert_eq!(hear("3", now_us - 10 * DAY_US).await, Stale);
    assert_eq!(payload(&*inbox, "r").await.as_deref(), Some("2"));
    // What could not be edited any more is refused.
    let refused = hear("4", 253_000_000_000_000_000).await;
    assert!(
        matches!(&refused, EntryResult::Refused { reason } if reason.contains("clock is wrong")),
        "{refused:?}"
    );
}

pub(crate) async fn ss_09_the_plain_contract_upserts_by_id_and_time(fixture: &Fixture) {
    let inbox = open(fixture).await;
    let apply = async |at: i64, payload: &str| {
        inbox.apply(None, &[arrival(0, "r", payload, at)]).await.unwrap().remove(0)
    };
    assert_eq!(apply(10, "1").await, Applied);
    assert_eq!(apply(10, "1").await, Duplicate);
    assert_eq!(apply(10, "2").await, Applied, "two changes within what the clock can tell apart");
    assert_eq!(apply(9, "0").await, Stale);
    assert_eq!(apply(11, "3").await, Applied);
    assert_eq!(payload(&*inbox, "r").await.as_deref(), Some("3"));
    let unknown = Arrival { entity_type: "nothing".to_owned(), ..arrival(0, "r", "1", 1) };
    let results = inbox.apply(None, &[unknown, arrival(0, "s", "1", 1)]).await.unwrap();
    assert!(
        matches!(&results[0], EntryResult::Refused { reason } if reason.contains("'nothing'") && reason.contains("[[entities]]"))
    );
    assert_eq!(results[1], Applied);
}

pub(crate) async fn ss_10_what_is_edited_here_goes_into_the_outbox_and_what_arrives_does_not(
    fixture: &Fixture,
) {
    let (inbox, outbox) = (open(fixture).await, fixture.store.outbox());
    let box_ = sender("box");
    let future_us = i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_micros()).unwrap() + 60_000_000;
    assert_eq!(inbox.apply(Some(&box_), &[arrival(1, "r", "1", future_us)]).await.unwrap(), [Applied]);
    assert!(outbox.fetch_pending(10).await.unwrap().is_empty(), "no echo");

    // What is edited here is newer than what was here, though the other clock is ahead.
    let rule = kind("routing_rule");
    let put = inbox.put(&rule, "r", r#"{"to":"desk"}"#, None).await.unwrap();
    let Put::Done(edited) = put else { panic!("{put:?}") };
    assert!(edited.changed_at.as_us() > future_us);
    assert_eq!(edited.sender.as_ref(), Some(&outbox.sender().await.unwrap()));
    let pending = outbox.fetch_pending(10).await.unwrap();
    assert_eq!(pending.len(), 1);
    assert_eq!((pending[0].entity_id.as_str(), pending[0].created_at), ("r", edited.changed_at));
    assert_eq!(pending[0].payload.replace(' ', ""), r#"{"to":"desk"}"#);
    assert_eq!(inbox.apply(Some(&box_), &[arrival(2, "r", "2", future_us)]).await.unwrap(), [Stale]);
    let put = inbox.put(&rule, "r", "4", Some(edited.changed_at)).await.unwrap();
    let Put::Done(again) = put else { panic!("{put:?}") };
    assert!(again.changed_at > edited.changed_at);
    assert!(inbox.put(&kind("nothing"), "r", "4", None).await.is_err());
    assert!(inbox.put(&rule, "r", "{", None).await.is_err());
}

pub(crate) async fn ss_10_of_editors_that_saw_the_same_one_changes_it(fixture: &Fixture) {
    let (inbox, outbox) = (open(fixture).await, fixture.store.outbox());
    let rule = kind("routing_rule");
    let put = inbox.put(&rule, "r", "0", None).await.unwrap();
    let Put::Done(seen) = put else { panic!("{put:?}") };
    let payloads: Vec<String> = (1..=8).map(|editor| editor.to_string()).collect();
    let edits = payloads.iter().map(|payload| inbox.put(&rule, "r", payload, Some(seen.changed_at)));
    let outcomes = join_all(edits).await;
    let done: Vec<_> = outcomes.iter().filter(|put| matches!(put, Ok(Put::Done(_)))).collect();
    let [Ok(Put::Done(done))] = done[..] else { panic!("{outcomes:?}") };
    let refused = outcomes.iter().filter(|put| **put == Ok(Put::Changed(done.changed_at))).count();
    assert_eq!(refused, 7, "and each hears when it was changed: {outcomes:?}");
    assert_eq!(inbox.entity(&rule, "r").await.unwrap().unwrap().payload, done.payload);
    assert_eq!(outbox.fetch_pending(10).await.unwrap().len(), 2, "a change that was refused goes nowhere");
}

pub(crate) async fn ss_10_a_change_of_our_own_application_is_not_overwritten_by_an_older_one(
    fixture: &Fixture,
) {
    let (inbox, outbox) = (open(fixture).await, fixture.store.outbox());
    let front = sender("front");
    let ids = outbox.enqueue(&[entry("routing_rule", "r", "\"ours\"")]).await.unwrap();
    let ours = outbox.fetch_pending(1).await.unwrap()[0].created_at.as_us();
    let older = |entry| arrival(entry, "r", "theirs", ours - 1_000);
    assert_eq!(inbox.apply(Some(&front), &[older(1)]).await.unwrap(), [Stale], "while it waits");
    outbox.mark_processed(&ids, None).await.unwrap();
    assert_eq!(inbox.apply(Some(&front), &[older(2)]).await.unwrap(), [Stale], "and after it was sent");
    let newer = arrival(3, "r", "theirs", ours + 1_000);
    assert_eq!(inbox.apply(Some(&front), &[newer]).await.unwrap(), [Applied]);
}

pub(crate) async fn ss_09_entities_are_listed_last_changed_first(fixture: &Fixture) {
    let inbox = open(fixture).await;
    let batch: Vec<Arrival> = (1..=7).map(|n| arrival(n, &format!("r{n}"), &n.to_string(), n)).collect();
    inbox.apply(Some(&sender("a")), &batch).await.unwrap();
    let more = [arrival(8, "r2", "new", 8), arrival(9, "r5", "null", 9)];
    inbox.apply(Some(&sender("a")), &more).await.unwrap();
    let list = async |after, limit| inbox.entities(&kind("routing_rule"), after, limit).await.unwrap();
    let first = list(None, 3).await;
    assert_eq!(first.iter().map(|entity| entity.id.as_str()).collect::<Vec<_>>(), ["r2", "r7", "r6"]);
    let rest = list(Some(first[2].place), 10).await;
    assert_eq!(rest.iter().map(|entity| entity.id.as_str()).collect::<Vec<_>>(), ["r4", "r3", "r1"]);
    assert!(list(None, 0).await.is_empty());
    assert!(inbox.entities(&kind("order"), None, 10).await.unwrap().is_empty(), "each type has its table");
    assert!(inbox.entities(&kind("routing_rule"), None, LIST_MAX + 1).await.is_err());
    // A new type is a table more, and opening twice changes nothing.
    let types = [kind("reminder"), kind("routing_rule")];
    let [one, two] =
        [fixture.store.inbox(&types).await.unwrap(), fixture.another().await.inbox(&types).await.unwrap()];
    assert_eq!(one.types(), types);
    let reminder = Arrival { entity_type: "reminder".to_owned(), ..arrival(1, "v", "1", 1) };
    assert_eq!(one.apply(Some(&sender("v")), &[reminder]).await.unwrap(), [Applied]);
    assert_eq!(two.entities(&kind("reminder"), None, 10).await.unwrap().len(), 1);
    assert_eq!(two.entities(&kind("routing_rule"), None, 10).await.unwrap().len(), 6);
}

pub(crate) async fn ss_27_what_breaks_a_bound_of_the_inbox_is_refused_and_nothing_stored(fixture: &Fixture) {
    let inbox = open(fixture).await;
    let long = "x".repeat(2_000_000);
    let bad = [
        arrival(1, "", "1", 1),
        arrival(2, "a\nb", "1", 1),
        arrival(3, "a", &long, 1),
        arrival(4, "a", "\0", 1),
    ];
    let results = inbox.apply(Some(&sender("a")), &bad).await.unwrap();
    assert!(results.iter().all(|result| !result.is_taken()), "{results:?}");
    assert!(inbox.apply(Some(&sender("a")), &[arrival(0, "a", "1", 1)]).await.is_err(), "without its number");
    assert!(inbox.apply(None, &vec![arrival(0, "a", "1", 1); BATCH_MAX + 1]).await.is_err());
    assert_eq!(fixture.rows("syncline.entity_routing_rule").await, 0);
    assert_eq!(fixture.rows("syncline.inbox_entries").await, 0, "what was refused may come again, corrected");
    let injection =
        Arrival { entity_type: "x; DROP TABLE syncline.kv".to_owned(), ..arrival(5, "a", "1", 1) };
    assert!(!inbox.apply(Some(&sender("a")), &[injection]).await.unwrap()[0].is_taken());
    inbox.apply(Some(&sender("a")), &[arrival(6, "a", "1", 1)]).await.unwrap();
    assert_eq!(inbox.forget(Duration::from_secs(60), 10).await.unwrap(), 0);
    // As soon as the store's clock has moved on.
    until("it is older than nothing", async || inbox.forget(Duration::ZERO, 10).await.unwrap() == 1).await;
}

/// SQL repeats the rule of [`Stamp`]: which of two changes is the newer one. Random changes of a few senders, with clocks that
/// often agree, go through the tables and through the rule; both must have kept the same one after each.
pub(crate) async fn hs_07_the_tables_keep_the_change_that_the_core_calls_newer(fixture: &Fixture) {
    let (inbox, seed) = (open(fixture).await, rand::random::<u64>());
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut held: BTreeMap<String, (Stamp, String)> = BTreeMap::new();
    let mut numbers: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    let (mut applied, mut stale) = (0, 0);
    for n in 0..200 {
        let from = ["", "a", "b"][random.random_range(0..3)];
        // Each number once, but in no order.
        let left = numbers.entry(from).or_insert_with(|| (1..=200).collect());
        let entry = left.swap_remove(random.random_range(0..left.len()));
        let from = SenderId::new(from).ok();
        let entry = if from.is_some() { entry } else { 0 };
        let (id, at_us) = (format!("m{}", random.random_range(0..4)), random.random_range(1..6));
        let told = arrival(entry, &id, &n.to_string(), at_us);
        let stamp = Stamp { sender: from.clone(), entry, at: told.created_at };
        let newer = held.get(&id).is_none_or(|(kept, _)| stamp.supersedes(kept));
        let result = inbox.apply(from.as_ref(), std::slice::from_ref(&told)).await.unwrap();
        assert_eq!(result == [Applied], newer, "seed {seed}, {n}: {stamp:?} over {:?}", held.get(&id));
        if newer {
            held.insert(id.clone(), (stamp, told.payload));
        }
        assert_eq!(
            payload(&*inbox, &id).await,
            held.get(&id).map(|(_, payload)| payload.clone()),
            "seed {seed}, {n}"
        );
        (applied, stale) = if newer { (applied + 1, stale) } else { (applied, stale + 1) };
    }
    assert!(
        applied > 20 && stale > 20,
        "too little happened to prove anything: {applied} applied, {stale} stale"
    );
}
