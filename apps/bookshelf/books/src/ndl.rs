//! NDL Search, the catalogue of the National Diet Library: searching by SRU, and thumbnails.
//!
//! - [`Search`]: what to look for, an ISBN or a saved search, and its request
//! - [`read_page`]: one page of results
//! - [`Paging`]: which page is next, and when to stop
//! - [`thumbnail_url`], [`thumbnail_request`], [`read_thumbnail`]: whether the library has a picture
//!
//! The library answers in XML with records in DC-NDL, in one of two packings and several shapes; all are read.

mod bounds;
mod page;
mod paging;
mod record;
mod search;

use syncline_core::time::Timestamp;

use crate::answer::{Answer, Error};
use crate::cover::CoverUrl;
use crate::isbn::Isbn13;
use crate::request::{Base, Method, Request};

pub use page::{Page, RECORDS_MAX, XML_DEPTH_MAX, XML_NODES_MAX, read_page};
pub use paging::{Cap, End, Paging, Step};
pub use search::{InvalidSearch, PAGE_RECORDS, PageKey, Search, TERM_MAX_CHARS};

/// Where the search API lives.
pub const BASE_URL: &str = "https://ndlsearch.ndl.go.jp";

/// Where the thumbnails are.
pub const THUMBNAIL_BASE_URL: &str = "https://ndlsearch.ndl.go.jp/thumbnail";

/// The URL a book's thumbnail has if the library has one.
#[must_use]
pub fn thumbnail_url(base: &Base, isbn: Isbn13) -> CoverUrl {
    let url = base.endpoint(&["thumbnail", &format!("{isbn}.jpg")]);
    CoverUrl::parse(url.as_str()).expect("a base URL may be shown, and so may what is appended")
}

/// Asks whether there is a thumbnail, without fetching it.
#[must_use]
pub fn thumbnail_request(base: &Base, isbn: Isbn13) -> Request {
    Request {
        method: Method::Head,
        url: thumbnail_url(base, isbn).into(),
        headers: vec![("accept", "image/*")],
    }
}

/// Whether the answer says that there is a thumbnail. A page of HTML with status 200 is not one.
pub fn read_thumbnail(answer: &Answer<'_>, wall: Timestamp) -> Result<bool, Error> {
    if matches!(answer.status, 404 | 410) {
        return Ok(false);
    }
    answer.check_status(wall)?;
    let image =
        |kind: &str| kind.trim_start().get(..6).is_some_and(|kind| kind.eq_ignore_ascii_case("image/"));
    Ok(answer.status != 204 && answer.content_type.is_none_or(image))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cover::Compressed;

    fn isbn() -> Isbn13 {
        "9784000000079".parse().unwrap()
    }

    #[test]
    fn bk_03_the_thumbnail_is_asked_for_by_head_and_compresses_to_one_letter() {
        let base = Base::parse(THUMBNAIL_BASE_URL).unwrap();
        let request = thumbnail_request(&base, isbn());
        assert_eq!(request.method, Method::Head);
        assert_eq!(request.url, "https://ndlsearch.ndl.go.jp/thumbnail/9784000000079.jpg");
        let url = thumbnail_url(&base, isbn());
        assert_eq!(Compressed::new(isbn(), &url), Compressed::Ndl { other: None });
        let local = Base::parse("http://127.0.0.1:4000").unwrap();
        assert_eq!(
            thumbnail_url(&local, isbn()).as_str(),
            "http://127.0.0.1:4000/thumbnail/9784000000079.jpg"
        );
    }

    #[test]
    fn bk_03_only_a_picture_counts_as_a_thumbnail() {
        let of = |status, content_type| {
            read_thumbnail(&Answer { content_type, ..Answer::new(status, b"") }, Timestamp::ZERO)
        };
        assert_eq!(of(200, Some("image/jpeg")), Ok(true));
        assert_eq!(of(200, Some("Image/PNG; q=1")), Ok(true));
        assert_eq!(of(200, None), Ok(true));
        assert_eq!(of(200, Some("text/html; charset=utf-8")), Ok(false));
        assert_eq!(of(204, None), Ok(false));
        assert_eq!(of(404, Some("text/html")), Ok(false));
        assert_eq!(of(410, None), Ok(false));
        assert_eq!(of(429, None), Err(Error::TooManyRequests { retry_after: None }));
        assert!(of(503, None).unwrap_err().retryable());
        assert!(!of(403, None).unwrap_err().retryable());
    }

    proptest! {
        #[test]
        fn bk_03_every_base_url_makes_a_thumbnail_url(rest in prop_oneof!["[ -~]{0,600}", any::<String>()]) {
            if let Ok(base) = Base::parse(&format!("http://{rest}")) {
                prop_assert!(thumbnail_url(&base, isbn()).as_str().ends_with("/9784000000079.jpg"));
            }
        }
    }
}
