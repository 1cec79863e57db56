//! Rakuten Books' stand-in: items of an ISBN, in JSON. Without an application id it refuses, as the real one does.

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use syncline_books::Isbn13;

use super::answer::Answer;
use super::catalogue::{Catalogue, Entry, Held, rakuten_picture};

/// What is asked for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Parameters {
    application_id: Option<String>,
    isbn: Option<String>,
}

impl Parameters {
    /// What the call is about, for the ledger.
    pub(super) fn key(&self) -> String {
        self.isbn.clone().unwrap_or_default()
    }
}

/// Answers a search.
pub(super) fn answer(catalogue: &Catalogue, parameters: &Parameters, origin: &str) -> Answer {
    if parameters.application_id.as_deref().is_none_or(str::is_empty) {
        let body = json!({ "error": "wrong_parameter", "error_description": "specify valid applicationId" });
        return Answer::json(StatusCode::BAD_REQUEST, &body);
    }
    let isbn = parameters.isbn.as_deref().and_then(|isbn| Isbn13::parse(isbn).ok());
    let entry = isbn.map(|isbn| catalogue.entry(isbn)).filter(|entry| entry.rakuten != Held::Nothing);
    let items: Vec<Value> = entry.iter().map(|entry| item(entry, origin)).collect();
    let count = items.len();
    let body = json!({ "count": count, "page": 1, "first": count, "last": count, "hits": count, "carrier": 0,
        "pageCount": count, "Items": items, "GenreInformation": [] });
    Answer::json(StatusCode::OK, &body)
}

fn item(entry: &Entry, origin: &str) -> Value {
    let book = &entry.book;
    let picture = |pixels| match entry.rakuten {
        Held::Picture => rakuten_picture(origin, book.isbn, pixels),
        // Where there is none, the shop shows a grey one.
        _ => format!("{origin}/rakuten/cabinet/noimage_01.gif?_ex={pixels}x{pixels}"),
    };
    let published = book.published.map(|date| format!("{}年{:02}月", date.year(), date.month().unwrap_or(1)));
    json!({
        "title": book.title,
        "titleKana": book.title_reading,
        "subTitle": "",
        "seriesName": book.series,
        "author": book.authors.join("/"),
        "publisherName": book.publisher,
        "salesDate": published,
        "itemPrice": 814,
        "isbn": book.isbn.to_string(),
        "smallImageUrl": picture(64),
        "mediumImageUrl": picture(120),
        "largeImageUrl": picture(200),
        "availability": "1",
        "reviewAverage": "0.0",
    })
}
