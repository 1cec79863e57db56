//! Google Books' stand-in: volumes of an ISBN, in JSON.

use axum::http::StatusCode;
use serde_json::{Value, json};
use syncline_books::Isbn13;

use super::answer::Answer;
use super::catalogue::{Catalogue, Entry, Held, google_picture};

/// The ISBN in `isbn:9784…`, which is all that is ever asked for.
pub(super) fn isbn(query: &str) -> Option<Isbn13> {
    Isbn13::parse(query.strip_prefix("isbn:")?).ok()
}

/// Answers a search.
pub(super) fn answer(catalogue: &Catalogue, isbn: Option<Isbn13>, origin: &str) -> Answer {
    let entry = isbn.map(|isbn| catalogue.entry(isbn)).filter(|entry| entry.google != Held::Nothing);
    let body = match entry {
        Some(entry) => json!({ "kind": "books#volumes", "totalItems": 1, "items": [volume(&entry, origin)] }),
        None => json!({ "kind": "books#volumes", "totalItems": 0 }),
    };
    Answer::json(StatusCode::OK, &body)
}

fn volume(entry: &Entry, origin: &str) -> Value {
    let book = &entry.book;
    let ten = book.isbn.to_isbn10().map(|ten| json!({ "type": "ISBN_10", "identifier": ten }));
    let thirteen = json!({ "type": "ISBN_13", "identifier": book.isbn.to_string() });
    let identifiers: Vec<Value> = ten.into_iter().chain([thirteen]).collect();
    let mut info = json!({
        "title": book.title,
        "authors": book.authors,
        "publisher": book.publisher,
        "publishedDate": book.published.map(|date| date.to_string()),
        "industryIdentifiers": identifiers,
        "readingModes": { "text": false, "image": false },
        "printType": "BOOK",
        "language": "ja",
    });
    if entry.google == Held::Picture {
        info["imageLinks"] = json!({
            "smallThumbnail": google_picture(origin, book.isbn, 5),
            "thumbnail": google_picture(origin, book.isbn, 1),
        });
    }
    json!({ "kind": "books#volume", "id": book.isbn.to_string(), "volumeInfo": info })
}
