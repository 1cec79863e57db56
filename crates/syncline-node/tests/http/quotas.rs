//! Quotas: what one caller, and all callers of a tenant together, may use.

use axum::body::Body;
use futures::future::join_all;
use http::{Request, Response, header};
use serde_json::{Value, json};
use syncline_testing::TestKey;
use tower::ServiceExt;

use crate::access::{get, node, send};
use crate::audit::as_owner;
use crate::events::Reader;
use crate::world::{Answer, World};

const QUEUE: &str = "[[queues]]\nname = \"words\"\nurl = \"http://127.0.0.1:1/{key}\"\n";

/// A node with a key of these grants and this quota.
async fn limited(name: &str, may: &[&str], quota: &str) -> (World, TestKey) {
    let key = TestKey::new(name, may);
    let world = node(&format!("{QUEUE}{}[keys.quota]\n{quota}\n", key.table()), &[]).await;
    (world, key)
}

fn exceeded(answer: &Answer, setting: &str) {
    answer.refused(429, "quota");
    assert_eq!(answer.value()["quota"], setting);
    assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
}

fn change(id: &str, text: &str) -> String {
    let stamp = crate::tenants::stamp();
    let change = json!({ "id": id, "added": stamp, "value": { "sync": stamp, "text": text } });
    json!({ "after": 0, "epoch": "new", "changes": [change] }).to_string()
}

#[tokio::test]
async fn ac_12_each_quota_is_answered_429_with_its_name() {
    let (world, key) = limited("a", &["kv:*:read"], "requests_per_sec = 2").await;
    let answers = join_all((0..30).map(|_| get(&world, &key, "/api/kv/x"))).await;
    let over: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert!((15..=20).contains(&over.len()), "ten come at once: {}", over.len());
    exceeded(over[0], "requests_per_sec");
    assert_eq!(as_owner(&world, "GET", "/api/kv", "").await.status, 200, "the owner has no quota");

    let (world, key) = limited("a", &["kv:*:read,write"], "writes_per_sec = 1").await;
    let put = || send(&world, &key, "PUT", "/api/kv/x", "{\"value\":\"1\"}");
    let answers = join_all((0..20).map(|_| put())).await;
    let over: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert!((10..=15).contains(&over.len()), "{}", over.len());
    exceeded(over[0], "writes_per_sec");
    assert_eq!(get(&world, &key, "/api/kv/x").await.status, 200, "reading goes on");

    let (world, key) = limited("a", &["queue:words:add"], "adds_per_min = 3").await;
    let add = async |keys: &[&str]| {
        send(&world, &key, "POST", "/api/queues/words", &json!({ "kind": "new", "keys": keys }).to_string())
            .await
    };
    assert_eq!(add(&["1", "2"]).await.status, 202);
    exceeded(&add(&["3", "4"]).await, "adds_per_min");
    assert_eq!(add(&["3"]).await.status, 202, "a refusal takes nothing");

    let (world, key) = limited("a", &["lock:*:hold"], "locks = 2").await;
    let acquire =
        async |name: &str| send(&world, &key, "POST", &format!("/api/locks/{name}/acquire"), "{}").await;
    let first = acquire("1").await.value();
    assert_eq!(acquire("2").await.status, 200);
    exceeded(&acquire("3").await, "locks");
    let release = json!({ "leaseId": first["leaseId"] }).to_string();
    assert_eq!(send(&world, &key, "POST", "/api/locks/1/release", &release).await.status, 200);
    assert_eq!(acquire("3").await.status, 200);
}

#[tokio::test]
async fn ac_12_streams_are_counted_as_long_as_they_are_open() {
    let (world, key) = limited("a", &["state:*:read"], "streams = 2").await;
    let asked = || key.shown_by(Request::get("/api/events").body(Body::empty()).unwrap());
    let mut first = Reader::of(&world, asked()).await;
    let _second = Reader::of(&world, asked()).await;
    assert_eq!(first.next().await.unwrap().0, "hello");
    exceeded(&world.send(asked()).await, "streams");
    drop(first);
    Reader::of(&world, asked()).await;
}

#[tokio::test]
async fn ac_12_spaces_and_their_bytes_have_a_quota() {
    let (world, key) = limited("a", &["state:a-*:read,write"], "spaces = 2\nspace_bytes = 2000").await;
    let push = async |space: &str, text: &str| {
        send(&world, &key, "POST", &format!("/api/state/{space}"), &change("x", text)).await
    };
    assert_eq!(push("a-1", "").await.status, 200);
    assert_eq!(push("a-2", "").await.status, 200);
    exceeded(&push("a-3", "").await, "spaces");
    let listed = as_owner(&world, "GET", "/api/state", "").await.value();
    assert_eq!(listed["spaces"].as_array().unwrap().len(), 2, "what was refused was not made");
    let again = change("y", &"x".repeat(3_000)).replace("\"new\"", "\"other\"");
    exceeded(&send(&world, &key, "POST", "/api/state/a-1", &again).await, "space_bytes");
}

/// Everybody can show a publishable key: one visitor must not use up what all have.
#[tokio::test]
async fn ac_12_of_a_publishable_key_each_address_has_its_own_share() {
    let made = json!({ "name": "menu", "may": ["state:menu:read"], "public": true, "origins": ["https://a.example"] });
    let world = node("", &[]).await;
    let made = as_owner(&world, "POST", "/api/keys", &made.to_string()).await.value();
    let from = async |address: &str| {
        let bearer = format!("Bearer {}", made["key"].as_str().unwrap());
        let mut get = Request::get("/api/state/menu")
            .header(header::AUTHORIZATION, bearer)
            .body(Body::empty())
            .unwrap();
        get.extensions_mut().insert(syncline_node::server::Peer(format!("{address}:4000").parse().unwrap()));
        world.send(get).await.status.as_u16()
    };
    let greedy = join_all((0..400).map(|_| from("192.0.2.1"))).await;
    assert!(greedy.contains(&200) && greedy.contains(&429));
    assert_eq!(from("192.0.2.2").await, 200);
}

#[tokio::test]
async fn ac_12_people_of_a_tenant_share_its_quota_and_other_tenants_do_not_feel_it() {
    let file = "[[issuers]]\nname = \"shop\"\nissuer = \"https://shop.example\"\naudience = \"https://node.example\"\n\
         keys = [{ secret = \"a-secret-of-an-issuer-of-32-bytes-or-more\" }]\nmay = [\"kv:{sub}:read\"]\n\
         tenant = \"org\"\n[issuers.tenant_quota]\nrequests_per_sec = 1\n";
    let world = node(file, &[]).await;
    let ask = async |subject: &str, org: &str| {
        let bearer = crate::keys::token_with(subject, &json!({ "org": org }));
        let get = Request::get(format!("/api/kv/{subject}"))
            .header(header::AUTHORIZATION, format!("Bearer {bearer}"));
        world.send(get.body(Body::empty()).unwrap()).await
    };
    let mut over: Vec<Value> = Vec::new();
    for person in ["ann", "bob"].into_iter().cycle().take(20) {
        let answer = ask(person, "north").await;
        if answer.status == 429 {
            over.push(answer.value()["quota"].clone());
        }
    }
    assert!(over.len() >= 10 && over.iter().all(|setting| setting == "requests_per_sec"), "{over:?}");
    assert_eq!(ask("ann", "south").await.status, 404, "another tenant");
}

const SETTINGS: [(&str, u32); 7] = [
    ("requests_per_sec", 1),
    ("writes_per_sec", 1),
    ("adds_per_min", 2),
    ("streams", 2),
    ("locks", 2),
    ("spaces", 2),
    ("space_bytes", 4_000),
];

/// A node with a shop whose people, or tenants, have this quota.
async fn shop(table: &str, setting: &str, most: u32) -> World {
    let file = format!(
        "{QUEUE}[[issuers]]\nname = \"shop\"\nissuer = \"https://shop.example\"\naudience = \"https://node.example\"\n\
         keys = [{{ secret = \"a-secret-of-an-issuer-of-32-bytes-or-more\" }}]\ntenant = \"org\"\n\
         may = [\"kv:{{org}}.{{sub}}.*:read,write\", \"queue:words:add\", \"lock:{{org}}.{{sub}}.*:hold,see\", \
         \"state:{{org}}.{{sub}}.*:read,write\"]\n[issuers.{table}]\n{setting} = {most}\n"
    );
    node(&file, &[]).await
}

/// One use of what the setting limits, for the `number`th time. The answer is kept: a stream counts while it is open.
async fn use_once(
    world: &World,
    setting: &str,
    (subject, org): (&str, &str),
    number: usize,
) -> Response<Body> {
    let own = format!("{org}.{subject}.{number}");
    let (method, path, body) = match setting {
        "requests_per_sec" => ("GET", format!("/api/kv/{own}"), String::new()),
        "writes_per_sec" => ("PUT", format!("/api/kv/{own}"), json!({ "value": "1" }).to_string()),
        "adds_per_min" => {
            ("POST", "/api/queues/words".to_owned(), json!({ "kind": "new", "keys": [own] }).to_string())
        }
        "streams" => ("GET", "/api/events".to_owned(), String::new()),
        "locks" => ("POST", format!("/api/locks/{own}/acquire"), "{}".to_owned()),
        _ => ("POST", format!("/api/state/{own}"), change("x", &"x".repeat(1_500))),
    };
    let mut request = crate::world::request(method, &path, &body);
    let bearer = crate::keys::token_with(subject, &json!({ "org": org }));
    request.headers_mut().insert(header::AUTHORIZATION, format!("Bearer {bearer}").parse().unwrap());
    request.headers_mut().insert(header::HOST, crate::world::HOST.parse().unwrap());
    world.app.clone().oneshot(request).await.unwrap()
}

/// Uses it in turns until one is refused, and says how often it was let through.
async fn use_up(world: &World, setting: &str, people: &[(&str, &str)]) -> (usize, Vec<Response<Body>>) {
    let mut kept = Vec::new();
    for (number, person) in people.iter().cycle().enumerate().take(40) {
        let answer = use_once(world, setting, *person, number).await;
        if answer.status() != 429 {
            assert!(answer.status().is_success() || answer.status() == 404, "{setting}: {answer:?}");
            kept.push(answer);
            continue;
        }
        assert!(answer.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1, "{setting}");
        let body = axum::body::to_bytes(answer.into_body(), 10_000).await.unwrap();
        let told: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&told["code"], &told["quota"]), (&json!("quota"), &json!(setting)), "{told}");
        return (number, kept);
    }
    panic!("{setting} has no end");
}

#[tokio::test]
async fn ac_12_whatever_a_person_uses_up_others_of_its_tenant_still_have() {
    for (setting, most) in SETTINGS {
        let world = shop("quota", setting, most).await;
        let (used, _kept) = use_up(&world, setting, &[("ann", "north")]).await;
        assert!(used >= 1, "{setting}");
        let (again, _also) = use_up(&world, setting, &[("bob", "north")]).await;
        assert!(again >= 1, "{setting}: bob has his own");
    }
}

#[tokio::test]
async fn ac_12_whatever_a_tenant_uses_up_is_used_up_for_all_its_people_and_for_nobody_else() {
    for (setting, most) in SETTINGS {
        let world = shop("tenant_quota", setting, most).await;
        let (used, _kept) = use_up(&world, setting, &[("ann", "north"), ("bob", "north")]).await;
        assert!(used >= 1, "{setting}");
        // What is counted and comes back with time has no exact number; nobody of them has enough for forty.
        let (more, _too) = use_up(&world, setting, &[("carl", "north")]).await;
        if matches!(setting, "streams" | "locks" | "spaces") {
            assert_eq!((used, more), (2, 0), "{setting}");
        }
        let (others, _also) = use_up(&world, setting, &[("ann", "south")]).await;
        assert!(others >= 1, "{setting}: another tenant");
    }
}
