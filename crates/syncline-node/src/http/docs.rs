//! The documents at `/docs`: what `docs/` holds, as pages of the console, with a search.
//!
//! The Markdown is embedded and rendered when it is asked for, in less than a millisecond, so that there is nothing to build and nothing that
//! can be older than its source. `docs/SUMMARY.md` is the table of contents, as mdBook has it, and `docs/README.md` the first page. Guarantees:
//! HTML in a document is shown as text, links lead to other documents of this node or out of it, and every heading has an address.

mod render;
mod search;

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, HeaderValue};
use rust_embed::RustEmbed;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Error;
use super::body::Query;
use super::pages::{self, LAYOUT};
use crate::Context;

/// Where the documents are.
#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/web/docs"]
struct Documents;

const CONTENTS: &str = "SUMMARY.md";
const FIRST: &str = "README.md";
/// Longest text that is looked for.
const QUERY_MAX_BYTES: usize = 200;

#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct Asked {
    /// Words to look for.
    q: Option<String>,
}

/// The first document, or what a search finds.
#[utoipa::path(get, path = "/docs", tag = "pages", params(Asked), responses((status = 200), (status = 400)))]
pub(crate) async fn first(
    State(context): State<Arc<Context>>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let Some(words) = asked.q.as_deref().map(str::trim).filter(|words| !words.is_empty()) else {
        return document(&context, FIRST, &headers);
    };
    if words.len() > QUERY_MAX_BYTES {
        return Err(Error::invalid("invalid-query", format!("q has at most {QUERY_MAX_BYTES} bytes")));
    }
    let all = names().filter_map(|name| Some((text_of(&name)?, name)));
    let found = search::find(all, words);
    let page = whole("Search", "", words, &search::show(&found, words));
    Ok(answer(&context, &page, &headers))
}

/// A document, or an image in one.
#[utoipa::path(get, path = "/docs/{*path}", tag = "pages", params(("path" = String, Path)),
    responses((status = 200), (status = 304, description = "Unchanged"), (status = 404)))]
pub(crate) async fn one(
    State(context): State<Arc<Context>>,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    if path.ends_with(".png") {
        let file = Documents::get(&path).ok_or_else(|| Error::missing("there is no such image"))?;
        let etag = pages::etag([&file]);
        return Ok(pages::respond(&path, file.data, etag, &headers, context.console.policy()));
    }
    let name = path.strip_suffix(".md").unwrap_or(&path);
    document(&context, &format!("{name}.md"), &headers)
}

fn document(context: &Context, name: &str, headers: &HeaderMap) -> Result<Response, Error> {
    let missing = || Error::missing("there is no such document");
    let text = text_of(name).filter(|_| name != CONTENTS).ok_or_else(missing)?;
    let page = whole(&render::title(&text), name, "", &render::html(&text, name));
    Ok(answer(context, &page, headers))
}

fn answer(context: &Context, page: &str, headers: &HeaderMap) -> Response {
    let text = context.console.compose_text("/docs", page).into_bytes();
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let etag = format!("W/\"{:016x}\"", hasher.finish());
    let etag = HeaderValue::from_str(&etag).expect("hex makes a header");
    pages::respond(LAYOUT, text.into(), etag, headers, context.console.policy())
}

/// A page with the table of contents beside it, as the layout takes it.
fn whole(title: &str, name: &str, words: &str, html: &str) -> String {
    let contents = text_of(CONTENTS).unwrap_or_default();
    let contents = render::contents(&contents, name);
    let (title, words) = (render::escape(title), render::escape(words));
    format!(
        "<title>{title} · Docs · Syncline</title>\n\
         <link rel=\"stylesheet\" href=\"/assets/docs.css\">\n\
         <script type=\"module\" src=\"/assets/docs.js\"></script>\n\
         <!-- main -->\n\
         <div class=\"docs\">\n<div class=\"docs-side\">\n\
         <form class=\"docs-search\" role=\"search\" action=\"/docs\">\
         <label class=\"visually-hidden\" for=\"docs-q\">Search the documents</label>\
         <input id=\"docs-q\" name=\"q\" type=\"search\" maxlength=\"200\" placeholder=\"Search\" value=\"{words}\">\
         <button class=\"button small\" type=\"submit\">Find</button></form>\n\
         <a class=\"docs-jump\" href=\"#contents\">Contents</a>\n</div>\n\
         <article class=\"docs-text\">\n{html}</article>\n\
         <nav class=\"docs-contents\" id=\"contents\" aria-label=\"Documents\">{contents}</nav>\n</div>"
    )
}

fn names() -> impl Iterator<Item = String> {
    let all = Documents::iter().map(Cow::into_owned);
    all.filter(|name| name.ends_with(".md") && name != CONTENTS)
}

fn text_of(name: &str) -> Option<String> {
    Documents::get(name).map(|file| String::from_utf8_lossy(&file.data).into_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Where the links of a page lead that stay in the documents.
    fn links(html: &str) -> impl Iterator<Item = &str> {
        let all = html.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        all.filter(|link| link.starts_with("/docs") || link.starts_with('#'))
    }

    #[test]
    fn cn_12_every_link_of_a_document_leads_to_a_document_and_a_heading_that_are_there() {
        let mut seen = 0;
        for name in names() {
            let html = render::html(&text_of(&name).unwrap(), &name);
            for link in links(&html) {
                seen += 1;
                let (path, heading) = link.split_once('#').unwrap_or((link, ""));
                let file = match path.strip_prefix("/docs").unwrap_or_default().trim_start_matches('/') {
                    // Within the document itself.
                    "" if path.is_empty() => name.clone(),
                    "" => FIRST.to_owned(),
                    image if image.ends_with(".png") => image.to_owned(),
                    document => format!("{document}.md"),
                };
                let found =
                    text_of(&file).unwrap_or_else(|| panic!("{name} leads to {link}, which is not there"));
                let there =
                    heading.is_empty() || render::html(&found, &file).contains(&format!("id=\"{heading}\""));
                assert!(there, "{name} leads to {link}, and {file} has no such heading");
            }
        }
        assert!(seen > 100, "{seen}");
    }

    #[test]
    fn cn_12_every_document_is_in_the_contents() {
        let contents = render::contents(&text_of(CONTENTS).unwrap(), "");
        let listed: BTreeSet<&str> = links(&contents).collect();
        for name in names().filter(|name| !name.contains('/') && name != FIRST) {
            let address = format!("/docs/{}", name.trim_end_matches(".md"));
            assert!(listed.contains(address.as_str()), "{address} is not in docs/{CONTENTS}");
        }
    }

    #[test]
    fn cn_12_a_search_finds_the_section_that_is_about_it() {
        let all = names().filter_map(|name| Some((text_of(&name)?, name)));
        let found = search::find(all, "Fencing TOKEN");
        assert!(found.iter().take(5).any(|hit| hit.address.starts_with("/docs/lock")), "{found:?}");
        assert!(search::find(std::iter::empty(), "x").is_empty());
        assert!(search::show(&[], "<b>").contains("&lt;b&gt;"));
    }
}
