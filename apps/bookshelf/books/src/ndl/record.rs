//! One record of the catalogue, in DC-NDL or plain Dublin Core.
//!
//! The same facts come in two ways of writing: nested (`dc:title/rdf:Description/rdf:value`, people as
//! `foaf:Agent`) in the RDF shape, flat in the simple ones. A field is looked for in the order of preference
//! and read the same way in both: its inner value if it has one, else its own text.

use roxmltree::Node;

use crate::book::{AUTHORS_MAX, Book, Published};
use crate::isbn::Isbn13;
use crate::text::tidy;

const DC: &str = "http://purl.org/dc/elements/1.1/";
const DCTERMS: &str = "http://purl.org/dc/terms/";
const DCNDL: &str = "http://ndl.go.jp/dcndl/terms/";
const FOAF: &str = "http://xmlns.com/foaf/0.1/";
const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
const XSI: &str = "http://www.w3.org/2001/XMLSchema-instance";

/// Words that say what somebody did for the book, after the name and a space.
const ROLES: [&str; 16] = [
    "著", "共著", "編著", "編", "共編", "編集", "訳", "共訳", "監修", "監訳", "作", "原作", "絵", "画", "文",
    "写真",
];

/// Reads the book under `data`. `None` if the record has no title or no valid ISBN. If `wanted` is among its
/// ISBNs, the book goes by that one, else by the first.
pub(super) fn read(data: Node<'_, '_>, wanted: Option<Isbn13>) -> Option<Book> {
    let bib = resource(data)?;
    let isbns: Vec<Isbn13> = fields(bib, &[(DCTERMS, "identifier"), (DC, "identifier")])
        .filter(|node| is_of_kind(*node, "ISBN"))
        .filter_map(|node| Isbn13::parse(node.text()?).ok())
        .collect();
    let isbn = wanted.filter(|wanted| isbns.contains(wanted)).or(isbns.first().copied())?;
    let titles = [(DC, "title"), (DCNDL, "title"), (DCTERMS, "title")];
    Some(Book {
        title: first(bib, &titles)?,
        title_reading: fields(bib, &titles[..2])
            .find_map(|node| inner(node, (DCNDL, "transcription")))
            .or_else(|| first(bib, &[(DCNDL, "titleTranscription")])),
        volume: first(bib, &[(DCNDL, "volume")]).and_then(|volume| tidy(unbracketed(&volume))),
        series: first(bib, &[(DCNDL, "seriesTitle")]),
        authors: authors(bib),
        publisher: first(bib, &[(DCTERMS, "publisher"), (DC, "publisher")]),
        published: fields(bib, &[(DCTERMS, "issued"), (DCTERMS, "date"), (DC, "date")])
            .find_map(|node| Published::parse(node.text()?)),
        extent: first(bib, &[(DCTERMS, "extent"), (DC, "extent")]),
        price: first(bib, &[(DCNDL, "price")]),
        ndc: ndc(bib),
        ..Book::new(isbn)
    })
}

/// The element whose children are the record's fields: the one that has a title.
fn resource<'a, 'input>(data: Node<'a, 'input>) -> Option<Node<'a, 'input>> {
    data.descendants()
        .filter(Node::is_element)
        .find(|node| node.children().any(|child| child.tag_name().name() == "title" && !is_in(child, RDF)))
}

/// The children of `bib` with one of the names, in the order of the names.
fn fields<'a, 'input>(
    bib: Node<'a, 'input>,
    names: &[(&'static str, &'static str)],
) -> impl Iterator<Item = Node<'a, 'input>> {
    names.iter().flat_map(move |name| bib.children().filter(move |child| child.has_tag_name(*name)))
}

fn first(bib: Node<'_, '_>, names: &[(&'static str, &'static str)]) -> Option<String> {
    fields(bib, names).find_map(value)
}

/// The value of a field, nested or flat.
fn value(field: Node<'_, '_>) -> Option<String> {
    inner(field, (RDF, "value")).or_else(|| inner(field, (FOAF, "name"))).or_else(|| tidy(field.text()?))
}

fn inner(field: Node<'_, '_>, name: (&str, &str)) -> Option<String> {
    field.descendants().skip(1).find(|node| node.has_tag_name(name)).and_then(|node| tidy(node.text()?))
}

/// People as the authority file names them, or else as the title page does.
fn authors(bib: Node<'_, '_>) -> Vec<String> {
    let named = |namespace, read: fn(&str) -> String| -> Vec<String> {
        let mut authors = Vec::new();
        for author in fields(bib, &[(namespace, "creator")]).filter_map(value).map(|name| read(&name)) {
            if authors.len() < AUTHORS_MAX && !author.is_empty() && !authors.contains(&author) {
                authors.push(author);
            }
        }
        authors
    };
    let from_authority = named(DCTERMS, personal_name);
    if from_authority.is_empty() {
        named(DC, |name| personal_name(without_role(name)))
    } else {
        from_authority
    }
}

/// `湊, さわこ, 1980-` is how a catalogue sorts 湊 さわこ: the years go, and so does the comma of names that are
/// not written in Latin letters.
fn personal_name(name: &str) -> String {
    let is_years = |part: &&str| part.starts_with(|first: char| first.is_ascii_digit()) && part.contains('-');
    let parts: Vec<&str> = name.split(", ").filter(|part| !is_years(part)).collect();
    let separator = if name.chars().any(|character| character.is_ascii_alphabetic()) { ", " } else { " " };
    parts.join(separator)
}

fn without_role(name: &str) -> &str {
    match name.rsplit_once(' ') {
        Some((name, role)) if ROLES.contains(&role) => name,
        _ => name,
    }
}

/// Square brackets mark what the cataloguer supplied.
fn unbracketed(text: &str) -> &str {
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text)
}

/// The class number, from the link of the RDF shape or the typed text of the simple one.
fn ndc(bib: Node<'_, '_>) -> Option<String> {
    fields(bib, &[(DCTERMS, "subject"), (DC, "subject")]).find_map(|node| {
        let linked = node
            .attribute((RDF, "resource"))
            .and_then(|link| link.split_once("/class/ndc"))
            .and_then(|(_, edition_and_class)| edition_and_class.split_once('/'));
        match linked {
            Some((_, class)) => tidy(class),
            None => is_of_kind(node, "NDC").then(|| tidy(node.text()?)).flatten(),
        }
    })
}

/// Whether an identifier or subject is of a kind such as `ISBN`: `rdf:datatype=".../ISBN"` or
/// `xsi:type="dcndl:ISBN"`. The edition of the classification may follow its name.
fn is_of_kind(node: Node<'_, '_>, kind: &str) -> bool {
    let name = match (node.attribute((RDF, "datatype")), node.attribute((XSI, "type"))) {
        (Some(datatype), _) => datatype.strip_prefix(DCNDL),
        (None, Some(kind)) => kind.split_once(':').map(|(_, name)| name),
        (None, None) => None,
    };
    name.and_then(|name| name.strip_prefix(kind))
        .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_in(node: Node<'_, '_>, namespace: &str) -> bool {
    node.tag_name().namespace() == Some(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bk_04_names_are_written_as_people_write_them() {
        for (catalogued, written) in [
            ("湊, さわこ, 1980-", "湊 さわこ"),
            ("湊, さわこ", "湊 さわこ"),
            ("葉山, 汐, 1901-1975", "葉山 汐"),
            ("湊さわこ", "湊さわこ"),
            ("Marlow, Edith, 1950-", "Marlow, Edith"),
            ("汐見図書館", "汐見図書館"),
        ] {
            assert_eq!(personal_name(catalogued), written);
        }
        assert_eq!(without_role("湊さわこ 著"), "湊さわこ");
        assert_eq!(without_role("湊 さわこ"), "湊 さわこ");
    }
}
