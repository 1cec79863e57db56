//! What one connection is doing: how many requests are under way, since when there is none, and which answers wait for their
//! reader.
//!
//! HTTP/2 lets a peer keep a connection with nothing on it, and lets it take one answer while it leaves another alone. The
//! accept loop asks here and closes such connections; nothing in here decides.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

/// Most bytes of an answer that are given to the connection at a time. An answer that is there as a whole is given in such
/// pieces as well: HTTP/2 would otherwise take all of it into the buffers of the connection.
pub(super) const PIECE_BYTES: usize = 16 * 1024;

/// The share of the memory for answers that an answer takes, given back when its last piece is on its way. The door puts it
/// into the extensions of a response.
#[derive(Clone)]
pub(crate) struct AnswerShare {
    _permit: Arc<OwnedSemaphorePermit>,
}

impl AnswerShare {
    pub(crate) fn new(permit: OwnedSemaphorePermit) -> AnswerShare {
        AnswerShare { _permit: Arc::new(permit) }
    }
}

/// One connection.
pub(super) struct Activity {
    opened: Instant,
    asked: AtomicBool,
    in_flight: AtomicUsize,
    /// When the last request ended, in milliseconds after the opening.
    idle_since_ms: AtomicU64,
    /// Answers that are not complete: since when a piece has been with the connection, and no other asked for.
    answers: Mutex<Vec<Weak<Given>>>,
}

/// When the last piece of an answer was given, in milliseconds after the opening and one; 0 while the connection waits for us.
type Given = AtomicU64;

impl Activity {
    pub(super) fn new() -> Arc<Activity> {
        Arc::new(Activity {
            opened: Instant::now(),
            asked: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            idle_since_ms: AtomicU64::new(0),
            answers: Mutex::default(),
        })
    }

    /// A request has come. It is under way until what is returned is dropped.
    pub(super) fn begin(self: &Arc<Activity>) -> Exchange {
        self.asked.store(true, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        Exchange { activity: Arc::clone(self), given: None }
    }

    /// Whether there was a request at all.
    pub(super) fn was_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// How long there has been no request; `None` while there is one.
    pub(super) fn idle_for(&self) -> Option<Duration> {
        let idle_since_ms = self.idle_since_ms.load(Ordering::Acquire);
        let idle = self.in_flight.load(Ordering::Acquire) == 0;
        idle.then(|| Duration::from_millis(self.now_ms().saturating_sub(idle_since_ms)))
    }

    /// Whether an answer has been waiting for its reader for `limit`.
    pub(super) fn is_stalled(&self, limit: Duration) -> bool {
        let now_ms = self.now_ms();
        let limit_ms = limit.as_millis() as u64;
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.retain(|answer| answer.strong_count() > 0);
        let given = answers.iter().filter_map(Weak::upgrade).map(|given| given.load(Ordering::Relaxed));
        given.into_iter().any(|given_ms| given_ms > 0 && now_ms.saturating_sub(given_ms - 1) >= limit_ms)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A request and its answer, under way.
pub(super) struct Exchange {
    activity: Arc<Activity>,
    given: Option<Arc<Given>>,
}

impl Exchange {
    /// A piece was given to the connection, which asks for another when the reader has made room.
    fn gave(&mut self) {
        let activity = &self.activity;
        let given = self.given.get_or_insert_with(|| {
            let given = Arc::<Given>::default();
            let mut answers = activity.answers.lock().unwrap_or_else(PoisonError::into_inner);
            // Answers of one connection come one after the other for the most part: the list is short.
            answers.retain(|answer| answer.strong_count() > 0);
            answers.push(Arc::downgrade(&given));
            given
        });
        given.store(activity.now_ms() + 1, Ordering::Relaxed);
    }

    /// The connection asked, and there is nothing to give yet.
    fn has_nothing(&self) {
        if let Some(given) = &self.given {
            given.store(0, Ordering::Relaxed);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.activity.idle_since_ms.store(self.activity.now_ms(), Ordering::Release);
        self.activity.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The body of an answer, in pieces, for as long as it is on its way.
pub(super) struct Answer {
    body: Body,
    /// Of the last frame, what was not given yet.
    rest: Bytes,
    exchange: Exchange,
    _share: Option<AnswerShare>,
}

impl Answer {
    pub(super) fn new(body: Body, exchange: Exchange, share: Option<AnswerShare>) -> Answer {
        Answer { body, rest: Bytes::new(), exchange, _share: share }
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            match Pin::new(&mut this.body).poll_frame(context) {
                Poll::Pending => {
                    this.exchange.has_nothing();
                    return Poll::Pending;
                }
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                ended => return ended,
            }
        }
        let piece = if this.rest.len() <= PIECE_BYTES {
            std::mem::take(&mut this.rest)
        } else {
            // A copy, so that the whole is not kept by the last piece of it that somebody has not read.
            Bytes::copy_from_slice(&this.rest.split_to(PIECE_BYTES))
        };
        if !this.is_end_stream() {
            this.exchange.gave();
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use http_body_util::BodyExt;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_from_the_end_of_its_last_answer() {
        let activity = Activity::new();
        tokio::time::advance(LIMIT).await;
        assert_eq!((activity.idle_for(), activity.was_asked()), (Some(LIMIT), false));
        let exchange = activity.begin();
        let answer = Answer::new(Body::from("hello"), exchange, None);
        assert_eq!((activity.idle_for(), activity.was_asked()), (None, true));
        tokio::time::advance(LIMIT).await;
        assert_eq!(answer.collect().await.unwrap().to_bytes(), "hello");
        assert_eq!(activity.idle_for(), Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_takes_is_noticed_and_one_that_has_nothing_to_say_is_not() {
        let activity = Activity::new();
        let whole = vec![7; 3 * PIECE_BYTES + 1];
        let mut answer = Answer::new(Body::from(whole.clone()), activity.begin(), None);
        let mut read = answer.frame().await.unwrap().unwrap().into_data().unwrap().to_vec();
        assert_eq!(read.len(), PIECE_BYTES);
        tokio::time::advance(LIMIT - Duration::from_millis(1)).await;
        assert!(!activity.is_stalled(LIMIT));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(activity.is_stalled(LIMIT));
        read.extend_from_slice(&answer.frame().await.unwrap().unwrap().into_data().unwrap());
        assert!(!activity.is_stalled(LIMIT), "it was asked for more");
        read.extend_from_slice(&answer.collect().await.unwrap().to_bytes());
        assert_eq!(read, whole);

        let silent = futures::stream::iter([Ok::<_, axum::Error>("first")]).chain(futures::stream::pending());
        let mut answer = Answer::new(Body::from_stream(silent), activity.begin(), None);
        answer.frame().await.unwrap().unwrap();
        assert!(futures::poll!(std::pin::pin!(answer.frame())).is_pending());
        tokio::time::advance(LIMIT * 2).await;
        assert!(!activity.is_stalled(LIMIT));
    }
}
