//! People of many tenants with random claims and random grants: each gets what its own claims fill, and nothing of anybody else.
//!
//! What a call may do is worked out here a second time, in a few plain lines, and every answer is held against it: what is let
//! through although it should not be, and what is refused although it should not be.

use axum::body::Body;
use futures::FutureExt as _;
use http::{Request, header};
use serde_json::{Value, json};
use syncline_node::state::States;
use syncline_sim::Dice;
use tokio_util::sync::CancellationToken;

use crate::access::node;
use crate::events::Reader;
use crate::keys::token_with;
use crate::tenants::{rounds, stamp};
use crate::world::{Answer, World, request};

const FILE: &str = "[[issuers]]\nname = \"shop\"\nissuer = \"https://shop.example\"\naudience = \"https://node.example\"\n\
     keys = [{ secret = \"a-secret-of-an-issuer-of-32-bytes-or-more\" }]\n\
     may = [\"kv:{org}.*:read,write\", \"lock:{org}.{sub}:hold,see\", \"state:{org}.cart-{sub}:read,write\"]\n\
     [issuers.quota]\nrequests_per_sec = 0\nwrites_per_sec = 0\nstreams = 0\nlocks = 0\nspaces = 0\nspace_bytes = 0\n";

/// Claims that tempt: prefixes of each other, what grants are made of, and what a path could turn into something else.
const CLAIMS: [&str; 14] =
    ["a", "b", "ab", "a.b", "a-", "A", "*", "a*", "", "{org}", "a/b", "..", "a:b", "b|a"];

/// What a token may ask for.
const ASKED: [&str; 9] = [
    "kv:*:read",
    "kv:*:read,write",
    "kv:b.*:read,write",
    "kv:a.x:read",
    "lock:*:hold,see",
    "lock:a.b:see",
    "state:*:read,write",
    "state:b.cart-a:read",
    "lock:b.*:hold",
];

struct Person {
    org: String,
    sub: String,
    may: Option<Vec<&'static str>>,
    bearer: String,
}

impl Person {
    fn random(dice: &mut Dice) -> Person {
        let mut claim = || (*dice.choose(&CLAIMS).unwrap()).to_owned();
        let (org, sub) = (claim(), claim());
        let may =
            dice.chance(0.4).then(|| (0..dice.pick(0..=3)).map(|_| *dice.choose(&ASKED).unwrap()).collect());
        let mut more = json!({ "org": org });
        if let Some(may) = &may {
            more["may"] = json!(may);
        }
        let bearer = token_with(&sub, &more);
        Person { org, sub, may, bearer }
    }

    /// Whether it may, by the guide's own words.
    fn may(&self, system: &str, name: &str, verb: &str) -> bool {
        let plain = |value: &str| {
            !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || "._:@-".contains(c))
        };
        // The token is refused altogether.
        if self.sub.is_empty() {
            return false;
        }
        let org = plain(&self.org) && !self.org.contains('.');
        let ceiling = match system {
            "kv" => org && name.starts_with(&format!("{}.", self.org)),
            "lock" => org && plain(&self.sub) && name == format!("{}.{}", self.org, self.sub),
            _ => org && plain(&self.sub) && name == format!("{}.cart-{}", self.org, self.sub),
        };
        let asked = |grant: &&str| {
            let (of, rest) = grant.split_once(':').unwrap();
            let (names, verbs) = rest.rsplit_once(':').unwrap();
            let covers = names.strip_suffix('*').map_or(names == name, |prefix| name.starts_with(prefix));
            of == system && covers && verbs.split(',').any(|known| known == verb)
        };
        ceiling && self.may.as_ref().is_none_or(|may| may.iter().any(asked))
    }

    fn shown(&self, mut request: Request<Body>) -> Request<Body> {
        request
            .headers_mut()
            .insert(header::AUTHORIZATION, format!("Bearer {}", self.bearer).parse().unwrap());
        request
    }

    async fn send(&self, world: &World, method: &str, path: &str, body: &Value) -> Answer {
        let body = if method == "GET" { String::new() } else { body.to_string() };
        world.send(self.shown(request(method, path, &body))).await
    }

    /// Nothing in a listing, and nothing heard, is anybody else's.
    fn owns(&self, system: &str, name: &str, seed: u64) {
        let read = if system == "lock" { "see" } else { "read" };
        assert!(
            self.may(system, name, read),
            "seed {seed}: {} of {} was told of {system} {name}",
            self.sub,
            self.org
        );
    }
}

/// A name of the caller's own thing, of somebody's, or of nobody's.
fn name(dice: &mut Dice, people: &[Person], caller: &Person) -> String {
    let of = if dice.chance(0.4) { caller } else { dice.choose(people).unwrap() };
    let parts = ["x", ".", "cart-", "a", "b", "*", "/", "-", "%"];
    match dice.pick(0..=4) {
        0 => format!("{}.{}", of.org, of.sub),
        1 => format!("{}.cart-{}", of.org, of.sub),
        2 => format!("{}.{}", of.org, dice.choose(&parts).unwrap()),
        _ => (0..dice.pick(1..=4)).map(|_| *dice.choose(&parts).unwrap()).collect(),
    }
}

/// The name in a path: what must be encoded, and some of what need not.
fn encoded(dice: &mut Dice, name: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
    name.bytes()
        .map(|byte| match plain(&byte) && dice.chance(0.9) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}

#[tokio::test]
async fn ac_02_of_random_people_with_random_grants_each_gets_what_its_claims_fill_and_nothing_else() {
    let (mut calls, mut allowed, mut heard) = (0, 0, 0);
    for seed in 0..rounds() {
        let world = node(FILE, &[]).await;
        let states = world.context.find::<std::sync::Arc<States>>().unwrap();
        let halt = CancellationToken::new();
        let _halted = halt.clone().drop_guard();
        tokio::spawn(async move { states.run(halt).await });
        // It listens from its first step on, which a test that never waits would not give it.
        tokio::task::yield_now().await;
        let mut dice = Dice::new(seed);
        let people: Vec<Person> = (0..12).map(|_| Person::random(&mut dice)).collect();
        let mut streams = Vec::new();
        for person in &people {
            let asked = person.shown(Request::get("/api/events").body(Body::empty()).unwrap());
            if let Ok(stream) = Reader::try_of(&world, asked).await {
                streams.push((person, stream));
            }
        }
        for _ in 0..1_000 {
            let person = dice.choose(&people).unwrap();
            let name = name(&mut dice, &people, person);
            let path = encoded(&mut dice, &name);
            calls += 1;
            allowed += usize::from(one_call(&world, &mut dice, person, &name, &path, seed).await);
        }
        for (person, stream) in &mut streams {
            while let Some(event) = stream.next().now_or_never() {
                let (event, data) = event.unwrap();
                let system = event.split('.').next().unwrap();
                if let Some(name) = data[if system == "state" { "space" } else { "name" }].as_str() {
                    person.owns(system, name, seed);
                    heard += 1;
                }
            }
        }
    }
    eprintln!("{calls} calls, {allowed} allowed, {heard} events heard");
    assert!(allowed > calls / 50 && heard > 0, "{calls} {allowed} {heard}");
}

/// Calls with one name, and holds the answer against what should be. Says whether it was let through.
async fn one_call(
    world: &World,
    dice: &mut Dice,
    person: &Person,
    name: &str,
    path: &str,
    seed: u64,
) -> bool {
    let stamp = stamp();
    let change = json!({ "id": "x", "added": stamp, "value": { "sync": stamp, "by": person.org } });
    let batch = json!({ "after": 0, "epoch": "new", "changes": [change] });
    let (system, verb, method, address, body) = match dice.pick(0..=6) {
        0 => ("kv", "read", "GET", format!("/api/kv/{path}"), json!({})),
        1 => ("kv", "write", "PUT", format!("/api/kv/{path}"), json!({ "value": person.org })),
        2 => ("lock", "hold", "POST", format!("/api/locks/{path}/acquire"), json!({})),
        3 => ("state", "read", "GET", format!("/api/state/{path}"), json!({})),
        4 => ("state", "write", "POST", format!("/api/state/{path}"), batch),
        5 => ("kv", "", "GET", format!("/api/kv?prefix={path}"), json!({})),
        _ => ("lock", "", "GET", format!("/api/locks?prefix={path}"), json!({})),
    };
    let answer = person.send(world, method, &address, &body).await;
    let status = answer.status.as_u16();
    let told = || format!("seed {seed}: {} of {}: {method} {address}: {answer:?}", person.sub, person.org);
    assert!(status < 500, "{}", told());
    if verb.is_empty() {
        if status == 200 {
            let (list, field) = if system == "kv" { ("entries", "key") } else { ("locks", "name") };
            for item in answer.value()[list].as_array().unwrap() {
                person.owns(system, item[field].as_str().unwrap(), seed);
            }
        }
        return status == 200;
    }
    let expected = person.may(system, name, verb);
    assert_eq!(!matches!(status, 401 | 403), expected, "{}", told());
    if status == 200 && system == "kv" && verb == "read" {
        assert_eq!(answer.value()["value"], person.org, "{}", told());
    }
    expected
}
