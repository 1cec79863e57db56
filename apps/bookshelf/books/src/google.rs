//! Google Books: a book's data and cover by ISBN.
//!
//! The answer is a list of volumes that Google thinks are meant; only one that names the very ISBN is taken.
//! Unknown fields are ignored and wrong types count as absent: a volume gives what can be read of it.

use serde_json::Value;
use syncline_core::time::Timestamp;

use crate::answer::{Answer, Error};
use crate::book::{AUTHORS_MAX, Book, Published};
use crate::cover::CoverUrl;
use crate::isbn::Isbn13;
use crate::request::{Base, Request};
use crate::text::tidy;

/// Where the API lives.
pub const BASE_URL: &str = "https://www.googleapis.com";

/// Most volumes that are looked at: the most the API returns.
pub const VOLUMES_MAX: usize = 40;

/// Pictures by preference: large enough for a shelf, small enough to load by the hundred.
const PICTURES: [&str; 2] = ["thumbnail", "smallThumbnail"];

/// Asks for the volumes of one ISBN.
#[must_use]
pub fn request(base: &Base, isbn: Isbn13) -> Request {
    let query = [("q", format!("isbn:{isbn}"))];
    let query = query.each_ref().map(|(name, value)| (*name, value.as_str()));
    Request::get(base.endpoint(&["books", "v1", "volumes"]), &query, "application/json")
}

/// The volume of `isbn`, or `None` if Google has none.
pub fn read(isbn: Isbn13, answer: &Answer<'_>, wall: Timestamp) -> Result<Option<Book>, Error> {
    let text = match answer.body(wall) {
        // Google has two ways of saying that we ask too fast.
        Err(Error::Status { status: 403, .. }) if is_rate_limit(answer.body) => {
            return Err(Error::TooManyRequests { retry_after: None });
        }
        body => body?,
    };
    let value: Value = serde_json::from_str(&text).map_err(Error::malformed)?;
    let Value::Object(answer) = value else { return Err(Error::malformed("not a list of volumes")) };
    // Without hits there is a count of zero and no list.
    let volumes = match (answer.get("items"), answer.get("totalItems")) {
        (Some(Value::Array(volumes)), _) => volumes.as_slice(),
        (None, Some(_)) => &[],
        _ => return Err(Error::malformed("not a list of volumes")),
    };
    Ok(volumes
        .iter()
        .take(VOLUMES_MAX)
        .filter_map(|volume| volume.get("volumeInfo"))
        .find(|info| names(info, isbn))
        .map(|info| book(isbn, info)))
}

fn is_rate_limit(body: &[u8]) -> bool {
    let reasons = ["rateLimitExceeded", "userRateLimitExceeded", "dailyLimitExceeded", "quotaExceeded"];
    let error: Value = serde_json::from_slice(body).unwrap_or_default();
    let listed = error.pointer("/error/errors").and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(|error| error.get("reason")?.as_str()).any(|reason| reasons.contains(&reason))
}

fn names(info: &Value, isbn: Isbn13) -> bool {
    let identifiers = info.get("industryIdentifiers").and_then(Value::as_array).into_iter().flatten();
    identifiers
        .filter_map(|identifier| identifier.get("identifier")?.as_str())
        .any(|identifier| Isbn13::parse(identifier) == Ok(isbn))
}

fn book(isbn: Isbn13, info: &Value) -> Book {
    let text = |name| info.get(name).and_then(Value::as_str).and_then(tidy);
    let title = match (text("title"), text("subtitle")) {
        (Some(title), Some(subtitle)) => tidy(&format!("{title} : {subtitle}")),
        (title, _) => title,
    };
    let authors = info.get("authors").and_then(Value::as_array).into_iter().flatten();
    let pictures = info.get("imageLinks");
    Book {
        title: title.unwrap_or_default(),
        authors: authors.filter_map(Value::as_str).filter_map(tidy).take(AUTHORS_MAX).collect(),
        publisher: text("publisher"),
        published: text("publishedDate").and_then(|date| Published::parse(&date)),
        extent: info
            .get("pageCount")
            .and_then(Value::as_u64)
            .filter(|pages| *pages > 0)
            .map(|pages| format!("{pages}p")),
        cover: PICTURES.iter().find_map(|name| CoverUrl::parse(pictures?.get(name)?.as_str()?).ok()),
        ..Book::new(isbn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bk_04_the_request_names_the_isbn_alone() {
        let isbn = "9784000000079".parse().unwrap();
        let request = request(&Base::parse(BASE_URL).unwrap(), isbn);
        assert_eq!(request.url, "https://www.googleapis.com/books/v1/volumes?q=isbn%3A9784000000079");
        assert_eq!(request.headers, [("accept", "application/json")]);
    }
}
