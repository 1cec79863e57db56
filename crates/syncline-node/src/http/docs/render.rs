//! Markdown as HTML of the console: headings with addresses, links within the documents, boxes that scroll for what is wide.

use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// The text of the first heading.
pub(super) fn title(text: &str) -> String {
    let first = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or("Documents");
    first.replace('`', "")
}

/// A document as HTML. `name` is its file, from which its links are seen.
pub(super) fn html(text: &str, name: &str) -> String {
    let mut events = Vec::new();
    let mut slugs = Slugs::default();
    let mut heading: Option<(HeadingLevel, Vec<Event<'_>>, String)> = None;
    let mut dead_link = 0_u32;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH) {
        let event = match event {
            Event::Start(Tag::Heading { level, .. }) => {
                heading = Some((level, Vec::new(), String::new()));
                continue;
            }
            Event::End(TagEnd::Heading(level)) => {
                let Some((_, inner, words)) = heading.take() else { continue };
                events.push(Event::Html(format!("<{level} id=\"{}\">", slugs.of(&words)).into()));
                events.extend(inner);
                Event::Html(format!("</{level}>\n").into())
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                let file = match &kind {
                    CodeBlockKind::Fenced(info) => info.split_once(" file=").map(|(_, file)| escape(file)),
                    CodeBlockKind::Indented => None,
                };
                let caption =
                    file.map(|file| format!("<p class=\"note mono\">{file}</p>")).unwrap_or_default();
                let shown = matches!(&kind, CodeBlockKind::Fenced(info) if &**info == "output");
                let class = if shown { " class=\"is-output\"" } else { "" };
                Event::Html(format!("{caption}<pre tabindex=\"0\"{class}><code>").into())
            }
            Event::End(TagEnd::CodeBlock) => Event::Html("</code></pre>\n".into()),
            Event::Start(Tag::Table(alignments)) => {
                events.push(Event::Html("<div class=\"docs-table\" tabindex=\"0\">".into()));
                Event::Start(Tag::Table(alignments))
            }
            Event::End(TagEnd::Table) => {
                events.push(Event::End(TagEnd::Table));
                Event::Html("</div>\n".into())
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => match address(&dest_url, name) {
                Some(dest_url) => Event::Start(Tag::Link { link_type, dest_url, title, id }),
                // What is not served is named, and leads nowhere.
                None => {
                    dead_link += 1;
                    continue;
                }
            },
            Event::End(TagEnd::Link) if dead_link > 0 => {
                dead_link -= 1;
                continue;
            }
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                let dest_url = format!("/docs/{}", join(name, &dest_url)).into();
                Event::Start(Tag::Image { link_type, dest_url, title, id })
            }
            Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
            other => other,
        };
        match &mut heading {
            Some((_, inner, words)) => {
                if let Event::Text(text) | Event::Code(text) = &event {
                    words.push_str(text);
                }
                inner.push(event);
            }
            None => events.push(event),
        }
    }
    let mut html = String::new();
    pulldown_cmark::html::push_html(&mut html, events.into_iter());
    html
}

/// The table of contents, with the document that is shown marked.
pub(super) fn contents(text: &str, name: &str) -> String {
    let body = text.split_once('\n').map_or("", |(_, body)| body);
    let html = html(body, "SUMMARY.md");
    let own = if name == "README.md" {
        "/docs".to_owned()
    } else {
        format!("/docs/{}", name.trim_end_matches(".md"))
    };
    let link = format!("href=\"{own}\"");
    let html = html.replacen(&link, &format!("{link} aria-current=\"page\""), 1);
    // Headings of the contents are no headings of the page.
    html.replace("<h2 id=\"", "<p class=\"docs-group\" data-id=\"").replace("</h2>", "</p>")
}

/// Where a link of a document leads here; `None` where that is not served.
fn address<'a>(link: &str, name: &str) -> Option<CowStr<'a>> {
    if link.starts_with('#') || link.starts_with("https://") || link.starts_with("http://") {
        return Some(link.to_owned().into());
    }
    let (path, heading) =
        link.split_once('#').map_or((link, String::new()), |(path, heading)| (path, format!("#{heading}")));
    let path = join(name, path);
    if path.starts_with("..") {
        return None;
    }
    let path = path.strip_suffix(".md")?;
    let path = if path == "README" { String::new() } else { format!("/{path}") };
    Some(format!("/docs{path}{heading}").into())
}

/// The path `link` as seen from the file `name`.
fn join(name: &str, link: &str) -> String {
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut steps: Vec<&str> = folder.split('/').filter(|step| !step.is_empty()).collect();
    for step in link.split('/') {
        match step {
            "" | "." => {}
            ".." if steps.last().is_some_and(|last| *last != "..") => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    steps.join("/")
}

/// Addresses of headings, as GitHub makes them.
#[derive(Default)]
pub(super) struct Slugs(std::collections::HashMap<String, u32>);

impl Slugs {
    pub(super) fn of(&mut self, words: &str) -> String {
        let kept = words.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let times = self.0.entry(slug.clone()).or_insert(0);
        *times += 1;
        if *times == 1 { slug } else { format!("{slug}-{}", *times - 1) }
    }
}

/// Text as it may stand in HTML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cn_12_links_stay_in_the_documents_and_markup_is_text() {
        let text = "# A `b`\n\nSee [x](lock.md#a-lease), [y](../README.md), [z](spec/README.md), [w](https://e.example/) <b>\n\n## A `b`\n";
        let page = html(text, "state.md");
        assert!(page.contains("<h1 id=\"a-b\">A <code>b</code></h1>"), "{page}");
        assert!(page.contains("<h2 id=\"a-b-1\">"), "{page}");
        assert!(
            page.contains("href=\"/docs/lock#a-lease\"") && page.contains("href=\"/docs/spec/README\""),
            "{page}"
        );
        assert!(page.contains(", y,") && page.contains("href=\"https://e.example/\""), "{page}");
        assert!(page.contains("&lt;b&gt;") && !page.contains("<b>"), "{page}");
        assert_eq!(join("spec/README.md", "../lock.md"), "lock.md");
        assert_eq!(join("lock.md", "../deploy/x"), "../deploy/x");
    }
}
