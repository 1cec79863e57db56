//! Steps that wait for other queues: what they have in common, and the first two.
//!
//! A step keeps nothing in memory that it could not do without: asked again after the node died, it finds the results
//! that are there, waits for those that are not, and comes to the same end. Whether the call it waits for is made by
//! this node or another makes no difference.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::presets;
use super::shelf_store::Found;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use syncline_books::Isbn13;
use syncline_books::book::{self, Book, Source};
use syncline_books::ndl::{Cap, End, PageKey, Paging, Search, Step};
use syncline_core::queue::{Answer, Kind, Place};
use syncline_store::queue::RESULT_MAX_BYTES;

use super::Inner;
use super::calls::{PageResult, isbn, json, no_isbn};
use syncline_node::queue::{self, Task, Work};

/// How often a key that was removed while somebody waited for it is asked for again.
const ASKED_AGAIN_MAX: u32 = 3;

/// Why a step did not come to its end.
pub(super) enum Stuck {
    /// What it waited for ended without a result.
    Empty(String),
    /// The store did not answer.
    Store(queue::Error),
}

impl From<queue::Error> for Stuck {
    fn from(error: queue::Error) -> Stuck {
        Stuck::Store(error)
    }
}

impl Stuck {
    fn reason(&self) -> String {
        match self {
            Stuck::Empty(reason) => reason.clone(),
            Stuck::Store(error) => error.to_string(),
        }
    }
}

impl Inner {
    /// The result of a key in another queue, made if it is not there. An empty one that is there from before is asked for
    /// again.
    pub(super) async fn result_of(&self, queue: &str, key: &str, kind: Kind) -> Result<String, Stuck> {
        let keys = [key.to_owned()];
        for _ in 0..ASKED_AGAIN_MAX {
            let known = self.queues.entry(queue, key).await?.map(|entry| entry.place);
            let kind = match known {
                Some(Place::Done(result)) => return Ok(result),
                Some(Place::Failed(_) | Place::Dead(_)) => Kind::Again,
                _ => kind,
            };
            self.queues.enqueue(queue, kind, &keys).await?;
            match self.queues.ended(queue, key).await?.map(|entry| entry.place) {
                Some(Place::Done(result)) => return Ok(result),
                Some(Place::Failed(reason) | Place::Dead(reason)) => {
                    return Err(Stuck::Empty(format!("{queue}: {reason}")));
                }
                _ => {}
            }
        }
        Err(Stuck::Empty(format!("{queue}: the key was removed")))
    }
}

/// All books of a search, as `ndlSearch` keeps it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SearchResult {
    /// The books, unless they are more than a result can hold: then they are in the saved search alone.
    pub(super) books: Option<Vec<Book>>,
    /// How many there are.
    pub(super) count: usize,
    /// How many records the library has, if it said so.
    pub(super) total: Option<u32>,
    /// `complete`, `cap` or `not-advancing`.
    pub(super) ending: String,
}

/// `ndlSearch`.
pub(super) struct NdlSearch(pub(super) Arc<Inner>);

#[async_trait]
impl Work for NdlSearch {
    async fn run(&self, task: &Task) -> Answer<String> {
        let search = match Search::from_key(&task.key) {
            Ok(search) => search,
            Err(error) => return Answer::Refused { reason: error.to_string() },
        };
        match self.all_pages(search).await {
            Ok((books, total, ending)) => self.deliver(&task.key, books, total, ending).await,
            // Its pages are where attempts are counted; here it is over, and whoever needs it asks again.
            Err(Stuck::Empty(reason)) => Answer::Refused { reason },
            Err(stuck) => Answer::Broken { reason: stuck.reason(), retry: true, away: false },
        }
    }

    fn waits_for_other_queues(&self) -> bool {
        true
    }
}

impl NdlSearch {
    async fn all_pages(&self, search: Search) -> Result<(Vec<Book>, Option<u32>, &'static str), Stuck> {
        // Somebody stands at the shelf and waits for a single book; a saved search can stand in line.
        let kind = if search.isbn.is_some() { Kind::Priority } else { Kind::New };
        let mut paging = Paging::new(Cap::default());
        let (mut books, mut total) = (Vec::new(), None);
        loop {
            let key = PageKey { search: search.clone(), start_record: paging.start_record() }.key();
            let result = self.0.result_of(presets::FETCH_NDL_SEARCH.name, &key, kind).await?;
            let page: PageResult = serde_json::from_str(&result)
                .map_err(|error| Stuck::Empty(format!("a page could not be read back: {error}")))?;
            total = page.total.or(total);
            books.extend(page.books);
            if let Step::Done(end) = paging.after(page.next, page.records) {
                return Ok((books, total, ending(end)));
            }
        }
    }

    async fn deliver(&self, key: &str, books: Vec<Book>, total: Option<u32>, ending: &str) -> Answer<String> {
        let books = distinct(books);
        let found = Found {
            books: books.iter().map(|book| (book.isbn.to_string(), json(book))).collect(),
            total: total.map(u64::from),
            ending: ending.to_owned(),
        };
        match self.0.store.collect(key, &found).await {
            Ok(Some(saved)) => self.0.tell_search(&saved),
            Ok(None) => {}
            Err(error) => return Answer::Broken { reason: error.to_string(), retry: true, away: false },
        }
        let count = books.len();
        let mut result = SearchResult { books: Some(books), count, total, ending: ending.to_owned() };
        let mut text = json(&result);
        if text.len() > RESULT_MAX_BYTES {
            result.books = None;
            text = json(&result);
        }
        Answer::Done(text)
    }
}

fn ending(end: End) -> &'static str {
    match end {
        End::Complete => "complete",
        End::Cap => "cap",
        End::NotAdvancing { start_record, next } => {
            tracing::warn!(start_record, next, "the library's paging does not advance");
            "not-advancing"
        }
    }
}

/// One book of all records with the same number, in the order of the first.
fn distinct(books: Vec<Book>) -> Vec<Book> {
    let mut order: Vec<Isbn13> = Vec::new();
    let mut records: BTreeMap<Isbn13, Vec<book::Record>> = BTreeMap::new();
    for book in books {
        let same = records.entry(book.isbn).or_default();
        if same.is_empty() {
            order.push(book.isbn);
        }
        same.push(book::Record { source: Source::Ndl, book });
    }
    order.into_iter().filter_map(|isbn| book::merge(isbn, records.remove(&isbn)?)).collect()
}

/// `scanner`.
pub(super) struct Scanner(pub(super) Arc<Inner>);

#[async_trait]
impl Work for Scanner {
    async fn run(&self, task: &Task) -> Answer<String> {
        let Some(isbn) = isbn(&task.key) else { return no_isbn() };
        match self.look_up(isbn).await {
            Ok(book) => Answer::Done(json(&book)),
            // The library did not say whether it has the book, so the book stays on the shelf and is asked for again.
            Err(stuck) => Answer::Broken { reason: stuck.reason(), retry: true, away: false },
        }
    }

    fn waits_for_other_queues(&self) -> bool {
        true
    }
}

impl Scanner {
    async fn look_up(&self, isbn: Isbn13) -> Result<Option<Book>, Stuck> {
        // A key that came by another way than a scan is one now.
        if self.0.store.book(&isbn.to_string()).await.map_err(queue::Error::from)?.is_none() {
            self.0.shelve(&[isbn]).await?;
        }
        let key = Search::of_isbn(isbn).key();
        let result = self.0.result_of(presets::NDL_SEARCH.name, &key, Kind::Priority).await?;
        let result: SearchResult = serde_json::from_str(&result)
            .map_err(|error| Stuck::Empty(format!("a search could not be read back: {error}")))?;
        let book = result.books.unwrap_or_default().into_iter().find(|book| book.isbn == isbn);
        match &book {
            Some(book) => self.0.found(book).await?,
            None => self.0.not_found(isbn).await?,
        }
        Ok(book)
    }
}
