//! Protection of a local node from the pages its user visits: which `Host` it answers to, and which pages may change things.
//!
//! A page elsewhere can point a name of its own at 127.0.0.1 (DNS rebinding); it cannot choose the `Host` header, so only
//! known hosts are answered. A page elsewhere can also send requests here; browsers say where those come from, so a
//! request must come from our own pages or from no page at all, whether it changes something or reads: an answer that a
//! page cannot see still costs. Our pages and their files, health, and links that people follow to a stored file are open
//! to all; a page of another site may do what a credential that lists its origin may do (`cors`). Who calls is `auth`'s
//! question.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use syncline_core::text::excerpt;
use url::Url;

use super::Error;
use crate::config::Config;
use crate::part::{CrossSite, Rules};

/// From where a request comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Site {
    /// From our own pages, or from no page at all.
    Own,
    /// From a page of another site, which the route itself lets in.
    Admitted,
    /// From a page of another site, which needs a credential that lists its origin.
    Foreign,
}

/// The hosts a node answers to.
pub(crate) struct Guard {
    /// Exact values of `Host`, in lower case.
    hosts: Vec<String>,
    /// The port on which any IP address will do as a host: a name is what rebinding needs.
    any_address_on: Option<u16>,
}

impl Guard {
    /// For a node that really listens on `address`.
    pub(crate) fn new(config: &Config, address: SocketAddr) -> Guard {
        let port = address.port();
        let mut hosts = Vec::new();
        for name in [address.ip().to_string(), "localhost".into(), "127.0.0.1".into(), "::1".into()] {
            let name = if name.contains(':') { format!("[{name}]") } else { name };
            push_with_port(&mut hosts, &name, port, 80);
        }
        if let Some((host, port, usual)) = config.public_base_url.as_ref().and_then(parts_of) {
            push_with_port(&mut hosts, &host, port, usual);
        }
        hosts.extend(config.allowed_hosts.iter().cloned());
        Guard { hosts, any_address_on: address.ip().is_unspecified().then_some(port) }
    }

    /// From where a request comes. Looks at nothing but its head.
    pub(crate) fn site(&self, parts: &Parts, rules: &Rules) -> Result<Site, Error> {
        let host = self.host(parts)?;
        if same_site(&parts.headers) && same_origin(&parts.headers, host) {
            return Ok(Site::Own);
        }
        if rules.allowed_origin(&parts.headers).is_some() {
            return Ok(Site::Admitted);
        }
        let reads = matches!(parts.method, Method::GET | Method::HEAD);
        Ok(if reads && is_open_to_pages(parts, rules) { Site::Admitted } else { Site::Foreign })
    }

    /// The one host the request names, if we answer to it. HTTP/2 names it in the URI, HTTP/1.1 in a header.
    pub(crate) fn host<'a>(&self, parts: &'a Parts) -> Result<&'a str, Error> {
        let mut headers = parts.headers.get_all(header::HOST).iter();
        let header = headers.next();
        let in_uri = parts.uri.authority().map(Authority::as_str);
        let in_header = header.map(|value| value.to_str().unwrap_or(""));
        let Some(host) = in_header.or(in_uri) else {
            return Err(Error::invalid("host-missing", "the request does not say which host it is for"));
        };
        // Two hosts that differ would be judged by one and served by the other.
        let unambiguous = headers.next().is_none() && in_uri.is_none_or(|uri| uri.eq_ignore_ascii_case(host));
        if unambiguous && self.answers_to(host) {
            return Ok(host);
        }
        let host = shown(header.unwrap_or(&HeaderValue::from_str(host).expect("it was part of a URI")));
        let message = format!(
            "this node does not answer to the host {host}: set PUBLIC_BASE_URL or add it to allowed_hosts"
        );
        Err(Error::new(StatusCode::MISDIRECTED_REQUEST, "unknown-host", message))
    }

    fn answers_to(&self, host: &str) -> bool {
        if self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host)) {
            return true;
        }
        let Some(port) = self.any_address_on else { return false };
        match SocketAddr::from_str(host) {
            Ok(address) => address.port() == port,
            Err(_) => port == 80 && IpAddr::from_str(host.trim_matches(['[', ']'])).is_ok(),
        }
    }
}

/// 403: a page of a site that may not.
pub(crate) fn foreign(parts: &Parts) -> Error {
    let message = if matches!(parts.method, Method::GET | Method::HEAD) {
        "a page of another site may not read anything here".to_owned()
    } else {
        let origin = parts.headers.get(header::ORIGIN).map_or("another site".to_owned(), shown);
        format!("a page of {origin} may not change anything here")
    };
    Error::new(StatusCode::FORBIDDEN, "foreign-origin", message)
}

/// No `Origin` means no page: browsers send one with every request that is neither GET nor HEAD. The scheme may differ,
/// as it does behind a proxy that ends TLS; the host may not.
fn same_origin(headers: &HeaderMap, host: &str) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let origin = origin.to_str().unwrap_or_default();
    let plain = origin.strip_prefix("http://").map(|rest| (rest, ":80"));
    let Some((rest, usual_port)) =
        plain.or_else(|| origin.strip_prefix("https://").map(|rest| (rest, ":443")))
    else {
        return false;
    };
    // Browsers leave the usual port out of an origin; a host may have it.
    rest.eq_ignore_ascii_case(host)
        || host.strip_suffix(usual_port).is_some_and(|host| rest.eq_ignore_ascii_case(host))
}

/// What pages of other sites may cause to be read: what holds no data, and a file that somebody followed a link to.
fn is_open_to_pages(parts: &Parts, rules: &Rules) -> bool {
    let says = |name: &str, word: &str| parts.headers.get(name).is_some_and(|value| value == word);
    match rules.cross_site {
        CrossSite::Refused => false,
        CrossSite::Links => says("sec-fetch-mode", "navigate") && says("sec-fetch-dest", "document"),
        CrossSite::Allowed => true,
    }
}

/// `none` is the user's own doing, such as a bookmark.
fn same_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_none_or(|site| matches!(site.as_bytes(), b"same-origin" | b"none"))
}

/// Host, port and the port that may be left out, of an http or https address.
fn parts_of(url: &Url) -> Option<(String, u16, u16)> {
    let usual = match url.scheme() {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    Some((url.host_str()?.to_owned(), url.port().unwrap_or(usual), usual))
}

fn push_with_port(hosts: &mut Vec<String>, name: &str, port: u16, usual: u16) {
    hosts.push(format!("{name}:{port}"));
    if port == usual {
        hosts.push(name.to_owned());
    }
}

fn shown(value: &HeaderValue) -> String {
    format!("{:?}", excerpt(&String::from_utf8_lossy(value.as_bytes())))
}
