//! What goes out: a request as a value, built on a base URL that an operator may set.
//!
//! Sending it, with time-outs and a bounded body, is the caller's. Query strings may hold a key, so they are
//! never part of what is printed.

use std::fmt;

use url::Url;

use crate::cover::CoverUrl;

/// Longest base URL. With a path and an ISBN after it, it still makes a URL that any server takes.
pub const BASE_MAX_BYTES: usize = 512;

/// Where an API lives. Either the origin or any part of the way to the endpoint: `https://host`,
/// `https://host/api` and `https://host/api/sru` mean the same to a client that wants `/api/sru`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base(Url);

impl Base {
    /// Checks a base URL from the configuration.
    pub fn parse(text: &str) -> Result<Self, InvalidBase> {
        let url = Url::parse(text.trim()).map_err(|_| InvalidBase::Url)?;
        if url.as_str().len() > BASE_MAX_BYTES {
            return Err(InvalidBase::TooLong { bytes: url.as_str().len() });
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(InvalidBase::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidBase::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(InvalidBase::Query);
        }
        // The standard lets a host have quotation marks; nothing that is fetched or shown does.
        CoverUrl::parse(url.as_str()).map_err(|_| InvalidBase::Url)?;
        Ok(Self(url))
    }

    /// The URL of an endpoint: its path appended, minus the steps that the base already has at its end.
    pub(crate) fn endpoint(&self, path: &[&str]) -> Url {
        let mut url = self.0.clone();
        let own: Vec<&str> = self.0.path().split('/').filter(|step| !step.is_empty()).collect();
        let shared =
            (0..=path.len().min(own.len())).rev().find(|len| own.ends_with(&path[..*len])).unwrap_or(0);
        url.path_segments_mut().expect("http URLs have a path").pop_if_empty().extend(&path[shared..]);
        url
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// Why a base URL is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidBase {
    /// Not an absolute URL.
    #[error("base URL is not an absolute URL")]
    Url,
    /// Longer than [`BASE_MAX_BYTES`].
    #[error("base URL is {bytes} bytes long; at most {BASE_MAX_BYTES} are allowed")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// Neither http nor https.
    #[error("base URL must begin with http:// or https://")]
    Scheme,
    /// A user name or password.
    #[error("base URL must not contain credentials")]
    Credentials,
    /// A question mark or a number sign.
    #[error("base URL must not have a query or fragment")]
    Query,
}

/// How a request is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// For the answer's body.
    Get,
    /// For the answer's status alone.
    Head,
}

impl Method {
    /// The method's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
        }
    }
}

/// A request to be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// How.
    pub method: Method,
    /// Where to, query included.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(&'static str, &'static str)>,
}

impl Request {
    pub(crate) fn get(mut url: Url, query: &[(&str, &str)], accept: &'static str) -> Self {
        url.query_pairs_mut().extend_pairs(query);
        Self { method: Method::Get, url: url.into(), headers: vec![("accept", accept)] }
    }

    /// The URL without its query: fit for a log.
    #[must_use]
    pub fn without_query(&self) -> &str {
        self.url.split_once('?').map_or(self.url.as_str(), |(before, _)| before)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({} {})", self.method.as_str(), self.without_query())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bk_04_a_base_may_be_the_origin_or_reach_into_the_path() {
        for (base, url) in [
            ("https://example.net", "https://example.net/api/sru"),
            ("https://example.net/", "https://example.net/api/sru"),
            ("https://example.net/api", "https://example.net/api/sru"),
            ("https://example.net/api/", "https://example.net/api/sru"),
            (" https://example.net/api/sru ", "https://example.net/api/sru"),
            ("http://127.0.0.1:4000/ndl", "http://127.0.0.1:4000/ndl/api/sru"),
            ("http://127.0.0.1:4000/ndl/api", "http://127.0.0.1:4000/ndl/api/sru"),
        ] {
            assert_eq!(Base::parse(base).unwrap().endpoint(&["api", "sru"]).as_str(), url, "{base}");
        }
    }

    #[test]
    fn bk_04_a_base_that_could_mislead_is_refused() {
        for (base, reason) in [
            ("", InvalidBase::Url),
            ("/api", InvalidBase::Url),
            ("example.net", InvalidBase::Url),
            ("http://`", InvalidBase::Url),
            ("ftp://example.net", InvalidBase::Scheme),
            ("file:///etc", InvalidBase::Scheme),
            ("https://me:word@example.net", InvalidBase::Credentials),
            ("https://example.net?a=b", InvalidBase::Query),
            ("https://example.net#a", InvalidBase::Query),
        ] {
            assert_eq!(Base::parse(base), Err(reason), "{base}");
        }
        let long = format!("https://example.net/{}", "a".repeat(BASE_MAX_BYTES));
        assert_eq!(Base::parse(&long), Err(InvalidBase::TooLong { bytes: BASE_MAX_BYTES + 20 }));
    }

    #[test]
    fn bk_04_a_printed_request_shows_no_query() {
        let url = Base::parse("https://example.net").unwrap().endpoint(&["search"]);
        let request = Request::get(url, &[("applicationId", "canary")], "application/json");
        assert_eq!(request.url, "https://example.net/search?applicationId=canary");
        assert_eq!(format!("{request:?}"), "Request(GET https://example.net/search)");
    }
}
