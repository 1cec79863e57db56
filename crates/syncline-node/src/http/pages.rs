//! The console's pages, their assets and the browser package, from inside the binary (from disk in debug builds).
//!
//! A page's file holds what is its own, what goes into the head and what into the main part; `layout.html` is around all of
//! them, with a menu of the pages that the parts of this node brought.
//!
//! Open to everybody: they hold no data. Everything has an `ETag` and is asked for again by name, so that a new version
//! shows at the next visit.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use rust_embed::{EmbeddedFile, RustEmbed};

use super::Error;
use crate::Context;
use crate::part::{Files, Kind, Page, Parts, Topic};

const OVERVIEW: &str = "index.html";
pub(super) const LAYOUT: &str = "layout.html";
const MISSING: &str = "missing.html";
/// Where a page's own part of the head goes in the layout.
const HEAD: &str = "<!-- head -->";
/// Where its main part goes; in its own file, where that begins.
const MAIN: &str = "<!-- main -->";
/// Where the menu goes.
const MENU: &str = "<!-- menu -->";
/// Where the names of the parts go, for scripts.
const PARTS: &str = "data-parts=\"\"";
/// Where the names of the topics go that a page can follow.
const TOPICS: &str = "data-topics=\"\"";

/// The pages and files of the platform.
#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/web/console"]
pub struct ConsoleFiles;

#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/web/pkg"]
struct Package;

/// Whether this build can serve what pages need to count as viewers.
pub fn has_browser_package() -> bool {
    Package::get("syncline.js").is_some()
}

/// The pages of a node: the overview, and what its parts brought.
pub(crate) struct Console {
    pages: Vec<(Page, HeaderValue)>,
    /// Where assets are looked for, in order.
    files: Vec<Files>,
    menu: String,
    parts: String,
    topics: String,
    policy: HeaderValue,
}

impl Console {
    pub(crate) fn new(parts: &Parts, pages: Vec<(&'static str, Page)>, topics: &[Topic]) -> Console {
        let mut files: Vec<Files> = vec![ConsoleFiles::get];
        for (_, page) in &pages {
            if !files.iter().any(|known| std::ptr::fn_addr_eq(*known, page.files)) {
                files.push(page.files);
            }
        }
        let settings = Page::new::<ConsoleFiles>("/settings", "settings.html");
        let pages: Vec<_> = pages.into_iter().chain([("node", settings)]).collect();
        let apps: Vec<&str> =
            parts.on().filter(|part| part.kind() == Kind::App).map(crate::part::Part::name).collect();
        let menu = menu(&pages, &apps);
        let overview = ("", Page::new::<ConsoleFiles>("/", OVERVIEW));
        let pages = std::iter::once(overview).chain(pages).map(|(_, page)| {
            let policy = policy(&page.image_origins, if page.framed { "'self'" } else { "'none'" });
            (page, policy)
        });
        let names: Vec<&str> = parts.on().map(crate::part::Part::name).collect();
        let topics: Vec<&str> = topics.iter().map(|topic| topic.name).collect();
        Console {
            pages: pages.collect(),
            files,
            menu,
            parts: format!("data-parts=\"{}\"", names.join(" ")),
            topics: format!("data-topics=\"{}\"", topics.join(" ")),
            policy: policy(&[], "'none'"),
        }
    }

    /// The paths of all pages.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &'static str> {
        self.pages.iter().map(|(page, _)| page.path)
    }

    /// A page in its layout, the link to itself marked, or to the page above it. A file that is a whole page stays as it is.
    fn compose(&self, path: &str, layout: &str, page: &str) -> String {
        let Some((head, main)) = page.split_once(MAIN) else { return page.to_owned() };
        let above = path
            .get(1..)
            .and_then(|rest| rest.split_once('/'))
            .map_or(path, |(first, _)| &path[..=first.len()]);
        let link = format!("href=\"{above}\"");
        let marked = format!("{link} aria-current=\"page\"");
        let whole = layout.replacen(PARTS, &self.parts, 1).replacen(TOPICS, &self.topics, 1);
        let whole = whole.replacen(MENU, &self.menu, 1).replacen(&link, &marked, 1);
        whole.replacen(HEAD, head.trim(), 1).replacen(MAIN, main.trim(), 1)
    }

    /// A page of another file's, in the layout.
    pub(super) fn compose_text(&self, path: &str, page: &str) -> String {
        let layout = ConsoleFiles::get(LAYOUT).map(|file| String::from_utf8_lossy(&file.data).into_owned());
        self.compose(path, &layout.unwrap_or_else(|| format!("{HEAD}{MAIN}")), page)
    }

    /// What a page may load.
    pub(super) fn policy(&self) -> &HeaderValue {
        &self.policy
    }

    fn whole(&self, path: &str, file: &EmbeddedFile) -> Option<(String, HeaderValue)> {
        let layout = ConsoleFiles::get(LAYOUT)?;
        let text = |file: &EmbeddedFile| String::from_utf8_lossy(&file.data).into_owned();
        Some((self.compose(path, &text(&layout), &text(file)), etag([&layout, file])))
    }
}

/// The entries of the menu: systems, then apps, set apart under a word of their own.
fn menu(pages: &[(&'static str, Page)], apps: &[&str]) -> String {
    let mut apart = false;
    let mut ordered: Vec<_> = pages.iter().filter(|(_, page)| page.menu.is_some()).collect();
    ordered.sort_by_key(|(part, page)| (apps.contains(part), page.menu_last));
    let entries = ordered.into_iter().filter_map(|(part, page)| {
        let first = !apart && apps.contains(part);
        apart |= first;
        let before = if first { "<li class=\"apart\">Apps</li>\n          " } else { "" };
        let path = page.path;
        page.menu.map(|word| format!("{before}<li><a class=\"is-{part}\" href=\"{path}\">{word}</a></li>"))
    });
    entries.collect::<Vec<_>>().join("\n          ")
}

/// Scripts, styles, images and connections of our own and nothing else; WASM may be compiled.
fn policy(image_origins: &[String], ancestors: &str) -> HeaderValue {
    let images: String = image_origins.iter().map(|origin| format!(" {origin}")).collect();
    let policy = format!(
        "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
         img-src 'self' data: blob:{images}; connect-src 'self'; worker-src 'self'; \
         frame-ancestors {ancestors}; base-uri 'none'; form-action 'self'"
    );
    HeaderValue::from_str(&policy).expect("origins are plain ASCII")
}

/// A page of the console.
pub(crate) async fn page(State(context): State<Arc<Context>>, request: Request) -> Result<Response, Error> {
    let path = request.uri().path();
    let missing = || Error::missing("this page was not built into the node");
    let found = context.console.pages.iter().find(|(page, _)| page.path == path);
    let (page, policy) = found.ok_or_else(missing)?;
    let file = (page.files)(page.file).ok_or_else(missing)?;
    let (text, etag) = context.console.whole(path, &file).ok_or_else(missing)?;
    Ok(respond(LAYOUT, text.into_bytes().into(), etag, request.headers(), policy))
}

/// Marks an answer that is a page though it is no success: the door leaves it as it is.
#[derive(Clone)]
pub(crate) struct Whole;

/// For an address that is none: a page for a person, and for a program the error that every API answers with.
pub(crate) async fn missing(State(context): State<Arc<Context>>, headers: HeaderMap) -> Response {
    let plain = || Error::of_status(StatusCode::NOT_FOUND).into_response();
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !accepted.contains("text/html") {
        return plain();
    }
    let whole = ConsoleFiles::get(MISSING).and_then(|file| context.console.whole("", &file));
    let Some((text, etag)) = whole else { return plain() };
    let policy = &context.console.policy;
    let mut response = respond(LAYOUT, text.into_bytes().into(), etag, &HeaderMap::new(), policy);
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.extensions_mut().insert(Whole);
    response
}

/// A file the pages use.
#[utoipa::path(get, path = "/assets/{*path}", tag = "pages", params(("path" = String, Path)),
    responses((status = 200), (status = 304, description = "Unchanged"), (status = 404)))]
pub(crate) async fn asset(
    State(context): State<Arc<Context>>,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let name = format!("assets/{path}");
    let file = context.console.files.iter().find_map(|files| files(&name));
    let file = file.ok_or_else(|| Error::missing("there is no such asset"))?;
    let etag = etag([&file]);
    Ok(respond(&name, file.data, etag, &headers, &context.console.policy))
}

/// A file of the browser package.
#[utoipa::path(get, path = "/pkg/{*path}", tag = "pages", params(("path" = String, Path)),
    responses((status = 200), (status = 304, description = "Unchanged"), (status = 404)))]
pub(crate) async fn package(
    State(context): State<Arc<Context>>,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let missing =
        || Error::missing("there is no such file in the browser package: run `cargo xtask wasm` to build it");
    let file = Package::get(&path).ok_or_else(missing)?;
    let etag = etag([&file]);
    Ok(respond(&path, file.data, etag, &headers, &context.console.policy))
}

pub(super) fn respond(
    name: &str,
    data: Cow<'static, [u8]>,
    etag: HeaderValue,
    headers: &HeaderMap,
    policy: &HeaderValue,
) -> Response {
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| {
        let mut listed = known.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        listed.any(|tag| tag == b"*" || tag == etag.as_bytes())
    });
    let mut response = if known { StatusCode::NOT_MODIFIED.into_response() } else { data.into_response() };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(name)));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::CONTENT_SECURITY_POLICY, policy.clone());
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert(header::ETAG, etag);
    response
}

/// Weak, because compression changes the bytes and not the meaning.
pub(super) fn etag<const FILES: usize>(files: [&EmbeddedFile; FILES]) -> HeaderValue {
    let half =
        |file: &EmbeddedFile| file.metadata.sha256_hash().first_chunk().copied().map(u128::from_be_bytes);
    let hash: String = files.into_iter().flat_map(half).map(|half| format!("{half:032x}")).collect();
    HeaderValue::from_str(&format!("W/\"{hash}\"")).expect("hex makes a header")
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" | "map" => "application/json",
        "wasm" => "application/wasm",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" | "ts" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_whole_in_its_layout_and_marks_the_way_to_itself() {
        let pages = ["/viewer", "/project"].map(|path| {
            let file = if path == "/viewer" { "viewer.html" } else { "project.html" };
            ("viewer", Page::new::<ConsoleFiles>(path, file).in_menu("Word"))
        });
        let console = Console::new(&Parts::default(), pages.to_vec(), &[Topic::new("viewer")]);
        for (page, _) in &console.pages {
            let file = ConsoleFiles::get(page.file).unwrap();
            let (page, path) = (console.whole(page.path, &file).unwrap().0, page.path);
            let once = |part: &str| page.matches(part).count() == 1;
            assert!(["<!doctype html>", "<title>", "<main", "</html>"].into_iter().all(once), "{page}");
            assert!(![HEAD, MAIN, MENU].into_iter().any(|mark| page.contains(mark)), "{page}");
            assert!(once("aria-current=\"page\"") && once("data-topics=\"viewer\""), "{page}");
            assert!(page.contains(&format!("href=\"{path}\" aria-current=\"page\"")), "{page}");
        }
    }

    #[test]
    fn a_module_of_wasm_is_served_as_one() {
        assert_eq!(content_type("syncline_bg.wasm"), "application/wasm");
        assert_eq!(content_type("no-ending"), "application/octet-stream");
    }
}
