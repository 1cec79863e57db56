//! Rooms over HTTP: who counts, who may see whom.

use http::header;
use serde_json::{Value, json};
use syncline_testing::TestKey;

use crate::events::Reader;
use crate::world::{Answer, World, request};

const OWNER: &str = "token = \"a-token-long-enough-for-anybody\"\n";

async fn beat(world: &World, session: &str, room: &str, user: Option<&str>) -> Answer {
    let body = json!({ "sessionId": session, "room": room, "user": user }).to_string();
    world.json("POST", "/api/viewer", &body).await
}

fn names(listing: &Value) -> Vec<&str> {
    listing["people"].as_array().unwrap().iter().map(|person| person["user"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn vw_30_three_tabs_of_one_user_are_one_person_in_the_room_and_three_viewers() {
    let world = World::new("").await;
    for tab in ["tab-1", "tab-2", "tab-3"] {
        assert_eq!(beat(&world, tab, "doc 7/a", Some("änn")).await.status, 200);
    }
    beat(&world, "tab-4", "doc 7/a", None).await;
    world.json("POST", "/api/viewer", "{\"sessionId\":\"elsewhere\"}").await;
    let room = world.get("/api/viewer/rooms/doc%207%2Fa").await.value();
    let expected = json!({ "room": "doc 7/a", "sessions": 4, "visible": 4, "people": 2, "occupied": true });
    assert_eq!(room, expected);
    let people = world.get("/api/viewer/rooms/doc%207%2Fa/people").await.value();
    let ann = json!({ "user": "änn", "sessions": 3, "visible": 3, "verified": false });
    assert_eq!(people, json!({ "people": [ann], "next": null }));
    assert_eq!(world.get("/api/viewer").await.value()["viewers"], 5, "the count of the node is as ever");
    // A heartbeat without a room leaves it, and so does a goodbye.
    world.json("POST", "/api/viewer", "{\"sessionId\":\"tab-1\"}").await;
    world.json("POST", "/api/viewer", "{\"sessionId\":\"tab-2\",\"bye\":true}").await;
    // Written with escapes it is the same room.
    let escaped =
        "{\"sessionId\":\"tab-3\",\"room\":\"doc 7\\u002fa\",\"user\":\"\\u00e4nn\",\"visible\":false}";
    assert_eq!(world.json("POST", "/api/viewer", escaped).await.status, 200);
    let room = world.get("/api/viewer/rooms/doc%207%2Fa").await.value();
    assert_eq!((&room["sessions"], &room["visible"], &room["people"]), (&json!(2), &json!(1), &json!(2)));
    assert_eq!(world.get("/api/viewer/rooms/nobody").await.value()["occupied"], false);
}

#[tokio::test]
async fn vw_30_what_makes_no_sense_is_refused_and_a_full_house_keeps_what_it_has() {
    let world = World::new("[viewer]\nmax_rooms = 2\n").await;
    let long = "r".repeat(129);
    for (body, code) in [
        (json!({ "sessionId": "s", "room": "" }), "invalid-room"),
        (json!({ "sessionId": "s", "room": long }), "invalid-room"),
        (json!({ "sessionId": "s", "room": "a\nb" }), "invalid-room"),
        (json!({ "sessionId": "s", "room": "a", "user": "" }), "invalid-room"),
        (json!({ "sessionId": "s", "user": "ann" }), "invalid-room"),
        (json!({ "sessionId": "s", "room": 7 }), "invalid-body"),
        (json!({ "sessionId": "s", "room": "a", "user": ["ann"] }), "invalid-body"),
    ] {
        world.json("POST", "/api/viewer", &body.to_string()).await.refused(400, code);
    }
    assert_eq!(world.get("/api/viewer").await.value()["viewers"], 0);
    for room in ["a", "b"] {
        assert_eq!(beat(&world, room, room, None).await.status, 200);
    }
    let full = beat(&world, "c", "c", None).await;
    full.refused(429, "too-many-rooms");
    assert!(!full.header("retry-after").is_empty() && full.value()["success"] == false);
    assert_eq!(beat(&world, "d", "a", None).await.status, 200, "rooms that are there go on");
    assert_eq!(world.get("/api/viewer").await.value()["viewers"], 4, "every session counts for the node");
    world.get("/api/viewer/rooms?limit=0").await.refused(400, "invalid-limit");
    world.get("/api/viewer/rooms/a%0Ab").await.refused(400, "invalid-room");
}

#[tokio::test]
async fn vw_30_who_is_in_a_room_is_for_those_who_may_see_it() {
    let counts = TestKey::new("counts", &["viewer:doc-*:count"]);
    let sees = TestKey::new("sees", &["viewer:doc-1:count,see"]);
    let beats = TestKey::new("beats", &["viewer:doc-1:beat"]);
    let file = format!("{OWNER}{}{}{}", counts.table(), sees.table(), beats.table());
    let world = World::new(&file).await;
    for (session, room) in [("a", "doc-1"), ("b", "doc-2"), ("c", "private")] {
        for user in ["ann", "bob", "cid"] {
            assert_eq!(beat(&world, &format!("{session}-{user}"), room, Some(user)).await.status, 200);
        }
    }
    let get = async |key: &TestKey, path: &str| world.send(key.shown_by(request("GET", path, ""))).await;
    let listed = get(&counts, "/api/viewer/rooms").await.value();
    let rooms: Vec<&str> =
        listed["rooms"].as_array().unwrap().iter().map(|room| room["room"].as_str().unwrap()).collect();
    assert_eq!(rooms, ["doc-1", "doc-2"], "nothing of the private one");
    let page = get(&counts, "/api/viewer/rooms?limit=1").await.value();
    assert_eq!(page["next"], "doc-1");
    assert_eq!(get(&counts, "/api/viewer/rooms?after=doc-1").await.value()["rooms"][0]["room"], "doc-2");
    assert_eq!(get(&counts, "/api/viewer/rooms/doc-2").await.value()["people"], 3);
    get(&counts, "/api/viewer/rooms/private").await.refused(403, "forbidden");
    get(&counts, "/api/viewer/rooms/doc-1/people").await.refused(403, "forbidden");
    get(&sees, "/api/viewer/rooms/doc-2/people").await.refused(403, "forbidden");
    let first = get(&sees, "/api/viewer/rooms/doc-1/people?limit=2").await.value();
    assert_eq!((names(&first), &first["next"]), (vec!["ann", "bob"], &json!("bob")));
    let second = get(&sees, "/api/viewer/rooms/doc-1/people?after=bob").await.value();
    assert_eq!((names(&second), &second["next"]), (vec!["cid"], &Value::Null));
    // Who shows a key enters the rooms of its grants alone.
    for (room, status) in [("doc-1", 200), ("doc-2", 403)] {
        let body = json!({ "sessionId": "by-key", "room": room }).to_string();
        let answer = world.send(beats.shown_by(request("POST", "/api/viewer", &body))).await;
        assert_eq!(answer.status.as_u16(), status, "{answer:?}");
    }
}

#[tokio::test]
async fn vw_30_coming_and_going_is_told_to_those_who_may_hear_of_it() {
    let counts = TestKey::new("counts", &["viewer:doc-1:count"]);
    let sees = TestKey::new("sees", &["viewer:*:count,see"]);
    let world = World::new(&format!("{OWNER}{}{}", counts.table(), sees.table())).await;
    let open = async |key: &TestKey, path: &str| {
        let request = http::Request::get(path).header(header::AUTHORIZATION, key.bearer());
        let mut reader = Reader::of(&world, request.body(axum::body::Body::empty()).unwrap()).await;
        assert_eq!(reader.next().await.unwrap().0, "hello");
        reader
    };
    let mut counting = open(&counts, "/api/events?topics=room&room=doc-1").await;
    let mut seeing = open(&sees, "/api/events?topics=people").await;
    let refused =
        http::Request::get("/api/events?topics=people").header(header::AUTHORIZATION, counts.bearer());
    let refused = Reader::try_of(&world, refused.body(axum::body::Body::empty()).unwrap()).await;
    assert_eq!(refused.err().unwrap(), 403);
    beat(&world, "z", "doc-2", Some("zoe")).await;
    beat(&world, "a", "doc-1", Some("ann")).await;
    beat(&world, "b", "doc-1", Some("ann")).await;
    for session in ["a", "b"] {
        let bye = json!({ "sessionId": session, "bye": true }).to_string();
        world.json("POST", "/api/viewer", &bye).await;
    }
    let mut told = Vec::new();
    for _ in 0..3 {
        let (name, facts) = seeing.next().await.unwrap();
        told.push((name, facts["room"].clone(), facts["user"].clone()));
    }
    let is = |name: &str, room: &str, user: &str| (name.to_owned(), json!(room), json!(user));
    let expected = [
        is("people.joined", "doc-2", "zoe"),
        is("people.joined", "doc-1", "ann"),
        is("people.left", "doc-1", "ann"),
    ];
    assert_eq!(told, expected, "three tabs are one person");
    let (first, second) = (counting.next().await.unwrap(), counting.next().await.unwrap());
    assert_eq!((first.0.as_str(), &first.1["room"]), ("room.occupied", &json!("doc-1")));
    assert_eq!((second.0.as_str(), &second.1["occupied"]), ("room.vacated", &json!(false)));
}

#[tokio::test]
async fn cn_01_rooms_are_searched_for_on_the_node_page_by_page() {
    let world = World::new("").await;
    for n in 0..30 {
        beat(&world, &format!("s-{n}"), &format!("Doc-{n:02}"), None).await;
    }
    beat(&world, "other", "lobby", None).await;
    let rooms = |listing: &Value| -> Vec<String> {
        let rooms = listing["rooms"].as_array().unwrap().iter();
        rooms.map(|room| room["room"].as_str().unwrap().to_owned()).collect()
    };
    let first = world.get("/api/viewer/rooms?q=OC-1&limit=6").await.value();
    assert_eq!(rooms(&first), ["Doc-10", "Doc-11", "Doc-12", "Doc-13", "Doc-14", "Doc-15"]);
    assert_eq!(first["next"], "Doc-15");
    let rest = world.get("/api/viewer/rooms?q=OC-1&limit=6&after=Doc-15").await.value();
    assert_eq!((rooms(&rest).len(), &rest["next"]), (4, &Value::Null));
    assert_eq!(rooms(&world.get("/api/viewer/rooms?q=bby").await.value()), ["lobby"]);
    let long = "x".repeat(201);
    world.get(&format!("/api/viewer/rooms?q={long}")).await.refused(400, "invalid-query");
}
