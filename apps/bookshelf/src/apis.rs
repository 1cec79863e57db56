//! The three book APIs over HTTP: requests as `syncline-books` makes them, answers as it reads them.
//!
//! What an answer means for the queue is decided here, in one place: 429 comes back, and so does a server that says until
//! when it is away; a server that is not well is asked a few times more; anything else ends the key with its reason.

use std::time::{Duration, Instant};

use syncline_books::answer::{self, BODY_MAX_BYTES};
use syncline_books::book::Book;
use syncline_books::ndl::{self, Page, PageKey};
use syncline_books::rakuten::ApplicationId;
use syncline_books::request::{Method, Request};
use syncline_books::{CoverUrl, Isbn13, google, rakuten};
use syncline_core::queue::Answer;

use super::ShelfSettings;
use syncline_node::clock;
use syncline_node::outbound::{self, Failure, Reply};
use syncline_node::queue::CallMeters;

/// How long the library may take to say whether it has a picture.
const THUMBNAIL_TIMEOUT: Duration = Duration::from_secs(10);

/// What a proxy that has the id itself is sent in its place.
const NO_APPLICATION_ID: &str = "none";

/// The APIs.
pub(super) struct Apis {
    client: reqwest::Client,
    config: ShelfSettings,
    application_id: ApplicationId,
}

impl Apis {
    pub(super) fn new(config: ShelfSettings) -> Apis {
        let id = config.rakuten_application_id.as_ref().map_or(NO_APPLICATION_ID, |id| id.expose());
        let application_id = ApplicationId::parse(id).expect("checked when the configuration was read");
        Apis { client: outbound::client(), config, application_id }
    }

    /// Whether Rakuten can be asked at all.
    pub(super) fn asks_rakuten(&self) -> bool {
        self.config.asks_rakuten()
    }

    /// One page of a search.
    pub(super) async fn page(&self, key: &PageKey, calls: &CallMeters) -> Result<Page, Answer<String>> {
        let request = key.search.request(&self.config.ndl, key.start_record, ndl::PAGE_RECORDS);
        let request = request.map_err(|error| Answer::Refused { reason: error.to_string() })?;
        let reply = self.send(&request, calls).await?;
        // Megabytes of XML: not on a thread that answers others meanwhile, and that a stop waits for.
        let search = key.search.clone();
        let read = move || ndl::read_page(&search, &answer(&reply), clock::wall());
        match tokio::task::spawn_blocking(read).await {
            Ok(read) => judged(read),
            Err(error) => Err(Answer::Broken { reason: error.to_string(), retry: true, away: false }),
        }
    }

    /// What Google says about a book.
    pub(super) async fn google(
        &self,
        isbn: Isbn13,
        calls: &CallMeters,
    ) -> Result<Option<Book>, Answer<String>> {
        let reply = self.send(&google::request(&self.config.google, isbn), calls).await?;
        judged(google::read(isbn, &answer(&reply), clock::wall()))
    }

    /// What Rakuten says about a book.
    pub(super) async fn rakuten(
        &self,
        isbn: Isbn13,
        calls: &CallMeters,
    ) -> Result<Option<Book>, Answer<String>> {
        let request = rakuten::request(&self.config.rakuten, &self.application_id, isbn);
        let reply = self.send(&request, calls).await?;
        judged(rakuten::read(isbn, &answer(&reply), clock::wall()))
    }

    /// Where the library has a picture of a book; `None` if it says that it has none. An answer that says neither is for the
    /// queue to come back to.
    pub(super) async fn thumbnail(
        &self,
        isbn: Isbn13,
        calls: &CallMeters,
    ) -> Result<Option<CoverUrl>, Answer<String>> {
        let request = ndl::thumbnail_request(&self.config.ndl_thumbnail, isbn);
        let reply = match tokio::time::timeout(THUMBNAIL_TIMEOUT, self.send(&request, calls)).await {
            Ok(reply) => reply?,
            Err(_) => {
                let reason = format!("no answer within {} s", THUMBNAIL_TIMEOUT.as_secs());
                return Err(Answer::Broken { reason, retry: true, away: true });
            }
        };
        match judged(ndl::read_thumbnail(&answer(&reply), clock::wall())) {
            Ok(there) => Ok(there.then(|| ndl::thumbnail_url(&self.config.ndl_thumbnail, isbn))),
            // Asking again would not help: that is as good as none.
            Err(Answer::Refused { reason }) => {
                tracing::info!(%isbn, reason, "the library has no picture that can be had");
                Ok(None)
            }
            Err(later) => Err(later),
        }
    }

    async fn send(&self, request: &Request, calls: &CallMeters) -> Result<Reply, Answer<String>> {
        let method = match request.method {
            Method::Get => reqwest::Method::GET,
            Method::Head => reqwest::Method::HEAD,
        };
        let mut builder = self.client.request(method, &request.url);
        for (name, value) in &request.headers {
            builder = builder.header(*name, *value);
        }
        // A body that is just too large must be told apart from one that fits.
        let max_bytes = if request.method == Method::Head { usize::MAX } else { BODY_MAX_BYTES };
        let began = Instant::now();
        let reply = outbound::exchange(builder, max_bytes).await;
        calls.count(reply.as_ref().ok().map(|reply| reply.status), began.elapsed());
        reply.map_err(|failure| match failure {
            Failure::Unreachable(reason) | Failure::Lost(reason) => {
                Answer::Broken { reason, retry: true, away: true }
            }
            Failure::TooLarge { .. } => Answer::Refused { reason: failure.to_string() },
        })
    }
}

fn answer(reply: &Reply) -> answer::Answer<'_> {
    answer::Answer {
        status: reply.status,
        retry_after: reply.retry_after.as_deref(),
        content_type: reply.content_type.as_deref(),
        body: &reply.body,
    }
}

fn judged<T>(read: Result<T, answer::Error>) -> Result<T, Answer<String>> {
    read.map_err(|error| match error {
        answer::Error::TooManyRequests { retry_after }
        | answer::Error::Unavailable { retry_after: retry_after @ Some(_), .. } => {
            Answer::Throttled { retry_after }
        }
        answer::Error::Unavailable { status, .. } => {
            Answer::Broken { reason: error.to_string(), retry: true, away: matches!(status, 502..=504) }
        }
        _ => Answer::Refused { reason: error.to_string() },
    })
}
