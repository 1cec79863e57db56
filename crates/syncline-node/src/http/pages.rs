//! The dashboard's pages, their assets and the browser package, from inside the binary (from disk in debug builds).
//!
//! A page's file holds what is its own, what goes into the head and what into the main part; `layout.html` is around all of them.
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

/// The page that shows covers from elsewhere.
const SHELF: &str = "/shelf";
/// A context of its own inside the page of shared state.
const STATE_FRAME: &str = "/state/frame";

const LAYOUT: &str = "layout.html";
const MISSING: &str = "missing.html";
/// Where a page's own part of the head goes in the layout.
const HEAD: &str = "<!-- head -->";
/// Where its main part goes; in its own file, where that begins.
const MAIN: &str = "<!-- main -->";

/// What pages may load.
pub(crate) struct Policies {
    usual: HeaderValue,
    shelf: HeaderValue,
    framed: HeaderValue,
}

impl Policies {
    /// Scripts, styles, pictures and connections of our own and nothing else; WASM may be compiled. On the shelf pictures
    /// may also come from `cover_origins`; the frame may be put into our own pages.
    pub(crate) fn new(cover_origins: &[String]) -> Policies {
        let policy = |origins: &[String], ancestors: &str| {
            let pictures: String = origins.iter().map(|origin| format!(" {origin}")).collect();
            let policy = format!(
                "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
                 img-src 'self' data: blob:{pictures}; connect-src 'self'; worker-src 'self'; \
                 frame-ancestors {ancestors}; base-uri 'none'; form-action 'self'"
            );
            HeaderValue::from_str(&policy).expect("origins are plain ASCII")
        };
        Policies {
            usual: policy(&[], "'none'"),
            shelf: policy(cover_origins, "'none'"),
            framed: policy(&[], "'self'"),
        }
    }
}

/// Pages by path.
const PAGES: [(&str, &str); 8] = [
    ("/", "index.html"),
    ("/viewer", "viewer.html"),
    ("/gallery", "gallery.html"),
    ("/state", "state.html"),
    (STATE_FRAME, "state-frame.html"),
    ("/project", "project.html"),
    ("/calls", "calls.html"),
    (SHELF, "shelf.html"),
];

#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/../../web/pages"]
struct Pages;

#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/../../web/pkg"]
struct Package;

/// Whether this build can serve what pages need to count as viewers.
pub fn has_browser_package() -> bool {
    Package::get("syncline.js").is_some()
}

/// Whether `path` is a page, an asset or a part of the browser package.
pub(crate) fn is_static(path: &str) -> bool {
    path.starts_with("/assets/") || path.starts_with("/pkg/") || PAGES.iter().any(|(page, _)| *page == path)
}

/// A page of the dashboard.
#[utoipa::path(get, path = "/", tag = "pages", responses((status = 200, content_type = "text/html")))]
pub(crate) async fn page(State(context): State<Arc<Context>>, request: Request) -> Result<Response, Error> {
    let Policies { usual, shelf, framed } = &context.policies;
    let path = request.uri().path();
    let name = PAGES.iter().find(|(page, _)| *page == path).map(|(_, name)| *name);
    let missing = || Error::missing("this page was not built into the node");
    let file = name.and_then(Pages::get).ok_or_else(missing)?;
    let layout = Pages::get(LAYOUT).ok_or_else(missing)?;
    let policy = match path {
        SHELF => shelf,
        STATE_FRAME => framed,
        _ => usual,
    };
    let etag = etag([&layout, &file]);
    let text = compose(path, &String::from_utf8_lossy(&layout.data), &String::from_utf8_lossy(&file.data));
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
    let (Some(layout), Some(file)) = (Pages::get(LAYOUT), Pages::get(MISSING)) else { return plain() };
    let text = compose("", &String::from_utf8_lossy(&layout.data), &String::from_utf8_lossy(&file.data));
    let mut response = respond(
        LAYOUT,
        text.into_bytes().into(),
        etag([&layout, &file]),
        &HeaderMap::new(),
        &context.policies.usual,
    );
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.extensions_mut().insert(Whole);
    response
}

/// A page in its layout, the link to itself marked. A file that is a whole page stays as it is.
fn compose(path: &str, layout: &str, page: &str) -> String {
    let Some((head, main)) = page.split_once(MAIN) else { return page.to_owned() };
    let (before, after) = layout.split_once("<nav").unwrap_or((layout, ""));
    let link = format!("href=\"{path}\"");
    let after = after.replacen(&link, &format!("{link} aria-current=\"page\""), 1);
    format!("{}<nav{after}", before.replacen(HEAD, head.trim(), 1)).replacen(MAIN, main.trim(), 1)
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
    let file = Pages::get(&name).ok_or_else(|| Error::missing("there is no such asset"))?;
    let etag = etag([&file]);
    Ok(respond(&name, file.data, etag, &headers, &context.policies.usual))
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
    Ok(respond(&path, file.data, etag, &headers, &context.policies.usual))
}

/// The paths of all pages but the first, which stands for them in the description of the API.
pub(crate) fn further_paths() -> impl Iterator<Item = &'static str> {
    PAGES.iter().skip(1).map(|(path, _)| *path)
}

fn respond(
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
fn etag<const FILES: usize>(files: [&EmbeddedFile; FILES]) -> HeaderValue {
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
    fn pages_assets_and_package_are_static_and_nothing_else_is() {
        for path in ["/", "/viewer", "/gallery", "/assets/app.js", "/pkg/syncline.js"] {
            assert!(is_static(path), "{path}");
        }
        for path in ["/api/viewer", "/metrics", "/viewer/", "/assets", "/openapi.json", "/storage/pictures/x"]
        {
            assert!(!is_static(path), "{path}");
        }
    }

    #[test]
    fn every_page_is_whole_in_its_layout_and_marks_the_way_to_itself() {
        let text = |name| String::from_utf8(Pages::get(name).unwrap().data.into_owned()).unwrap();
        for (path, name) in PAGES {
            let page = compose(path, &text(LAYOUT), &text(name));
            let once = |part: &str| page.matches(part).count() == 1;
            assert!(["<!doctype html>", "<title>", "<main", "</html>"].into_iter().all(once), "{page}");
            assert!(!page.contains(HEAD) && !page.contains(MAIN), "{page}");
            if path != STATE_FRAME {
                assert!(once("aria-current=\"page\""), "{page}");
                assert!(page.contains(&format!("href=\"{path}\" aria-current=\"page\"")), "{page}");
            }
        }
    }

    #[test]
    fn a_module_of_wasm_is_served_as_one() {
        assert_eq!(content_type("syncline_bg.wasm"), "application/wasm");
        assert_eq!(content_type("no-ending"), "application/octet-stream");
    }
}
