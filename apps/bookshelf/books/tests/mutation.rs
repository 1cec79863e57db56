//! The readers against answers that were damaged on the way: whatever arrives, nothing panics, and nothing
//! that is read exceeds its limits.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use syncline_books::answer::Answer;
use syncline_books::book::{AUTHORS_MAX, FIELD_MAX_CHARS};
use syncline_books::cover::URL_MAX_BYTES;
use syncline_books::ndl::{self, RECORDS_MAX, Search};
use syncline_books::{Book, Isbn13, google, rakuten};
use syncline_core::time::Timestamp;

/// Damaged copies made of each file.
const ROUNDS: usize = 400;

/// Bytes that mean something to a parser.
const MARKUP: &[u8] = b"<>&\"'{}[],:;/=0\\ \0\xff";

const STATUSES: [u16; 8] = [200, 200, 200, 200, 200, 403, 404, 429];

fn corpus() -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut paths: Vec<PathBuf> = ["ndl", "google", "rakuten"]
        .iter()
        .flat_map(|api| fs::read_dir(folder.join(api)).expect("a corpus"))
        .map(|file| file.expect("an entry").path())
        .filter(|path| !path.to_string_lossy().ends_with(".expect.json"))
        .collect();
    // The order of a folder differs between machines; the damage done must not.
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("readable")).filter(|body| !body.is_empty()).collect()
}

fn check_book(book: &Book) {
    let texts = [
        &book.title_reading,
        &book.volume,
        &book.series,
        &book.publisher,
        &book.extent,
        &book.price,
        &book.ndc,
    ];
    let texts = texts.into_iter().flatten().chain(&book.authors).chain([&book.title]);
    for text in texts {
        assert!(text.chars().count() <= FIELD_MAX_CHARS && !text.contains(char::is_control), "{text:?}");
    }
    assert!(book.authors.len() <= AUTHORS_MAX);
    if let Some(cover) = &book.cover {
        assert!(cover.as_str().len() <= URL_MAX_BYTES);
        assert!(cover.as_str().get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http")), "{cover}");
    }
}

/// Reads an answer as each of the three APIs; returns whether any of them found a book.
fn read(answer: &Answer<'_>, isbn: Isbn13) -> bool {
    let mut found = false;
    if let Ok(page) = ndl::read_page(&Search::of_isbn(isbn), answer, Timestamp::ZERO) {
        assert!(page.books.len() <= RECORDS_MAX);
        assert_eq!(page.records, page.skipped + page.books.len() as u32);
        page.books.iter().for_each(check_book);
        found |= !page.books.is_empty();
    }
    for book in [google::read(isbn, answer, Timestamp::ZERO), rakuten::read(isbn, answer, Timestamp::ZERO)] {
        if let Ok(Some(book)) = book {
            assert_eq!(book.isbn, isbn);
            check_book(&book);
            found = true;
        }
    }
    found
}

/// A small generator, the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    /// A copy of `body` with a flipped bit, a changed, missing or doubled stretch, a cut, or a piece of another.
    fn damage(&mut self, body: &[u8], other: &[u8]) -> Vec<u8> {
        let mut damaged = body.to_vec();
        for _ in 0..=self.below(2) {
            let at = self.below(damaged.len().max(1)).min(damaged.len());
            let to = (at + self.below(60)).min(damaged.len());
            match self.below(7) {
                0 | 1 if at < damaged.len() => damaged[at] ^= 1 << self.below(8),
                2 if at < damaged.len() => damaged[at] = MARKUP[self.below(MARKUP.len())],
                3 => drop(damaged.drain(at..to)),
                4 => {
                    let stretch = damaged[at..to].to_vec();
                    drop(damaged.splice(at..at, stretch));
                }
                5 => damaged.truncate(at),
                _ => {
                    let from = self.below(other.len());
                    let piece = &other[from..(from + 40).min(other.len())];
                    drop(damaged.splice(at..to, piece.iter().copied()));
                }
            }
        }
        damaged
    }
}

#[test]
fn bk_04_damaged_answers_never_panic_and_never_exceed_the_limits() {
    let (corpus, mut random) = (corpus(), Random(0x5eed));
    let isbn = "9784999990016".parse().unwrap();
    let (mut cases, mut found) = (0, 0);
    for body in &corpus {
        for round in 0..ROUNDS {
            let damaged = random.damage(body, &corpus[round % corpus.len()]);
            let answer =
                Answer { retry_after: Some("7"), ..Answer::new(STATUSES[round % STATUSES.len()], &damaged) };
            found += usize::from(read(&answer, isbn));
            cases += 1;
        }
    }
    println!("{cases} damaged answers, books found in {found}");
    assert!(cases >= 10_000, "{cases}");
    // Damage that is always fatal would test nothing but the first check.
    assert!(found >= 500, "{found} of {cases}");
}

#[test]
fn bk_04_every_cut_of_every_answer_is_survived() {
    let isbn = "9784999990016".parse().unwrap();
    for body in corpus() {
        let step = (body.len() / 100).max(1);
        for end in (0..body.len()).step_by(step) {
            read(&Answer::new(200, &body[..end]), isbn);
        }
    }
}

proptest! {
    #[test]
    fn bk_04_any_bytes_with_any_status_are_survived(
        body in prop::collection::vec(any::<u8>(), 0..300), status in any::<u16>(), header in any::<String>(),
    ) {
        let answer = Answer { retry_after: Some(&header), content_type: Some(&header), ..Answer::new(status, &body) };
        read(&answer, "9784999990016".parse().unwrap());
        let _ = ndl::read_thumbnail(&answer, Timestamp::ZERO);
    }
}
