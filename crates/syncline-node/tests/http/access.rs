//! Who may call what by which grant, and under whose name.

use axum::body::Body;
use http::{Request, header};
use serde_json::json;
use syncline_testing::{NodeBuilder, TestKey, walk};

use crate::world::{Answer, World, builder, request};

const TOKEN: &str = "canary-token-0123456789";

/// Names that a route has to know: a queue and a kind of entity.
const FILE: &str = "[[queues]]\nname = \"words\"\nurl = \"http://127.0.0.1:1/{key}\"\n\
     [[entities]]\nname = \"note\"\nsettings = true\n";
const NAMES: walk::Names<'static> = &[("name", "words"), ("type", "note")];

/// A node with a token and these keys.
pub(crate) async fn node(file: &str, keys: &[&TestKey]) -> World {
    let tables: String = keys.iter().map(|key| key.table()).collect();
    World::new(&format!("token = {TOKEN:?}\n{file}\n{tables}")).await
}

pub(crate) async fn send(world: &World, key: &TestKey, method: &str, path: &str, body: &str) -> Answer {
    world.send(key.shown_by(request(method, path, body))).await
}

pub(crate) async fn get(world: &World, key: &TestKey, path: &str) -> Answer {
    world.send(key.shown_by(Request::get(path).body(Body::empty()).unwrap())).await
}

#[tokio::test]
async fn ac_03_every_operation_of_a_system_needs_its_grant_and_nothing_less() {
    let make = |file: &str| -> NodeBuilder { builder(file) };
    let (operations, owners) = walk::every_route_needs_its_grant(make, FILE, NAMES).await;
    assert!(operations > 30, "{operations}");
    assert_eq!(owners, 1, "the description itself is the owner's, and nothing else");
}

#[tokio::test]
async fn ac_14_a_refusal_has_a_stable_code_and_names_the_missing_grant() {
    let key = TestKey::new("box", &["state:a:read"]);
    let world = node("", &[&key]).await;
    let missing = world.get("/api/state/a").await;
    missing.refused(401, "token-missing");
    assert!(missing.header("www-authenticate").starts_with("Bearer"));
    let wrong = Request::get("/api/state/a").header(header::AUTHORIZATION, "Bearer slk_wrong");
    world.send(wrong.body(Body::empty()).unwrap()).await.refused(401, "token-invalid");
    assert_eq!(get(&world, &key, "/api/state/a").await.status, 200);
    let refused = get(&world, &key, "/api/state/b").await;
    refused.refused(403, "forbidden");
    assert_eq!(refused.value()["grant"], "state:b:read");
    let refused = send(&world, &key, "POST", "/api/state/a", "{}").await;
    refused.refused(403, "forbidden");
    assert_eq!(refused.value()["grant"], "state:a:write");
    get(&world, &key, "/openapi.json").await.refused(403, "forbidden");
    get(&world, &key, "/no/such/path").await.refused(403, "forbidden");
}

/// The name in a grant is what the handler gets: decoded once.
#[tokio::test]
async fn ac_03_a_name_in_a_path_is_compared_as_the_handler_gets_it() {
    let key = TestKey::new("box", &["kv:a/b:read,write", "kv:a-*:read,write"]);
    let world = node("", &[&key]).await;
    for (path, allowed) in [
        ("a%2Fb", true),
        ("a%2fb", true),
        ("%61%2Fb", true),
        ("a%252Fb", false),
        ("a", false),
        ("a-", true),
        ("%61-x", true),
        ("a%2D%2E%2E%2Fb", true),
        ("b%2Fa-x", false),
        ("%2Fa-x", false),
        ("%20a-x", false),
    ] {
        let status = send(&world, &key, "PUT", &format!("/api/kv/{path}"), "{\"value\":\"1\"}").await.status;
        assert_eq!(status != 403, allowed, "{path}: {status}");
    }
    let kept = world.context.kv.list("", 100).await.unwrap();
    for refused in ["a%2Fb", "a", "b/a-x", "/a-x", " a-x"] {
        assert!(kept.iter().all(|entry| entry.key.as_str() != refused), "{refused:?}");
    }
    for odd in ["/api/kv/", "/api/kv//a-x", "/api/kv/a-x/", "/api//kv/a-x", "/api/kv/%FF"] {
        let status = get(&world, &key, odd).await.status;
        assert!(status == 403 || status == 400, "{odd}: {status}");
    }
}

#[tokio::test]
async fn ac_01_the_session_tells_who_one_is() {
    let key = TestKey::new("wallboard", &["lock:*:see", "state:a:read,write"]);
    let world = node("", &[&key]).await;
    let told = get(&world, &key, "/api/session").await.value();
    let expected = json!({ "required": true, "authenticated": true, "kind": "key", "name": "wallboard",
        "subject": "wallboard", "grants": ["lock:*:see", "state:a:read,write"] });
    assert_eq!(told, expected);
    assert_eq!(world.get("/api/session").await.value(), json!({ "required": true, "authenticated": false }));
}

#[tokio::test]
async fn ac_01_without_a_token_a_credential_counts_as_what_it_is() {
    let key = TestKey::new("box", &["state:a:read"]);
    let world = World::new(key.table()).await;
    assert_eq!(world.get("/api/kv").await.status, 200, "who shows nothing on loopback is the owner");
    get(&world, &key, "/api/kv").await.refused(403, "forbidden");
    let wrong = Request::get("/api/kv").header(header::AUTHORIZATION, "Bearer wrong");
    world.send(wrong.body(Body::empty()).unwrap()).await.refused(401, "token-invalid");
}

#[tokio::test]
async fn ac_12_an_address_that_guesses_keys_is_not_listened_to_for_a_while() {
    let key = TestKey::new("box", &["state:*:read"]);
    let world = World::new(key.table()).await;
    let peer = syncline_node::server::Peer("192.0.2.1:4000".parse().unwrap());
    let from_peer = |bearer: String| {
        let request = Request::get("/api/state").header(header::AUTHORIZATION, bearer);
        let mut request = request.body(Body::empty()).unwrap();
        request.extensions_mut().insert(peer);
        world.send(request)
    };
    let guesses = (0..40).map(|number| from_peer(format!("Bearer slk_{number:043}")));
    let answers = futures::future::join_all(guesses).await;
    let unread: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert_eq!(unread.len(), 10);
    unread[0].refused(429, "too-many-guesses");
    assert!(
        unread[9].header("retry-after").parse::<u64>().unwrap()
            > unread[0].header("retry-after").parse().unwrap()
    );
    let right = key.bearer().to_str().unwrap().to_owned();
    assert_eq!(from_peer(right).await.status, 200, "nobody guesses a key, so its holder is let in");
}

#[tokio::test]
async fn ac_03_what_cannot_be_undone_needs_a_verb_of_its_own() {
    let modest = TestKey::new("modest", &["lock:*:hold", "state:*:read,write", "queue:words:add"]);
    let mighty =
        TestKey::new("mighty", &["lock:*:hold,force", "state:*:read,write,reset", "queue:words:add,urge"]);
    let world = node(FILE, &[&modest, &mighty]).await;
    let stamp = syncline_core::state::Stamp::ZERO.next().text();
    let reset = json!({ "after": 0, "epoch": "new", "changes": [{ "reset": stamp }] });
    let cases = [
        ("/api/locks/a/release", json!({ "force": true }), "lock:a:force"),
        ("/api/state/a", reset, "state:a:reset"),
        ("/api/queues/words", json!({ "kind": "priority", "keys": ["a"] }), "queue:words:urge"),
        ("/api/queues/words", json!({ "kind": "again", "keys": ["a"] }), "queue:words:urge"),
        ("/api/queues/words", json!({ "kind": "retry", "keys": ["a"] }), "queue:words:urge"),
    ];
    for (path, body, grant) in cases {
        let refused = send(&world, &modest, "POST", path, &body.to_string()).await;
        if refused.value()["code"] == "invalid-change" {
            panic!("the test's own change makes no sense: {refused:?}");
        }
        refused.refused(403, "forbidden");
        assert_eq!(refused.value()["grant"], grant);
        let status = send(&world, &mighty, "POST", path, &body.to_string()).await.status;
        assert_ne!(status, 403, "{path}");
    }
    let new = json!({ "kind": "new", "keys": ["a"] }).to_string();
    assert_eq!(send(&world, &modest, "POST", "/api/queues/words", &new).await.status, 202);
    send(&world, &modest, "DELETE", "/api/state/a", "").await.refused(403, "forbidden");
    assert_eq!(send(&world, &mighty, "DELETE", "/api/state/a", "").await.status, 200);
}

#[tokio::test]
async fn ac_08_the_holder_of_a_lock_begins_with_who_holds_it() {
    let key = TestKey::new("box-7", &["lock:*:hold,see"]);
    let blind = TestKey::new("blind", &["lock:*:hold"]);
    let world = node("", &[&key, &blind]).await;
    let acquire = async |key: &TestKey, name: &str, body: &str| {
        send(&world, key, "POST", &format!("/api/locks/{name}/acquire"), body).await
    };
    for (name, body, holder) in [
        ("a", "{}", "box-7"),
        ("b", "{\"holder\":\"tab 3\"}", "box-7/tab 3"),
        ("c", "{\"holder\":\"owner\"}", "box-7/owner"),
        ("d", "{\"holder\":\"blind/x\"}", "box-7/blind/x"),
    ] {
        assert_eq!(acquire(&key, name, body).await.status, 200, "{name}");
        let listed = get(&world, &key, &format!("/api/locks?prefix={name}")).await.value();
        assert_eq!(listed["locks"][0]["holder"], holder);
    }
    let long = json!({ "holder": "x".repeat(128) }).to_string();
    acquire(&key, "e", &long).await.refused(400, "invalid-argument");
    // Who may not see a lock is told that it is held, and not by whom.
    let held = acquire(&blind, "b", "{}").await;
    held.refused(409, "held");
    assert!(!held.text().contains("box-7"), "{held:?}");
    let held = acquire(&key, "b", "{}").await;
    assert_eq!(held.value()["holder"], "box-7/tab 3");
}

#[tokio::test]
async fn ac_08_the_sender_of_a_batch_is_the_key_that_sends_it() {
    let key = TestKey::new("box-7", &["ingest:box-7:send"]);
    let other = TestKey::new("box-8", &["ingest:box-7:send"]);
    let world = node(FILE, &[&key, &other]).await;
    let batch = |sender: Option<&str>, id: Option<u64>, entity: &str| {
        let mut entry = json!({ "entityType": "note", "entityId": entity, "payload": {},
            "createdAt": "2026-02-07T10:00:00Z" });
        if let Some(id) = id {
            entry["id"] = id.into();
        }
        let mut batch = json!({ "entries": [entry] });
        if let Some(sender) = sender {
            batch["sender"] = sender.into();
        }
        batch.to_string()
    };
    let path = "/api/ingest/sync";
    send(&world, &key, "POST", path, &batch(Some("box-8"), Some(1), "a")).await.refused(403, "forbidden");
    let taken = send(&world, &key, "POST", path, &batch(Some("box-7"), Some(1), "a")).await.value();
    assert!(taken["results"].is_array(), "{taken}");
    let taken = send(&world, &key, "POST", path, &batch(None, Some(2), "b")).await.value();
    assert_eq!(taken, json!({ "ok": true }), "it did not give its name, so it hears the plain answer");
    assert_eq!(send(&world, &key, "POST", path, &batch(None, None, "c")).await.status, 200);
    // A grant for another's name is none: nobody sends as somebody else.
    let refused = send(&world, &other, "POST", path, &batch(Some("box-7"), Some(3), "d")).await;
    refused.refused(403, "forbidden");
    assert_eq!(refused.value()["grant"], "ingest:box-8:send");
    for (entity, sender) in [("a", json!("box-7")), ("b", json!("box-7"))] {
        let mut read = Request::get(format!("/api/entities/note/{entity}")).body(Body::empty()).unwrap();
        read.headers_mut().insert(header::AUTHORIZATION, format!("Bearer {TOKEN}").parse().unwrap());
        assert_eq!(world.send(read).await.value()["sender"], sender, "{entity}");
    }
}

/// An outbox names itself when it is made; its key is named by people.
#[tokio::test]
async fn ac_08_a_key_may_say_in_which_senders_name_its_batches_come() {
    let key = TestKey::new("box-7", &["ingest:box-7:send"]);
    let world = node(&format!("{FILE}{}sender = \"outbox-1f\"\n", key.table()), &[]).await;
    let batch = |sender: &str| json!({ "sender": sender, "entries": [] }).to_string();
    let post =
        async |sender: &str| send(&world, &key, "POST", "/api/ingest/sync", &batch(sender)).await.status;
    assert_eq!(post("outbox-1f").await, 200);
    assert_eq!(post("box-7").await, 403);
    assert_eq!(post("outbox-2e").await, 403);
}
