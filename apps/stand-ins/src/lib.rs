//! Stand-ins for the book APIs, to try and to test the bookshelf without asking anybody.
//!
//! One server plays NDL Search with its thumbnails, Google Books, Rakuten Books, and an API of no importance for queues of
//! one's own. It answers in the shapes of the real ones about books that nobody wrote ([`Catalogue`]), turns pages,
//! answers 429 to whoever asks faster than [`Settings`] allow, misbehaves as often as it is told, and writes
//! down every call ([`Figures`]), so that a pace can be checked from the outside.
//!
//! Not for production: it has no door, no limits on connections, and should listen on loopback only.

mod answer;
mod catalogue;
mod command;
mod cover;
mod google;
mod ledger;
mod markup;
mod ndl;
mod rakuten;
mod settings;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State as Shared};
use axum::http::{Method, Response, StatusCode};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::json;
use syncline_books::Isbn13;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use answer::{Answer, call};
use ledger::Ledger;

pub use catalogue::{Catalogue, Entry, Held, LISTED};
pub use command::commands;
pub use ledger::{CALLS_MAX, Call, Figures, KEYS_MAX};
pub use settings::{Api, Flaky, InvalidSetting, Pace, RetryAfter, Settings, Shares};

/// Longest word that is spelled backwards.
const WORD_MAX_CHARS: usize = 200;

/// Calls that are listed at once.
const LISTING_MAX: usize = 10_000;

/// The stand-ins, listening.
pub struct Upstreams {
    address: SocketAddr,
    state: Arc<State>,
    stop: CancellationToken,
    serving: JoinHandle<io::Result<()>>,
}

/// The figures of all APIs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// In the order of [`Api::ALL`].
    pub apis: Vec<Figures>,
}

struct State {
    settings: Settings,
    catalogue: Catalogue,
    ledger: Arc<Ledger>,
    /// Where the pictures are, for answers that name them.
    origin: String,
}

impl Upstreams {
    /// Listens at `address`.
    pub async fn start(address: SocketAddr, settings: Settings) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            catalogue: Catalogue::new(settings.seed, settings.shares),
            settings,
            ledger: Ledger::new(),
            origin: format!("http://{address}"),
        });
        let stop = CancellationToken::new();
        let serving = tokio::spawn(
            axum::serve(listener, routes(Arc::clone(&state)))
                .with_graceful_shutdown(stop.clone().cancelled_owned())
                .into_future(),
        );
        Ok(Self { address, state, stop, serving })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The books.
    #[must_use]
    pub fn catalogue(&self) -> &Catalogue {
        &self.state.catalogue
    }

    /// What a node must be told to ask here: names of variables and their values.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let origin = &self.state.origin;
        vec![
            ("NDL_BASE_URL", format!("{origin}/ndl")),
            ("NDL_THUMBNAIL_BASE_URL", format!("{origin}/ndl/thumbnail")),
            ("GOOGLE_BOOKS_BASE_URL", format!("{origin}/google")),
            ("RAKUTEN_BASE_URL", format!("{origin}/rakuten")),
            ("RAKUTEN_APPLICATION_ID", "demo".to_owned()),
        ]
    }

    /// What was seen so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.state.stats()
    }

    /// Stops listening; answers under way are finished. What was seen until then.
    pub async fn stop(self) -> Stats {
        self.stop.cancel();
        // Serving ends only because it was told to; there is nothing to do about a listener that broke before.
        let _ = self.serving.await;
        self.state.stats()
    }
}

impl State {
    fn stats(&self) -> Stats {
        let figures = |api| self.ledger.figures(api, self.settings.pace(api));
        Stats { apis: Api::ALL.map(figures).into() }
    }
}

fn routes(state: Arc<State>) -> Router {
    Router::new()
        .route("/stats", get(stats))
        .route("/calls/{api}", get(calls))
        .route("/ndl/api/sru", get(ndl_search))
        .route("/ndl/thumbnail/{file}", get(ndl_thumbnail))
        .route("/google/books/v1/volumes", get(google_search))
        .route("/google/books/content", get(google_content))
        .route("/rakuten/services/api/BooksBook/Search/20170404", get(rakuten_search))
        .route("/rakuten/cabinet/{directory}/{file}", get(rakuten_content))
        .route("/words/{word}", get(words))
        .with_state(state)
}

async fn stats(Shared(state): Shared<Arc<State>>) -> Json<Stats> {
    Json(state.stats())
}

#[derive(Deserialize)]
struct Page {
    after: Option<u64>,
    limit: Option<usize>,
}

async fn calls(
    Shared(state): Shared<Arc<State>>,
    Path(api): Path<String>,
    Query(page): Query<Page>,
) -> Response<Body> {
    match api.parse::<Api>() {
        Ok(api) => {
            let limit = page.limit.unwrap_or(LISTING_MAX).min(LISTING_MAX);
            let calls = state.ledger.calls(api, page.after.unwrap_or(0), limit);
            Answer::json(StatusCode::OK, &json!({ "calls": calls })).respond()
        }
        Err(error) => Answer::json(StatusCode::NOT_FOUND, &json!({ "error": error.to_string() })).respond(),
    }
}

async fn ndl_search(
    Shared(state): Shared<Arc<State>>,
    Query(parameters): Query<ndl::Parameters>,
) -> Response<Body> {
    let make = || ndl::answer(&state.catalogue, &parameters, state.settings.page_records);
    call(&state, Api::Ndl, parameters.key(), make).await
}

/// Asked for with HEAD it is the question whether there is one; with GET a page shows it, which is nobody's pace.
async fn ndl_thumbnail(
    Shared(state): Shared<Arc<State>>,
    method: Method,
    Path(file): Path<String>,
) -> Response<Body> {
    let make = || {
        let entry = isbn_of(&file).map(|isbn| state.catalogue.entry(isbn));
        picture(entry.filter(|entry| entry.in_library && entry.thumbnail))
    };
    if method == Method::HEAD {
        call(&state, Api::Thumbnail, file.clone(), make).await
    } else {
        make().respond()
    }
}

#[derive(Deserialize)]
struct Volumes {
    q: String,
}

async fn google_search(Shared(state): Shared<Arc<State>>, Query(volumes): Query<Volumes>) -> Response<Body> {
    let isbn = google::isbn(&volumes.q);
    let make = || google::answer(&state.catalogue, isbn, &state.origin);
    call(&state, Api::Google, volumes.q.clone(), make).await
}

#[derive(Deserialize)]
struct Content {
    id: String,
}

async fn google_content(Shared(state): Shared<Arc<State>>, Query(content): Query<Content>) -> Response<Body> {
    let entry = isbn_of(&content.id).map(|isbn| state.catalogue.entry(isbn));
    picture(entry.filter(|entry| entry.google == Held::Picture)).respond()
}

async fn rakuten_search(
    Shared(state): Shared<Arc<State>>,
    Query(parameters): Query<rakuten::Parameters>,
) -> Response<Body> {
    let make = || rakuten::answer(&state.catalogue, &parameters, &state.origin);
    call(&state, Api::Rakuten, parameters.key(), make).await
}

async fn rakuten_content(
    Shared(state): Shared<Arc<State>>,
    Path((_, file)): Path<(String, String)>,
) -> Response<Body> {
    let entry = isbn_of(&file).map(|isbn| state.catalogue.entry(isbn));
    picture(entry.filter(|entry| entry.rakuten == Held::Picture)).respond()
}

async fn words(Shared(state): Shared<Arc<State>>, Path(word): Path<String>) -> Response<Body> {
    let letters = word.chars().count();
    let make = || {
        if letters > WORD_MAX_CHARS {
            let sentence = format!("a word has at most {WORD_MAX_CHARS} letters, not {letters}");
            return Answer::json(StatusCode::UNPROCESSABLE_ENTITY, &json!({ "error": sentence }));
        }
        let backwards: String = word.chars().rev().collect();
        Answer::json(StatusCode::OK, &json!({ "word": word, "letters": letters, "backwards": backwards }))
    };
    call(&state, Api::Words, word.clone(), make).await
}

fn picture(entry: Option<Entry>) -> Answer {
    match entry {
        Some(entry) => Answer::picture(cover::draw(&entry.book)),
        None => Answer::page(StatusCode::NOT_FOUND, "Not Found"),
    }
}

fn isbn_of(file: &str) -> Option<Isbn13> {
    Isbn13::parse(file.strip_suffix(".jpg").unwrap_or(file)).ok()
}
