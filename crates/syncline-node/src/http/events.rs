//! `GET /api/events`: everything that happens, as server-sent events.
//!
//! The first event is `hello`, the second the viewers as they are. A reader that falls behind by more than the bus holds is
//! told with `lagged` how many events it missed, and goes on from there; one that reads nothing is cut off. The number of
//! streams is bounded, in all and for each address, and all of them end when the node stops.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt, stream};
use http::{HeaderValue, StatusCode};
use metrics::Gauge;
use serde::Deserialize;
use serde_json::json;
use syncline_core::state::Space;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError::Lagged;

use super::{Error, viewer};
use crate::Context;
use crate::events::Event;
use crate::metrics::Registry;
use crate::server::{Place, Places};
use crate::state::{EVENT, News};

/// Topics there are to ask for.
const TOPICS: [&str; 9] =
    ["viewer", "job", "lock", "queue", "shelf", "entity", "recording", "outbox", "state"];

/// A comment is sent after this much silence, so that proxies keep the stream and dead peers are noticed.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);

/// How long a reader waits before it comes back.
const RECONNECT_AFTER: Duration = Duration::from_secs(2);

/// The streams a node can have open.
pub(crate) struct Streams {
    free: Arc<Semaphore>,
    places: Places,
    open: Gauge,
}

impl Streams {
    pub(crate) fn new(limit: usize, registry: &Registry) -> Streams {
        let open = registry.gauge("syncline_http_event_streams", "Streams of events open now.", &[]);
        Streams { free: Arc::new(Semaphore::new(limit)), places: Places::new(limit), open }
    }

    /// A stream for a reader at `address`, who gets no more of them than are free.
    fn take(&self, address: Option<IpAddr>) -> Option<Taken> {
        let place = match address {
            Some(address) => Some(self.places.take(address, self.free.available_permits())?),
            None => None,
        };
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        self.open.increment(1.0);
        Some(Taken { _permit: permit, _place: place, open: self.open.clone() })
    }
}

/// One of the streams, for as long as it is read.
struct Taken {
    _permit: OwnedSemaphorePermit,
    _place: Option<Place>,
    open: Gauge,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.open.decrement(1.0);
    }
}

#[derive(Deserialize, utoipa::IntoParams)]
pub(crate) struct Wanted {
    /// Topics with commas between: `viewer`, `job`, `lock`, `queue`, `shelf`, `entity`, `recording`, `outbox`, `state`. All of
    /// them if absent.
    topics: Option<String>,
    /// Of the topic `state`, this space alone; the stream then begins with how far the space is.
    space: Option<String>,
}

/// Streams what happens, from now on. A reader that is too slow gets the event `lagged` with the number it has `missed`.
#[utoipa::path(get, path = "/api/events", tag = "events", params(Wanted),
    responses((status = 200, content_type = "text/event-stream"), (status = 400), (status = 503)))]
pub(crate) async fn events(
    State(context): State<Arc<Context>>,
    super::body::Query(wanted): super::body::Query<Wanted>,
    request: Request,
) -> Result<Response, Error> {
    let address = viewer::caller(request.extensions(), request.headers(), &context);
    let topics = topics(wanted.topics.as_deref())?;
    let space = wanted.space.map(Space::new).transpose()?;
    // Listen first: what happens between here and the snapshots is then heard, not lost.
    let heard = BroadcastStream::new(context.events.listen());
    let number = match &space {
        Some(space) => context.states.number(space).await?,
        None => 0,
    };
    let Some(taken) = context.streams.take(address) else {
        let full =
            Error::new(StatusCode::SERVICE_UNAVAILABLE, "too-many-streams", "too many streams are open");
        return Err(full.retry_after_sec(5));
    };
    let stopped = context.stop.clone().cancelled_owned();
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE_EVERY);
    let mut response = Sse::new(
        stream_of(&context, heard, topics, taken, space.map(|space| (space, number))).take_until(stopped),
    )
    .keep_alive(keep_alive)
    .into_response();
    // Asks nginx not to collect events before it passes them on.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

fn stream_of(
    context: &Context,
    heard: BroadcastStream<Event>,
    topics: Vec<&'static str>,
    taken: Taken,
    space: Option<(Space, u64)>,
) -> impl Stream<Item = Result<sse::Event, Infallible>> + use<> {
    let hello = json!({ "node": context.node.as_str(), "version": env!("CARGO_PKG_VERSION") });
    let mut first = vec![sse::Event::default().event("hello").data(hello.to_string()).retry(RECONNECT_AFTER)];
    if topics.contains(&"viewer") {
        let viewers = serde_json::to_string(&context.viewer.snapshot()).unwrap_or_default();
        first.push(sse::Event::default().event("viewer").data(viewers));
    }
    // How far it was before this stream began: news since then is heard.
    if let Some((space, number)) = space.as_ref().filter(|_| topics.contains(&EVENT)) {
        let news =
            serde_json::to_string(&News { space: space.as_str(), number: *number }).unwrap_or_default();
        first.push(sse::Event::default().event(EVENT).data(news));
    }
    let space = space.map(|(space, _)| space);
    let rest = heard.filter_map(move |event| {
        let _held = &taken;
        let event = match event {
            Ok(event) if topics.contains(&event.topic()) && is_wanted(&event, space.as_ref()) => {
                Some(sse::Event::default().event(event.name).data(event.data))
            }
            Ok(_) => None,
            Err(Lagged(missed)) => {
                Some(sse::Event::default().event("lagged").data(json!({ "missed": missed }).to_string()))
            }
        };
        async move { event }
    });
    stream::iter(first).chain(rest).map(Ok)
}

/// Whether it is about what the reader wants to hear of.
fn is_wanted(event: &Event, space: Option<&Space>) -> bool {
    event.topic() != EVENT || space.is_none_or(|space| event.about.as_deref() == Some(space.as_str()))
}

fn topics(wanted: Option<&str>) -> Result<Vec<&'static str>, Error> {
    let Some(wanted) = wanted else { return Ok(TOPICS.to_vec()) };
    let known = wanted.split(',').map(|word| TOPICS.into_iter().find(|topic| *topic == word.trim()));
    known.collect::<Option<Vec<_>>>().ok_or_else(|| {
        Error::invalid("unknown-topic", format!("topics are {}, with commas between", TOPICS.join(" and ")))
    })
}
