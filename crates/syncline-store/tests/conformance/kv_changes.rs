//! Conditional changes, increments, batches, spaces of parts, and who hears of changes.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use syncline_core::kv::{BATCH_MAX, Condition, NotAdded, VALUE_MAX_BYTES, Version};
use syncline_store::kv::{
    Applied, Asked, KeyNews, Kv, LIST_BYTES_MAX, Operation, Refusal, Refused, SPACE_MAX_BYTES,
};
use syncline_store::{Error, Store};

use super::fixture::{Fixture, key, until};

const MINUTE: Duration = Duration::from_secs(60);
const BRIEF: Duration = Duration::from_millis(100);

fn put(name: &str, value: &str, condition: Condition) -> Operation {
    Operation::Put { key: key(name), value: value.to_owned(), ttl: Some(MINUTE), condition }
}

fn increment(name: &str, by: i64) -> Operation {
    Operation::Increment { key: key(name), by, ttl: Some(MINUTE) }
}

/// The version that one operation has written, or what stood in its way.
async fn one(kv: &dyn Kv, operation: Operation) -> Result<(String, Version), Refused> {
    match kv.apply(vec![operation]).await.unwrap() {
        Ok(applied) => match applied.into_iter().next().unwrap() {
            Applied::Written(entry) => Ok((entry.value, entry.version)),
            other => panic!("{other:?}"),
        },
        Err(Refusal { index: 0, why }) => Err(why),
        Err(refusal) => panic!("{refusal:?}"),
    }
}

pub(crate) async fn vw_33_a_version_grows_with_every_write_and_another_life_has_another(fixture: &Fixture) {
    let kv = fixture.store.kv();
    let mut known = BTreeSet::new();
    for _ in 0..5 {
        let first = kv.put(&key("k"), "1", None).await.unwrap();
        let second = kv.put(&key("k"), "1", Some(MINUTE)).await.unwrap();
        let third = one(&*kv, increment("k", 1)).await.unwrap().1;
        assert!(first < second && second < third, "{first:?} {second:?} {third:?}");
        assert_eq!(kv.get(&key("k")).await.unwrap().unwrap().version, third);
        assert_eq!(kv.list("k", 1).await.unwrap()[0].version, third);
        assert!(third.0 < 1 << 53);
        assert!([first, second, third].into_iter().all(|version| known.insert(version)), "{known:?}");
        assert!(kv.delete(&key("k")).await.unwrap());
    }
}

pub(crate) async fn vw_33_conditions_hold_or_nothing_is_written(fixture: &Fixture) {
    let kv = fixture.store.kv();
    let unmet = |found| Err(Refused::Unmet { found });
    assert_eq!(one(&*kv, put("k", "1", Condition::Present)).await, unmet(None));
    assert_eq!(one(&*kv, put("k", "1", Condition::Matches(vec![Version(1)]))).await, unmet(None));
    let (_, first) = one(&*kv, put("k", "1", Condition::Absent)).await.unwrap();
    assert_eq!(one(&*kv, put("k", "2", Condition::Absent)).await, unmet(Some(first)));
    let (_, second) = one(&*kv, put("k", "2", Condition::Matches(vec![first]))).await.unwrap();
    assert_eq!(one(&*kv, put("k", "3", Condition::Matches(vec![first]))).await, unmet(Some(second)));
    let delete = |condition| vec![Operation::Delete { key: key("k"), condition }];
    let refused = kv.apply(delete(Condition::Matches(vec![first]))).await.unwrap().unwrap_err();
    assert_eq!(refused, Refusal { index: 0, why: Refused::Unmet { found: Some(second) } });
    assert_eq!(kv.get(&key("k")).await.unwrap().unwrap().value, "2");
    let deleted = kv.apply(delete(Condition::Matches(vec![first, second]))).await.unwrap().unwrap();
    assert_eq!(deleted, [Applied::Deleted(true)]);
    assert_eq!(kv.apply(delete(Condition::None)).await.unwrap().unwrap(), [Applied::Deleted(false)]);
    // What has expired is absent, swept or not.
    kv.put(&key("k"), "old", Some(BRIEF)).await.unwrap();
    until("the key has expired", async || kv.get(&key("k")).await.unwrap().is_none()).await;
    assert_eq!(one(&*kv, put("k", "1", Condition::Present)).await, unmet(None));
    assert!(one(&*kv, put("k", "new", Condition::Absent)).await.is_ok());
}

pub(crate) async fn vw_33_of_twenty_changes_of_one_version_one_succeeds(fixture: &Fixture) {
    let other = fixture.another().await;
    for round in 0..3 {
        let absent = round == 0;
        let found = fixture.store.kv().get(&key("contended")).await.unwrap().map(|entry| entry.version);
        assert_eq!(found.is_none(), absent);
        let tries = join_all((0..20).map(|n| {
            let kv = if n % 2 == 0 { fixture.store.kv() } else { other.kv() };
            let condition = found.map_or(Condition::Absent, |version| Condition::Matches(vec![version]));
            tokio::spawn(async move { one(&*kv, put("contended", &n.to_string(), condition)).await })
        }))
        .await;
        let winners: Vec<_> = tries.into_iter().filter_map(|tried| tried.unwrap().ok()).collect();
        assert_eq!(winners.len(), 1, "{winners:?}");
        let kept = fixture.store.kv().get(&key("contended")).await.unwrap().unwrap();
        assert_eq!((kept.value, kept.version), winners[0].clone());
    }
}

pub(crate) async fn vw_33_increments_of_many_at_once_add_up(fixture: &Fixture) {
    let other = fixture.another().await;
    let added = (0..20).map(|n| {
        let kv = if n % 2 == 0 { fixture.store.kv() } else { other.kv() };
        tokio::spawn(async move {
            for _ in 0..5 {
                one(&*kv, increment("count", n - 7)).await.unwrap();
            }
        })
    });
    for added in join_all(added).await {
        added.unwrap();
    }
    let kv = fixture.store.kv();
    let expected: i64 = (0..20).map(|n| (n - 7) * 5).sum();
    let entry = kv.get(&key("count")).await.unwrap().unwrap();
    assert_eq!(entry.value, expected.to_string());
    assert!(entry.ttl_left.is_some_and(|left| left <= MINUTE), "the first one's time to live stays");
    kv.put(&key("kept"), "5", None).await.unwrap();
    assert_eq!(one(&*kv, increment("kept", -6)).await.unwrap().0, "-1");
    assert_eq!(kv.get(&key("kept")).await.unwrap().unwrap().ttl_left, None);
    kv.put(&key("text"), "five", None).await.unwrap();
    assert_eq!(one(&*kv, increment("text", 1)).await, Err(Refused::NotAdded(NotAdded::NotANumber)));
    assert_eq!(one(&*kv, increment("count", i64::MAX)).await, Err(Refused::NotAdded(NotAdded::OutOfRange)));
}

pub(crate) async fn vw_33_a_batch_happens_as_a_whole_or_not_at_all(fixture: &Fixture) {
    let kv = fixture.store.kv();
    kv.put(&key("b"), "old", None).await.unwrap();
    let batch = vec![
        put("z", "1", Condition::Absent),
        Operation::Get { key: key("b") },
        increment("n", 2),
        increment("n", 3),
        Operation::Delete { key: key("b"), condition: Condition::Present },
        Operation::Get { key: key("b") },
    ];
    let applied = kv.apply(batch.clone()).await.unwrap().unwrap();
    let values: Vec<Option<&str>> = applied
        .iter()
        .map(|applied| match applied {
            Applied::Read(entry) => entry.as_ref().map(|entry| entry.value.as_str()),
            Applied::Written(entry) => Some(entry.value.as_str()),
            Applied::Deleted(deleted) => Some(if *deleted { "deleted" } else { "absent" }),
        })
        .collect();
    assert_eq!(values, [Some("1"), Some("old"), Some("2"), Some("5"), Some("deleted"), None]);
    // The second time the first operation stands in the way, though others were looked at before it.
    let refused = kv.apply(batch).await.unwrap().unwrap_err();
    assert_eq!((refused.index, matches!(refused.why, Refused::Unmet { .. })), (4, true), "{refused:?}");
    assert_eq!(kv.get(&key("n")).await.unwrap().unwrap().value, "5");
    let too_many = vec![Operation::Get { key: key("b") }; BATCH_MAX + 1];
    assert!(matches!(kv.apply(too_many).await, Err(Error::Invalid { field: "operations", .. })));
    assert!(kv.apply(vec![put("large", &"v".repeat(VALUE_MAX_BYTES + 1), Condition::None)]).await.is_err());
    assert_eq!(kv.apply(Vec::new()).await.unwrap().unwrap(), []);
}

pub(crate) async fn vw_33_what_a_batch_reads_is_bounded_in_bytes(fixture: &Fixture) {
    let kv = fixture.store.kv();
    kv.put(&key("large"), &"v".repeat(VALUE_MAX_BYTES), None).await.unwrap();
    let fits = LIST_BYTES_MAX / VALUE_MAX_BYTES;
    let reads = |count| vec![Operation::Get { key: key("large") }; count];
    assert_eq!(kv.apply(reads(fits)).await.unwrap().unwrap().len(), fits);
    let refused = kv.apply(reads(fits + 1)).await.unwrap().unwrap_err();
    assert_eq!(refused, Refusal { index: fits, why: Refused::TooMuchToRead });
}

pub(crate) async fn vw_33_batches_in_any_order_do_not_wait_for_each_other(fixture: &Fixture) {
    let other = fixture.another().await;
    let batches = (0..16).map(|n| {
        let kv = if n % 2 == 0 { fixture.store.kv() } else { other.kv() };
        tokio::spawn(async move {
            for _ in 0..5 {
                let mut batch: Vec<Operation> = (0..6).map(|n| increment(&format!("many:{n}"), 1)).collect();
                if n % 2 == 0 {
                    batch.reverse();
                }
                kv.apply(batch).await.unwrap().unwrap();
            }
        })
    });
    for batch in join_all(batches).await {
        batch.unwrap();
    }
    let listed = fixture.store.kv().list("many:", 10).await.unwrap();
    assert!(listed.len() == 6 && listed.iter().all(|entry| entry.value == "80"), "{listed:?}");
}

/// Everything in the table used to be one space: who could write to it could forge what nodes tell each other.
pub(crate) async fn vw_32_the_keys_of_a_part_are_out_of_reach(fixture: &Fixture) {
    let (users, apart) = (fixture.store.kv(), fixture.store.kv_space("apart").unwrap());
    let node = fixture.store.kv_space("node").unwrap();
    for (kv, value) in [(&users, "users"), (&apart, "apart"), (&node, "node")] {
        for name in ["same", "zebra", " "] {
            kv.put(&key(name), value, Some(MINUTE)).await.unwrap();
        }
    }
    for (kv, value) in [(&users, "users"), (&apart, "apart"), (&node, "node")] {
        assert_eq!(kv.get(&key("same")).await.unwrap().unwrap().value, value);
        for (prefix, after, expected) in [
            ("", None, vec![" ", "same", "zebra"]),
            ("", Some(""), vec![" ", "same", "zebra"]),
            ("", Some("same"), vec!["zebra"]),
            ("s", None, vec!["same"]),
        ] {
            let page = kv.page(Asked { prefix, after, limit: 10, values: true }).await.unwrap();
            assert!(page.entries.iter().all(|entry| entry.value == value), "{page:?}");
            let keys: Vec<&str> = page.entries.iter().map(|entry| entry.key.as_str()).collect();
            assert_eq!((keys, page.more), (expected, false), "{prefix:?} {after:?}");
        }
    }
    assert!(apart.delete(&key("same")).await.unwrap());
    assert!(
        users.get(&key("same")).await.unwrap().is_some() && apart.get(&key("same")).await.unwrap().is_none()
    );
    let too_long = "s".repeat(SPACE_MAX_BYTES + 1);
    for name in ["", "Node", "a b", "a\u{1}b", too_long.as_str()] {
        assert!(fixture.store.kv_space(name).is_err(), "{name:?}");
    }
    assert!(apart.watch().is_none());
}

pub(crate) async fn vw_33_changes_are_heard_where_they_are_made_and_on_other_nodes(fixture: &Fixture) {
    let other: Store = fixture.another().await;
    let kv = fixture.store.kv();
    let mut here = kv.watch().unwrap();
    let mut there = other.kv().watch().unwrap();
    fixture.store.kv_space("node").unwrap().put(&key("hidden"), "1", None).await.unwrap();
    if fixture.tells_others() {
        // Heard from the moment the connection listens; before that listeners are told that they may have missed something.
        assert_eq!(there.next().await, Some(KeyNews::Missed));
        assert_eq!(here.next().await, Some(KeyNews::Missed));
    }
    let version = kv.put(&key("a"), "1", None).await.unwrap();
    assert!(!kv.put_new(&key("a"), "2", None).await.unwrap());
    kv.apply(vec![increment("a", 1), increment("b", 1)]).await.unwrap().unwrap();
    kv.delete(&key("b")).await.unwrap();
    kv.delete(&key("b")).await.unwrap();
    let put = |name: &str, version| KeyNews::Put { key: name.to_owned(), version };
    assert_eq!(here.next().await, Some(put("a", version)));
    assert_eq!(here.next().await, Some(put("a", Version(version.0 + 1))));
    assert!(matches!(here.next().await, Some(KeyNews::Put { key, .. }) if key == "b"));
    assert_eq!(here.next().await, Some(KeyNews::Deleted { key: "b".to_owned() }));
    if fixture.tells_others() {
        let mut heard = BTreeSet::new();
        while heard.len() < 2 {
            match there.next().await.unwrap() {
                // Only the last change of a key may be told.
                KeyNews::Put { key, version: told } if key == "a" && told.0 == version.0 + 1 => {
                    heard.insert(key)
                }
                KeyNews::Deleted { key } => heard.insert(key),
                KeyNews::Put { .. } => false,
                KeyNews::Missed => panic!("nothing was missed"),
            };
        }
    }
}
