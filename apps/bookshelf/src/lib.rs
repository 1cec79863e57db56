//! The bookshelf: from a scanned ISBN to a book with its cover, through six queues.
//!
//! ```text
//! scan ─▶ scanner ─priority─▶ ndlSearch ─page by page─▶ fetchNdlSearch ─▶ the library
//!         a saved search ────────▲                           │ every book
//!                                                            ▼
//!         the library's picture, or ◀─────────────── fetchBookImage ─▶ fetchGoogleSearch and fetchRakutenSearch
//! ```
//!
//! What holds: an ISBN is on the shelf before its scan is answered; a book that the library has stays there, one that it
//! does not have leaves it; while the library does not answer, nothing leaves. All of it is in the store, so that it
//! goes on after `kill -9`, and on whichever node.

mod apis;
mod calls;
mod command;
mod config;
mod http;
mod image;
mod part;
pub mod presets;
mod searches;
pub mod shelf_store;
mod steps;
mod view;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use syncline_books::book::Book;
use syncline_books::cover::Compressed;
use syncline_books::ndl::{PageKey, Search};
use syncline_books::{CoverUrl, Isbn13};
use syncline_core::queue::{Kind, Place, Settings};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use syncline_node::events::Bus;
use syncline_node::queue::{Check, Error, Queues, Spec, Work};

use apis::Apis;
use calls::json;
pub use command::commands;
pub use config::ShelfSettings;
pub use part::BookshelfPart;
pub(crate) use searches::Refused;
use shelf_store::{self as store, Cover};
pub use view::{BookView, BooksPage, FindsPage, RefusedScan, Scan, Scanned, SearchView};

/// Results kept of the queues whose results are pages of books, and of the others.
const PAGES_KEPT: u32 = 10_000;
const BOOKS_KEPT: u32 = 100_000;

/// Longest time until a cover is asked for again that nobody could tell.
const COVER_RETRY_MAX: Duration = Duration::from_secs(6 * 3_600);

/// Scans taken up again at a time when the node starts.
const TAKEN_UP_AT_ONCE: usize = 500;

/// The bookshelf. Clones are the same.
#[derive(Clone)]
pub struct Shelf(Arc<Inner>);

/// What the queues' works share.
pub(crate) struct Inner {
    store: store::ShelfStore,
    queues: Queues,
    apis: Apis,
    events: Bus,
}

/// A book that is gone, for whoever listens.
#[derive(Serialize)]
struct Removed {
    isbn: Isbn13,
}

impl Shelf {
    /// A shelf on `queues`, which must have been made from [`specs`].
    pub(crate) fn new(
        config: &ShelfSettings,
        store: store::ShelfStore,
        queues: Queues,
        events: Bus,
    ) -> Shelf {
        Shelf(Arc::new(Inner { store, queues, apis: Apis::new(config.clone()), events }))
    }

    /// Adds the six queues to those of the node.
    pub(crate) fn declare(&self, config: &ShelfSettings) {
        let inner = || Arc::clone(&self.0);
        let works: [(_, Arc<dyn Work>); 6] = [
            (presets::FETCH_GOOGLE_SEARCH, Arc::new(calls::FetchGoogle(inner()))),
            (presets::FETCH_RAKUTEN_SEARCH, Arc::new(calls::FetchRakuten(inner()))),
            (presets::FETCH_NDL_SEARCH, Arc::new(calls::FetchNdl(inner()))),
            (presets::NDL_SEARCH, Arc::new(steps::NdlSearch(inner()))),
            (presets::SCANNER, Arc::new(steps::Scanner(inner()))),
            (presets::FETCH_BOOK_IMAGE, Arc::new(image::BookImage::new(inner()))),
        ];
        for (preset, work) in works {
            let pace = |settings| unbroken(&preset, settings);
            self.0.queues.declare(spec(&preset, config), pace, work);
        }
    }

    /// Takes up what was saved and did not get into its queue before the node died.
    pub(crate) fn start(&self, stop: &CancellationToken, tracker: &TaskTracker) {
        let (shelf, stop) = (self.clone(), stop.clone());
        tracker.spawn(async move {
            match stop.run_until_cancelled(shelf.take_up()).await {
                Some(Err(error)) => tracing::error!(%error, "scans from before could not be taken up"),
                Some(Ok(count)) if count > 0 => {
                    tracing::info!(count, "scans and searches were taken up again");
                }
                _ => {}
            }
        });
    }

    /// Puts books on the shelf and has them looked for.
    pub async fn scan(&self, inputs: &[String]) -> Result<Scanned, Error> {
        let mut scanned = Scanned::default();
        let mut isbns: Vec<Isbn13> = Vec::new();
        for input in inputs {
            match Isbn13::parse(input) {
                Ok(isbn) if isbns.contains(&isbn) => {}
                Ok(isbn) => isbns.push(isbn),
                Err(invalid) => scanned.refused.push(RefusedScan::new(input, invalid)),
            }
        }
        let mut wanted = Vec::new();
        for (isbn, added) in isbns.iter().zip(self.0.shelve(&isbns).await?) {
            let state = if added { "searching" } else { self.0.state(*isbn).await? };
            // A book that was removed, or never found, may have a result from then; one that was given up is wanted again.
            if added || (state == "searching" && !self.0.is_in_line(presets::SCANNER.name, *isbn).await?) {
                wanted.push(isbn.to_string());
            }
            if state == "found" {
                self.0.ask_for_cover(&isbn.to_string()).await?;
            }
            scanned.scans.push(Scan { isbn: isbn.to_string(), state });
        }
        self.0.queues.enqueue(presets::SCANNER.name, Kind::Again, &wanted).await?;
        Ok(scanned)
    }

    /// Books, newest first. `after` is the `next` of the page before, or the ISBN of its last book.
    pub async fn books(&self, after: Option<&str>, limit: usize) -> Result<Option<BooksPage>, Error> {
        let after = match after {
            None => None,
            Some(text) if text.len() == 13 => match self.0.store.book(text).await? {
                Some(book) => Some(book.id),
                None => return Ok(None),
            },
            Some(text) => match text.parse() {
                Ok(id) => Some(id),
                Err(_) => return Ok(None),
            },
        };
        let books = self.0.store.books(after, limit).await?;
        let next = books.last().filter(|_| books.len() == limit).map(|book| book.id.to_string());
        let total = self.0.store.count().await?;
        Ok(Some(BooksPage { books: books.iter().map(BookView::of).collect(), total, next }))
    }

    /// One book.
    pub async fn book(&self, isbn: Isbn13) -> Result<Option<BookView>, Error> {
        Ok(self.0.store.book(&isbn.to_string()).await?.as_ref().map(BookView::of))
    }

    /// Takes a book off the shelf, whether it is being looked for or not, and tells whether it was there.
    pub async fn remove(&self, isbn: Isbn13) -> Result<bool, Error> {
        self.0.queues.remove(presets::SCANNER.name, &[isbn.to_string()]).await?;
        self.0.leave(isbn).await
    }

    async fn take_up(&self) -> Result<usize, Error> {
        let (mut after, mut taken) = (0, self.take_up_searches().await?);
        loop {
            let searching = self.0.store.searching(after, TAKEN_UP_AT_ONCE).await?;
            let Some((last, _)) = searching.last() else { return Ok(taken) };
            after = *last;
            let mut lost = Vec::new();
            for (_, isbn) in searching {
                if self.0.is_idle(presets::SCANNER.name, &isbn).await? {
                    lost.push(isbn);
                }
            }
            taken += lost.len();
            self.0.queues.enqueue(presets::SCANNER.name, Kind::Again, &lost).await?;
        }
    }
}

impl Inner {
    async fn is_in_line(&self, queue: &str, isbn: Isbn13) -> Result<bool, Error> {
        let place = self.queues.entry(queue, &isbn.to_string()).await?.map(|entry| entry.place);
        Ok(matches!(place, Some(Place::Waiting | Place::Running { .. } | Place::Retrying { .. })))
    }

    /// Whether a key is neither in line nor on the dead list, where people look after it.
    async fn is_idle(&self, queue: &str, key: &str) -> Result<bool, Error> {
        let place = self.queues.entry(queue, key).await?.map(|entry| entry.place);
        Ok(matches!(place, None | Some(Place::Done(_) | Place::Failed(_))))
    }

    /// Puts ISBNs on the shelf, tells for each whether it is new, and tells everybody who listens.
    async fn shelve(&self, isbns: &[Isbn13]) -> Result<Vec<bool>, Error> {
        let texts: Vec<String> = isbns.iter().map(ToString::to_string).collect();
        let added = self.store.add(&texts).await?;
        for (isbn, _) in texts.iter().zip(&added).filter(|(_, added)| **added) {
            if let Some(book) = self.store.book(isbn).await? {
                self.tell(&book);
            }
        }
        Ok(added)
    }

    async fn state(&self, isbn: Isbn13) -> Result<&'static str, Error> {
        let book = self.store.book(&isbn.to_string()).await?;
        Ok(if book.is_some_and(|book| book.book.is_some()) { "found" } else { "searching" })
    }

    /// The library has it. Its cover is on the way, or is there from before.
    async fn found(&self, book: &Book) -> Result<(), Error> {
        let isbn = book.isbn.to_string();
        // Not there: it was removed while it was being looked for.
        let Some(shelved) = self.store.found(&isbn, &json(book)).await? else { return Ok(()) };
        self.tell(&shelved);
        let queue = presets::FETCH_BOOK_IMAGE.name;
        self.queues.enqueue(queue, Kind::Priority, std::slice::from_ref(&isbn)).await?;
        if shelved.cover == Cover::Unknown
            && let Some(Place::Done(result)) = self.queues.entry(queue, &isbn).await?.map(|entry| entry.place)
        {
            let cover: Option<CoverUrl> = serde_json::from_str(&result).unwrap_or_default();
            self.keep_cover(book.isbn, cover.as_ref()).await?;
        }
        Ok(())
    }

    /// Somebody scans a book again whose cover nobody could tell: it is asked for at once.
    async fn ask_for_cover(&self, isbn: &str) -> Result<(), Error> {
        let Some(book) = self.store.book(isbn).await? else { return Ok(()) };
        let queue = presets::FETCH_BOOK_IMAGE.name;
        if book.cover != Cover::Unknown || book.book.is_none() {
            return Ok(());
        }
        let place = self.queues.entry(queue, isbn).await?.map(|entry| entry.place);
        let kind = match place {
            Some(Place::Waiting | Place::Running { .. }) => return Ok(()),
            Some(Place::Retrying { .. }) => Kind::Retry,
            _ => Kind::Again,
        };
        self.queues.enqueue(queue, kind, &[isbn.to_owned()]).await?;
        Ok(())
    }

    /// The library does not have it.
    async fn not_found(&self, isbn: Isbn13) -> Result<(), Error> {
        tracing::info!(%isbn, "the library does not have this book");
        self.leave(isbn).await.map(drop)
    }

    async fn leave(&self, isbn: Isbn13) -> Result<bool, Error> {
        let was_there = self.store.remove(&isbn.to_string()).await?;
        if was_there {
            self.events.publish("shelf.removed", &Removed { isbn });
        }
        Ok(was_there)
    }

    async fn keep_cover(&self, isbn: Isbn13, cover: Option<&CoverUrl>) -> Result<(), Error> {
        let compressed = cover.map(|cover| json(&Compressed::new(isbn, cover)));
        let book = self.store.set_cover(&isbn.to_string(), compressed.as_deref()).await?;
        book.iter().for_each(|book| self.tell(book));
        Ok(())
    }

    fn tell(&self, book: &store::Shelved) {
        self.events.publish("shelf.book", &BookView::of(book));
    }

    fn tell_search(&self, search: &store::Search) {
        self.events.publish("shelf.search", &SearchView::of(search));
    }
}

/// A queue of the bookshelf as the node takes it.
fn spec(preset: &presets::Preset, config: &ShelfSettings) -> Spec {
    let isbn: Check =
        Arc::new(|key| Isbn13::parse(key).map(|isbn| isbn.to_string()).map_err(|error| error.to_string()));
    let search: Check =
        Arc::new(|key| Search::from_key(key).map(|search| search.key()).map_err(|error| error.to_string()));
    let page: Check =
        Arc::new(|key| PageKey::from_key(key).map(|page| page.key()).map_err(|error| error.to_string()));
    let (url, check, results_max) = match preset.name {
        name if name == presets::FETCH_NDL_SEARCH.name => (Some(&config.ndl), page, PAGES_KEPT),
        name if name == presets::NDL_SEARCH.name => (None, search, PAGES_KEPT),
        name if name == presets::FETCH_GOOGLE_SEARCH.name => (Some(&config.google), isbn, BOOKS_KEPT),
        name if name == presets::FETCH_RAKUTEN_SEARCH.name => (Some(&config.rakuten), isbn, BOOKS_KEPT),
        _ => (None, isbn, BOOKS_KEPT),
    };
    let url = url.map(ToString::to_string);
    let (name, settings) = (preset.name.to_owned(), preset.settings());
    let (check_input, then, groups, group, result_ttl) = (None, None, None, None, None);
    Spec { name, settings, results_max, url, check, check_input, then, groups, group, result_ttl }
}

/// A step calls nobody, so there is nothing for its breaker to protect: the queues behind it have their own. A cover that
/// nobody could tell is asked for again within seconds at first, and within hours for about a day.
fn unbroken(preset: &presets::Preset, mut settings: Settings) -> Settings {
    if preset.retry_delay_ms.is_none() {
        settings.breaker_threshold = u32::MAX;
    }
    if preset.name == presets::FETCH_BOOK_IMAGE.name {
        settings.retry.multiplier = 4.0;
        settings.retry.max_delay = COVER_RETRY_MAX;
    }
    settings
}
