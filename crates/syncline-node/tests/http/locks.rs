//! Locks over HTTP.

use std::sync::Arc;

use futures::future::join_all;
use serde_json::{Value, json};
use syncline_sim::until;

use crate::world::{Answer, World};

const PROJECT: &str = "/api/locks/project";

async fn acquire(world: &World, body: &Value) -> Answer {
    world.json("POST", &format!("{PROJECT}/acquire"), &body.to_string()).await
}

async fn release(world: &World, lease: &Value) -> Answer {
    world
        .json("POST", &format!("{PROJECT}/release"), &json!({ "leaseId": lease["leaseId"] }).to_string())
        .await
}

fn metric(world: &World, name: &str) -> u64 {
    let text = world.context.registry.render();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap();
    line.parse::<f64>().unwrap() as u64
}

#[tokio::test]
async fn lk_23_a_lock_is_acquired_shown_renewed_and_released() {
    let world = World::new("").await;
    let lease = acquire(&world, &json!({ "holder": "ann", "ttl_ms": 30_000 })).await.value();
    assert_eq!((&lease["name"], &lease["expiresInMs"]), (&json!("project"), &json!(30_000)));
    assert_eq!(lease["leaseId"].as_str().unwrap().len(), 36);
    let token = lease["token"].as_u64().unwrap();
    assert!(token < 1 << 53, "a page can hold it");
    assert!(lease["expiresAt"].as_u64().unwrap() > 1_700_000_000_000);

    let held = acquire(&world, &json!({ "holder": "bob" })).await;
    held.refused(409, "held");
    let facts = held.value();
    assert_eq!((&facts["holder"], &facts["token"]), (&json!("ann"), &json!(token)));
    assert!((1..=30_000).contains(&facts["expiresInMs"].as_u64().unwrap()), "{facts}");
    assert!(!held.text().contains(lease["leaseId"].as_str().unwrap()), "what proves the holder stays secret");

    let listed = world.get("/api/locks?prefix=pro").await;
    let lock = &listed.value()["locks"][0];
    assert_eq!(
        (&lock["name"], &lock["holder"], &lock["token"]),
        (&json!("project"), &json!("ann"), &json!(token))
    );
    assert!(lock["ageMs"].is_u64() && lock["expiresInMs"].is_u64());
    assert!(!listed.text().contains(lease["leaseId"].as_str().unwrap()));
    assert_eq!(world.get("/api/locks?prefix=x").await.value(), json!({ "locks": [], "next": null }));

    let renew = json!({ "leaseId": lease["leaseId"], "ttl_ms": 60_000 }).to_string();
    let renewed = world.json("POST", &format!("{PROJECT}/renew"), &renew).await.value();
    assert_eq!((&renewed["token"], &renewed["expiresInMs"]), (&json!(token), &json!(60_000)));
    let stranger = json!({ "leaseId": "0f8fad5b-d9cb-469f-a165-70867728950e" }).to_string();
    world.json("POST", &format!("{PROJECT}/renew"), &stranger).await.refused(409, "lease-mismatch");
    world.json("POST", &format!("{PROJECT}/release"), &stranger).await.refused(409, "lease-mismatch");
    let released = release(&world, &lease).await.value();
    assert_eq!(released, json!({ "name": "project", "released": true, "token": token }));
    release(&world, &lease).await.refused(409, "lease-mismatch");
    let next = acquire(&world, &json!({})).await.value();
    assert!(next["token"].as_u64().unwrap() > token);
    assert_eq!(world.get("/api/locks").await.value()["locks"][0]["holder"], "anonymous");

    let force = json!({ "force": true }).to_string();
    let ended = world.json("POST", &format!("{PROJECT}/release"), &force).await.value();
    assert_eq!((&ended["released"], &ended["token"]), (&json!(true), &next["token"]));
    let nothing = world.json("POST", &format!("{PROJECT}/release"), &force).await.value();
    assert_eq!(nothing["released"], false);
    assert_eq!(
        (metric(&world, "syncline_lock_granted_total"), metric(&world, "syncline_lock_held_total")),
        (2, 1)
    );
}

#[tokio::test]
async fn lk_23_an_expired_lease_is_told_apart_and_may_be_asked_for_again() {
    let world = World::new("").await;
    let mine = json!({ "leaseId": "0f8fad5b-d9cb-469f-a165-70867728950e", "ttl_ms": 1_000 });
    let first = acquire(&world, &mine).await.value();
    let again = acquire(&world, &mine).await.value();
    assert_eq!(
        (&first["token"], &first["leaseId"]),
        (&again["token"], &again["leaseId"]),
        "sent twice, granted once"
    );
    // Somebody else waits for its end, and is granted it without anybody giving it back.
    let other = acquire(&world, &json!({ "wait_ms": 20_000 })).await.value();
    assert!(other["token"].as_u64() > first["token"].as_u64());
    release(&world, &first).await.refused(409, "lease-mismatch");
    release(&world, &other).await;
    let expiring = acquire(&world, &mine).await.value();
    until("the lease has ended", async || world.get("/api/locks").await.value()["locks"] == json!([])).await;
    let renew = json!({ "leaseId": expiring["leaseId"] }).to_string();
    world.json("POST", &format!("{PROJECT}/renew"), &renew).await.refused(409, "lease-expired");
    release(&world, &expiring).await.refused(409, "lease-expired");
}

#[tokio::test]
async fn lk_21_those_who_wait_are_served_in_order_of_arrival() {
    let world = Arc::new(World::new("").await);
    let lease = acquire(&world, &json!({})).await.value();
    let mut waiting = Vec::new();
    for n in 0..8_u64 {
        let world_of = Arc::clone(&world);
        waiting.push(tokio::spawn(async move {
            let lease =
                acquire(&world_of, &json!({ "holder": format!("w{n}"), "wait_ms": 20_000 })).await.value();
            release(&world_of, &lease).await;
            lease["token"].as_u64().unwrap()
        }));
        while metric(&world, "syncline_lock_waiting") != n + 1 {
            tokio::task::yield_now().await;
        }
    }
    // Whoever does not wait does not get in between.
    acquire(&world, &json!({})).await.refused(409, "held");
    release(&world, &lease).await;
    let tokens: Vec<u64> = join_all(waiting).await.into_iter().map(Result::unwrap).collect();
    assert!(tokens.is_sorted(), "{tokens:?}");
    assert_eq!(metric(&world, "syncline_lock_waiting"), 0);
}

#[tokio::test]
async fn lk_21_whoever_goes_away_while_waiting_leaves_nothing_behind() {
    let world = Arc::new(World::new("").await);
    let lease = acquire(&world, &json!({})).await.value();
    let waiting = |holder: &'static str| {
        let world = Arc::clone(&world);
        tokio::spawn(
            async move { acquire(&world, &json!({ "holder": holder, "wait_ms": 20_000 })).await.value() },
        )
    };
    let gone = waiting("gone");
    while metric(&world, "syncline_lock_waiting") != 1 {
        tokio::task::yield_now().await;
    }
    let patient = waiting("patient");
    while metric(&world, "syncline_lock_waiting") != 2 {
        tokio::task::yield_now().await;
    }
    gone.abort();
    release(&world, &lease).await;
    let granted = patient.await.unwrap();
    assert_eq!(world.get("/api/locks").await.value()["locks"][0]["holder"], "patient");
    release(&world, &granted).await;

    // Gone at the very moment of the grant: however often, the lock is free again without anybody's lease running out.
    let hasty = json!({ "holder": "hasty", "ttl_ms": 3_600_000 });
    for polls in 0..60 {
        let mut asking = Box::pin(acquire(&world, &hasty));
        let mut answered = None;
        for _ in 0..polls {
            if let std::task::Poll::Ready(answer) = futures::poll!(&mut asking) {
                answered = Some(answer.value());
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(asking);
        if let Some(lease) = answered {
            release(&world, &lease).await;
        }
        let next = acquire(&world, &json!({ "wait_ms": 20_000 })).await.value();
        release(&world, &next).await;
    }
}

#[tokio::test]
async fn a_node_that_stops_keeps_nobody_waiting() {
    let world = Arc::new(World::new("").await);
    acquire(&world, &json!({})).await;
    let waiting = {
        let world = Arc::clone(&world);
        tokio::spawn(async move { acquire(&world, &json!({ "wait_ms": 20_000 })).await })
    };
    while metric(&world, "syncline_lock_waiting") != 1 {
        tokio::task::yield_now().await;
    }
    world.context.stop.cancel();
    waiting.await.unwrap().refused(503, "stopping");
}

#[tokio::test]
async fn lk_23_what_makes_no_sense_is_refused_with_a_reason() {
    let world = World::new("").await;
    for (path, body, code) in [
        ("/api/locks/a%2Fb/acquire", json!({}), "invalid-name"),
        ("/api/locks/-x/acquire", json!({}), "invalid-name"),
        ("/api/locks/project/acquire", json!({ "ttl_ms": 999 }), "invalid-ttl"),
        ("/api/locks/project/acquire", json!({ "ttl_ms": 3_600_001 }), "invalid-ttl"),
        ("/api/locks/project/acquire", json!({ "wait_ms": 20_001 }), "invalid-wait"),
        ("/api/locks/project/acquire", json!({ "leaseId": "x" }), "invalid-lease"),
        ("/api/locks/project/acquire", json!({ "holder": "" }), "invalid-argument"),
        ("/api/locks/project/acquire", json!({ "holder": "h".repeat(129) }), "invalid-argument"),
        ("/api/locks/project/acquire", json!({ "who": "ann" }), "invalid-body"),
        ("/api/locks/project/renew", json!({}), "invalid-body"),
        ("/api/locks/project/release", json!({}), "invalid-body"),
        ("/api/locks/project/release", json!({ "force": true, "leaseId": "x" }), "invalid-body"),
    ] {
        world.json("POST", path, &body.to_string()).await.refused(400, code);
    }
    world.get("/api/locks?limit=0").await.refused(400, "invalid-limit");
    assert_eq!(world.get("/api/locks").await.value(), json!({ "locks": [], "next": null }));
}

#[tokio::test]
async fn lk_23_a_store_that_does_not_answer_grants_nothing() {
    let world = World::new("").await;
    let lease = acquire(&world, &json!({})).await.value();
    world.context.store.close().await;
    acquire(&world, &json!({ "wait_ms": 20_000 })).await.refused(500, "store");
    release(&world, &lease).await.refused(500, "store");
    assert!(metric(&world, "syncline_store_errors_total{system=\"lock\"}") >= 2);
}

#[tokio::test]
async fn lk_09_what_happens_to_a_lock_is_told() {
    let world = World::new("").await;
    let mut heard = world.context.events.listen();
    let lease = acquire(&world, &json!({ "holder": "ann" })).await.value();
    release(&world, &lease).await;
    let mut next = async || {
        loop {
            let event = heard.recv().await.unwrap();
            if event.topic() == "lock" {
                return (event.name, serde_json::from_str::<Value>(&event.data).unwrap());
            }
        }
    };
    let (name, facts) = next().await;
    assert_eq!(
        (&*name, &facts["name"], &facts["holder"]),
        ("lock.acquired", &json!("project"), &json!("ann"))
    );
    assert_eq!((&facts["token"], &facts["ttlMs"]), (&lease["token"], &json!(15_000)));
    assert_eq!(next().await.0, "lock.released");
}

#[tokio::test]
async fn lk_33_the_state_of_one_lock_is_for_those_who_may_see_it() {
    let sees = syncline_testing::TestKey::new("sees", &["lock:nightly:see"]);
    let world = World::new(&format!("token = \"a-token-long-enough-for-anybody\"\n{}", sees.table())).await;
    let get = async |path: &str| world.send(sees.shown_by(crate::world::request("GET", path, ""))).await;
    let free = get("/api/locks/nightly").await.value();
    assert_eq!((&free["held"], &free["holder"], &free["waiting"]), (&json!(false), &json!(null), &json!(0)));
    let mut acquire = crate::world::request("POST", "/api/locks/nightly/acquire", "{\"holder\":\"box\"}");
    let owner = "Bearer a-token-long-enough-for-anybody".parse().unwrap();
    acquire.headers_mut().insert("authorization", owner);
    let token = world.send(acquire).await.value()["token"].clone();
    let held = get("/api/locks/nightly").await.value();
    assert_eq!((&held["held"], &held["holder"], &held["token"]), (&json!(true), &json!("box"), &token));
    assert!(held["expiresInMs"].as_u64().is_some_and(|left| left <= 15_000), "{held}");
    get("/api/locks/other").await.refused(403, "forbidden");
}
