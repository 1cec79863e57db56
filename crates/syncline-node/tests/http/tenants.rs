//! Two tenants on one node: neither reaches, sees or hears of the other's things.

use std::collections::BTreeSet;
use std::time::UNIX_EPOCH;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::FutureExt as _;
use hmac::{Hmac, KeyInit, Mac};
use http::{Request, header};
use serde_json::{Value, json};
use sha2::Sha256;
use syncline_node::state::States;
use syncline_sim::Dice;
use syncline_testing::TestKey;
use tokio_util::sync::CancellationToken;

use crate::access::{get, node, send};
use crate::events::Reader;
use crate::world::World;

const SECRET: &str = "a-secret-of-an-issuer-of-32-bytes-or-more";

const FILE: &str = "[[queues]]\nname = \"a-words\"\nurl = \"http://127.0.0.1:1/{key}\"\n\
     [[queues]]\nname = \"b-words\"\nurl = \"http://127.0.0.1:1/{key}\"\n\
     [[jobs]]\nname = \"a-job\"\ncron = \"0 0 1 1 *\"\nrun = { command = [\"true\"] }\n\
     [[jobs]]\nname = \"b-job\"\ncron = \"0 0 1 1 *\"\nrun = { command = [\"true\"] }\n\
     [[entities]]\nname = \"a_note\"\nsettings = true\n[[entities]]\nname = \"b_note\"\nsettings = true\n";

/// Everything of one tenant, whose names begin with its letter.
fn tenant(letter: &str) -> TestKey {
    let may = [
        format!("state:{letter}-*:read,write,reset"),
        format!("lock:{letter}-*:hold,see,force"),
        format!("queue:{letter}-*:add,read,urge,manage"),
        format!("kv:{letter}-*:read,write"),
        format!("job:{letter}-*:read,run"),
        format!("entity:{letter}_*:read,write"),
        format!("ingest:{letter}-*:send"),
    ];
    TestKey::new(&format!("{letter}-tenant"), &may.each_ref().map(String::as_str))
}

pub(crate) fn stamp() -> String {
    use syncline_core::state::Stamp;
    use syncline_core::time::Timestamp;
    let now_ms = u64::try_from(UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    Stamp::ZERO.after(Timestamp::from_ms(now_ms - 1_000)).text()
}

/// Makes one thing of each kind for a tenant.
async fn fill(world: &World, key: &TestKey, letter: &str) {
    let stamp = stamp();
    let change = json!({ "id": "x", "added": stamp, "value": { "sync": stamp } });
    let batch = json!({ "after": 0, "epoch": "new", "changes": [change] });
    for (method, path, body) in [
        ("POST", format!("/api/state/{letter}-cart"), batch),
        ("POST", format!("/api/locks/{letter}-doc/acquire"), json!({})),
        ("POST", format!("/api/queues/{letter}-words"), json!({ "kind": "new", "keys": ["k"] })),
        ("PUT", format!("/api/kv/{letter}-key"), json!({ "value": letter })),
        ("PUT", format!("/api/entities/{letter}_note/n"), json!({ "by": letter })),
    ] {
        let answer = send(world, key, method, &path, &body.to_string()).await;
        assert!(answer.status.is_success(), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn ac_07_listings_show_what_may_be_seen_and_count_nothing_else() {
    let (ann, bob) = (tenant("a"), tenant("b"));
    let world = node(FILE, &[&ann, &bob]).await;
    fill(&world, &ann, "a").await;
    fill(&world, &bob, "b").await;
    for (key, own, other) in [(&ann, "a", "b"), (&bob, "b", "a")] {
        for (path, list, field) in [
            ("/api/state", "spaces", "space"),
            ("/api/locks", "locks", "name"),
            ("/api/queues", "queues", "name"),
            ("/api/kv", "entries", "key"),
            ("/api/jobs", "jobs", "name"),
            ("/api/entities", "types", "name"),
        ] {
            let answer = get(&world, key, path).await;
            let listed = answer.value();
            let names: Vec<&str> =
                listed[list].as_array().unwrap().iter().map(|item| item[field].as_str().unwrap()).collect();
            assert_eq!(names.len(), 1, "{path}: {names:?}");
            assert!(names[0].starts_with(own), "{path}: {names:?}");
            assert!(!answer.text().contains(&format!("{other}-")), "{path}: {answer:?}");
            // Pages end where what may be seen ends, and never name what may not.
            let paged = get(&world, key, &format!("{path}?limit=1")).await;
            assert!(!paged.text().contains(&format!("\"{other}-")), "{path}: {paged:?}");
        }
        for path in [format!("/api/locks?prefix={other}"), format!("/api/kv?prefix={other}-")] {
            let listed = get(&world, key, &path).await.value();
            assert!(listed["locks"].as_array().or(listed["entries"].as_array()).unwrap().is_empty());
            assert_eq!(listed["next"], Value::Null);
        }
        // What is about everybody together is for those who may read all of it.
        for path in ["/api/viewer", "/api/outbox", "/api/outbox/entries?state=pending", "/metrics"] {
            get(&world, key, path).await.refused(403, "forbidden");
        }
    }
}

fn owned(key: &TestKey, path: &str) -> Request<Body> {
    key.shown_by(Request::get(path).body(Body::empty()).unwrap())
}

#[tokio::test]
async fn ac_07_a_stream_carries_what_its_reader_may_read() {
    let (ann, bob) = (tenant("a"), tenant("b"));
    let all = TestKey::new("wallboard", &["state:*:read", "lock:*:see", "viewer:*:count", "outbox:*:read"]);
    let world = node(FILE, &[&ann, &bob, &all]).await;
    let states = world.context.find::<std::sync::Arc<States>>().unwrap();
    let halt = CancellationToken::new();
    let _halted = halt.clone().drop_guard();
    tokio::spawn(async move { states.run(halt).await });
    // It listens from its first step on, which a test that never waits would not give it.
    tokio::task::yield_now().await;
    let mut hers = Reader::of(&world, owned(&ann, "/api/events")).await;
    let mut whole = Reader::of(&world, owned(&all, "/api/events")).await;
    let (name, hello) = hers.next().await.unwrap();
    assert_eq!((name.as_str(), hello), ("hello", json!({})), "strangers hear of no version");
    assert_eq!(whole.next().await.unwrap().0, "hello");
    assert_eq!(whole.next().await.unwrap().0, "viewer", "who may count hears how many there are");
    fill(&world, &bob, "b").await;
    fill(&world, &ann, "a").await;
    // Events about nothing in particular, and one of another system.
    world.context.events.publish("lock.acquired", &json!({ "secret": "b-everything" }));
    world.context.events.publish_in("queue.result", "b-words", &json!({ "queue": "b-words" }));
    world.context.events.publish_in("job", "b-job", &json!({ "job": "b-job" }));
    world.context.events.publish_in("job", "a-job", &json!({ "job": "a-job" }));
    let mut heard = BTreeSet::new();
    loop {
        let (name, data) = hers.next().await.unwrap();
        assert!(!data.to_string().contains("b-") && !data.to_string().contains("b_"), "{name} {data}");
        assert_ne!(name, "viewer");
        let last = name == "job";
        heard.insert(name);
        if last && heard.contains("state") {
            break;
        }
    }
    assert!(heard.contains("lock.acquired") && heard.contains("entity.changed"), "{heard:?}");
    let (mut locks, mut without) = (BTreeSet::new(), false);
    while locks.len() < 2 || !without {
        let (name, data) = whole.next().await.unwrap();
        assert!(!name.starts_with("job") && !name.starts_with("entity") && !name.starts_with("queue"));
        if name == "lock.acquired" {
            without |= data["secret"] == "b-everything";
            locks.extend(data["name"].as_str().map(str::to_owned));
        }
    }
}

#[tokio::test]
async fn ac_07_nobody_asks_for_what_they_may_not_hear() {
    let (ann, bob) = (tenant("a"), tenant("b"));
    let nothing = TestKey::new("nothing", &["ingest:nothing:send"]);
    let world = node(FILE, &[&ann, &bob, &nothing]).await;
    for (path, grant) in [
        ("/api/events?topics=state&space=b-cart", "state:b-cart:read"),
        ("/api/events?topics=state&space=a-cart,b-cart", "state:b-cart:read"),
        ("/api/events?topics=viewer", "viewer:*:count"),
        ("/api/events?topics=lock,outbox", "outbox:*:read"),
    ] {
        let refused = get(&world, &ann, path).await;
        refused.refused(403, "forbidden");
        assert_eq!(refused.value()["grant"], grant);
    }
    get(&world, &nothing, "/api/events").await.refused(403, "forbidden");
    let spaces: Vec<String> = (0..50).map(|number| format!("a-{number}")).collect();
    let path = format!("/api/events?topics=state&space={}", spaces.join(","));
    let mut fifty = Reader::of(&world, owned(&ann, &path)).await;
    assert_eq!(fifty.next().await.unwrap().0, "hello");
    for space in &spaces {
        assert_eq!(fifty.next().await.unwrap().1["space"], *space, "one stream follows 50 names");
    }
}

/// A token of the issuer below.
fn token(subject: &str, age_sec: i64, life_sec: i64) -> String {
    let now = i64::try_from(UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
    let iat = now - age_sec;
    let claims = json!({ "iss": "https://shop.example", "aud": "https://node.example", "sub": subject,
        "iat": iat, "exp": iat + life_sec });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(&json!({ "alg": "HS256", "typ": "JWT", "kid": "a" })), part(&claims));
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(message.as_bytes());
    format!("Bearer {message}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

async fn shop() -> World {
    World::new(&format!(
        "token = \"canary-token-0123456789\"\n[[issuers]]\nname = \"shop\"\nissuer = \"https://shop.example\"\n\
         audience = \"https://node.example\"\nkeys = [{{ kid = \"a\", secret = {SECRET:?} }}]\n\
         origins = [\"https://shop.example\"]\nmay = [\"state:cart-{{sub}}:read,write\", \"lock:doc:*:hold,see\"]\n"
    ))
    .await
}

fn as_person(token: &str, mut request: Request<Body>) -> Request<Body> {
    request.headers_mut().insert(header::AUTHORIZATION, token.parse().unwrap());
    request
}

#[tokio::test]
async fn ac_07_a_stream_ends_with_the_token_of_its_reader() {
    let world = shop().await;
    let request = Request::get("/api/events?topics=lock").body(Body::empty()).unwrap();
    let mut reader = Reader::of(&world, as_person(&token("ann", 0, 300), request)).await;
    assert_eq!(reader.next().await.unwrap().0, "hello");
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    assert_eq!(reader.next().await, None);
    let lasted = began.elapsed().as_secs();
    assert!((290..=370).contains(&lasted), "{lasted}");
}

/// A hundred pages of one token used to come back in the same moment.
#[tokio::test]
async fn ac_07_streams_whose_tokens_end_together_end_over_some_seconds() {
    let world = shop().await;
    let bearer = token("ann", 0, 300);
    let mut readers = Vec::new();
    for _ in 0..10 {
        let request = Request::get("/api/events?topics=lock").body(Body::empty()).unwrap();
        let mut reader = Reader::of(&world, as_person(&bearer, request)).await;
        assert_eq!(reader.next().await.unwrap().0, "hello");
        readers.push(reader);
    }
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let ends = readers.iter_mut().map(async |reader| {
        assert_eq!(reader.next().await, None);
        began.elapsed().as_millis()
    });
    let mut ends = futures::future::join_all(ends).await;
    ends.sort_unstable();
    let (first, last) = (ends[0], ends[ends.len() - 1]);
    // All within the five seconds after the end. Ten draws fall into one of these seconds once in half a million runs.
    assert!(last - first > 1_000 && last - first <= 5_000, "{ends:?}");
    assert!((299_000..=365_500).contains(&first), "{ends:?}");
}

#[tokio::test]
async fn ac_08_a_person_holds_locks_under_the_subject_of_its_token() {
    let world = shop().await;
    let (ann, old) = (token("ann", 0, 300), token("ann", 600, 300));
    let acquire = |token: &str| {
        let body = "{\"holder\":\"bob\"}";
        as_person(token, crate::world::request("POST", "/api/locks/doc:1/acquire", body))
    };
    world.send(acquire(&old)).await.refused(401, "token-expired");
    assert_eq!(world.send(acquire(&ann)).await.status, 200);
    let locks = Request::get("/api/locks").body(Body::empty()).unwrap();
    assert_eq!(world.send(as_person(&ann, locks)).await.value()["locks"][0]["holder"], "ann/bob");
    let session = Request::get("/api/session").body(Body::empty()).unwrap();
    let session = world.send(as_person(&ann, session)).await.value();
    assert_eq!(
        (&session["kind"], &session["name"], &session["subject"]),
        (&json!("person"), &json!("shop"), &json!("ann"))
    );
    // An expired token is no guess, however often it is shown.
    let peer = syncline_node::server::Peer("192.0.2.9:4000".parse().unwrap());
    for _ in 0..100 {
        let mut again = acquire(&old);
        again.extensions_mut().insert(peer);
        world.send(again).await.refused(401, "token-expired");
    }
}

/// Names that tempt: the tenants' own, each other's, and what lies between after decoding.
fn name(dice: &mut Dice) -> String {
    let parts = [
        "a", "b", "-", "_", "*", "a-", "b-", "%2F", "%61", "%62-", ".", "..", "%2e", "{sub}", ":", "%25",
        "x", "words", "cart", "note",
    ];
    (0..dice.pick(1..=4)).map(|_| *dice.choose(&parts).unwrap()).collect()
}

/// How often a thousand calls are made: `SYNCLINE_SEEDS=2000`, which `cargo xtask soak` sets, makes 100,000.
pub(crate) fn rounds() -> u64 {
    std::env::var("SYNCLINE_SEEDS").map_or(3, |seeds| seeds.parse::<u64>().unwrap().div_ceil(20))
}

/// Calls of everything that has a name in its path or its query, with names of all kinds. Whatever is answered, nobody
/// learns of or changes the other's things.
#[tokio::test]
async fn ac_07_whatever_a_tenant_asks_for_it_never_reaches_the_other() {
    let (mut asked, mut answered, mut heard) = (0, 0, 0);
    for seed in 0..rounds() {
        let (ann, bob) = (tenant("a"), tenant("b"));
        let world = node(FILE, &[&ann, &bob]).await;
        fill(&world, &bob, "b").await;
        let secret = "bobs-own-secret";
        let value = json!({ "value": secret }).to_string();
        assert_eq!(send(&world, &bob, "PUT", "/api/kv/b-secret", &value).await.status, 200);
        let mut stream = Reader::of(&world, owned(&ann, "/api/events")).await;
        let before = belongings(&world, &bob).await;
        let mut dice = Dice::new(seed);
        let nothing_of_bobs = |(name, data): (String, Value)| {
            let about =
                ["name", "queue", "job", "type", "space"].map(|field| data[field].as_str().unwrap_or("a"));
            assert!(about.iter().all(|name| !name.starts_with('b')), "seed {seed}: {name} {data}");
        };
        for number in 0..1_000 {
            while let Some(event) = stream.next().now_or_never() {
                nothing_of_bobs(event.unwrap());
                heard += 1;
            }
            if number % 10 == 0 {
                // Of what he does nobody else hears.
                let holding = if number % 20 == 0 { "acquire" } else { "release" };
                let path = format!("/api/locks/b-busy/{holding}");
                send(&world, &bob, "POST", &path, "{\"force\":true}").await;
            }
            let (method, path, body) = call(&mut dice);
            if path.parse::<http::Uri>().is_err() {
                continue;
            }
            let answer = send(&world, &ann, method, &path, &body).await;
            let text = answer.text().to_owned();
            asked += 1;
            answered += usize::from(answer.status.is_success());
            assert!(!text.contains(secret), "seed {seed}: {method} {path}: {text}");
            // A refusal may repeat the name that was asked for; nothing else may be told.
            let told = ["b-cart", "b-doc", "b-words", "b-key", "b-job", "b_note", "b-busy"];
            let tells = told.iter().any(|name| {
                let asked_for = path.contains(&name[2..]);
                text.contains(&format!("\"{name}\"")) || (is_named(&text, name) && !asked_for)
            });
            assert!(!tells, "seed {seed}: {method} {path}: {text}");
            assert!(answer.status.as_u16() < 500, "seed {seed}: {method} {path}: {answer:?}");
        }
        assert_eq!(belongings(&world, &bob).await, before, "seed {seed}");
    }
    eprintln!("{asked} calls, {answered} answered, {heard} events heard");
    assert!(asked > 1_000 && answered > 50 && heard > 10, "{asked} {answered} {heard}");
}

/// Whether a text has a name that is not the end of another one.
fn is_named(text: &str, name: &str) -> bool {
    let goes_on = |before: char| before.is_alphanumeric() || "-_.:*".contains(before);
    text.match_indices(name).any(|(at, _)| !text[..at].ends_with(goes_on))
}

fn call(dice: &mut Dice) -> (&'static str, String, String) {
    let (one, two) = (name(dice), name(dice));
    let stamp = stamp();
    let reset = json!({ "after": 0, "epoch": "new", "changes": [{ "reset": stamp }] });
    let calls = [
        ("GET", format!("/api/state/{one}"), json!({})),
        ("POST", format!("/api/state/{one}"), reset),
        ("DELETE", format!("/api/state/{one}"), json!({})),
        ("GET", format!("/api/state?after={one}&limit=1"), json!({})),
        // What she says of herself comes back to her, so it names nothing of his.
        ("POST", format!("/api/locks/{one}/acquire"), json!({ "holder": "ann" })),
        ("POST", format!("/api/locks/{one}/release"), json!({ "force": true })),
        ("GET", format!("/api/locks?prefix={one}&after={two}"), json!({})),
        ("GET", format!("/api/queues/{one}"), json!({})),
        ("POST", format!("/api/queues/{one}"), json!({ "kind": "again", "keys": ["k"] })),
        ("GET", format!("/api/queues/{one}/results/{two}"), json!({})),
        ("DELETE", format!("/api/queues/{one}/keys/{two}"), json!({})),
        ("GET", format!("/api/kv/{one}"), json!({})),
        ("PUT", format!("/api/kv/{one}"), json!({ "value": "ann" })),
        ("DELETE", format!("/api/kv/{one}"), json!({})),
        ("GET", format!("/api/kv?prefix={one}&after={two}&limit=2"), json!({})),
        ("GET", format!("/api/jobs/{one}/history"), json!({})),
        ("GET", format!("/api/entities/{one}"), json!({})),
        ("PUT", format!("/api/entities/{one}/n"), json!({ "by": "ann" })),
        ("GET", format!("/api/{one}/{two}"), json!({})),
    ];
    let (method, path, body) = dice.choose(&calls).unwrap().clone();
    (method, path, body.to_string())
}

/// All that a tenant can see, without what passes with time.
async fn belongings(world: &World, key: &TestKey) -> Vec<Value> {
    let mut all = Vec::new();
    for path in ["/api/state", "/api/kv", "/api/entities/b_note", "/api/queues/b-words/keys?state=waiting"] {
        all.push(get(world, key, path).await.value());
    }
    let locks = get(world, key, "/api/locks").await.value();
    all.extend(locks["locks"].as_array().unwrap().iter().map(|lock| json!([lock["name"], lock["token"]])));
    all
}
