//! Looks for words in the documents: all of them in one section, where the heading counts more than the text.

use super::render::{Slugs, escape, title};

/// Findings that are shown.
const FOUND_MAX: usize = 30;
/// Characters of an excerpt, before and after the first word.
const EXCERPT: usize = 90;

/// A section in which all words are.
#[derive(Debug)]
pub(super) struct Hit {
    pub(super) address: String,
    document: String,
    heading: String,
    excerpt: String,
    score: usize,
}

/// Sections that have all the words, the best first.
pub(super) fn find(documents: impl Iterator<Item = (String, String)>, words: &str) -> Vec<Hit> {
    let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
    let mut hits: Vec<Hit> = Vec::new();
    for (text, name) in documents {
        let document = title(&text);
        let path = name.trim_end_matches(".md");
        let path = if path == "README" { "/docs".to_owned() } else { format!("/docs/{path}") };
        hits.extend(sections(&text).filter_map(|(heading, slug, body)| {
            let score = score(&words, &heading.to_lowercase(), &body.to_lowercase())?;
            // Promises are written for the tests: what explains them comes first.
            let score = if path.starts_with("/docs/spec") { score / 4 } else { score };
            let address = if slug.is_empty() { path.clone() } else { format!("{path}#{slug}") };
            let excerpt = excerpt(&body, words.first().map_or("", String::as_str));
            Some(Hit { address, document: document.clone(), heading, excerpt, score })
        }));
    }
    hits.sort_by(|a, b| b.score.cmp(&a.score).then_with(|| a.address.cmp(&b.address)));
    hits.truncate(FOUND_MAX);
    hits
}

/// The findings as HTML.
pub(super) fn show(hits: &[Hit], words: &str) -> String {
    let words = escape(words);
    if hits.is_empty() {
        return format!(
            "<h1>Search</h1>\n<p class=\"empty\">No section has all the words of “{words}”.</p>\n"
        );
    }
    let items = hits.iter().map(|hit| {
        let of = [&hit.document, &hit.heading, &hit.address, &hit.excerpt].map(|text| escape(text));
        let [document, heading, address, excerpt] = of;
        let above = if document == heading {
            String::new()
        } else {
            format!("<span class=\"note\">{document}</span> ")
        };
        format!("<li>{above}<a href=\"{address}\">{heading}</a><p class=\"quiet\">{excerpt}</p></li>\n")
    });
    format!(
        "<h1>Search</h1>\n<p>Sections with “{words}”</p>\n<ol class=\"docs-found\">\n{}</ol>\n",
        items.collect::<String>()
    )
}

/// Headings with their addresses and what is below them.
fn sections(text: &str) -> impl Iterator<Item = (String, String, String)> {
    let mut slugs = Slugs::default();
    let mut found: Vec<(String, String, String)> = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        if !in_code && (1..=6).contains(&level) && line[level..].starts_with(' ') {
            let heading = line[level..].trim().replace('`', "");
            let slug = slugs.of(&heading);
            found.push((heading, if level == 1 { String::new() } else { slug }, String::new()));
        } else if let Some((_, _, body)) = found.last_mut() {
            body.push_str(line);
            body.push('\n');
        }
    }
    found.into_iter()
}

/// How well a section fits; `None` where a word is missing.
fn score(words: &[String], heading: &str, body: &str) -> Option<usize> {
    let each = words.iter().map(|word| {
        let (above, below) = (heading.matches(word.as_str()).count(), body.matches(word.as_str()).count());
        (above + below > 0).then(|| 40 * above.min(2) + 4 * below.min(5))
    });
    each.sum()
}

/// Some words around the first finding, on one line.
fn excerpt(body: &str, word: &str) -> String {
    let line: String =
        body.split_whitespace().filter(|part| !part.starts_with("```")).collect::<Vec<_>>().join(" ");
    let characters: Vec<char> = line.chars().collect();
    let lower: String = line.to_lowercase();
    let at = lower.find(word).map_or(0, |at| lower[..at].chars().count());
    let (from, to) = (at.saturating_sub(EXCERPT), (at + EXCERPT).min(characters.len()));
    let middle: String = characters.get(from..to).unwrap_or_default().iter().collect();
    format!("{}{middle}{}", if from > 0 { "…" } else { "" }, if to < characters.len() { "…" } else { "" })
}
