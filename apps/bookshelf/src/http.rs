//! `/api/shelf`: scanning, books, and saved searches.

use crate::shelf_store::{ADD_MAX, LIST_MAX};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use syncline_books::Isbn13;
use syncline_books::ndl::Search;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::{BookView, BooksPage, FindsPage, Scanned, SearchView, Shelf};
use syncline_node::http::Error;
use syncline_node::http::body::{Json, Path, Query};
use syncline_node::part::{Name, Routes, Rules, Service};

/// Books on a page, unless asked otherwise.
const PAGE: usize = 100;

/// What was scanned: one, or several.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScanBody {
    /// An ISBN-13 or ISBN-10, with or without hyphens.
    isbn: Option<String>,
    /// Up to 1,000 of them.
    isbns: Option<Vec<String>>,
}

/// A search to save. All that is given must hold.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchBody {
    /// Words anywhere in the record.
    any: Option<String>,
    /// Words of the title.
    title: Option<String>,
    /// An author.
    creator: Option<String>,
    /// A publisher.
    publisher: Option<String>,
    /// A class of the Nippon Decimal Classification; its first digits suffice.
    ndc: Option<String>,
    /// Published then or later: a year, a month or a day.
    from: Option<String>,
    /// Published then or earlier.
    until: Option<String>,
}

/// All saved searches.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SearchList {
    searches: Vec<SearchView>,
}

/// What was removed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RemovedBook {
    isbn: String,
    /// Whether it was on the shelf.
    deleted: bool,
}

/// What was removed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RemovedSearch {
    id: i64,
    /// Whether there was such a search.
    deleted: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct Page {
    /// The `next` of the page before, or the ISBN of its last book.
    after: Option<String>,
    /// At most this many, 100 if absent, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct FindsRange {
    /// The `next` of the page before.
    #[serde(default)]
    after: u64,
    /// At most this many, 100 if absent, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

pub(super) fn routes() -> Routes {
    // There is one shelf, so a grant is for all of it.
    let reading = || Rules::new().needs("shelf", "read", Name::All);
    let writing = || Rules::new().needs("shelf", "write", Name::All);
    Routes::new()
        .with_rules(writing(), routes!(scan))
        .with_rules(reading(), routes!(books))
        .with_rules(reading(), routes!(book))
        .with_rules(writing(), routes!(remove))
        .with_rules(writing(), routes!(save_search))
        .with_rules(reading(), routes!(searches))
        .with_rules(reading(), routes!(collection))
        .with_rules(writing(), routes!(change_search, remove_search))
}

/// Puts scanned books on the shelf. They are kept when this answers; data and covers follow.
#[utoipa::path(post, path = "/api/shelf/scan", tag = "shelf", request_body = ScanBody,
    responses((status = 202, body = Scanned), (status = 400), (status = 404)))]
pub(crate) async fn scan(
    Service(shelf): Service<Shelf>,
    Json(body): Json<ScanBody>,
) -> Result<(StatusCode, axum::Json<Scanned>), Error> {
    let (inputs, single) = match (body.isbn, body.isbns) {
        (Some(isbn), None) => (vec![isbn], true),
        (None, Some(isbns)) => (isbns, false),
        _ => return Err(Error::invalid("invalid-body", "send either isbn or isbns")),
    };
    if inputs.is_empty() || inputs.len() > ADD_MAX {
        return Err(Error::invalid("invalid-body", format!("scan from 1 to {ADD_MAX} books at a time")));
    }
    let scanned = shelf.scan(&inputs).await?;
    match scanned.refused.first() {
        Some(refused) if single => Err(Error::invalid("invalid-isbn", refused.reason.clone())),
        _ => Ok((StatusCode::ACCEPTED, axum::Json(scanned))),
    }
}

/// Lists the books on the shelf, newest first.
#[utoipa::path(get, path = "/api/shelf/books", tag = "shelf", params(Page),
    responses((status = 200, body = BooksPage), (status = 400), (status = 404)))]
pub(crate) async fn books(
    Service(shelf): Service<Shelf>,
    Query(page): Query<Page>,
) -> Result<axum::Json<BooksPage>, Error> {
    let limit = checked_limit(page.limit)?;
    let books = shelf.books(page.after.as_deref(), limit).await?;
    let unknown =
        || Error::invalid("invalid-after", "after is neither a next that was given nor on the shelf");
    books.map(axum::Json).ok_or_else(unknown)
}

/// One book.
#[utoipa::path(get, path = "/api/shelf/books/{isbn}", tag = "shelf", params(("isbn" = String, Path)),
    responses((status = 200, body = BookView), (status = 400), (status = 404)))]
pub(crate) async fn book(
    Service(shelf): Service<Shelf>,
    Path(isbn): Path<String>,
) -> Result<axum::Json<BookView>, Error> {
    let book = shelf.book(parsed(&isbn)?).await?;
    book.map(axum::Json).ok_or_else(|| Error::missing("this book is not on the shelf"))
}

/// Takes a book off the shelf. Removing what is not there is no error.
#[utoipa::path(delete, path = "/api/shelf/books/{isbn}", tag = "shelf", params(("isbn" = String, Path)),
    responses((status = 200, body = RemovedBook), (status = 400), (status = 404)))]
pub(crate) async fn remove(
    Service(shelf): Service<Shelf>,
    Path(isbn): Path<String>,
) -> Result<axum::Json<RemovedBook>, Error> {
    let isbn = parsed(&isbn)?;
    let deleted = shelf.remove(isbn).await?;
    Ok(axum::Json(RemovedBook { isbn: isbn.to_string(), deleted }))
}

/// Saves a search and has it looked for. Saving it again has it looked for again.
#[utoipa::path(post, path = "/api/shelf/search", tag = "shelf", request_body = SearchBody,
    responses((status = 202, body = SearchView), (status = 400), (status = 404)))]
pub(crate) async fn save_search(
    Service(shelf): Service<Shelf>,
    Json(body): Json<SearchBody>,
) -> Result<(StatusCode, axum::Json<SearchView>), Error> {
    let saved = shelf.save_search(&body.search()?).await.map_err(refused)?;
    Ok((StatusCode::ACCEPTED, axum::Json(saved)))
}

/// Lists the saved searches.
#[utoipa::path(get, path = "/api/shelf/searches", tag = "shelf",
    responses((status = 200, body = SearchList), (status = 404)))]
pub(crate) async fn searches(Service(shelf): Service<Shelf>) -> Result<axum::Json<SearchList>, Error> {
    Ok(axum::Json(SearchList { searches: shelf.searches().await? }))
}

/// A saved search with the books it found.
#[utoipa::path(get, path = "/api/shelf/searches/{id}", tag = "shelf", params(("id" = i64, Path), FindsRange),
    responses((status = 200, body = FindsPage), (status = 400), (status = 404)))]
pub(crate) async fn collection(
    Service(shelf): Service<Shelf>,
    Path(id): Path<i64>,
    Query(range): Query<FindsRange>,
) -> Result<axum::Json<FindsPage>, Error> {
    let limit = checked_limit(range.limit)?;
    let page = shelf.collection(id, range.after, limit).await?;
    page.map(axum::Json).ok_or_else(no_search)
}

/// Makes a saved search look for something else.
#[utoipa::path(put, path = "/api/shelf/searches/{id}", tag = "shelf", params(("id" = i64, Path)),
    request_body = SearchBody, responses((status = 202, body = SearchView), (status = 400), (status = 404)))]
pub(crate) async fn change_search(
    Service(shelf): Service<Shelf>,
    Path(id): Path<i64>,
    Json(body): Json<SearchBody>,
) -> Result<(StatusCode, axum::Json<SearchView>), Error> {
    let changed = shelf.change_search(id, &body.search()?).await.map_err(refused)?;
    Ok((StatusCode::ACCEPTED, axum::Json(changed.ok_or_else(no_search)?)))
}

/// Forgets a saved search and what it found. Removing what is not there is no error.
#[utoipa::path(delete, path = "/api/shelf/searches/{id}", tag = "shelf", params(("id" = i64, Path)),
    responses((status = 200, body = RemovedSearch), (status = 404)))]
pub(crate) async fn remove_search(
    Service(shelf): Service<Shelf>,
    Path(id): Path<i64>,
) -> Result<axum::Json<RemovedSearch>, Error> {
    let deleted = shelf.remove_search(id).await?;
    Ok(axum::Json(RemovedSearch { id, deleted }))
}

impl SearchBody {
    fn search(self) -> Result<Search, Error> {
        let date = |name, text: Option<String>| {
            let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(None) };
            let wrong =
                || Error::invalid("invalid-search", format!("{name} must be a date such as 2024 or 2024-05"));
            syncline_books::book::Published::parse(&text).map(Some).ok_or_else(wrong)
        };
        // An empty field of a form is no condition.
        let term =
            |text: Option<String>| text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        Ok(Search {
            isbn: None,
            any: term(self.any),
            title: term(self.title),
            creator: term(self.creator),
            publisher: term(self.publisher),
            ndc: term(self.ndc),
            from: date("from", self.from)?,
            until: date("until", self.until)?,
        })
    }
}

fn parsed(isbn: &str) -> Result<Isbn13, Error> {
    Isbn13::parse(isbn).map_err(|error| Error::invalid("invalid-isbn", format!("{error}; {}", error.hint())))
}

fn checked_limit(limit: Option<usize>) -> Result<usize, Error> {
    let limit = limit.unwrap_or(PAGE);
    if (1..=LIST_MAX).contains(&limit) {
        return Ok(limit);
    }
    Err(Error::invalid("invalid-limit", format!("limit must be from 1 to {LIST_MAX}")))
}

fn no_search() -> Error {
    Error::missing("there is no such saved search")
}

fn refused(refused: crate::Refused) -> Error {
    match refused {
        crate::Refused::Queue(error) => error.into(),
        other => Error::invalid("invalid-search", other.to_string()),
    }
}
