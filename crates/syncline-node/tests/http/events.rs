//! The stream of events.

use axum::body::{Body, BodyDataStream};
use futures::StreamExt;
use http::{Request, StatusCode, header};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::world::{HOST, World};

/// A reader of the stream.
pub(crate) struct Reader {
    body: BodyDataStream,
    read: String,
}

impl Reader {
    pub(crate) async fn open(world: &World, path: &str) -> Reader {
        Reader::of(world, Request::get(path).body(Body::empty()).unwrap()).await
    }

    /// Opens a stream by a request of one's own.
    pub(crate) async fn of(world: &World, request: Request<Body>) -> Reader {
        Reader::try_of(world, request).await.unwrap()
    }

    /// The same, or the status of the refusal.
    pub(crate) async fn try_of(world: &World, mut request: Request<Body>) -> Result<Reader, StatusCode> {
        request.headers_mut().insert(header::HOST, HOST.parse().unwrap());
        let response = world.app.clone().oneshot(request).await.unwrap();
        if response.status() != 200 {
            return Err(response.status());
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Ok(Reader { body: response.into_body().into_data_stream(), read: String::new() })
    }

    /// The next event, or `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let field = |name: &str| {
                    let line = event.lines().find_map(|line| line.strip_prefix(name));
                    line.unwrap_or_default().trim().to_owned()
                };
                let (name, data) = (field("event:"), field("data:"));
                self.read = rest.to_owned();
                if name.is_empty() {
                    continue;
                }
                return Some((name, serde_json::from_str(&data).unwrap()));
            }
            let bytes = self.body.next().await?.unwrap();
            self.read.push_str(str::from_utf8(&bytes).unwrap());
        }
    }
}

/// All readers of a node that was restarted came back two seconds later, in the same moment.
#[tokio::test]
async fn ac_07_readers_are_told_to_come_back_at_moments_of_their_own() {
    let world = World::new("").await;
    let mut told = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let mut reader = Reader::open(&world, "/api/events").await;
        let first = reader.body.next().await.unwrap().unwrap();
        let text = str::from_utf8(&first).unwrap();
        let retry_ms = text.lines().find_map(|line| line.strip_prefix("retry:")).unwrap();
        told.insert(retry_ms.trim().parse::<u64>().unwrap());
    }
    assert!(told.len() > 10, "{told:?}");
    assert!(told.iter().all(|retry_ms| (1_000..=3_000).contains(retry_ms)), "{told:?}");
}

#[tokio::test]
async fn vw_25_a_reader_is_greeted_and_sees_viewers_come_and_go() {
    let world = World::new("").await;
    let mut reader = Reader::open(&world, "/api/events").await;
    let (name, hello) = reader.next().await.unwrap();
    assert_eq!((name.as_str(), &hello["node"]), ("hello", &json!(world.context.node.as_str())));
    let (name, viewers) = reader.next().await.unwrap();
    assert_eq!(
        (name.as_str(), &viewers["viewers"], &viewers["occupied"]),
        ("viewer", &json!(0), &json!(false))
    );
    assert_eq!(viewers["history"], Value::Null);

    world.json("POST", "/api/viewer", "{\"sessionId\":\"a\"}").await;
    let mut names = Vec::new();
    loop {
        let (name, data) = reader.next().await.unwrap();
        names.push(name.clone());
        if name == "viewer" && data["viewers"] == 1 {
            break;
        }
    }
    assert!(names.contains(&"viewer.occupied".to_owned()), "{names:?}");
    world.json("POST", "/api/viewer", "{\"sessionId\":\"a\",\"bye\":true}").await;
    while reader.next().await.unwrap().0 != "viewer.vacated" {}
}

#[tokio::test]
async fn topics_choose_what_is_heard() {
    let world = World::new("").await;
    let mut reader = Reader::open(&world, "/api/events?topics=job").await;
    assert_eq!(reader.next().await.unwrap().0, "hello");
    world.context.events.publish("viewer", &json!({}));
    world.context.events.publish("job", &json!({ "id": 7 }));
    assert_eq!(reader.next().await.unwrap(), ("job".to_owned(), json!({ "id": 7 })));
    world.get("/api/events?topics=jobs").await.refused(400, "unknown-topic");
}

#[tokio::test]
async fn a_reader_that_fell_behind_is_told_and_goes_on() {
    let world = World::new("").await;
    let mut reader = Reader::open(&world, "/api/events?topics=job").await;
    assert_eq!(reader.next().await.unwrap().0, "hello");
    for number in 0..2_000 {
        world.context.events.publish("job", &json!({ "id": number }));
        // Others of the node go on while this reader does not read.
        tokio::task::yield_now().await;
    }
    let (name, data) = reader.next().await.unwrap();
    assert_eq!(name, "lagged");
    let missed = data["missed"].as_u64().unwrap();
    assert_eq!(reader.next().await.unwrap(), ("job".to_owned(), json!({ "id": missed })));
}

#[tokio::test]
async fn streams_are_bounded_and_given_back() {
    let world = World::new("[limits]\nevent_streams = 2\n").await;
    let first = Reader::open(&world, "/api/events").await;
    let _second = Reader::open(&world, "/api/events").await;
    let refused = world.get("/api/events").await;
    refused.refused(503, "too-many-streams");
    assert_eq!(refused.header("retry-after"), "5");
    drop(first);
    Reader::open(&world, "/api/events").await;
}

#[tokio::test]
async fn streams_end_when_the_node_stops() {
    let world = World::new("").await;
    let mut reader = Reader::open(&world, "/api/events?topics=job").await;
    assert_eq!(reader.next().await.unwrap().0, "hello");
    world.context.stop.cancel();
    assert_eq!(reader.next().await, None);
}
