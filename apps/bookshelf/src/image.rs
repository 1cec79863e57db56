//! `fetchBookImage`: the library's picture, or else the best of what Google and Rakuten have.
//!
//! While one book waits for Google and Rakuten, those that wait behind it are looked up at the library, all at once: the
//! ones with a picture are done, the others get into the two queues, which have a pace, as early as can be. A book that
//! one of these queues knows was looked up before, by whatever node, and has no picture there.
//!
//! Only a definite answer is kept. If one of the three could not say whether it has a picture, and none of the others has
//! one, the book comes back later, and is asked for again when it is scanned again.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::presets;
use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream;
use syncline_books::book::{self, Book, Source};
use syncline_books::{CoverUrl, Isbn13};
use syncline_core::queue::{Answer, Kind, Place};
use syncline_store::queue::List;
use tokio_util::sync::CancellationToken;

use super::Inner;
use super::calls::{isbn, json, no_isbn};
use super::steps::Stuck;
use syncline_node::queue::{self, CallMeters, Task, Work};

const QUEUE: &str = presets::FETCH_BOOK_IMAGE.name;
const GOOGLE: &str = presets::FETCH_GOOGLE_SEARCH.name;
const RAKUTEN: &str = presets::FETCH_RAKUTEN_SEARCH.name;

/// How far down the line books are looked up, as a queue lists them.
const LOOKED_AHEAD: usize = 1_000;

/// Books looked up at once.
const CHECKED_AT_ONCE: usize = 64;

/// How often a queue that is waited for is looked at.
const AWAY_LOOK: Duration = Duration::from_secs(1);

/// Books remembered as looked up; they are only looked up again when forgotten.
const REMEMBERED_MAX: usize = 10_000;

/// `fetchBookImage`.
pub(super) struct BookImage {
    shelf: Arc<Inner>,
    /// Books without a picture at the library, so that those who wait are not looked up at every run.
    without: Mutex<HashSet<Isbn13>>,
}

#[async_trait]
impl Work for BookImage {
    async fn run(&self, task: &Task) -> Answer<String> {
        let Some(isbn) = isbn(&task.key) else { return no_isbn() };
        let waits = CancellationToken::new();
        let ((), cover) = tokio::join!(self.keep_looking_ahead(isbn, &task.calls, &waits), async {
            // Whatever way it ends, looking ahead ends with it.
            let _over = waits.clone().drop_guard();
            self.cover(isbn, &task.calls).await
        });
        let cover = match cover {
            Ok(cover) => cover,
            Err(later) => return later,
        };
        match self.shelf.keep_cover(isbn, cover.as_ref()).await {
            Ok(()) => Answer::Done(json(&cover)),
            Err(error) => stuck(&error),
        }
    }

    fn waits_for_other_queues(&self) -> bool {
        true
    }
}

impl BookImage {
    pub(super) fn new(shelf: Arc<Inner>) -> BookImage {
        BookImage { shelf, without: Mutex::default() }
    }

    async fn cover(&self, isbn: Isbn13, calls: &CallMeters) -> Result<Option<CoverUrl>, Answer<String>> {
        if let Some(cover) = self.at_the_library(isbn, calls).await? {
            return Ok(Some(cover));
        }
        let (google, rakuten) = tokio::join!(self.said_by(GOOGLE, isbn), async {
            if self.shelf.apis.asks_rakuten() { self.said_by(RAKUTEN, isbn).await } else { Ok(None) }
        });
        let (mut records, mut silent) = (Vec::new(), None);
        for (source, said) in [(Source::Google, google), (Source::Rakuten, rakuten)] {
            match said {
                Ok(book) => records.extend(book.map(|book| book::Record { source, book })),
                Err(later) => silent = Some(later),
            }
        }
        match (book::merge(isbn, records).and_then(|book| book.cover), silent) {
            (None, Some(later)) => Err(later),
            (cover, _) => Ok(cover),
        }
    }

    /// The library's picture, asked for once. A book without one gets into the line of the others.
    async fn at_the_library(
        &self,
        isbn: Isbn13,
        calls: &CallMeters,
    ) -> Result<Option<CoverUrl>, Answer<String>> {
        let key = isbn.to_string();
        let queues = &self.shelf.queues;
        if self.is_without(isbn) || queues.entry(GOOGLE, &key).await.map_err(|error| stuck(&error))?.is_some()
        {
            self.remember(isbn);
            return Ok(None);
        }
        if let Some(cover) = self.shelf.apis.thumbnail(isbn, calls).await? {
            return Ok(Some(cover));
        }
        let keys = [key];
        if self.shelf.apis.asks_rakuten() {
            queues.enqueue(RAKUTEN, Kind::New, &keys).await.map_err(|error| stuck(&error))?;
        }
        // Last, because it stands for "was looked up and is not there".
        queues.enqueue(GOOGLE, Kind::New, &keys).await.map_err(|error| stuck(&error))?;
        self.remember(isbn);
        Ok(None)
    }

    /// What one of the others says, asked again if it failed to. It is not waited for while it is away: this may take hours,
    /// and other books wait behind this one.
    async fn said_by(&self, queue: &str, isbn: Isbn13) -> Result<Option<Book>, Answer<String>> {
        let key = isbn.to_string();
        if self.is_refused(queue, &key).await? {
            return Ok(None);
        }
        let result = tokio::select! {
            result = self.shelf.result_of(queue, &key, Kind::New) => result,
            reason = self.is_away(queue) => Err(Stuck::Empty(reason)),
        };
        match result {
            Ok(result) => Ok(serde_json::from_str(&result).unwrap_or_default()),
            // An answer that is of no use will be none the next time.
            Err(Stuck::Empty(_)) if self.is_refused(queue, &key).await? => Ok(None),
            Err(Stuck::Empty(reason)) => Err(Answer::Broken { reason, retry: true, away: true }),
            Err(Stuck::Store(error)) => Err(stuck(&error)),
        }
    }

    /// Whether one of the others was asked, and said something that is of no use. If it failed to answer the key is dead
    /// instead, see [`calls`](super::calls).
    async fn is_refused(&self, queue: &str, key: &str) -> Result<bool, Answer<String>> {
        let known = self.shelf.queues.entry(queue, key).await.map_err(|error| stuck(&error))?;
        Ok(known.is_some_and(|entry| matches!(entry.place, Place::Failed(_))))
    }

    /// Ends when a queue's API is known to be away.
    async fn is_away(&self, queue: &str) -> String {
        loop {
            tokio::time::sleep(AWAY_LOOK).await;
            match self.shelf.queues.status_of(queue).await {
                Ok(status) if status.breaker != "closed" => return format!("{queue}: the API is away"),
                _ => {}
            }
        }
    }

    /// Looks up those who wait, and those who come, until `waits` is cancelled: the others may be paused for an hour.
    async fn keep_looking_ahead(&self, current: Isbn13, calls: &CallMeters, waits: &CancellationToken) {
        let Ok(mut changes) = self.shelf.queues.changes(QUEUE) else { return };
        loop {
            changes.mark_unchanged();
            self.look_ahead(current, calls).await;
            match waits.run_until_cancelled(changes.changed()).await {
                Some(Ok(())) => {}
                _ => return,
            }
        }
    }

    /// Looks up those who wait. Whatever goes wrong here goes right when it is their turn.
    async fn look_ahead(&self, current: Isbn13, calls: &CallMeters) {
        let Ok(waiting) = self.shelf.queues.list(QUEUE, List::Waiting, None, LOOKED_AHEAD).await else {
            return;
        };
        let waiting = waiting.iter().filter_map(|entry| isbn(&entry.key));
        let next: Vec<Isbn13> = waiting.filter(|isbn| *isbn != current && !self.is_without(*isbn)).collect();
        let checks = next.into_iter().map(|isbn| async move {
            if let Ok(Some(cover)) = self.at_the_library(isbn, calls).await
                && self.shelf.keep_cover(isbn, Some(&cover)).await.is_ok()
            {
                return Some((isbn.to_string(), json(&cover)));
            }
            None
        });
        let found: Vec<_> = stream::iter(checks)
            .buffer_unordered(CHECKED_AT_ONCE)
            .filter_map(|found| async move { found })
            .collect()
            .await;
        if !found.is_empty()
            && let Err(error) = self.shelf.queues.dequeue(QUEUE, found).await
        {
            tracing::warn!(%error, "pictures that were found could not be kept yet");
        }
    }

    fn is_without(&self, isbn: Isbn13) -> bool {
        self.without.lock().unwrap_or_else(PoisonError::into_inner).contains(&isbn)
    }

    fn remember(&self, isbn: Isbn13) {
        let mut without = self.without.lock().unwrap_or_else(PoisonError::into_inner);
        if without.len() >= REMEMBERED_MAX {
            without.clear();
        }
        without.insert(isbn);
    }
}

/// The store did not answer.
fn stuck(error: &queue::Error) -> Answer<String> {
    Answer::Broken { reason: error.to_string(), retry: true, away: false }
}
