//! Every listing, filled with the largest things it can hold: a page has a bound in bytes, and `next` leads through
//! everything exactly once. A listing that is added belongs into [`LISTINGS`].

use std::collections::HashSet;

use serde_json::{Value, json};
use syncline_core::kv::{Key, VALUE_MAX_BYTES};
use syncline_core::state::{Change, Entry, Kept, Space, Stamp, Stored, Value as Text};
use syncline_core::time::Timestamp;
use syncline_store::state::{Batch, NEW_EPOCH};

use crate::form::{recording, upload};
use crate::world::World;

/// No page is longer than this: what the store gives at most, and one thing more.
const PAGE_MAX_BYTES: usize = 10 * 1024 * 1024;

/// A listing: its address, the field with the things, the field that tells them apart, how many there are here.
struct Listing {
    path: &'static str,
    items: &'static str,
    id: &'static str,
    expected: usize,
}

const LISTINGS: [Listing; 9] = [
    Listing { path: "/api/kv?prefix=large:", items: "entries", id: "key", expected: 40 },
    Listing { path: "/api/kv?prefix=many:", items: "entries", id: "key", expected: 1_100 },
    Listing { path: "/api/kv?prefix=many:&values=false", items: "entries", id: "key", expected: 1_100 },
    Listing { path: "/api/state?", items: "spaces", id: "space", expected: 1_010 },
    Listing { path: "/api/entities/routing_rule?", items: "entities", id: "entityId", expected: 24 },
    Listing { path: "/api/recordings?", items: "recordings", id: "callLogId", expected: 160 },
    Listing { path: "/api/outbox/entries?state=pending", items: "entries", id: "id", expected: 24 },
    Listing { path: "/api/locks?prefix=many:", items: "locks", id: "name", expected: 1_010 },
    Listing { path: "/api/queues/words/keys?state=waiting", items: "keys", id: "key", expected: 1_100 },
];

async fn fill(world: &World) {
    let kv = &world.context.kv;
    // The longest there is as JSON: every character takes six.
    let large = "\u{1}".repeat(VALUE_MAX_BYTES);
    for n in 0..40 {
        kv.put(&Key::new(format!("large:{n}")).unwrap(), &large, None).await.unwrap();
    }
    for n in 0..1_100 {
        kv.put(&Key::new(format!("many:{n}")).unwrap(), "1", None).await.unwrap();
    }
    for n in 0..1_010 {
        let name = format!("/api/locks/many:{n}/acquire");
        assert_eq!(
            world.json("POST", &name, "{\"holder\":\"somebody\",\"ttl_ms\":600000}").await.status,
            200
        );
    }
    let keys: Vec<String> = (0..1_100).map(|n| format!("{n:04}{}", "\"".repeat(1_000))).collect();
    let added =
        world.json("POST", "/api/queues/words", &json!({ "kind": "new", "keys": keys }).to_string()).await;
    assert_eq!(added.status, 202, "{added:?}");
    let stamp = Stamp::ZERO.after(Timestamp::from_ms(1_700_000_000_000));
    for n in 0..1_010 {
        let stored = Stored { value: Text::read("{}").unwrap(), stamp: Some(stamp), version: 1 };
        let kept = Kept { entry: Entry { stamp, live: true }, stored: Some(stored) };
        let changes = vec![Change::Entity { id: "a".to_owned(), kept }];
        let batch = Batch { after: 0, epoch: NEW_EPOCH.to_owned(), changes };
        world
            .context
            .find::<std::sync::Arc<syncline_node::state::States>>()
            .unwrap()
            .push(&Space::new(format!("space-{n}")).unwrap(), batch)
            .await
            .unwrap();
    }
    let payload = json!({ "text": "x".repeat(1_000_000) }).to_string();
    for n in 0..24 {
        let put = world.json("PUT", &format!("/api/entities/routing_rule/r-{n}"), &payload).await;
        assert_eq!(put.status, 200, "{put:?}");
    }
    let meta = json!({ "text": "x".repeat(60_000) }).to_string();
    for n in 0..160 {
        let sent = world.send(upload(recording(&format!("call-{n}"), "r", b"RIFF", &meta))).await;
        assert_eq!(sent.status, 200, "{sent:?}");
    }
}

/// The kv used to answer with everything it had, 450 MB of it, and had no way to the 1,001st key.
#[tokio::test]
async fn vw_03_every_listing_is_bounded_in_bytes_and_leads_through_everything_once() {
    let folder = tempfile::tempdir().unwrap();
    let words = "[[queues]]\nname = \"words\"\nurl = \"http://127.0.0.1:1/{key}\"\n";
    let recordings = format!("[recordings]\ndir = {:?}\n", folder.path().join("r").display());
    let world = World::new(&format!("{words}{recordings}")).await;
    fill(&world).await;
    for Listing { path, items, id, expected } in LISTINGS {
        for limit in ["&limit=17", "&limit=1000"] {
            let (mut seen, mut after, mut pages) = (HashSet::new(), String::new(), 0);
            loop {
                let answer = world.get(&format!("{path}{limit}{after}")).await;
                assert_eq!(answer.status, 200, "{path}{limit}{after}");
                let bytes = answer.body.len();
                assert!(bytes <= PAGE_MAX_BYTES, "{path}{limit}: a page of {bytes} bytes");
                let page = answer.value();
                for item in page[items].as_array().unwrap() {
                    assert!(seen.insert(item[id].to_string()), "{path}{limit}: {} twice", item[id]);
                }
                let next = match &page["next"] {
                    Value::Null => break,
                    Value::String(next) => next.clone(),
                    next => next.to_string(),
                };
                let next: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
                after = format!("&after={next}");
                pages += 1;
                assert!(pages <= expected + 1, "{path}{limit}: no end");
            }
            assert_eq!(seen.len(), expected, "{path}{limit}");
        }
    }
}
