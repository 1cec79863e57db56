//! Forms with files, read part by part and never whole.
//!
//! Guarantees that a form holds no more memory than [`PENDING_MAX_BYTES`] and the largest part asked for as a whole, that
//! each part is bounded by name, that no part comes twice, and that a pause in the middle or a sender that only trickles ends it. What parts mean is the
//! route's business.

use std::io;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as Task, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use futures::Stream;
use http::{StatusCode, header};
use hyper::body::Body as _;
use multer::{Constraints, SizeLimit};
use tokio::time::Instant;

use syncline_node::http::{Error, body};

/// Bytes that have arrived and belong to no part yet. A part's own headers have to fit.
const PENDING_MAX_BYTES: u64 = 1024 * 1024;

/// Most that is given to the reader of forms at a time.
const PIECE_MAX_BYTES: usize = 64 * 1024;

/// What surrounds the parts: boundaries and headers.
const AROUND_MAX_BYTES: u64 = 64 * 1024;

/// Bytes a second that a sender must manage, over every [`PACE_WINDOW`] that is spent waiting for it.
const PACE_MIN_BYTES_PER_SEC: u64 = 1024;
const PACE_WINDOW: Duration = Duration::from_secs(20);

/// How fast a form comes in. Only waiting for the sender counts: a slow disk of ours is not its fault.
#[derive(Debug, Default)]
struct Pace {
    waited: Duration,
    arrived: u64,
}

impl Pace {
    /// Takes note of a piece; an error if the sender is too slow.
    fn note(&mut self, waited: Duration, bytes: u64) -> Result<(), Error> {
        self.waited += waited;
        self.arrived += bytes;
        if self.waited < PACE_WINDOW {
            return Ok(());
        }
        let enough = self.arrived >= PACE_MIN_BYTES_PER_SEC * self.waited.as_secs();
        *self = Pace::default();
        let message = "the form arrives too slowly: fewer than 1,024 bytes a second";
        if enough { Ok(()) } else { Err(Error::new(StatusCode::REQUEST_TIMEOUT, "timeout", message)) }
    }
}

/// A form being read.
pub(crate) struct Form {
    parts: multer::Multipart<'static>,
    /// What the form is read from. Its reader stops at the first mistake; who refuses the form reads on.
    body: Arc<Mutex<Body>>,
    /// Bytes handed out, for the guard of what is pending.
    taken: Arc<AtomicU64>,
    idle: Duration,
    pace: Arc<Mutex<Pace>>,
    seen: Vec<String>,
}

/// A part of it.
pub(crate) struct Part {
    field: multer::Field<'static>,
    pub(crate) name: String,
    taken: Arc<AtomicU64>,
    idle: Duration,
    pace: Arc<Mutex<Pace>>,
}

impl Form {
    /// Begins to read a form whose parts are `allowed`, each with the most bytes it may have.
    pub(crate) fn new(
        request: Request,
        allowed: &[(&'static str, u64)],
        idle: Duration,
    ) -> Result<Form, Error> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let boundary = multer::parse_boundary(kind.unwrap_or_default())
            .map_err(|_| body::unsupported("send the form as multipart/form-data with a boundary"))?;
        let whole = allowed.iter().map(|(_, most)| most).sum::<u64>() + AROUND_MAX_BYTES;
        let mut limits = SizeLimit::new().whole_stream(whole);
        for (name, most) in allowed {
            limits = limits.for_field(*name, *most);
        }
        let names = allowed.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        let constraints = Constraints::new().allowed_fields(names).size_limit(limits);
        let taken = Arc::new(AtomicU64::new(0));
        let body = Arc::new(Mutex::new(request.into_body()));
        let pieces = Pieces::new(Arc::clone(&body), Arc::clone(&taken));
        let parts = multer::Multipart::with_constraints(pieces, boundary, constraints);
        Ok(Form { parts, body, taken, idle, pace: Arc::default(), seen: Vec::new() })
    }

    /// The next part; `None` at the end.
    pub(crate) async fn part(&mut self) -> Result<Option<Part>, Error> {
        let asked = Instant::now();
        let next = in_time(self.idle, self.parts.next_field()).await?;
        self.pace.lock().unwrap_or_else(PoisonError::into_inner).note(asked.elapsed(), 0)?;
        let Some(field) = next.map_err(|error| refused(&error))? else { return Ok(None) };
        let name = field.name().unwrap_or_default().to_owned();
        if self.seen.contains(&name) {
            return Err(Error::invalid("invalid-form", format!("the form has two parts called {name:?}")));
        }
        self.seen.push(name.clone());
        let (taken, pace) = (Arc::clone(&self.taken), Arc::clone(&self.pace));
        Ok(Some(Part { field, name, taken, idle: self.idle, pace }))
    }
}

impl Part {
    /// The next piece; `None` at the end of the part.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
        let asked = Instant::now();
        let piece = in_time(self.idle, self.field.chunk()).await?.map_err(|error| refused(&error))?;
        let length = piece.as_ref().map_or(0, Bytes::len);
        self.pace.lock().unwrap_or_else(PoisonError::into_inner).note(asked.elapsed(), length as u64)?;
        self.taken.fetch_add(length as u64, Ordering::Relaxed);
        Ok(piece)
    }

    /// The whole part, for those whose limit is small.
    pub(crate) async fn whole(mut self) -> Result<Bytes, Error> {
        let mut whole = BytesMut::new();
        while let Some(piece) = self.piece().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    /// The whole part as text.
    pub(crate) async fn text(self) -> Result<String, Error> {
        let name = self.name.clone();
        let text = String::from_utf8(self.whole().await?.to_vec());
        text.map_err(|_| Error::invalid("invalid-form", format!("the part {name:?} is no text")))
    }
}

/// Throws what is left of a refused form away for a moment, so that its sender, who may not look for an answer before it has
/// sent everything, gets to see the refusal.
pub(crate) async fn discard(form: Form) {
    let rest = mem::take(&mut *form.body.lock().unwrap_or_else(PoisonError::into_inner));
    body::discard(rest).await;
}

async fn in_time<T>(idle: Duration, work: impl Future<Output = T>) -> Result<T, Error> {
    let late = || Error::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the form did not arrive in time");
    tokio::time::timeout(idle, pin!(work)).await.map_err(|_| late())
}

fn refused(error: &multer::Error) -> Error {
    match error {
        multer::Error::FieldSizeExceeded { limit, field_name } => {
            let name = field_name.as_deref().unwrap_or_default();
            let message = format!("the part {name:?} is larger than the {limit} bytes it may have");
            Error::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
        }
        multer::Error::StreamSizeExceeded { limit } => {
            let message = format!("the form is larger than the {limit} bytes it may have");
            Error::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
        }
        multer::Error::StreamReadFailed(cause) if cause.is::<TooMuchPending>() => {
            Error::invalid("invalid-form", cause.to_string())
        }
        multer::Error::StreamReadFailed(cause) => {
            Error::invalid("incomplete-body", "the form broke off").because(cause)
        }
        _ => Error::invalid("invalid-form", format!("the form cannot be read: {error}")),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a part of the form has headers larger than {PENDING_MAX_BYTES} bytes")]
struct TooMuchPending;

/// The body in small pieces, one at a time. The reader of forms takes all that is there before it looks at any of it, so between two
/// pieces it is made to look.
struct Pieces {
    body: Arc<Mutex<Body>>,
    /// Of the last piece of the body, what was not given yet.
    rest: Bytes,
    given: u64,
    taken: Arc<AtomicU64>,
    look: bool,
}

impl Pieces {
    fn new(body: Arc<Mutex<Body>>, taken: Arc<AtomicU64>) -> Pieces {
        Pieces { body, rest: Bytes::new(), given: 0, taken, look: false }
    }
}

impl Stream for Pieces {
    type Item = Result<Bytes, Box<dyn std::error::Error + Send + Sync>>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.look) {
            task.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.given.saturating_sub(self.taken.load(Ordering::Relaxed))
            > PENDING_MAX_BYTES + AROUND_MAX_BYTES
        {
            return Poll::Ready(Some(Err(Box::new(TooMuchPending))));
        }
        if self.rest.is_empty() {
            let frame = {
                let mut body = self.body.lock().unwrap_or_else(PoisonError::into_inner);
                Pin::new(&mut *body).poll_frame(task)
            };
            match frame {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Some(Err(io::Error::other(error).into())));
                }
                // Trailers are no part of a form.
                Poll::Ready(Some(Ok(frame))) => self.rest = frame.into_data().unwrap_or_default(),
            }
        }
        let length = self.rest.len().min(PIECE_MAX_BYTES);
        let piece = self.rest.split_to(length);
        self.given += length as u64;
        self.look = true;
        Poll::Ready(Some(Ok(piece)))
    }
}
