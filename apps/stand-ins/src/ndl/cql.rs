//! The part of the query language that is spoken to the library: quoted terms that must all hold.

use syncline_books::book::Published;
use syncline_books::{Book, Isbn13};

/// Most terms of one query.
const TERMS_MAX: usize = 16;

/// What to look for.
pub(super) struct Query(Vec<(Index, String)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Index {
    Isbn,
    Anywhere,
    Title,
    Creator,
    Publisher,
    Ndc,
    From,
    Until,
    MediaType,
}

/// Why a query is not answered, as SRU numbers it.
pub(super) struct Refused {
    pub(super) number: u32,
    pub(super) details: String,
    pub(super) message: &'static str,
}

impl Query {
    /// Reads `index="term" AND index="term"`.
    pub(super) fn parse(text: &str) -> Result<Self, Refused> {
        let syntax = || Refused { number: 10, details: text.to_owned(), message: "Query syntax error" };
        let (mut terms, mut rest) = (Vec::new(), text.trim());
        loop {
            let (index, after) = rest.split_once("=\"").ok_or_else(syntax)?;
            let (term, after) = unquoted(after).ok_or_else(syntax)?;
            terms.push((Index::named(index.trim())?, term));
            rest = after.trim_start();
            if rest.is_empty() {
                return Ok(Self(terms));
            }
            rest = rest.strip_prefix("AND ").ok_or_else(syntax)?;
            if terms.len() == TERMS_MAX {
                return Err(syntax());
            }
        }
    }

    /// The one book that is meant, if it is one.
    pub(super) fn isbn(&self) -> Option<Isbn13> {
        let (_, term) = self.0.iter().find(|(index, _)| *index == Index::Isbn)?;
        Isbn13::parse(term).ok()
    }

    /// Whether all terms hold for `book`.
    pub(super) fn matches(&self, book: &Book) -> bool {
        self.0.iter().all(|(index, term)| index.holds(term, book))
    }
}

impl Index {
    fn named(name: &str) -> Result<Self, Refused> {
        Ok(match name {
            "isbn" => Self::Isbn,
            "anywhere" => Self::Anywhere,
            "title" => Self::Title,
            "creator" => Self::Creator,
            "publisher" => Self::Publisher,
            "ndc" => Self::Ndc,
            "from" => Self::From,
            "until" => Self::Until,
            "mediatype" => Self::MediaType,
            _ => return Err(Refused { number: 16, details: name.to_owned(), message: "Unsupported index" }),
        })
    }

    fn holds(self, term: &str, book: &Book) -> bool {
        let in_creator =
            || book.authors.iter().any(|author| author.replace(' ', "").contains(&term.replace(' ', "")));
        let in_publisher = || book.publisher.as_deref().is_some_and(|publisher| publisher.contains(term));
        match self {
            Self::Isbn => Isbn13::parse(term) == Ok(book.isbn),
            Self::Anywhere => book.title.contains(term) || in_creator() || in_publisher(),
            Self::Title => book.title.contains(term),
            Self::Creator => in_creator(),
            Self::Publisher => in_publisher(),
            Self::Ndc => book.ndc.as_deref().is_some_and(|ndc| ndc.starts_with(term)),
            // Texts of dates sort like dates; a month belongs to its year on either side.
            Self::From => {
                dates(term, book).is_some_and(|(date, bound)| date >= bound || date.starts_with(&bound))
            }
            Self::Until => {
                dates(term, book).is_some_and(|(date, bound)| date <= bound || date.starts_with(&bound))
            }
            Self::MediaType => term == "books",
        }
    }
}

fn dates(term: &str, book: &Book) -> Option<(String, String)> {
    Some((book.published?.to_string(), Published::parse(term)?.to_string()))
}

/// The text up to the closing quotation mark, its escapes undone, and what follows.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut term = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((term, &text[at + 1..])),
            '\\' => term.push(characters.next()?.1),
            _ => term.push(character),
        }
    }
    None
}
