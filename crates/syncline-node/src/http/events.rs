//! `GET /api/events`: everything that happens, as server-sent events.
//!
//! The first event is `hello`; then each topic tells how things are, where it does. A reader that falls behind by more than the bus holds is
//! told with `lagged` how many events it missed, and goes on from there; one that reads nothing is cut off. The number of
//! streams is bounded, in all and for each address, and all of them end when the node stops.
//!
//! Whoever may read a thing hears of it, and nobody else: each event is held against the grants of the stream's reader. A
//! stream ends when its reader's credential does, spread over [`ENDS_WITHIN`] so that not all readers come back at once.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::{HeaderName, StatusCode, header};
use metrics::Gauge;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::principal::{Caller, forbidden, owners_alone};
use super::{CallerQuota, Error, caller};
use crate::Context;
use crate::access::{Credentials, Principal, StreamPlace};
use crate::clock;
use crate::events::{Heard, Interest, Subscription, frame};
use crate::metrics::Registry;
use crate::part::Topic;
use crate::server::{AddressPermit, AddressPermits};

/// A comment is sent after this much silence, so that proxies keep the stream and dead peers are noticed.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);

/// How long a reader waits before it comes back: half of this to one and a half, drawn for each stream.
const RECONNECT_AFTER: Duration = Duration::from_secs(2);

/// How long after the end of its credential a stream ends at the latest.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// How long after its credential was taken back a stream ends at the latest. A node hears of that within three seconds.
const REVOKED_WITHIN: Duration = Duration::from_secs(1);

/// Most things of a topic that a stream tells of alone.
const ABOUT_MAX: usize = 100;

/// The streams a node can have open.
pub(crate) struct Streams {
    free: Arc<Semaphore>,
    by_address: AddressPermits,
    open: Gauge,
}

impl Streams {
    pub(crate) fn new(limit: usize, registry: &Registry) -> Streams {
        let open = registry.gauge("syncline_http_event_streams", "Streams of events open now.", &[]);
        Streams { free: Arc::new(Semaphore::new(limit)), by_address: AddressPermits::new(limit), open }
    }

    /// A stream for a reader at `address`, who gets no more of them than are free.
    fn take(&self, address: Option<IpAddr>) -> Option<Taken> {
        let address_permit = match address {
            Some(address) => Some(self.by_address.take(address, self.free.available_permits())?),
            None => None,
        };
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        self.open.increment(1.0);
        Some(Taken { _permit: permit, _address_permit: address_permit, open: self.open.clone() })
    }
}

/// One of the streams, for as long as it is read.
struct Taken {
    _permit: OwnedSemaphorePermit,
    _address_permit: Option<AddressPermit>,
    open: Gauge,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.open.decrement(1.0);
    }
}

/// Streams what happens, from now on, as far as the caller may read it. A reader that is too slow gets the event `lagged` with
/// the number it has `missed`.
#[utoipa::path(get, path = "/api/events", tag = "events",
    params(("topics" = Option<String>, Query, description = "Topics with commas between; all of them if absent, none if empty. Some topics have a parameter of their own that asks for some things alone, with commas between")),
    responses((status = 200, content_type = "text/event-stream"), (status = 400), (status = 503)))]
pub(crate) async fn events(
    State(context): State<Arc<Context>>,
    super::body::Query(wanted): super::body::Query<HashMap<String, String>>,
    request: Request,
) -> Result<Response, Error> {
    let address = caller::address(request.extensions(), request.headers(), &context);
    let reader = Caller::of(request.extensions())?;
    let topics = readable(&reader, wanted_topics(&context.topics, &wanted)?, wanted.contains_key("topics"))?;
    // Listen first: what happens between here and the first answers is then heard, not lost.
    let heard = listen(&context, &topics, &reader);
    let mut first = Vec::new();
    for Wanted { topic, about } in &topics {
        let Some(beginning) = &topic.first else { continue };
        for thing in about {
            if let Some(facts) = beginning.first(Some(thing)).await? {
                first.push(frame(topic.name, &facts));
            }
        }
        if about.is_empty()
            && hears(&reader, topic, None)
            && let Some(facts) = beginning.first(None).await?
        {
            first.push(frame(topic.name, &facts));
        }
    }
    let Some(taken) = context.streams.take(address) else {
        let full =
            Error::new(StatusCode::SERVICE_UNAVAILABLE, "too-many-streams", "too many streams are open");
        return Err(full.retry_after_sec(5));
    };
    let place = CallerQuota::of(&context, &reader, address).open_stream()?;
    let ended = ended(&context, &reader);
    let frames = frames(&context, heard, first, &reader, (taken, place)).take_until(ended);
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        // Asks nginx not to collect events before it passes them on.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(kept_alive(frames))).into_response())
}

/// What the reader hears of its topics from now on.
fn listen(context: &Context, topics: &[Wanted], reader: &Arc<Principal>) -> Subscription {
    let interest = |Wanted { topic, about }: &Wanted| Interest {
        topic: topic.name,
        about: about.clone(),
        by_prefix: topic.by_prefix,
    };
    let interests = topics.iter().map(interest).collect();
    let known: Vec<Topic> = topics.iter().map(|wanted| wanted.topic.clone()).collect();
    let reader = Arc::clone(reader);
    context.events.subscribe(interests, move |event| {
        let topic = known.iter().find(|topic| topic.name == event.topic());
        topic.is_some_and(|topic| hears(&reader, topic, event.about.as_deref()))
    })
}

/// A topic, and what of it the reader wants to hear of alone; all of it if that is empty.
struct Wanted {
    topic: Topic,
    about: Vec<String>,
}

/// The topics that a reader may hear of. One that it named and may not hear of is refused; where it named none, it gets
/// those it may.
fn readable(reader: &Principal, mut topics: Vec<Wanted>, named: bool) -> Result<Vec<Wanted>, Error> {
    if reader.is_owner() {
        return Ok(topics);
    }
    let any_of = |topic: &Topic| topic.need(None).is_some_and(|need| reader.may(need));
    if !named {
        topics.retain(|wanted| any_of(&wanted.topic));
        if topics.is_empty() {
            let message = "none of the caller's grants lets it hear of anything";
            return Err(Error::new(StatusCode::FORBIDDEN, "forbidden", message));
        }
    }
    for Wanted { topic, about } in &topics {
        let need = topic.need(None).ok_or_else(owners_alone)?;
        if !reader.may(need) {
            return Err(forbidden(need));
        }
        // A prefix is no name; each event under it is held against the grants.
        for thing in about.iter().filter(|_| !topic.by_prefix) {
            if let Some(need) = topic.need(Some(thing)) {
                reader.require_need(need)?;
            }
        }
    }
    Ok(topics)
}

/// Whether a reader hears of `about`; of nothing in particular hears who may read everything of the topic.
fn hears(reader: &Principal, topic: &Topic, about: Option<&str>) -> bool {
    reader.is_owner()
        || topic.readable_by.is_some_and(|(system, verb)| match about {
            Some(_) => topic.need(about).is_some_and(|need| reader.may(need)),
            None => topic.by_prefix || reader.may_all(system, verb),
        })
}

/// Waits until the node stops, or the reader's credential ends or is taken back.
fn ended(context: &Context, reader: &Arc<Principal>) -> impl Future<Output = ()> + use<> {
    let (stop, reader) = (context.stop.clone(), Arc::clone(reader));
    let left = reader.ends_at.map(|at| at.saturating_since(clock::wall()));
    let left = left.map(|left| left + ENDS_WITHIN.mul_f64(rand::random()));
    let revoked = taken_back(context.auth.credentials().clone(), reader);
    async move {
        let ends = async {
            match left {
                None => std::future::pending().await,
                Some(left) => tokio::time::sleep(left).await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = ends => {}
            () = revoked => {}
        }
    }
}

/// Waits until the reader's key is removed, its issuer changed, or its token taken back.
async fn taken_back(credentials: Credentials, reader: Arc<Principal>) {
    let mut changed = credentials.changed();
    while reader.is_owner() || credentials.stands(&reader) {
        if changed.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
    // All readers of an issuer that was changed would come back at once.
    tokio::time::sleep(REVOKED_WITHIN.mul_f64(rand::random())).await;
}

/// The frames of a stream: `hello`, how things are, and then what happens.
fn frames(
    context: &Context,
    heard: Subscription,
    first: Vec<Bytes>,
    reader: &Principal,
    taken: (Taken, StreamPlace),
) -> impl Stream<Item = Bytes> + use<> {
    let is_owner = reader.is_owner();
    // Strangers need not know which weaknesses to try.
    let hello = if is_owner {
        json!({ "node": context.node.name(), "version": env!("CARGO_PKG_VERSION") })
    } else {
        json!({})
    };
    // Streams that end together, as with their node, must not come back together.
    let retry = RECONNECT_AFTER.mul_f64(0.5 + rand::random::<f64>());
    let hello: Bytes = format!("retry: {}\nevent: hello\ndata: {hello}\n\n", retry.as_millis()).into();
    let rest = heard.map(move |heard| {
        let _held = &taken;
        match heard {
            Heard::Frame(frame) => frame,
            // How many there were of others is nobody's business.
            Heard::Missed(missed) => {
                frame("lagged", &json!({ "missed": missed.filter(|_| is_owner) }).to_string())
            }
        }
    });
    stream::iter(std::iter::once(hello).chain(first)).chain(rest)
}

/// The same, with a comment after each silence.
fn kept_alive(frames: impl Stream<Item = Bytes>) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(Box::pin(frames), async |mut frames| {
        match tokio::time::timeout(KEEP_ALIVE_EVERY, frames.next()).await {
            Ok(Some(frame)) => Some((Ok(frame), frames)),
            Ok(None) => None,
            Err(_) => Some((Ok(Bytes::from_static(b":\n\n")), frames)),
        }
    })
}

fn wanted_topics(known: &[Topic], asked: &HashMap<String, String>) -> Result<Vec<Wanted>, Error> {
    let wanted = |topic: &Topic| {
        let about = topic.parameter.and_then(|parameter| asked.get(parameter));
        let about = about.map(|things| things.split(',').map(|thing| thing.trim().to_owned()).collect());
        Wanted { topic: topic.clone(), about: about.unwrap_or_default() }
    };
    let topics = match asked.get("topics") {
        None => known.iter().map(wanted).collect(),
        Some(names) => {
            let words = names.split(',').map(str::trim).filter(|word| !word.is_empty());
            let named = words.map(|word| known.iter().find(|topic| topic.name == word).map(wanted));
            named.collect::<Option<Vec<_>>>().ok_or_else(|| {
                let known: Vec<&str> = known.iter().map(|topic| topic.name).collect();
                let message = format!("topics are {}, with commas between", known.join(" and "));
                Error::invalid("unknown-topic", message)
            })?
        }
    };
    if topics.iter().any(|wanted| wanted.about.len() > ABOUT_MAX) {
        let message = format!("a stream tells of {ABOUT_MAX} things of a topic at most: open another one");
        return Err(Error::invalid("too-many-things", message));
    }
    Ok(topics)
}
