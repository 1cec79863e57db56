//! Keys, values and times to live.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use syncline_core::kv::{Invalid, KEY_MAX_BYTES, LIST_MAX, VALUE_MAX_BYTES};
use syncline_store::Error;
use syncline_store::kv::{Asked, GARBAGE_TOLERATED, LIST_BYTES_MAX, SWEEP_MAX, TTL_MAX};

use super::fixture::{Fixture, key, until};

const MINUTE: Duration = Duration::from_secs(60);
/// Over before the test is. Nothing here depends on it being still alive at any moment.
const BRIEF: Duration = Duration::from_millis(100);
const INSTANT: Duration = Duration::from_millis(1);

pub(crate) async fn vw_03_a_value_is_read_back_with_its_time_left(fixture: &Fixture) {
    let kv = fixture.store.kv();
    kv.put(&key("viewer:1"), "1", Some(MINUTE)).await.unwrap();
    let entry = kv.get(&key("viewer:1")).await.unwrap().unwrap();
    assert_eq!((entry.key.as_str(), entry.value.as_str()), ("viewer:1", "1"));
    let left = entry.ttl_left.unwrap();
    assert!(left <= MINUTE && left > Duration::ZERO, "{left:?}");
    assert_eq!(kv.list("viewer:", 10).await.unwrap()[0].value, "1");
    assert_eq!(kv.get(&key("viewer:2")).await.unwrap(), None);
}

pub(crate) async fn vw_03_an_expired_key_is_never_returned_though_its_row_is_there(fixture: &Fixture) {
    let kv = fixture.store.kv();
    kv.put(&key("viewer:gone"), "1", Some(BRIEF)).await.unwrap();
    kv.put(&key("viewer:here"), "1", Some(MINUTE)).await.unwrap();
    until("the key has expired", async || kv.get(&key("viewer:gone")).await.unwrap().is_none()).await;
    assert_eq!(fixture.rows("syncline.kv").await, 2, "nobody has swept it");
    let listed = kv.list("viewer:", 10).await.unwrap();
    assert_eq!(listed.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["viewer:here"]);
    assert!(!kv.delete(&key("viewer:gone")).await.unwrap());
}

pub(crate) async fn vw_02_putting_again_renews_the_time_to_live(fixture: &Fixture) {
    let kv = fixture.store.kv();
    kv.put(&key("renewed"), "old", Some(BRIEF)).await.unwrap();
    kv.put(&key("renewed"), "new", Some(MINUTE)).await.unwrap();
    // This one is younger than the first and has the same time to live: when it is gone, so would be the first.
    kv.put(&key("witness"), "", Some(BRIEF)).await.unwrap();
    until("the witness is gone", async || kv.get(&key("witness")).await.unwrap().is_none()).await;
    assert_eq!(kv.get(&key("renewed")).await.unwrap().unwrap().value, "new");

    kv.put(&key("renewed"), "short", Some(BRIEF)).await.unwrap();
    until("the shorter time counts", async || kv.get(&key("renewed")).await.unwrap().is_none()).await;
}

pub(crate) async fn vw_03_a_key_put_without_time_to_live_stays(fixture: &Fixture) {
    let kv = fixture.store.kv();
    kv.put(&key("kept"), "1", Some(BRIEF)).await.unwrap();
    kv.put(&key("kept"), "2", None).await.unwrap();
    kv.put(&key("witness"), "", Some(BRIEF)).await.unwrap();
    until("the witness is gone", async || kv.get(&key("witness")).await.unwrap().is_none()).await;
    assert_eq!(kv.sweep(10).await.unwrap(), 1);
    let entry = kv.get(&key("kept")).await.unwrap().unwrap();
    assert_eq!((entry.value.as_str(), entry.ttl_left), ("2", None));
    assert!(!kv.put_new(&key("kept"), "3", None).await.unwrap());
}

pub(crate) async fn vw_02_deleting_is_idempotent_and_tells_whether_the_key_lived(fixture: &Fixture) {
    let kv = fixture.store.kv();
    kv.put(&key("viewer:1"), "1", Some(MINUTE)).await.unwrap();
    assert!(kv.delete(&key("viewer:1")).await.unwrap());
    assert!(!kv.delete(&key("viewer:1")).await.unwrap());
    assert!(!kv.delete(&key("never:there")).await.unwrap());
    assert_eq!(kv.get(&key("viewer:1")).await.unwrap(), None);
    assert_eq!(fixture.rows("syncline.kv").await, 0);
}

pub(crate) async fn vw_07_of_fifty_put_new_at_once_one_wins(fixture: &Fixture) {
    let other = fixture.another().await;
    for round in 0..4 {
        let lock = key(&format!("genlock:{round}"));
        let tries = join_all((0..50).map(|n| {
            let kv = if n % 2 == 0 { fixture.store.kv() } else { other.kv() };
            let lock = lock.clone();
            tokio::spawn(async move { kv.put_new(&lock, &n.to_string(), Some(MINUTE)).await.unwrap() })
        }))
        .await;
        let winners: Vec<usize> = (0..50).filter(|&n| *tries[n].as_ref().unwrap()).collect();
        assert_eq!(winners.len(), 1, "{winners:?}");
        let held = fixture.store.kv().get(&lock).await.unwrap().unwrap();
        assert_eq!(held.value, winners[0].to_string());
    }
}

pub(crate) async fn vw_07_of_twenty_put_new_on_an_expired_key_one_wins(fixture: &Fixture) {
    let (kv, lock) = (fixture.store.kv(), key("genlock:expired"));
    assert!(kv.put_new(&lock, "first", Some(BRIEF)).await.unwrap());
    until("the lock has expired", async || kv.get(&lock).await.unwrap().is_none()).await;
    let tries = join_all((0..20).map(|n| {
        let (kv, lock) = (fixture.store.kv(), lock.clone());
        tokio::spawn(async move { kv.put_new(&lock, &n.to_string(), Some(MINUTE)).await.unwrap() })
    }))
    .await;
    assert_eq!(tries.into_iter().filter(|won| *won.as_ref().unwrap()).count(), 1);
}

pub(crate) async fn vw_03_a_prefix_is_literal(fixture: &Fixture) {
    let kv = fixture.store.kv();
    let keys = [
        "a%b",
        "a%c",
        "axb",
        "a_b",
        "a_c",
        "A%b",
        "a\\b",
        "a'b",
        "a\"b; DROP TABLE syncline.kv",
        "a",
        "日本語",
        "日本",
        "日曜",
        "é",
        "e\u{301}",
        "🦀:1",
        "🦀:2",
        "\u{10ffff}",
        "\u{10ffff}z",
    ];
    for text in keys {
        kv.put(&key(text), text, None).await.unwrap();
    }
    for prefix in
        ["a%", "a_", "a\\", "a'", "a\"", "a", "A", "日本", "日", "é", "e", "🦀", "\u{10ffff}", "", "x"]
    {
        let listed: BTreeSet<String> =
            kv.list(prefix, LIST_MAX).await.unwrap().into_iter().map(|entry| entry.value).collect();
        let expected: BTreeSet<String> =
            keys.into_iter().filter(|text| text.starts_with(prefix)).map(str::to_owned).collect();
        assert_eq!(listed, expected, "prefix {prefix:?}");
    }
}

pub(crate) async fn vw_03_a_listing_is_in_byte_order_and_stops_at_its_limit(fixture: &Fixture) {
    let kv = fixture.store.kv();
    let mut keys = vec!["b:Z", "b:a", "b:É", "b:z", "b:10", "b:9", "b:_", "b:-", "b: ", "a:1", "c:1"];
    for text in &keys {
        kv.put(&key(text), "", None).await.unwrap();
    }
    keys.retain(|text| text.starts_with("b:"));
    keys.sort_unstable();
    let listed = |limit| {
        let kv = fixture.store.kv();
        async move {
            let entries = kv.list("b:", limit).await.unwrap();
            entries.into_iter().map(|entry| String::from(entry.key)).collect::<Vec<_>>()
        }
    };
    assert_eq!(listed(LIST_MAX).await, keys);
    assert_eq!(listed(3).await, keys[..3]);
    assert_eq!(listed(1).await, keys[..1]);
    assert!(listed(0).await.is_empty());
}

pub(crate) async fn vw_03_the_largest_key_and_value_are_kept_whole(fixture: &Fixture) {
    let kv = fixture.store.kv();
    let longest = key(&"鍵".repeat(KEY_MAX_BYTES / 3));
    let largest = "値\n\t\u{1}".repeat(VALUE_MAX_BYTES / 6);
    kv.put(&longest, &largest, Some(TTL_MAX)).await.unwrap();
    let entry = kv.get(&longest).await.unwrap().unwrap();
    assert_eq!(entry.key, longest);
    assert!(entry.value == largest, "the value came back changed");
    kv.put(&longest, "", None).await.unwrap();
    assert_eq!(kv.list("鍵", 1).await.unwrap()[0].value, "");
}

pub(crate) async fn vw_03_what_breaks_a_bound_is_refused_and_nothing_is_stored(fixture: &Fixture) {
    let (kv, k) = (fixture.store.kv(), key("k"));
    let over = VALUE_MAX_BYTES + 1;
    let refused = kv.put(&k, &"v".repeat(over), None).await.unwrap_err();
    assert_eq!(refused, Error::Kv(Invalid::ValueTooLarge { bytes: over }));
    let refused = kv.put_new(&k, "a\0b", None).await.unwrap_err();
    assert_eq!(refused, Error::Kv(Invalid::ZeroInValue { at: 1 }));
    let refused = kv.list("a\0", 1).await.unwrap_err();
    assert_eq!(refused, Error::Kv(Invalid::ControlCharacter { at: 1 }));
    for ttl in [Duration::ZERO, TTL_MAX + INSTANT, Duration::MAX] {
        let refused = kv.put(&k, "v", Some(ttl)).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid { field: "ttl", .. }), "{refused:?}");
    }
    let refused = kv.list("", LIST_MAX + 1).await.unwrap_err();
    assert!(matches!(refused, Error::Invalid { field: "limit", .. }), "{refused:?}");
    let refused = kv.sweep(SWEEP_MAX + 1).await.unwrap_err();
    assert!(matches!(refused, Error::Invalid { field: "limit", .. }), "{refused:?}");
    assert_eq!(fixture.rows("syncline.kv").await, 0);
}

pub(crate) async fn vw_03_an_acknowledged_write_is_seen_at_once_from_everywhere(fixture: &Fixture) {
    let other = fixture.another().await;
    let writers = (0..8).map(|writer| {
        let (here, there) = (fixture.store.kv(), other.kv());
        tokio::spawn(async move {
            let own = key(&format!("writer:{writer}"));
            for n in 0..25 {
                here.put(&own, &n.to_string(), Some(MINUTE)).await.unwrap();
                for kv in [&here, &there] {
                    assert_eq!(kv.get(&own).await.unwrap().unwrap().value, n.to_string());
                }
            }
            there.delete(&own).await.unwrap();
            assert_eq!(here.get(&own).await.unwrap(), None);
        })
    });
    for writer in join_all(writers).await {
        writer.unwrap();
    }
}

pub(crate) async fn vw_03_a_sweep_removes_expired_keys_alone_and_in_steps(fixture: &Fixture) {
    let kv = fixture.store.kv();
    for n in 0..25 {
        kv.put(&key(&format!("gone:{n}")), "", Some(INSTANT)).await.unwrap();
    }
    kv.put(&key("here:1"), "", None).await.unwrap();
    kv.put(&key("here:2"), "", Some(MINUTE)).await.unwrap();
    until("the last of them has expired", async || kv.list("gone:", 1).await.unwrap().is_empty()).await;
    let mut steps = Vec::new();
    for _ in 0..4 {
        steps.push(kv.sweep(10).await.unwrap());
    }
    assert_eq!(steps, [10, 10, 5, 0]);
    assert_eq!(kv.sweep(0).await.unwrap(), 0);
    assert_eq!(fixture.rows("syncline.kv").await, 2);
    assert_eq!(kv.list("here:", 10).await.unwrap().len(), 2);
}

pub(crate) async fn vw_04_a_listing_has_what_expired_swept_and_finds_the_live_key(fixture: &Fixture) {
    let kv = fixture.store.kv();
    let expired = usize::try_from(GARBAGE_TOLERATED).unwrap() * 40;
    let put = |n: usize| {
        let kv = fixture.store.kv();
        async move { kv.put(&key(&format!("viewer:{n:06}")), "1", Some(INSTANT)).await.unwrap() }
    };
    // Some at a time: a call waits five seconds for a connection, and behind a pooler a busy machine takes longer for all.
    for first in (0..expired).step_by(100) {
        join_all((first..expired.min(first + 100)).map(put)).await;
    }
    kv.put(&key("viewer:last"), "1", Some(MINUTE)).await.unwrap();
    // From here on nothing but listings touch the store.
    until("a listing finds the only viewer", async || {
        let listed = kv.list("viewer:", 1).await.unwrap();
        listed.len() == 1 && listed[0].key.as_str() == "viewer:last"
    })
    .await;
    until("the expired keys are gone", async || {
        assert_eq!(kv.list("viewer:", 1).await.unwrap().len(), 1);
        fixture.rows("syncline.kv").await <= GARBAGE_TOLERATED + 1
    })
    .await;
}

/// A listing of a thousand values used to be built in memory whatever they weighed, 520 MiB for one request, and the key
/// behind the thousandth could not be listed at all.
pub(crate) async fn vw_03_pages_are_bounded_in_bytes_and_lead_through_every_key_once(fixture: &Fixture) {
    let kv = fixture.store.kv();
    let large = "v".repeat(VALUE_MAX_BYTES);
    for n in 0..40 {
        kv.put(&key(&format!("large:{n:03}")), &large, None).await.unwrap();
    }
    kv.put(&key("large;"), "behind", None).await.unwrap();
    let page = async |after: Option<&str>, limit, values| {
        kv.page(Asked { prefix: "large:", after, limit, values }).await.unwrap()
    };
    for (limit, values) in [(LIST_MAX, true), (7, true), (1, true), (7, false)] {
        let (mut seen, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = page(after.as_deref(), limit, values).await;
            let bytes: usize =
                page.entries.iter().map(|entry| entry.key.as_str().len() + entry.value.len()).sum();
            assert!(bytes < LIST_BYTES_MAX + VALUE_MAX_BYTES + 512, "{bytes}");
            assert!(page.entries.len() <= limit);
            assert!(page.entries.iter().all(|entry| entry.value.is_empty() != values));
            seen.extend(page.entries.iter().map(|entry| entry.key.as_str().to_owned()));
            if !page.more {
                break;
            }
            after = page.entries.last().map(|entry| entry.key.as_str().to_owned());
        }
        let expected: Vec<String> = (0..40).map(|n| format!("large:{n:03}")).collect();
        assert_eq!(seen, expected, "{limit} {values}");
    }
    let whole = page(None, LIST_MAX, false).await;
    assert_eq!((whole.entries.len(), whole.more), (40, false), "without values all fit");
    assert!(page(Some("large:039"), 10, true).await.entries.is_empty());
    assert_eq!(
        page(Some("a"), 1, false).await.entries[0].key.as_str(),
        "large:000",
        "from before the prefix"
    );
    assert!(kv.page(Asked { prefix: "", after: Some("a\0"), limit: 1, values: true }).await.is_err());
}
