//! `/api/viewer`: heartbeats in, counts out.
//!
//! The heartbeat is the busiest request there is: it parses in place, answers with constant bytes and allocates next to
//! nothing. What is wrong with a bad one is found out in a second, slower look.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use syncline_core::viewer::{
    InvalidSession, PEOPLE_LIST_MAX, Person, RoomRefused, SessionId, Visitor, check_room_name,
};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::Context;
use crate::access::{Principal, PrincipalKind};
use crate::address::network;
use crate::http::body::{Path, Query};
use crate::http::search::{self, Search};
use crate::http::visible::Page;
use crate::http::{Caller, Error, body, caller, range};
use crate::part::{Name, Routes, Rules, Service};
use crate::viewer::{Refused, RoomView, Sample, Settings, Snapshot, Viewers};

/// Largest heartbeat: an id of 64 characters, each of them escaped, fits many times.
const BEAT_MAX_BYTES: usize = 4_096;

/// When a viewer that was refused for want of room may come again.
const FULL_RETRY_SEC: u64 = 30;

/// Heartbeats are open to everybody, to pages of the sites that the configuration names, and to those of other sites that
/// show a credential.
pub(crate) fn routes(settings: &Settings) -> Routes {
    let beating = Rules::new().needs("viewer", "beat", Name::Any).open();
    let beating = beating.from_origins(&settings.allowed_origins).body_max_bytes(BEAT_MAX_BYTES);
    let counting = Rules::new().needs("viewer", "count", Name::All);
    let room = |verb| Rules::new().needs("viewer", verb, Name::Path("room"));
    Routes::new()
        .with_rules(Rules::new().needs("viewer", "count", Name::Any), routes!(rooms))
        .with_rules(room("count"), routes!(room_counts))
        .with_rules(room("see"), routes!(people))
        .with_rules(counting.says_success(), routes!(summary))
        .with_rules(beating.says_success(), routes!(beat))
}

/// A sign of life of one page.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Heartbeat<'a> {
    /// The page's own id: 1 to 64 visible ASCII characters.
    session_id: &'a str,
    /// The page is going away.
    #[serde(default)]
    bye: bool,
    /// The page is in sight. True if absent.
    #[serde(default = "yes")]
    visible: bool,
    /// The room that its viewer is in: 1 to 128 bytes. None if absent.
    #[serde(default)]
    room: Option<&'a str>,
    /// Who that is, for others to read: 1 to 128 bytes. Of a page that shows a person's token it is the token's subject.
    #[serde(default)]
    user: Option<&'a str>,
}

fn yes() -> bool {
    true
}

/// The answer to a heartbeat.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Accepted {
    /// Always true: refusals are errors.
    success: bool,
}

/// The viewers now and before.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Viewing {
    #[serde(flatten)]
    now: Snapshot,
    /// Up to a day, oldest first.
    history: Vec<Sample>,
}

/// Counts the page as watching for another 60 seconds, or no longer if it says `bye`.
///
/// Needs no token. `text/plain` is read as JSON too, because that is what `navigator.sendBeacon` can send anywhere.
#[utoipa::path(post, path = "/api/viewer", tag = "viewer", request_body = Heartbeat<'static>,
    responses((status = 200, body = Accepted), (status = 400), (status = 413), (status = 415), (status = 429),
        (status = 500, description = "Counted in memory, but the store did not confirm it")))]
pub(crate) async fn beat(
    State(context): State<Arc<Context>>,
    Service(viewers): Service<Arc<Viewers>>,
    request: Request,
) -> Result<Response, Error> {
    if !matches!(body::media_type(request.headers()), Some("application/json" | "text/plain") | None) {
        return Err(body::unsupported("send the heartbeat as application/json or text/plain"));
    }
    let address = caller::address(request.extensions(), request.headers(), &context);
    let caller = request.extensions().get::<Arc<Principal>>().cloned();
    let shown = Shown { address, caller, bearer: bearer(&context, &request) };
    let bytes = body::read(request, &context.config.limits).await?;
    let beat = match serde_json::from_slice::<Heartbeat<'_>>(&bytes) {
        Ok(Heartbeat { session_id, bye, visible, room, user }) if body::is_object(&bytes) => {
            let (room, user) = (room.map(Cow::Borrowed), user.map(Cow::Borrowed));
            Beat { id: SessionId::new(session_id)?, bye, visible, room, user }
        }
        _ => second_look(&bytes)?,
    };
    let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    if beat.bye {
        viewers.bye(&beat.id);
    } else if beat.room.is_some() || beat.user.is_some() {
        enter(&context, &viewers, &beat, shown, address).await?;
    } else {
        viewers.beat(&beat.id, beat.visible, address).await?;
    }
    let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(([json], Body::from(Bytes::from_static(b"{\"success\":true}"))).into_response())
}

/// Tells who is watching, on which nodes, and how many there were over the last day.
#[utoipa::path(get, path = "/api/viewer", tag = "viewer", responses((status = 200, body = Viewing)))]
pub(crate) async fn summary(Service(viewers): Service<Arc<Viewers>>) -> axum::Json<Viewing> {
    axum::Json(Viewing { now: viewers.snapshot(), history: viewers.history() })
}

/// A heartbeat that was read.
struct Beat<'a> {
    id: SessionId,
    bye: bool,
    visible: bool,
    room: Option<Cow<'a, str>>,
    user: Option<Cow<'a, str>>,
}

/// What a request shows of who sent it.
struct Shown {
    address: Option<IpAddr>,
    /// Whom the door has let in: a page of another site shows a credential there.
    caller: Option<Arc<Principal>>,
    /// The credential of anybody else. Heartbeats need none, so the door has not looked at it.
    bearer: Option<Vec<u8>>,
}

fn bearer(context: &Context, request: &Request) -> Option<Vec<u8>> {
    context.auth.presented(request.headers()).map(<[u8]>::to_vec)
}

/// A heartbeat of somebody in a room. Who shows a credential needs the room's grant, and a person goes by the subject of the token.
async fn enter(
    context: &Context,
    viewers: &Viewers,
    beat: &Beat<'_>,
    shown: Shown,
    address: IpAddr,
) -> Result<(), Error> {
    let Some(room) = beat.room.as_deref() else { return Err(RoomRefused::UserWithoutRoom.into()) };
    check_room_name("room", room)?;
    beat.user.as_deref().map_or(Ok(()), |user| check_room_name("user", user))?;
    let principal = match (shown.caller, shown.bearer) {
        (Some(caller), _) => Some(caller),
        (None, Some(bearer)) => Some(context.auth.bearer_of(shown.address, &bearer).await?),
        (None, None) => None,
    };
    let principal = principal.filter(|principal| !principal.is_owner());
    if let Some(principal) = &principal {
        principal.require("viewer", "beat", room)?;
    }
    let person = principal.as_ref().filter(|principal| principal.kind == PrincipalKind::Person);
    let subject = person.and_then(|person| person.subject());
    if let (Some(subject), Some(said)) = (subject, beat.user.as_deref())
        && subject != said
    {
        let message = "a person goes by the subject of the token: leave user out";
        return Err(Error::new(StatusCode::FORBIDDEN, "forbidden", message));
    }
    // A subject may be longer than a name; then it is cut to nobody in particular.
    let subject = subject.filter(|subject| check_room_name("user", subject).is_ok());
    let (user, verified) = (subject.or(beat.user.as_deref()), subject.is_some());
    let visitor = Visitor { room, user, verified, visible: beat.visible, address: network(address) };
    Ok(viewers.beat_in(&beat.id, beat.visible, address, Some(&visitor)).await?)
}

/// Reads a heartbeat that did not fit the usual form: it is wrong, or a text in it is written with escapes.
fn second_look(bytes: &[u8]) -> Result<Beat<'static>, Error> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| body::not_json(&error))?;
    let Value::Object(fields) = value else {
        return Err(Error::invalid("invalid-body", "the body must be an object with a sessionId"));
    };
    let id = match fields.get("sessionId") {
        None | Some(Value::Null) => return Err(InvalidSession::Missing.into()),
        Some(Value::String(id)) => SessionId::new(id)?,
        Some(_) => return Err(Error::invalid("invalid-session", "sessionId must be a string")),
    };
    let flag = |name: &str, default| match fields.get(name) {
        None => Ok(default),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(Error::invalid("invalid-body", format!("{name} must be true or false"))),
    };
    let text = |name: &str| match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(Cow::Owned(text.clone()))),
        Some(_) => Err(Error::invalid("invalid-body", format!("{name} must be a string"))),
    };
    let (bye, visible) = (flag("bye", false)?, flag("visible", true)?);
    Ok(Beat { id, bye, visible, room: text("room")?, user: text("user")? })
}

/// Which rooms are asked for.
#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct WantedRooms {
    /// A text in the name, whatever its case.
    q: Option<String>,
    /// Those whose names begin with this; all if absent.
    #[serde(default)]
    prefix: String,
    /// The `next` of the page before.
    after: Option<String>,
    /// At most this many, 100 if absent, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Rooms with somebody in them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RoomListing {
    rooms: Vec<RoomView>,
    /// What to ask for with `after` to go on; `null` at the end.
    next: Option<String>,
}

/// Somebody in a room.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PersonView {
    /// The name.
    user: String,
    /// Live sessions of that name in the room.
    sessions: u32,
    /// Those whose page is in sight.
    visible: u32,
    /// Whether tokens prove the name in all of them.
    verified: bool,
}

/// Who is in a room.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PeopleListing {
    people: Vec<PersonView>,
    /// What to ask for with `after` to go on; `null` at the end.
    next: Option<String>,
}

/// Which people are asked for.
#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct WantedPeople {
    /// The `next` of the page before.
    after: Option<String>,
    /// At most this many, 100 if absent, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Lists rooms with somebody in them on any node, by name, as far as the caller may count them.
#[utoipa::path(get, path = "/api/viewer/rooms", tag = "viewer", params(WantedRooms),
    responses((status = 200, body = RoomListing), (status = 400)))]
pub(crate) async fn rooms(
    Service(viewers): Service<Arc<Viewers>>,
    Caller(caller): Caller,
    Query(wanted): Query<WantedRooms>,
) -> Result<axum::Json<RoomListing>, Error> {
    let limit = range::checked(wanted.limit, PEOPLE_LIST_MAX)?;
    let visible = caller.visible("viewer", "count");
    let mut search = Search::new(wanted.q.as_deref(), wanted.after, limit)?;
    while let Some(step) = search.next() {
        let page = Page { prefix: &wanted.prefix, after: step.after.as_deref(), limit: step.limit };
        let mut cut = visible.page(page);
        while let Some(Page { prefix, after, limit }) = cut.next() {
            let (rooms, more) = viewers.rooms(prefix, after, limit).await;
            cut.put(rooms, more, |room| &room.room);
        }
        let (rooms, more) = cut.end();
        let next = rooms.last().filter(|_| more).map(|last| last.room.clone());
        search.put(rooms, next, |room, text| search::contains(&room.room, text), |room| room.room.clone());
    }
    let (rooms, next) = search.end();
    Ok(axum::Json(RoomListing { rooms, next }))
}

/// Counts the sessions and people in a room, on all nodes. A room that nobody is in has none.
#[utoipa::path(get, path = "/api/viewer/rooms/{room}", tag = "viewer", params(("room" = String, Path)),
    responses((status = 200, body = RoomView), (status = 400)))]
pub(crate) async fn room_counts(
    Service(viewers): Service<Arc<Viewers>>,
    Path(room): Path<String>,
) -> Result<axum::Json<RoomView>, Error> {
    check_room_name("room", &room)?;
    Ok(axum::Json(viewers.room(&room).await))
}

/// Lists who is in a room, by name. Sessions that name nobody are counted and not listed; of a room on another node 100 people are named.
#[utoipa::path(get, path = "/api/viewer/rooms/{room}/people", tag = "viewer",
    params(("room" = String, Path), WantedPeople),
    responses((status = 200, body = PeopleListing), (status = 400)))]
pub(crate) async fn people(
    Service(viewers): Service<Arc<Viewers>>,
    Path(room): Path<String>,
    Query(wanted): Query<WantedPeople>,
) -> Result<axum::Json<PeopleListing>, Error> {
    check_room_name("room", &room)?;
    let limit = range::checked(wanted.limit, PEOPLE_LIST_MAX)?;
    let (people, more) = viewers.people(&room, wanted.after.as_deref(), limit).await;
    let next = people.last().filter(|_| more).map(|last| last.user.clone());
    let view =
        |Person { user, sessions, visible, verified }| PersonView { user, sessions, visible, verified };
    Ok(axum::Json(PeopleListing { people: people.into_iter().map(view).collect(), next }))
}

impl From<RoomRefused> for Error {
    fn from(refused: RoomRefused) -> Error {
        let message = refused.to_string();
        match refused {
            RoomRefused::TooMany { .. } | RoomRefused::TooManyOfAddress { .. } => {
                let full = Error::new(StatusCode::TOO_MANY_REQUESTS, "too-many-rooms", message);
                full.retry_after_sec(FULL_RETRY_SEC)
            }
            _ => Error::invalid("invalid-room", message),
        }
    }
}

impl From<InvalidSession> for Error {
    fn from(invalid: InvalidSession) -> Error {
        let code = if invalid == InvalidSession::Missing { "session-required" } else { "invalid-session" };
        Error::invalid(code, invalid.to_string())
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        let (status, code, retry_after_sec) = match refused {
            Refused::Room(refused) => return refused.into(),
            Refused::Full { .. } => (StatusCode::TOO_MANY_REQUESTS, "too-many-viewers", FULL_RETRY_SEC),
            Refused::TooFast { wait } => (StatusCode::TOO_MANY_REQUESTS, "too-fast", wait.as_secs() + 1),
            Refused::Store => (StatusCode::INTERNAL_SERVER_ERROR, "store", 1),
        };
        Error::new(status, code, refused.to_string()).retry_after_sec(retry_after_sec)
    }
}
