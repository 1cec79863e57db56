//! NDL Search's stand-in: SRU in, DC-NDL in XML out, page by page.
//!
//! A search by ISBN finds any book the catalogue knows; a search by words looks through its list and comes back in pages
//! no larger than the settings allow, each naming the position of the next.

mod cql;

use std::fmt::Write as _;

use serde::Deserialize;
use syncline_books::{Book, Isbn13};

use super::answer::Answer;
use super::catalogue::{Catalogue, LISTED};
use super::markup::escaped;
use cql::Query;

const NAMESPACES: &str = "xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\" \
    xmlns:rdfs=\"http://www.w3.org/2000/01/rdf-schema#\" xmlns:dc=\"http://purl.org/dc/elements/1.1/\" \
    xmlns:dcterms=\"http://purl.org/dc/terms/\" xmlns:dcndl=\"http://ndl.go.jp/dcndl/terms/\" \
    xmlns:foaf=\"http://xmlns.com/foaf/0.1/\"";

/// What is asked for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Parameters {
    query: Option<String>,
    start_record: Option<u32>,
    maximum_records: Option<u32>,
}

impl Parameters {
    /// What the call is about, for the ledger.
    pub(super) fn key(&self) -> String {
        format!("{} @{}", self.query.as_deref().unwrap_or_default(), self.start_record.unwrap_or(1))
    }
}

/// Answers a search.
pub(super) fn answer(catalogue: &Catalogue, parameters: &Parameters, page_records: u32) -> Answer {
    let text = parameters.query.as_deref().unwrap_or_default();
    let query = match Query::parse(text) {
        Ok(query) => query,
        Err(refused) => return diagnostic(refused.number, &refused.details, refused.message),
    };
    let books = found(catalogue, &query);
    if books.is_empty() {
        return diagnostic(1, "An error occurred", "Record does not exist");
    }
    let first = parameters.start_record.unwrap_or(1).max(1) as usize;
    if first > books.len() {
        return diagnostic(61, &first.to_string(), "First record position out of range");
    }
    let records = parameters.maximum_records.unwrap_or(page_records).clamp(1, page_records.max(1)) as usize;
    Answer::xml(page(&books, first, records))
}

fn found(catalogue: &Catalogue, query: &Query) -> Vec<Book> {
    let known = |isbn: Isbn13| {
        let entry = catalogue.entry(isbn);
        (entry.in_library && query.matches(&entry.book)).then_some(entry.book)
    };
    match query.isbn() {
        Some(isbn) => known(isbn).into_iter().collect(),
        None => (0..LISTED).filter_map(|n| known(catalogue.isbn(n))).collect(),
    }
}

fn page(books: &[Book], first: usize, records: usize) -> String {
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<searchRetrieveResponse xmlns=\"http://www.loc.gov/zing/srw/\">\n\
         <version>1.2</version>\n<numberOfRecords>{}</numberOfRecords>\n",
        books.len()
    );
    let next = first + records;
    if next <= books.len() {
        let _ = writeln!(xml, "<nextRecordPosition>{next}</nextRecordPosition>");
    }
    xml.push_str("<records>\n");
    for (index, book) in books.iter().enumerate().skip(first - 1).take(records) {
        let _ = writeln!(
            xml,
            "<record><recordSchema>info:srw/schema/1/dc-v1.1</recordSchema><recordPacking>xml</recordPacking>\
             <recordData>{}</recordData><recordPosition>{}</recordPosition></record>",
            record(book),
            index + 1
        );
    }
    xml.push_str("</records>\n</searchRetrieveResponse>\n");
    xml
}

/// A record in the nested shape, with everything the library writes beside what is wanted.
fn record(book: &Book) -> String {
    let mut fields = format!(
        "<dcterms:identifier rdf:datatype=\"http://ndl.go.jp/dcndl/terms/JPNO\">{0}</dcterms:identifier>\
         <dcterms:identifier rdf:datatype=\"http://ndl.go.jp/dcndl/terms/ISBN\">{1}</dcterms:identifier>\
         <dcterms:title>{2}</dcterms:title>{3}",
        &book.isbn.to_string()[4..12],
        hyphened(book.isbn),
        escaped(&book.title),
        described("dc:title", &book.title, book.title_reading.as_deref()),
    );
    if let Some(volume) = &book.volume {
        fields += &described("dcndl:volume", &format!("[{volume}]"), Some(volume));
    }
    if let Some(series) = &book.series {
        fields += &described("dcndl:seriesTitle", series, None);
    }
    for author in &book.authors {
        // The authority file sorts by family name and adds the year of birth.
        fields += &agent("dcterms:creator", &format!("{}, 1970-", author.replacen(' ', ", ", 1)));
        let _ = write!(fields, "<dc:creator>{} 著</dc:creator>", escaped(&author.replace(' ', "")));
    }
    if let Some(publisher) = &book.publisher {
        fields += &agent("dcterms:publisher", publisher);
    }
    if let Some(published) = book.published {
        let dotted = published.to_string().replace('-', ".");
        let _ = write!(
            fields,
            "<dcterms:date>{dotted}</dcterms:date>\
             <dcterms:issued rdf:datatype=\"http://purl.org/dc/terms/W3CDTF\">{published}</dcterms:issued>"
        );
    }
    if let Some(ndc) = &book.ndc {
        let _ = write!(
            fields,
            "<dcterms:subject rdf:resource=\"http://id.ndl.go.jp/class/ndc10/{}\"/>",
            escaped(ndc)
        );
    }
    for (name, text) in [("dcterms:extent", &book.extent), ("dcndl:price", &book.price)] {
        if let Some(text) = text {
            let _ = write!(fields, "<{name}>{}</{name}>", escaped(text));
        }
    }
    format!("<rdf:RDF {NAMESPACES}><dcndl:BibResource>{fields}</dcndl:BibResource></rdf:RDF>")
}

fn described(name: &str, value: &str, reading: Option<&str>) -> String {
    let reading = reading
        .map(|reading| format!("<dcndl:transcription>{}</dcndl:transcription>", escaped(reading)))
        .unwrap_or_default();
    let value = escaped(value);
    format!("<{name}><rdf:Description><rdf:value>{value}</rdf:value>{reading}</rdf:Description></{name}>")
}

fn agent(name: &str, value: &str) -> String {
    format!("<{name}><foaf:Agent><foaf:name>{}</foaf:name></foaf:Agent></{name}>", escaped(value))
}

/// As the library prints it; where exactly the hyphens are is of no importance to a reader.
fn hyphened(isbn: Isbn13) -> String {
    let digits = isbn.to_string();
    format!("{}-{}-{}-{}-{}", &digits[..3], &digits[3..4], &digits[4..7], &digits[7..12], &digits[12..])
}

fn diagnostic(number: u32, details: &str, message: &str) -> Answer {
    Answer::xml(format!(
        "<searchRetrieveResponse xmlns=\"http://www.loc.gov/zing/srw/\"><version>1.2</version><diagnostics>\
         <diagnostic xmlns=\"http://www.loc.gov/zing/srw/diagnostic/\"><uri>info:srw/diagnostic/1/{number}</uri>\
         <details>{}</details><message>{message}</message></diagnostic></diagnostics></searchRetrieveResponse>",
        escaped(details)
    ))
}
