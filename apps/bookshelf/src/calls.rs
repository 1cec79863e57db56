//! The three queues that call an API: one key, one call, one result.

use std::sync::Arc;

use super::presets;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use syncline_books::Isbn13;
use syncline_books::book::Book;
use syncline_books::ndl::{Page, PageKey};
use syncline_core::queue::{Answer, Kind};
use syncline_store::queue::RESULT_MAX_BYTES;

use super::Inner;
use syncline_node::queue::{Task, Work};

/// One page of a search, as `fetchNdlSearch` keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PageResult {
    pub(super) books: Vec<Book>,
    /// How many records there are in all, if the library said so.
    pub(super) total: Option<u32>,
    /// Where the next page begins.
    pub(super) next: Option<u32>,
    /// Records on this page, books or not.
    pub(super) records: u32,
}

/// `fetchNdlSearch`.
pub(super) struct FetchNdl(pub(super) Arc<Inner>);

/// `fetchGoogleSearch`.
pub(super) struct FetchGoogle(pub(super) Arc<Inner>);

/// `fetchRakutenSearch`.
pub(super) struct FetchRakuten(pub(super) Arc<Inner>);

#[async_trait]
impl Work for FetchNdl {
    async fn run(&self, task: &Task) -> Answer<String> {
        let key = match PageKey::from_key(&task.key) {
            Ok(key) => key,
            Err(error) => return Answer::Refused { reason: error.to_string() },
        };
        let page = match self.0.apis.page(&key, &task.calls).await {
            Ok(page) => page,
            Err(answer) => return answer,
        };
        // Before the result is kept: a page that is done has its covers on the way, whenever the node dies.
        let isbns: Vec<String> = page.books.iter().map(|book| book.isbn.to_string()).collect();
        if let Err(error) = self.0.queues.enqueue(presets::FETCH_BOOK_IMAGE.name, Kind::New, &isbns).await {
            return Answer::Broken { reason: error.to_string(), retry: true, away: false };
        }
        Answer::Done(fitting(page))
    }
}

#[async_trait]
impl Work for FetchGoogle {
    async fn run(&self, task: &Task) -> Answer<String> {
        let Some(isbn) = isbn(&task.key) else { return no_isbn() };
        self.0
            .apis
            .google(isbn, &task.calls)
            .await
            .map_or_else(|answer| answer, |book| Answer::Done(json(&book)))
    }

    /// Who wants a cover must be able to tell an answer that is of no use, which fails the key, from none, which kills it.
    fn failure_attempts(&self) -> u32 {
        u32::MAX
    }
}

#[async_trait]
impl Work for FetchRakuten {
    async fn run(&self, task: &Task) -> Answer<String> {
        let Some(isbn) = isbn(&task.key) else { return no_isbn() };
        self.0
            .apis
            .rakuten(isbn, &task.calls)
            .await
            .map_or_else(|answer| answer, |book| Answer::Done(json(&book)))
    }

    /// Who wants a cover must be able to tell an answer that is of no use, which fails the key, from none, which kills it.
    fn failure_attempts(&self) -> u32 {
        u32::MAX
    }
}

pub(super) fn isbn(key: &str) -> Option<Isbn13> {
    Isbn13::parse(key).ok()
}

pub(super) fn no_isbn() -> Answer<String> {
    Answer::Refused { reason: "the key is not an ISBN".to_owned() }
}

pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("books are made of texts")
}

/// The page as a result that can be kept: where its texts are absurdly long, without those that a shelf can do without,
/// and at last without the books that do not fit.
fn fitting(page: Page) -> String {
    let Page { books, total, next, records, .. } = page;
    let mut result = PageResult { books, total, next, records };
    let mut text = json(&result);
    if text.len() > RESULT_MAX_BYTES {
        for book in &mut result.books {
            book.authors.truncate(3);
            (book.title_reading, book.series, book.extent, book.price) = (None, None, None, None);
        }
        text = json(&result);
    }
    while text.len() > RESULT_MAX_BYTES && !result.books.is_empty() {
        let keep = result.books.len() / 2;
        tracing::warn!(kept = keep, of = result.books.len(), "a page of books is too long to be kept whole");
        result.books.truncate(keep);
        text = json(&result);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bk_04_a_page_of_absurd_texts_still_fits_into_a_result() {
        let isbn = Isbn13::parse("9784000000079").unwrap();
        let long = "長".repeat(500);
        let mut book = Book::new(isbn);
        book.title.clone_from(&long);
        book.authors = vec![long.clone(); 30];
        (book.series, book.extent) = (Some(long.clone()), Some(long));
        for count in [1, 50, 500] {
            let page =
                Page { books: vec![book.clone(); count], records: 500, next: Some(501), ..Page::default() };
            let text = fitting(page);
            let result: PageResult = serde_json::from_str(&text).unwrap();
            assert!(text.len() <= RESULT_MAX_BYTES, "{}", text.len());
            assert!(!result.books.is_empty() && (result.records, result.next) == (500, Some(501)));
        }
    }
}
