//! Answers of the three APIs, realistic and broken, and what is read from them.
//!
//! Each file in `corpus/` is a body as it came over the wire; the file of the same name that ends in
//! `.expect.json` is all that must be read from it. All books are invented.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use syncline_books::answer::{Answer, Error};
use syncline_books::ndl::{self, Cap, End, Paging, Search, Step};
use syncline_books::{Isbn13, google, rakuten};
use syncline_core::time::Timestamp;

/// The book that most of the corpus is about.
const TIDE: &str = "9784999990016";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn tide() -> Isbn13 {
    TIDE.parse().expect("a valid ISBN")
}

/// The status in a name such as `quota_429.json`; 200 where there is none.
fn status(name: &str) -> u16 {
    name.split(['_', '.']).find_map(|part| part.parse().ok().filter(|status| *status >= 400)).unwrap_or(200)
}

fn failure(error: &Error) -> Value {
    json!({ "error": error.to_string(), "retryable": error.retryable() })
}

fn read_ndl(answer: &Answer<'_>) -> Value {
    match ndl::read_page(&Search::of_isbn(tide()), answer, Timestamp::ZERO) {
        Ok(page) => json!({
            "books": page.books, "total": page.total, "next": page.next,
            "records": page.records, "skipped": page.skipped,
        }),
        Err(error) => failure(&error),
    }
}

fn read_google(answer: &Answer<'_>) -> Value {
    google::read(tide(), answer, Timestamp::ZERO)
        .map_or_else(|error| failure(&error), |book| json!({ "book": book }))
}

fn read_rakuten(answer: &Answer<'_>) -> Value {
    rakuten::read(tide(), answer, Timestamp::ZERO)
        .map_or_else(|error| failure(&error), |book| json!({ "book": book }))
}

/// Reads every file of one API and compares; returns how many there were.
fn compare(api: &str, read: impl Fn(&Answer<'_>) -> Value) -> usize {
    let folder = folder().join(api);
    let names: BTreeSet<String> = fs::read_dir(&folder)
        .expect("the corpus is there")
        .map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"))
        .filter(|name| !name.ends_with(".expect.json"))
        .collect();
    for name in &names {
        let body = fs::read(folder.join(name)).expect("readable");
        let found = read(&Answer::new(status(name), &body));
        let stem = name.split_once('.').map_or(name.as_str(), |(stem, _)| stem);
        let expected = fs::read_to_string(folder.join(format!("{stem}.expect.json"))).unwrap_or_default();
        let expected: Value = serde_json::from_str(&expected).unwrap_or_default();
        let shown = serde_json::to_string_pretty(&found).expect("JSON");
        assert_eq!(found, expected, "{api}/{name} was read as {shown}");
    }
    names.len()
}

#[test]
fn bk_04_every_answer_of_the_library_is_read_as_expected() {
    assert_eq!(compare("ndl", read_ndl), 22);
}

#[test]
fn bk_04_every_answer_of_google_is_read_as_expected() {
    assert_eq!(compare("google", read_google), 15);
}

#[test]
fn bk_04_every_answer_of_rakuten_is_read_as_expected() {
    assert_eq!(compare("rakuten", read_rakuten), 12);
}

fn page(name: &str, search: &Search) -> ndl::Page {
    let body = fs::read(folder().join("ndl").join(name)).expect("readable");
    ndl::read_page(search, &Answer::new(200, &body), Timestamp::ZERO).expect("a page")
}

#[test]
fn bk_01_a_record_with_several_isbns_is_the_book_that_was_looked_for() {
    let isbns =
        |search: &Search| page("rdf_page.xml", search).books.iter().map(|book| book.isbn).collect::<Vec<_>>();
    let kite: Isbn13 = "9784999990054".parse().unwrap();
    assert!(isbns(&Search::of_isbn(kite)).contains(&kite));
    assert!(!isbns(&Search::default()).contains(&kite));
}

#[test]
fn qu_26_a_library_that_stands_still_is_not_asked_for_ever() {
    let mut paging = Paging::new(Cap::default());
    let page = page("standing_still.xml", &Search::default());
    let step = paging.after(page.next, page.records);
    assert_eq!(step, Step::Done(End::NotAdvancing { start_record: 1, next: 1 }));
}

/// The library ends its last page with position 0, which passed for a page that does not advance, with a warning each time.
#[test]
fn bk_02_position_zero_is_the_end() {
    let mut paging = Paging::new(Cap::default());
    let page = page("last_page.xml", &Search::default());
    assert_eq!(paging.after(page.next, page.records), Step::Done(End::Complete));
}

#[test]
fn bk_02_pages_lead_to_the_next() {
    let mut paging = Paging::new(Cap::default());
    let page = page("rdf_page.xml", &Search::default());
    assert_eq!(paging.after(page.next, page.records), Step::Next { start_record: 6 });
}

#[test]
fn bk_04_nesting_without_end_is_refused() {
    for depth in [100, 10_000, 100_000] {
        let body = "<searchRetrieveResponse>".to_owned()
            + &"<a>".repeat(depth)
            + &"</a>".repeat(depth)
            + "</searchRetrieveResponse>";
        let found = read_ndl(&Answer::new(200, body.as_bytes()));
        assert_eq!(found["error"], "the answer is malformed: elements are nested deeper than 64", "{depth}");
        let body = r#"{"items":"#.to_owned() + &"[".repeat(depth) + &"]".repeat(depth) + "}";
        let found = read_google(&Answer::new(200, body.as_bytes()));
        let deep = found["error"].as_str().is_some_and(|error| error.contains("recursion limit"));
        assert!(deep || depth < 128, "{found}");
    }
}

#[test]
fn bk_04_more_records_and_nodes_than_a_page_can_have_are_bounded() {
    let record = "<record><recordData><b xmlns:t='http://purl.org/dc/terms/' \
        xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#'><t:title>a</t:title>\
        <t:identifier r:datatype='http://ndl.go.jp/dcndl/terms/ISBN'>9784999990016</t:identifier>\
        </b></recordData></record>";
    let response = |inner: String| format!("<searchRetrieveResponse>{inner}</searchRetrieveResponse>");
    let body = response(format!("<records>{}</records>", record.repeat(700)));
    let page =
        ndl::read_page(&Search::default(), &Answer::new(200, body.as_bytes()), Timestamp::ZERO).unwrap();
    assert_eq!((page.books.len(), page.records, page.skipped), (ndl::RECORDS_MAX, 700, 200));

    let body = response("<a/>".repeat(300_000));
    assert_eq!(
        read_ndl(&Answer::new(200, body.as_bytes()))["error"],
        "the answer is malformed: nodes limit reached"
    );
}
