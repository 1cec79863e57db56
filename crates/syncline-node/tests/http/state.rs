//! Shared state over HTTP.

use std::sync::Arc;

use serde_json::{Value, json};
use syncline_node::state::States;
use tokio_util::sync::CancellationToken;

use crate::events::Reader;
use crate::world::{Answer, World};

const LIST: &str = "/api/state/list";

fn stamp(ms: u64, count: u8) -> String {
    use syncline_core::state::Stamp;
    use syncline_core::time::Timestamp;
    (0..count).fold(Stamp::ZERO.after(Timestamp::from_ms(ms)), |stamp, _| stamp.next()).text()
}

fn now_ms() -> u64 {
    u64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}

fn put(id: &str, value: Value, count: u8) -> Value {
    let stamp = stamp(now_ms() - 1_000, count);
    let mut value = value;
    value["sync"] = json!(stamp);
    json!({ "id": id, "added": stamp, "value": value })
}

async fn pull(world: &World, query: &str) -> Value {
    world.get(&format!("{LIST}?{query}")).await.value()
}

async fn push(world: &World, from: &Value, changes: &[Value]) -> Answer {
    let body = json!({ "after": from["cursor"], "epoch": from["epoch"], "changes": changes });
    world.json("POST", LIST, &body.to_string()).await
}

#[tokio::test]
async fn st_23_what_one_device_sends_another_gets_digit_by_digit() {
    let world = World::new("").await;
    let first = pull(&world, "").await;
    assert_eq!(
        (&first["unknown"], &first["cursor"], &first["changes"]),
        (&json!(true), &json!(0), &json!([]))
    );
    assert!(first["now"].as_u64().unwrap().abs_diff(now_ms()) < 60_000);
    let added = stamp(now_ms() - 1_000, 0);
    let body = format!(
        "{{\"after\":0,\"epoch\":{},\"changes\":[{{\"id\":\"a\",\"added\":\"{added}\",\"value\":{{\"sync\":\"{added}\",\"n\":1.10e2,\"t\":\"é\"}}}}]}}",
        first["epoch"]
    );
    assert_eq!(first["epoch"], "new", "nothing is there yet");
    let taken = world.json("POST", LIST, &body).await.value();
    assert_eq!((&taken["from"], &taken["cursor"]), (&json!(0), &json!(1)));
    let epoch = taken["epoch"].as_str().unwrap();
    assert_ne!(epoch, "new", "the first change gives the space its log");
    world.json("POST", LIST, &body).await.refused(409, "reload");
    let again = world.json("POST", LIST, &body.replace("\"new\"", &format!("{epoch:?}"))).await.value();
    assert_eq!((&again["from"], &again["cursor"]), (&json!(1), &json!(1)), "sent again it is no news");
    let page = world.get(&format!("{LIST}?after=0&epoch={epoch}")).await;
    assert_eq!(page.header("content-type"), "application/json");
    assert!(page.text().contains("\"n\":1.10e2,\"t\":\"é\""), "{}", page.text());
    assert_eq!(page.value()["unknown"], json!(false));
    let text = world.context.registry.render();
    for series in
        ["syncline_state_changes_total 3", "syncline_state_news_total 1", "syncline_state_pulls_total 2"]
    {
        assert!(text.contains(series), "{series} in {text}");
    }
}

#[tokio::test]
async fn st_23_a_device_with_numbers_of_another_log_is_told_to_reload() {
    let world = World::new("").await;
    let first = pull(&world, "").await;
    let strange = json!({ "epoch": "another", "cursor": 0 });
    push(&world, &strange, &[put("a", json!({}), 0)]).await.refused(409, "reload");
    let beyond = json!({ "epoch": first["epoch"], "cursor": 7 });
    push(&world, &beyond, &[put("a", json!({}), 0)]).await.refused(409, "reload");
    assert_eq!(pull(&world, "after=7&epoch=another").await["unknown"], json!(true));
}

#[tokio::test]
async fn st_23_what_makes_no_sense_is_refused_with_its_place() {
    let world = World::new("").await;
    let first = pull(&world, "").await;
    for (space, code) in
        [("-x", "invalid-space"), ("a%20b", "invalid-space"), (&*"x".repeat(65), "invalid-space")]
    {
        world.get(&format!("/api/state/{space}")).await.refused(400, code);
    }
    world.get(&format!("{LIST}?after=x")).await.refused(400, "invalid-query");
    for (body, code) in [
        ("", "invalid-json"),
        ("[]", "invalid-body"),
        ("{\"after\":0}", "invalid-body"),
        ("{\"after\":-1,\"epoch\":\"x\",\"changes\":[]}", "invalid-body"),
        ("{\"after\":0,\"epoch\":\"x\",\"changes\":[{\"id\":\"a\"}]}", "invalid-change"),
        (
            "{\"after\":0,\"epoch\":\"x\",\"changes\":[{\"id\":\"\",\"gone\":\"----------------\"}]}",
            "invalid-change",
        ),
        ("{\"after\":0,\"epoch\":\"\\ud800\",\"changes\":[]}", "invalid-json"),
    ] {
        world.json("POST", LIST, body).await.refused(400, code);
    }
    let unstamped = json!({ "id": "a", "added": stamp(1, 0), "value": { "n": 1 } });
    push(&world, &first, &[unstamped]).await.refused(400, "invalid-change");
    let many: Vec<Value> = (0..502).map(|n| put(&format!("id{n}"), json!({}), 0)).collect();
    push(&world, &first, &many).await.refused(400, "too-many-changes");
    world.json("POST", LIST, &"x".repeat(3_000_000)).await.refused(413, "too-large");
    world
        .send(http::Request::post(LIST).body(axum::body::Body::from("{}")).unwrap())
        .await
        .refused(415, "unsupported-media-type");
    assert_eq!(pull(&world, "").await["cursor"], json!(0), "nothing was stored");
}

#[tokio::test]
async fn st_23_who_listens_to_a_space_hears_of_its_news_alone() {
    let world = World::new("").await;
    let (states, halt) = (world.context.find::<Arc<States>>().unwrap(), CancellationToken::new());
    let _guard = halt.clone().drop_guard();
    tokio::spawn(async move { states.run(halt).await });
    // It listens from its first step on, which a test that never waits would not give it.
    tokio::task::yield_now().await;
    let (first, mut reader) =
        (pull(&world, "").await, Reader::open(&world, "/api/events?topics=state&space=list").await);
    assert_eq!(reader.next().await.unwrap().0, "hello");
    let news = |number: u64| Some(("state".to_owned(), json!({ "space": "list", "number": number })));
    assert_eq!(reader.next().await, news(0), "how far it is");
    let other = world.get("/api/state/other").await.value();
    let body = json!({ "after": 0, "epoch": other["epoch"], "changes": [put("x", json!({}), 0)] });
    assert_eq!(world.json("POST", "/api/state/other", &body.to_string()).await.status, 200);
    assert_eq!(push(&world, &first, &[put("a", json!({ "n": 1 }), 0)]).await.status, 200);
    assert_eq!(reader.next().await, news(1), "and nothing of the other space");
    world.get("/api/events?space=a%20b").await.refused(400, "invalid-space");
}

#[tokio::test]
async fn st_36_one_stream_tells_of_many_spaces_and_of_no_other() {
    let world = World::new("").await;
    let (states, halt) = (world.context.find::<Arc<States>>().unwrap(), CancellationToken::new());
    let _guard = halt.clone().drop_guard();
    tokio::spawn(async move { states.run(halt).await });
    // It listens from its first step on, which a test that never waits would not give it.
    tokio::task::yield_now().await;
    let mut reader = Reader::open(&world, "/api/events?topics=state&space=one,two").await;
    assert_eq!(reader.next().await.unwrap().0, "hello");
    let news =
        |space: &str, number: u64| Some(("state".to_owned(), json!({ "space": space, "number": number })));
    assert_eq!(reader.next().await, news("one", 0));
    assert_eq!(reader.next().await, news("two", 0));
    for space in ["three", "two", "one"] {
        let body = json!({ "after": 0, "epoch": "new", "changes": [put("x", json!({ "n": 1 }), 0)] });
        assert_eq!(world.json("POST", &format!("/api/state/{space}"), &body.to_string()).await.status, 200);
    }
    assert_eq!(reader.next().await, news("two", 1));
    assert_eq!(reader.next().await, news("one", 1));
    let many = vec!["s"; 101].join(",");
    world.get(&format!("/api/events?topics=state&space={many}")).await.refused(400, "too-many-things");
}

#[tokio::test]
async fn st_23_a_token_is_needed_where_there_is_one() {
    let world = World::new("token = \"a-token-long-enough-for-anybody\"\n").await;
    world.get(LIST).await.refused(401, "token-missing");
    world.json("POST", LIST, "{}").await.refused(401, "token-missing");
}

/// Asking for a space used to make it, so that any page in the world could use up all ten thousand of them with images,
/// and nobody could remove one.
#[tokio::test]
async fn st_23_spaces_are_made_by_changes_listed_and_removed() {
    let world = World::new("").await;
    for number in 0..50 {
        world.get(&format!("/api/state/space{number}")).await;
        world.get(&format!("/api/events?space=space{number}&topics=none")).await;
    }
    assert_eq!(world.get("/api/state").await.value()["spaces"], json!([]));
    for space in ["a", "b", "c"] {
        let body = json!({ "after": 0, "epoch": "new", "changes": [put("x", json!({ "n": 1 }), 0)] });
        assert_eq!(world.json("POST", &format!("/api/state/{space}"), &body.to_string()).await.status, 200);
    }
    let empty = json!({ "after": 0, "epoch": "new", "changes": [] });
    assert_eq!(world.json("POST", "/api/state/d", &empty.to_string()).await.value()["epoch"], "new");
    let page = world.get("/api/state?limit=2").await.value();
    assert_eq!((page["spaces"][0]["space"].as_str(), page["next"].as_str()), (Some("a"), Some("b")));
    assert_eq!(page["spaces"][0]["entities"], 1);
    assert!(page["spaces"][0]["bytes"].as_u64().unwrap() > 0, "{page}");
    let rest = world.get("/api/state?limit=2&after=b").await.value();
    assert_eq!(rest["spaces"].as_array().unwrap().len(), 1, "{rest}");
    assert_eq!((rest["spaces"][0]["space"].as_str(), &rest["next"]), (Some("c"), &Value::Null));
    let removed = world.json("DELETE", "/api/state/a", "").await.value();
    assert_eq!(removed, json!({ "space": "a", "deleted": true }));
    assert_eq!(world.json("DELETE", "/api/state/a", "").await.value()["deleted"], false);
    assert_eq!(world.get("/api/state/a").await.value()["epoch"], "new");
    world.get("/api/state?limit=0").await.refused(400, "invalid-limit");
    world.get("/api/state?after=%00").await.refused(400, "invalid-query");
}
