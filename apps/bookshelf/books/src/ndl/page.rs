//! One page of results: the SRU envelope around the records.
//!
//! The envelope is read by local names, because its namespace has changed before; the records decide for
//! themselves what they are. Document type declarations are refused, so there are no entities to expand and nothing to
//! fetch. Depth, attributes and namespaces are bounded before anything is parsed, and the number of nodes while it is:
//! the parser compares attributes and namespaces with each other, so that a few of them too many take minutes.

use std::borrow::Cow;

use roxmltree::{Document, Node, ParsingOptions};
use syncline_core::text::excerpt;
use syncline_core::time::Timestamp;

use super::search::Search;
use super::{bounds, record};
use crate::answer::{Answer, Error};
use crate::book::Book;

/// Most records that are read of one page: the most the library returns.
pub const RECORDS_MAX: usize = 500;

/// Deepest nesting of elements; the library's is about ten.
pub const XML_DEPTH_MAX: u16 = 64;

/// Most attributes of one element, namespaces included; the library's have about ten.
pub(super) const XML_ATTRIBUTES_MAX: usize = 64;

/// Most namespaces that are declared on an element and those around it.
pub(super) const XML_NAMESPACES_MAX: usize = 128;

/// Most nodes of one document; a full page has about 100,000.
pub const XML_NODES_MAX: u32 = 250_000;

/// What a page holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The books, in the order of the library.
    pub books: Vec<Book>,
    /// How many records there are in all, if the library said so.
    pub total: Option<u32>,
    /// Where the next page begins, if there is one.
    pub next: Option<u32>,
    /// Records on this page, readable or not.
    pub records: u32,
    /// Records of this page that are no books: without ISBN or title, or broken.
    pub skipped: u32,
}

/// Reads a page. Where a record has several ISBNs, the one that `search` looks for is taken.
pub fn read_page(search: &Search, answer: &Answer<'_>, wall: Timestamp) -> Result<Page, Error> {
    let text = answer.body(wall)?;
    let document = parse(&text)?;
    let root = document.root_element();
    if root.tag_name().name() != "searchRetrieveResponse" {
        return Err(Error::malformed(format_args!("<{}> is not an SRU response", root.tag_name().name())));
    }
    if let Some(refusal) = refusal(root) {
        return refusal;
    }
    let number = |name| child(root, name).and_then(|node| node.text()?.trim().parse().ok());
    let mut page = Page {
        total: number("numberOfRecords"),
        next: number("nextRecordPosition").filter(|next| *next > 0),
        ..Page::default()
    };
    for record in child(root, "records").into_iter().flat_map(|records| children(records, "record")) {
        page.records = page.records.saturating_add(1);
        let book = (page.books.len() < RECORDS_MAX).then(|| read_record(record, search)).flatten();
        match book {
            Some(book) => page.books.push(book),
            None => page.skipped = page.skipped.saturating_add(1),
        }
    }
    Ok(page)
}

/// A record's data stands there as elements, or as text that is XML once more.
fn read_record(record: Node<'_, '_>, search: &Search) -> Option<Book> {
    let data = child(record, "recordData")?;
    if data.first_element_child().is_some() {
        return record::read(data, search.isbn);
    }
    let text: Cow<'_, str> = match (data.text(), data.children().count()) {
        (Some(text), 1) => text.into(),
        _ => data.children().filter_map(|node| node.text()).collect::<String>().into(),
    };
    let document = parse(text.trim()).ok()?;
    record::read(document.root(), search.isbn)
}

/// A diagnostic instead of records. That nothing was found, or nothing more, is an empty page.
fn refusal(root: Node<'_, '_>) -> Option<Result<Page, Error>> {
    let diagnostic = child(child(root, "diagnostics")?, "diagnostic")?;
    let text = |name| child(diagnostic, name).and_then(|node| node.text()).map(str::trim).unwrap_or_default();
    let (uri, message) = (text("uri"), text("message"));
    let none_found = message.to_ascii_lowercase().starts_with("record does not exi");
    // "First record position out of range": the results end before this page.
    if none_found || uri == "info:srw/diagnostic/1/61" {
        return Some(Ok(Page::default()));
    }
    Some(Err(Error::Refused { detail: excerpt(&format!("{message} {} ({uri})", text("details"))) }))
}

fn parse(text: &str) -> Result<Document<'_>, Error> {
    let options =
        ParsingOptions { allow_dtd: false, nodes_limit: XML_NODES_MAX, ..ParsingOptions::default() };
    bounds::check(text)?;
    Document::parse_with_options(text, options).map_err(Error::malformed)
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &'static str) -> Option<Node<'a, 'input>> {
    children(node, name).next()
}

fn children<'a, 'input>(
    node: Node<'a, 'input>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    node.children().filter(move |child| child.is_element() && child.tag_name().name() == name)
}
