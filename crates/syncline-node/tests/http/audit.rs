//! The audit: what cannot be undone is recorded with it, refusals are sampled.

use axum::body::Body;
use http::{Request, header};
use serde_json::{Value, json};
use syncline_sim::until_some;
use syncline_testing::TestKey;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::{get, node, send};
use crate::world::{Answer, World, request};

const OWNER: &str = "Bearer canary-token-0123456789";

pub(crate) async fn as_owner(world: &World, method: &str, path: &str, body: &str) -> Answer {
    let mut request = request(method, path, body);
    request.headers_mut().insert(header::AUTHORIZATION, OWNER.parse().unwrap());
    world.send(request).await
}

async fn entries(world: &World, query: &str) -> Vec<Value> {
    let answer = as_owner(world, "GET", &format!("/api/audit?{query}"), "").await;
    answer.value()["entries"].as_array().unwrap().clone()
}

fn facts(entry: &Value) -> [&str; 6] {
    ["kind", "name", "system", "verb", "thing", "outcome"].map(|field| entry[field].as_str().unwrap())
}

#[tokio::test]
async fn ac_13_what_cannot_be_undone_is_recorded_and_what_can_is_not() {
    let may = ["lock:*:hold,force", "state:*:read,write,reset", "kv:*:read,write"];
    let key = TestKey::new("mighty", &may);
    let world = node("", &[&key]).await;
    assert_eq!(send(&world, &key, "POST", "/api/locks/doc/acquire", "{}").await.status, 200);
    assert_eq!(send(&world, &key, "PUT", "/api/kv/a", "{\"value\":\"1\"}").await.status, 200);
    assert!(entries(&world, "").await.is_empty(), "reading and writing are not recorded");
    assert_eq!(send(&world, &key, "POST", "/api/locks/doc/release", "{\"force\":true}").await.status, 200);
    let stamp = syncline_core::state::Stamp::ZERO.next().text();
    let reset = json!({ "after": 0, "epoch": "new", "changes": [{ "reset": stamp }] }).to_string();
    assert_eq!(send(&world, &key, "POST", "/api/state/list", &reset).await.status, 200);
    assert_eq!(as_owner(&world, "DELETE", "/api/state/list", "").await.status, 200);
    let seen = entries(&world, "").await;
    let seen: Vec<_> = seen.iter().map(facts).collect();
    assert_eq!(
        seen,
        [
            ["owner", "owner", "state", "reset", "list", "done"],
            ["key", "mighty", "state", "reset", "list", "done"],
            ["key", "mighty", "lock", "force", "doc", "done"],
        ]
    );
    let forced = &entries(&world, "system=lock").await[0];
    assert_eq!(forced["action"], "POST /api/locks/{name}/release");
    assert_eq!((&forced["subject"], &forced["count"]), (&json!("mighty"), &json!(1)));
}

#[tokio::test]
async fn ac_13_what_was_tried_and_failed_says_why() {
    let world = World::new("token = \"canary-token-0123456789\"").await;
    as_owner(&world, "POST", "/api/jobs/unknown/run", "{}").await.refused(404, "not-found");
    let failed = &entries(&world, "outcome=failed").await[0];
    assert_eq!(facts(failed), ["owner", "owner", "job", "run", "unknown", "failed"]);
    assert_eq!(failed["code"], "not-found");
}

#[tokio::test]
async fn ac_13_refusals_are_gathered_and_name_what_was_missing() {
    let key = TestKey::new("modest", &["state:a:read"]);
    let world = node("", &[&key]).await;
    for _ in 0..20 {
        get(&world, &key, "/api/state/b").await.refused(403, "forbidden");
        world.get("/api/kv/secret-name").await.refused(401, "token-missing");
    }
    let (halt, workers) = (CancellationToken::new(), TaskTracker::new());
    world.context.start(&halt, &workers);
    let seen = until_some("both refusals are written", async || {
        let seen = entries(&world, "outcome=refused").await;
        (seen.len() == 2).then_some(seen)
    })
    .await;
    halt.cancel();
    let of = |name: &str| seen.iter().find(|entry| entry["name"] == name).unwrap();
    assert_eq!(facts(of("modest")), ["key", "modest", "state", "read", "b", "refused"]);
    assert_eq!((&of("modest")["code"], &of("modest")["count"]), (&json!("forbidden"), &json!(20)));
    assert_eq!(
        facts(of("nobody")),
        ["nobody", "nobody", "kv", "read", "", "refused"],
        "strangers choose no names"
    );
    assert_eq!(of("nobody")["action"], "GET /api/kv/{key}");
}

/// Who signed in with the owner's token, and when, stood nowhere.
#[tokio::test]
async fn ac_13_sign_ins_and_sign_outs_are_recorded_and_wrong_ones_are_refusals() {
    let key = TestKey::new("wallboard", &["lock:*:see"]);
    let menu = TestKey::new("menu", &["state:menu:read"]);
    let world = node("", &[&key, &menu]).await;
    let from = |mut request: Request<Body>| {
        let peer = syncline_node::server::Peer("192.0.2.7:4000".parse().unwrap());
        request.extensions_mut().insert(peer);
        request.headers_mut().insert(header::ORIGIN, "http://127.0.0.1:3000".parse().unwrap());
        request
    };
    let sign_in = async |credential: &str| {
        world.send(from(request("POST", "/api/session", &json!({ "token": credential }).to_string()))).await
    };
    let bearer = |key: &TestKey| key.bearer().to_str().unwrap()["Bearer ".len()..].to_owned();
    let owner = sign_in("canary-token-0123456789").await;
    assert_eq!(owner.status, 200);
    let dashboard = sign_in(&bearer(&key)).await;
    assert_eq!(dashboard.status, 200);
    let sign_out = async |cookie: &str| {
        let request = Request::delete("/api/session").header(header::COOKIE, cookie);
        world.send(from(request.body(Body::empty()).unwrap())).await.status
    };
    let cookie = |answer: &Answer| answer.header("set-cookie").split(';').next().unwrap().to_owned();
    assert_eq!(sign_out(&cookie(&dashboard)).await, 200);
    // What ends no session is no sign-out: the second time, and a cookie of one's own making.
    assert_eq!(sign_out(&cookie(&dashboard)).await, 200);
    assert_eq!(sign_out("syncline_session=a.1.b").await, 200);
    let seen = entries(&world, "system=session").await;
    let facts_seen: Vec<_> = seen.iter().map(facts).collect();
    assert_eq!(
        facts_seen,
        [
            ["key", "wallboard", "session", "sign-out", "", "done"],
            ["key", "wallboard", "session", "sign-in", "", "done"],
            ["owner", "owner", "session", "sign-in", "", "done"],
        ]
    );
    assert_eq!(
        (&seen[0]["action"], &seen[2]["action"]),
        (&json!("DELETE /api/session"), &json!("POST /api/session"))
    );
    assert_eq!(
        (&seen[2]["address"], &seen[2]["origin"]),
        (&json!("192.0.2.7"), &json!("http://127.0.0.1:3000"))
    );

    // Who may only look must not fill the audit: others of other names go on.
    let mut let_in = 0;
    while sign_in(&bearer(&key)).await.status == 200 {
        let_in += 1;
        assert!(let_in < 100);
    }
    let refused = sign_in(&bearer(&key)).await;
    refused.refused(429, "too-many-sign-ins");
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    assert!(let_in >= 50, "{let_in}");
    assert_eq!(sign_in("canary-token-0123456789").await.status, 200);

    for _ in 0..3 {
        sign_in("a-guess").await.refused(401, "token-invalid");
    }
    let (halt, workers) = (CancellationToken::new(), TaskTracker::new());
    world.context.start(&halt, &workers);
    let refused = until_some("the guesses are written", async || {
        let refused = entries(&world, "system=session&outcome=refused").await;
        refused.into_iter().find(|entry| entry["code"] == "token-invalid")
    })
    .await;
    halt.cancel();
    assert_eq!(facts(&refused), ["nobody", "nobody", "session", "sign-in", "", "refused"]);
    assert_eq!((&refused["code"], &refused["count"]), (&json!("token-invalid"), &json!(3)));
    assert_eq!(refused["address"], "192.0.2.7");
    assert!(!entries(&world, "").await.iter().any(|entry| entry.to_string().contains("a-guess")));
}

#[tokio::test]
async fn ac_13_the_audit_is_paged_filtered_and_for_those_who_may_read_it() {
    let reader = TestKey::new("auditor", &["audit:*:read"]);
    let other = TestKey::new("other", &["audit:some:read", "key:*:read"]);
    let world = node("", &[&reader, &other]).await;
    for name in ["a", "b", "c"] {
        as_owner(&world, "POST", &format!("/api/locks/{name}/release"), "{\"force\":true}").await;
    }
    let first = get(&world, &reader, "/api/audit?limit=2").await.value();
    assert_eq!(first["entries"][0]["thing"], "c");
    let next = format!("/api/audit?limit=2&after={}", first["next"]);
    assert_eq!(get(&world, &reader, &next).await.value()["entries"][0]["thing"], "a");
    assert_eq!(get(&world, &reader, "/api/audit?q=%20b%20").await.value()["entries"][0]["thing"], "b");
    assert_eq!(get(&world, &reader, "/api/audit?who=nobody").await.value()["entries"], json!([]));
    get(&world, &reader, "/api/audit?outcome=odd").await.refused(400, "invalid-outcome");
    get(&world, &reader, "/api/audit?limit=0").await.refused(400, "invalid-limit");
    get(&world, &other, "/api/audit").await.refused(403, "forbidden");
    let missing = Request::get("/api/audit").body(Body::empty()).unwrap();
    world.send(missing).await.refused(401, "token-missing");
}
