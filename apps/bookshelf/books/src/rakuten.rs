//! Rakuten Books: a book's data and cover by ISBN.
//!
//! Needs an application id, which is part of every URL and is never printed. The answer comes in two layouts
//! (`formatVersion` 1 wraps each item once more); both are read.

use std::fmt;

use serde_json::Value;
use syncline_core::time::Timestamp;

use crate::answer::{Answer, Error};
use crate::book::{AUTHORS_MAX, Book, Published};
use crate::cover::CoverUrl;
use crate::isbn::Isbn13;
use crate::request::{Base, Request};
use crate::text::tidy;

/// Where the API lives.
pub const BASE_URL: &str = "https://app.rakuten.co.jp";

/// Most items that are looked at: the most the API returns.
pub const ITEMS_MAX: usize = 30;

/// Longest application id.
pub const APPLICATION_ID_MAX_BYTES: usize = 128;

/// Longest error code that is repeated.
const CODE_MAX_BYTES: usize = 40;

const PATH: [&str; 5] = ["services", "api", "BooksBook", "Search", "20170404"];

/// Pictures by preference. The large one is 200 pixels wide.
const PICTURES: [&str; 3] = ["largeImageUrl", "mediumImageUrl", "smallImageUrl"];

/// The name of the grey picture that stands for none.
const NO_PICTURE: &str = "noimage";

/// The key to the API. Its text is for the request alone.
#[derive(Clone, PartialEq, Eq)]
pub struct ApplicationId(String);

impl ApplicationId {
    /// Checks an application id from the configuration.
    pub fn parse(text: &str) -> Result<Self, InvalidApplicationId> {
        let text = text.trim();
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if text.is_empty() || text.len() > APPLICATION_ID_MAX_BYTES || !visible {
            return Err(InvalidApplicationId);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for ApplicationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApplicationId(..)")
    }
}

/// The application id is empty, too long, or has characters that none has. Does not repeat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("application id must be 1 to {APPLICATION_ID_MAX_BYTES} visible ASCII characters")]
pub struct InvalidApplicationId;

/// Asks for the items of one ISBN, sold out or not.
#[must_use]
pub fn request(base: &Base, application_id: &ApplicationId, isbn: Isbn13) -> Request {
    let query = [
        ("format", "json"),
        ("formatVersion", "2"),
        ("outOfStockFlag", "1"),
        ("isbn", &isbn.to_string()),
        ("applicationId", &application_id.0),
    ];
    Request::get(base.endpoint(&PATH), &query, "application/json")
}

/// The item of `isbn`, or `None` if Rakuten has none.
pub fn read(isbn: Isbn13, answer: &Answer<'_>, wall: Timestamp) -> Result<Option<Book>, Error> {
    let text = match answer.body(wall) {
        Err(Error::Status { status, .. }) => match (status, error_code(answer.body)) {
            // An answer, not a failure.
            (404, Some(code)) if code == "not_found" => return Ok(None),
            // The code alone: a page that repeats the URL would repeat the application id with it.
            (status, code) => return Err(Error::Status { status, detail: code.unwrap_or_default() }),
        },
        body => body?,
    };
    let value: Value = serde_json::from_str(&text).map_err(Error::malformed)?;
    let Some(items) = value.get("Items").or_else(|| value.get("items")).and_then(Value::as_array) else {
        return Err(Error::malformed("not a list of items"));
    };
    Ok(items
        .iter()
        .take(ITEMS_MAX)
        .map(|item| item.get("Item").or_else(|| item.get("item")).unwrap_or(item))
        .find(|item| {
            item.get("isbn").and_then(Value::as_str).is_some_and(|text| Isbn13::parse(text) == Ok(isbn))
        })
        .map(|item| book(isbn, item)))
}

/// The API's own word for what went wrong, such as `wrong_parameter`.
fn error_code(body: &[u8]) -> Option<String> {
    let error: Value = serde_json::from_slice(body).ok()?;
    let code = error.get("error")?.as_str()?;
    let is_word =
        code.len() <= CODE_MAX_BYTES && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_word.then(|| code.to_owned())
}

fn book(isbn: Isbn13, item: &Value) -> Book {
    let text = |name| item.get(name).and_then(Value::as_str).and_then(tidy);
    let title = match (text("title"), text("subTitle")) {
        (Some(title), Some(subtitle)) => tidy(&format!("{title} : {subtitle}")),
        (title, _) => title,
    };
    let authors = text("author").unwrap_or_default();
    Book {
        title: title.unwrap_or_default(),
        title_reading: text("titleKana"),
        series: text("seriesName"),
        authors: authors.split(['/', '／']).filter_map(tidy).take(AUTHORS_MAX).collect(),
        publisher: text("publisherName"),
        published: text("salesDate").and_then(|date| Published::parse(&date)),
        price: item
            .get("itemPrice")
            .and_then(Value::as_u64)
            .filter(|yen| *yen > 0)
            .map(|yen| format!("{yen}円")),
        cover: PICTURES.iter().find_map(|name| picture(item.get(name)?.as_str()?)),
        ..Book::new(isbn)
    }
}

fn picture(url: &str) -> Option<CoverUrl> {
    if url.contains(NO_PICTURE) { None } else { CoverUrl::parse(url).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bk_04_the_request_carries_the_application_id_and_never_prints_it() {
        let id = ApplicationId::parse(" canary-1234 ").unwrap();
        let isbn = "9784000000079".parse().unwrap();
        let request = request(&Base::parse(BASE_URL).unwrap(), &id, isbn);
        assert_eq!(
            request.url,
            "https://app.rakuten.co.jp/services/api/BooksBook/Search/20170404?format=json&formatVersion=2\
             &outOfStockFlag=1&isbn=9784000000079&applicationId=canary-1234"
        );
        assert!(!format!("{id:?} {request:?} {}", request.without_query()).contains("canary"));
        let echo = br#"{"error":"no such page: /?applicationId=canary-1234"}"#;
        for body in [echo.as_slice(), b"canary-1234"] {
            let error = read(isbn, &Answer::new(404, body), Timestamp::ZERO).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("canary"));
        }
        for bad in ["", "  ", "a b", "a\nb", "鍵", &"a".repeat(129)] {
            assert_eq!(ApplicationId::parse(bad), Err(InvalidApplicationId));
        }
    }
}
