//! Every listing, filled with the largest things it can hold: a page has a bound in bytes, and `next` leads through
//! everything exactly once. A listing that is added belongs into [`LISTINGS`].

use serde_json::json;
use syncline_core::kv::{Key, VALUE_MAX_BYTES};
use syncline_core::state::{Change, Entry, Kept, Space, Stamp, Stored, Value as Text};
use syncline_core::time::Timestamp;
use syncline_store::state::{Batch, NEW_EPOCH};
use syncline_testing::walk;

use crate::world::World;

/// A listing: its address, the field with the things, the field that tells them apart, how many there are here.
struct Listing {
    path: &'static str,
    items: &'static str,
    id: &'static str,
    expected: usize,
}

const LISTINGS: [Listing; 8] = [
    Listing { path: "/api/kv?prefix=large:&", items: "entries", id: "key", expected: 40 },
    Listing { path: "/api/kv?prefix=many:&", items: "entries", id: "key", expected: 1_100 },
    Listing { path: "/api/kv?prefix=many:&values=false&", items: "entries", id: "key", expected: 1_100 },
    Listing { path: "/api/state?", items: "spaces", id: "space", expected: 1_010 },
    Listing { path: "/api/entities/routing_rule?", items: "entities", id: "entityId", expected: 24 },
    Listing { path: "/api/outbox/entries?state=pending&", items: "entries", id: "id", expected: 24 },
    Listing { path: "/api/locks?prefix=many:&", items: "locks", id: "name", expected: 1_010 },
    Listing { path: "/api/queues/words/keys?state=waiting&", items: "keys", id: "key", expected: 1_100 },
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
        let stored = Stored { value: Text::read("{}").unwrap(), stamp: Some(stamp), added: None, version: 1 };
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
}

/// The kv used to answer with everything it had, 450 MB of it, and had no way to the 1,001st key.
#[tokio::test]
async fn vw_03_every_listing_is_bounded_in_bytes_and_leads_through_everything_once() {
    let file = "[[queues]]\nname = \"words\"\nurl = \"http://127.0.0.1:1/{key}\"\n\
         [[entities]]\nname = \"routing_rule\"\nsettings = true\n";
    let world = World::new(file).await;
    fill(&world).await;
    for Listing { path, items, id, expected } in LISTINGS {
        let listed = walk::a_listing_leads_through_everything(&world, path, items, id).await;
        assert_eq!(listed, expected, "{path}");
    }
}
