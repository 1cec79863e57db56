//! What an XML text may hold, found out by reading it once from front to back.
//!
//! Guarantees: a text that passes has no element deeper, with more attributes or with more namespaces around it than the
//! bounds say. Each byte is looked at once. Whether the text is XML at all is for the parser to say: where this reads it
//! otherwise than the parser, the parser refuses it.

use super::page::{XML_ATTRIBUTES_MAX, XML_DEPTH_MAX, XML_NAMESPACES_MAX};
use crate::answer::Error;

/// Whether `text` keeps within the bounds.
pub(super) fn check(text: &str) -> Result<(), Error> {
    // How many namespaces each open element declares.
    let mut open: Vec<usize> = Vec::new();
    let mut namespaces = 0;
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        if let Some(length) = passed_over(rest) {
            rest = &rest[length..];
            continue;
        }
        let tag = tag(&rest[1..]);
        rest = &rest[1 + tag.length..];
        if tag.closes {
            namespaces -= open.pop().unwrap_or(0);
            continue;
        }
        if tag.attributes > XML_ATTRIBUTES_MAX {
            let found = tag.attributes;
            return Err(Error::malformed(format_args!(
                "an element has {found} attributes; {XML_ATTRIBUTES_MAX} are the most"
            )));
        }
        if open.len() >= usize::from(XML_DEPTH_MAX) {
            return Err(Error::malformed(format_args!("elements are nested deeper than {XML_DEPTH_MAX}")));
        }
        if namespaces + tag.namespaces > XML_NAMESPACES_MAX {
            return Err(Error::malformed(format_args!(
                "there are more than {XML_NAMESPACES_MAX} namespaces"
            )));
        }
        if !tag.empty {
            namespaces += tag.namespaces;
            open.push(tag.namespaces);
        }
    }
    Ok(())
}

/// The length of a comment, of characters that are no markup, or of an instruction, if that is what begins here.
fn passed_over(text: &str) -> Option<usize> {
    let kinds = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")];
    let (begin, end) = kinds.into_iter().find(|(begin, _)| text.starts_with(begin))?;
    let length = text[begin.len()..].find(end).map(|at| begin.len() + at + end.len());
    Some(length.unwrap_or(text.len()))
}

/// A tag, from behind its `<` to its `>`.
struct Tag {
    length: usize,
    closes: bool,
    empty: bool,
    attributes: usize,
    namespaces: usize,
}

fn tag(text: &str) -> Tag {
    let bytes = text.as_bytes();
    let mut tag = Tag {
        length: bytes.len(),
        closes: bytes.first() == Some(&b'/'),
        empty: false,
        attributes: 0,
        namespaces: 0,
    };
    let (mut quote, mut word, mut after_space) = (None, 0, false);
    for (at, byte) in bytes.iter().enumerate() {
        // A space may stand between a name and its `=`.
        if after_space && !byte.is_ascii_whitespace() && *byte != b'=' {
            word = at;
        }
        after_space = quote.is_none() && byte.is_ascii_whitespace();
        match (quote, byte) {
            (Some(open), byte) if open == byte => quote = None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'=') => {
                tag.attributes += 1;
                tag.namespaces += usize::from(bytes[word..at].starts_with(b"xmlns"));
            }
            (None, b'>') => {
                tag.length = at + 1;
                tag.empty = at > 0 && bytes[at - 1] == b'/';
                break;
            }
            _ => {}
        }
    }
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        check(text).map_or_else(|error| error.to_string(), |()| String::new())
    }

    /// One answer of a megabyte with a hundred thousand attributes on an element kept a thread busy for twelve seconds, one
    /// of four megabytes for minutes, and the node did not stop while it was: the parser compares them pairwise.
    #[test]
    fn bk_04_attributes_and_namespaces_beyond_the_bounds_are_refused_before_they_are_parsed() {
        let many =
            |count: usize, name: &str| (0..count).map(|n| format!(" {name}{n}='v'")).collect::<String>();
        let children = "<a/>".repeat(50_000);
        for (text, said) in [
            (format!("<r{}/>", many(100_000, "a")), "attributes"),
            (format!("<r{}>{children}</r>", many(20_000, "xmlns:n")), "attributes"),
            (format!("<r>{}</r>", format!("<e{}>", many(40, "xmlns:n")).repeat(4)), "namespaces"),
            (format!("<r\n{}/>", " a = \"1\" ".repeat(65)), "attributes"),
            ("<a>".repeat(100_000), "deeper"),
        ] {
            assert!(refused(&text).contains(said), "{said}: {}", refused(&text));
        }
    }

    #[test]
    fn bk_04_what_is_no_markup_does_not_count() {
        let long = " a='1'".repeat(100);
        for text in [
            format!("<r><!-- <x{long}> --><![CDATA[<x{long}>]]><?x {long}?>a = b > c</r>"),
            format!("<r title=\"<x{long}>=====\"/>"),
            "<a xmlns:x='1'/>".repeat(1_000),
            format!("<r>{}</r>", "<a xmlns:x='1'><b/></a>".repeat(1_000)),
            "</a></a></a>".to_owned(),
            "<".to_owned(),
            "<r a='".to_owned(),
            "<!-- ".to_owned(),
        ] {
            assert_eq!(refused(&text), "", "{}", &text[..text.len().min(80)]);
        }
    }
}
