//! Keys and tokens that come and go while nodes run: made, listed, removed, taken back.

use std::time::UNIX_EPOCH;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use http::{Request, header};
use serde_json::{Value, json};
use sha2::Sha256;
use syncline_sim::until;
use syncline_testing::{RunningNode, TestKey};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::{get, node, send};
use crate::audit::as_owner;
use crate::events::Reader;
use crate::world::{World, builder, request};

const SECRET: &str = "a-secret-of-an-issuer-of-32-bytes-or-more";

const ISSUER: &str = "[[issuers]]\nname = \"shop\"\nissuer = \"https://shop.example\"\n\
     audience = \"https://node.example\"\nkeys = [{ secret = \"a-secret-of-an-issuer-of-32-bytes-or-more\" }]\n\
     may = [\"state:cart-{sub}:read,write\"]\n";

fn token(subject: &str, id: &str, age_sec: u64) -> String {
    let issued = UNIX_EPOCH.elapsed().unwrap().as_secs() - age_sec;
    token_with(subject, &json!({ "jti": id, "iat": issued }))
}

/// A token of the shop for ten minutes, with these claims more or instead.
pub(crate) fn token_with(subject: &str, more: &Value) -> String {
    let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
    let mut claims = json!({ "iss": "https://shop.example", "aud": "https://node.example", "sub": subject,
        "iat": now, "exp": now + 600 });
    for (name, value) in more.as_object().unwrap() {
        claims[name.as_str()] = value.clone();
    }
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(&json!({ "alg": "HS256" })), part(&claims));
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

fn shown(bearer: &str, path: &str) -> Request<Body> {
    let get = Request::get(path).header(header::AUTHORIZATION, format!("Bearer {bearer}"));
    get.body(Body::empty()).unwrap()
}

async fn status(world: &World, bearer: &str, path: &str) -> (u16, String) {
    let answer = world.send(shown(bearer, path)).await;
    let code = answer.value()["code"].as_str().unwrap_or_default().to_owned();
    (answer.status.as_u16(), code)
}

#[tokio::test]
async fn ac_04_a_key_made_on_a_running_node_works_until_it_is_removed() {
    let world = node("", &[]).await;
    let new = json!({ "name": "box-7", "may": ["state:a:read"] }).to_string();
    let made = as_owner(&world, "POST", "/api/keys", &new).await;
    assert_eq!(made.status, 201);
    let key = made.value()["key"].as_str().unwrap().to_owned();
    assert!(key.starts_with("slk_") && key.len() == 47);
    assert_eq!(status(&world, &key, "/api/state/a").await.0, 200);
    assert_eq!(status(&world, &key, "/api/state/b").await.0, 403);
    as_owner(&world, "POST", "/api/keys", &new).await.refused(409, "name-taken");
    let listed = as_owner(&world, "GET", "/api/keys", "").await;
    assert!(!String::from_utf8_lossy(&listed.body).contains(&key), "a key is shown once");
    let listed = &listed.value()["keys"][0];
    assert_eq!(
        (&listed["name"], &listed["kind"], &listed["source"]),
        (&json!("box-7"), &json!("secret"), &json!("node"))
    );
    assert_eq!((&listed["grants"], &listed["createdBy"]), (&json!(["state:a:read"]), &json!("owner")));
    assert!(listed["createdAt"].is_u64() && listed["lastUsedAt"].is_u64());
    assert_eq!(as_owner(&world, "DELETE", "/api/keys/box-7", "").await.value()["inFile"], false);
    assert_eq!(status(&world, &key, "/api/state/a").await, (401, "token-revoked".to_owned()));
    as_owner(&world, "DELETE", "/api/keys/box-7", "").await.refused(404, "not-found");
    assert_eq!(as_owner(&world, "POST", "/api/keys", &new).await.status, 201, "its name is free again");
}

#[tokio::test]
async fn ac_04_what_is_no_key_is_refused_with_what_is_wrong() {
    let world = node("", &[&TestKey::new("wallboard", &["state:*:read"])]).await;
    for (new, code) in [
        (json!({ "name": "a b", "may": ["state:a:read"] }), "invalid-name"),
        (json!({ "name": "a", "may": [] }), "invalid-grant"),
        (json!({ "name": "a", "may": ["state"] }), "invalid-grant"),
        (
            json!({ "name": "a", "may": ["state:a:write"], "public": true, "origins": ["https://a.example"] }),
            "harmful-grant",
        ),
        (json!({ "name": "a", "may": ["state:a:read"], "public": true }), "invalid-origin"),
        (json!({ "name": "a", "may": ["state:a:read"], "origins": ["a.example/x"] }), "invalid-origin"),
        (json!({ "name": "a", "may": ["state:a:read"], "odd": 1 }), "invalid-body"),
    ] {
        as_owner(&world, "POST", "/api/keys", &new.to_string()).await.refused(400, code);
    }
    let taken = json!({ "name": "wallboard", "may": ["state:a:read"] }).to_string();
    as_owner(&world, "POST", "/api/keys", &taken).await.refused(409, "name-taken");
}

/// Whoever may make keys could otherwise make one that may do everything.
#[tokio::test]
async fn ac_04_nobody_gives_a_key_what_it_has_not_itself() {
    let manager = TestKey::new("manager", &["key:box-*:manage,read", "ingest:box-*:send", "state:a*:read"]);
    let world = node("", &[&manager]).await;
    let add = async |name: &str, grant: &str| {
        let new = json!({ "name": name, "may": [grant] }).to_string();
        send(&world, &manager, "POST", "/api/keys", &new).await.status.as_u16()
    };
    assert_eq!(add("box-7", "ingest:box-7:send").await, 201);
    assert_eq!(add("box-8", "state:ab*:read").await, 201);
    for beyond in ["state:a:read,write", "state:*:read", "kv:*:read", "key:*:manage", "ingest:*:send"] {
        assert_eq!(add("box-9", beyond).await, 403, "{beyond}");
    }
    assert_eq!(add("cart-9", "ingest:box-7:send").await, 403, "its name is not the caller's");
    send(&world, &manager, "DELETE", "/api/keys/manager", "").await.refused(403, "forbidden");
    assert_eq!(send(&world, &manager, "DELETE", "/api/keys/box-7", "").await.status, 200);
    let listed = get(&world, &manager, "/api/keys").await.value();
    let names: Vec<_> = listed["keys"].as_array().unwrap().iter().map(|key| key["name"].clone()).collect();
    assert_eq!(names, ["box-8"], "keys of others are not seen");
}

#[tokio::test]
async fn ac_11_a_key_of_the_file_is_taken_back_without_a_new_file() {
    let key = TestKey::new("box", &["state:a:read"]);
    let world = node("", &[&key]).await;
    assert_eq!(get(&world, &key, "/api/state/a").await.status, 200);
    assert_eq!(as_owner(&world, "DELETE", "/api/keys/box", "").await.value()["inFile"], true);
    get(&world, &key, "/api/state/a").await.refused(401, "token-revoked");
    let seen = as_owner(&world, "GET", "/api/revocations", "").await.value();
    assert_eq!(
        (&seen["revocations"][0]["kind"], &seen["revocations"][0]["endsAt"]),
        (&json!("key"), &Value::Null)
    );
    let id = seen["revocations"][0]["id"].as_i64().unwrap();
    assert_eq!(as_owner(&world, "DELETE", &format!("/api/revocations/{id}"), "").await.status, 200);
    assert_eq!(get(&world, &key, "/api/state/a").await.status, 200, "a mistake can be mended");
}

#[tokio::test]
async fn ac_11_a_token_is_taken_back_by_its_id_and_a_subject_by_time() {
    let world = node(ISSUER, &[]).await;
    let (one, other, older) = (token("7", "t-1", 60), token("7", "t-2", 60), token("8", "t-3", 60));
    for bearer in [&one, &other] {
        assert_eq!(status(&world, bearer, "/api/state/cart-7").await.0, 200);
    }
    let revoke = async |body: Value| as_owner(&world, "POST", "/api/revocations", &body.to_string()).await;
    assert_eq!(revoke(json!({ "token": "t-1" })).await.status, 201);
    let revoked = (401, "token-revoked".to_owned());
    assert_eq!(status(&world, &one, "/api/state/cart-7").await, revoked);
    assert_eq!(status(&world, &other, "/api/state/cart-7").await.0, 200, "another token of the same subject");
    let made = revoke(json!({ "issuer": "shop", "subject": "7" })).await.value();
    assert!(made["endsAt"].as_u64().unwrap() > made["madeAt"].as_u64().unwrap());
    assert_eq!(status(&world, &other, "/api/state/cart-7").await, revoked);
    assert_eq!(
        status(&world, &token("7", "t-4", 60), "/api/state/cart-7").await,
        revoked,
        "one never seen before"
    );
    assert_eq!(status(&world, &older, "/api/state/cart-8").await.0, 200, "another subject");
    let early = UNIX_EPOCH.elapsed().unwrap().as_millis() as u64 - 300_000;
    assert_eq!(revoke(json!({ "subject": "8", "before": early })).await.status, 201);
    assert_eq!(status(&world, &older, "/api/state/cart-8").await.0, 200, "issued later than that");
    for wrong in [
        json!({}),
        json!({ "token": "" }),
        json!({ "token": "a", "subject": "b" }),
        json!({ "token": "a", "before": 1 }),
        json!({ "subject": "8", "before": early + 3_600_000 }),
    ] {
        revoke(wrong).await.refused(400, "invalid-body");
    }
    revoke(json!({ "issuer": "other", "token": "a" })).await.refused(404, "not-found");
}

#[tokio::test]
async fn ac_11_a_back_end_takes_back_tokens_of_its_own_issuer_alone() {
    let bank = ISSUER.replace("shop", "bank");
    let server = TestKey::new("shop-server", &["token:shop:revoke"]);
    let world = node(&format!("{ISSUER}{bank}"), &[&server]).await;
    let revoke =
        async |body: Value| send(&world, &server, "POST", "/api/revocations", &body.to_string()).await;
    assert_eq!(revoke(json!({ "issuer": "shop", "subject": "7" })).await.status, 201);
    revoke(json!({ "issuer": "bank", "subject": "7" })).await.refused(403, "forbidden");
    revoke(json!({ "subject": "7" })).await.refused(400, "invalid-body");
    as_owner(&world, "POST", "/api/revocations", &json!({ "issuer": "bank", "token": "x" }).to_string())
        .await;
    let seen = get(&world, &server, "/api/revocations").await.value();
    let seen = seen["revocations"].as_array().unwrap();
    assert_eq!((seen.len(), &seen[0]["issuer"]), (1, &json!("shop")));
    let hidden = seen[0]["id"].as_i64().unwrap() + 1;
    let path = format!("/api/revocations/{hidden}");
    send(&world, &server, "DELETE", &path, "").await.refused(403, "forbidden");
}

/// A stream was let in once and listens for hours: it has to end when what let it in is taken back.
#[tokio::test]
async fn ac_11_open_streams_end_when_their_credential_is_taken_back_and_others_go_on() {
    let key = TestKey::new("wallboard", &["state:*:read"]);
    let world = node(ISSUER, &[&key]).await;
    let (one, other) = (token("7", "t-1", 60), token("8", "t-2", 60));
    let path = |space: &str| format!("/api/events?topics=state&space={space}");
    let mut revoked = Reader::of(&world, shown(&one, &path("cart-7"))).await;
    let mut going_on = Reader::of(&world, shown(&other, &path("cart-8"))).await;
    let by_key = key.shown_by(Request::get("/api/events?topics=state").body(Body::empty()).unwrap());
    let mut by_key = Reader::of(&world, by_key).await;
    for reader in [&mut revoked, &mut going_on, &mut by_key] {
        assert_eq!(reader.next().await.unwrap().0, "hello");
    }
    as_owner(&world, "POST", "/api/revocations", "{\"token\":\"t-1\"}").await;
    while revoked.next().await.is_some() {}
    as_owner(&world, "DELETE", "/api/keys/wallboard", "").await;
    while by_key.next().await.is_some() {}
    let (halt, workers) = (CancellationToken::new(), TaskTracker::new());
    world.context.start(&halt, &workers);
    let stamp = crate::tenants::stamp();
    let change = json!({ "id": "x", "added": stamp, "value": { "sync": stamp } });
    let batch = json!({ "after": 0, "epoch": "new", "changes": [change] });
    let mut push = request("POST", "/api/state/cart-8", &batch.to_string());
    push.headers_mut().insert(header::AUTHORIZATION, format!("Bearer {other}").parse().unwrap());
    assert_eq!(world.send(push).await.status, 200);
    while going_on.next().await.unwrap().0 != "state" {}
    halt.cancel();
}

/// What one node takes back, another refuses: it looks at the store every two seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ac_11_another_node_of_the_database_refuses_it_too_and_knows_new_keys() {
    let database = tokio::task::spawn_blocking(syncline_sim::postgres::database).await.unwrap();
    let file = format!("token = \"canary-token-0123456789\"\n{ISSUER}");
    let start = async || -> RunningNode { builder(&file).database(&database.url).start().await };
    let (here, there) = (start().await, start().await);
    let client = syncline_node::outbound::client();
    let ask = async |node: &RunningNode, bearer: &str, method: &str, path: &str, body: Value| {
        let request = client.request(method.parse().unwrap(), node.url(path)).bearer_auth(bearer).json(&body);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap_or_default())
    };
    let owner = "canary-token-0123456789";
    let bearer = token("7", "t-1", 60);
    assert_eq!(ask(&there, &bearer, "GET", "/api/state/cart-7", json!(null)).await.0, 200);
    assert_eq!(ask(&here, owner, "POST", "/api/revocations", json!({ "subject": "7" })).await.0, 201);
    until("the other node refuses the token", async || {
        let (status, body) = ask(&there, &bearer, "GET", "/api/state/cart-7", json!(null)).await;
        status == 401 && body["code"] == "token-revoked"
    })
    .await;
    let (_, made) =
        ask(&here, owner, "POST", "/api/keys", json!({ "name": "box", "may": ["state:a:read"] })).await;
    let key = made["key"].as_str().unwrap().to_owned();
    until("the other node knows the key", async || {
        ask(&there, &key, "GET", "/api/state/a", json!(null)).await.0 == 200
    })
    .await;
    until("the first node lists what the other was shown", async || {
        let (_, listed) = ask(&here, owner, "GET", "/api/keys", json!(null)).await;
        listed["keys"][0]["lastUsedFrom"] == "127.0.0.1"
    })
    .await;
    here.stop().await;
    there.stop().await;
}
