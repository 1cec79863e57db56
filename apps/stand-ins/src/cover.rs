//! The picture of an invented book: its title on cloth of its own colour.

use std::fmt::Write as _;

use syncline_books::Book;

use super::catalogue::Dice;
use super::markup::escaped;

/// What the picture is, whatever its name ends with.
pub(super) const CONTENT_TYPE: &str = "image/svg+xml";

/// Characters on one line of a title.
const LINE_CHARS: usize = 6;

/// Draws the cover.
pub(super) fn draw(book: &Book) -> String {
    let mut dice = Dice::new(0, book.isbn);
    let (hue, band) = (dice.number(360), 60 + dice.number(180));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 200 290\" width=\"200\" height=\"290\">\
         <rect width=\"200\" height=\"290\" fill=\"hsl({hue} 38% 34%)\"/>\
         <rect y=\"{band}\" width=\"200\" height=\"14\" fill=\"hsl({hue} 55% 62%)\"/>\
         <rect width=\"9\" height=\"290\" fill=\"hsl({hue} 40% 24%)\"/>\
         <g fill=\"#fff\" font-family=\"serif\" text-anchor=\"middle\">"
    );
    let title: Vec<char> = book.title.chars().collect();
    for (line, characters) in title.chunks(LINE_CHARS).enumerate() {
        let text: String = characters.iter().collect();
        let _ = write!(
            svg,
            "<text x=\"104\" y=\"{}\" font-size=\"26\">{}</text>",
            44 + 34 * line,
            escaped(&text)
        );
    }
    let author = book.authors.first().map(String::as_str).unwrap_or_default();
    let _ = write!(svg, "<text x=\"104\" y=\"268\" font-size=\"16\">{}</text></g></svg>", escaped(author));
    svg
}
