//! The settings themselves: what each one may be, what it is when nobody says anything, and how text becomes one.
//!
//! Every parser answers with what was expected; none repeats the value of a secret.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use http::uri::Authority;
use url::Url;

use super::problem::closest;
use super::reader::{Found, Section};
use crate::secret::{Secret, split_hosts};

/// Where a node listens unless told otherwise.
pub(super) const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3000);

/// Longest token: it travels in a header.
const TOKEN_MAX_BYTES: usize = 1024;

/// Shortest token beyond loopback: a shorter one could be guessed.
pub(super) const TOKEN_MIN_BYTES: usize = 16;

/// Levels of the log, quietest first.
const LOG_LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The lowest level that is written; one word, or `target=level` pairs with commas.
    pub level: String,
    /// The shape of a line.
    pub format: LogFormat,
}

/// The shape of a log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `Human` on a terminal, `Json` anywhere else.
    #[default]
    Auto,
    /// For eyes.
    Human,
    /// One object per line, for collectors.
    Json,
}

impl LogFormat {
    /// The word for it in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            LogFormat::Auto => "auto",
            LogFormat::Human => "human",
            LogFormat::Json => "json",
        }
    }
}

/// Bounds on connections, streams and waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at a time; more wait in the system's backlog.
    pub connections: usize,
    /// Connections from one address at a time, loopback excepted (a proxy of this machine speaks for many).
    pub connections_per_address: usize,
    /// Streams of `/api/events` open at a time.
    pub event_streams: usize,
    /// From the opening of a connection, or the end of the last answer, to the end of the next request's headers.
    pub header_timeout: Duration,
    /// Longest pause inside a request body, once it has begun.
    pub body_idle_timeout: Duration,
    /// From the end of a request's headers to the start of its answer.
    pub request_timeout: Duration,
    /// The same for the upload of a file.
    pub upload_timeout: Duration,
    /// How long answers in flight may take when the node stops.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 16_384,
            connections_per_address: 512,
            event_streams: 10_000,
            header_timeout: Duration::from_secs(10),
            body_idle_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            upload_timeout: Duration::from_secs(3_600),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

impl Limits {
    pub(super) fn read(section: &Section<'_>) -> Limits {
        let default = Limits::default();
        let count = |key, range, default| section.integer(key, range).map_or(default, |n| n as usize);
        let seconds = |key, default| section.integer(key, 1..=3_600).map_or(default, Duration::from_secs);
        let limits = Limits {
            connections: count("connections", 16..=1_000_000, default.connections),
            connections_per_address: count(
                "connections_per_address",
                1..=1_000_000,
                default.connections_per_address,
            ),
            event_streams: count("event_streams", 1..=100_000, default.event_streams),
            header_timeout: seconds("header_timeout_sec", default.header_timeout),
            body_idle_timeout: seconds("body_idle_timeout_sec", default.body_idle_timeout),
            request_timeout: seconds("request_timeout_sec", default.request_timeout),
            upload_timeout: seconds("upload_timeout_sec", default.upload_timeout),
            drain_timeout: seconds("drain_timeout_sec", default.drain_timeout),
        };
        section.finish();
        limits
    }
}

/// The items that parse; the others are noted.
pub fn checked<T>(
    section: &Section<'_>,
    items: &[Found<&str>],
    parse: impl Fn(&str) -> Result<T, String>,
) -> Vec<T> {
    let parsed = items.iter().filter_map(|item| match parse(item.value) {
        Ok(value) => Some(value),
        Err(what) => {
            section.wrong(item, what);
            None
        }
    });
    parsed.collect()
}

pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    let spelled = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    spelled.as_deref().unwrap_or(text).parse().map_err(|_| {
        format!("expected an address with a port, such as 127.0.0.1:3000 or [::1]:3000, found {text:?}")
    })
}

/// The path of a folder.
pub fn folder(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') {
        return Err(format!("expected the path of a folder, found {text:?}"));
    }
    Ok(PathBuf::from(text))
}

pub(crate) fn database_url(text: &str) -> Result<Secret, String> {
    let postgres = text.starts_with("postgres://") || text.starts_with("postgresql://");
    if (postgres && Url::parse(&split_hosts(text).0).is_ok())
        || (text.starts_with("sqlite:") && text.len() > "sqlite:".len())
    {
        return Ok(Secret::new(text));
    }
    Err("expected sqlite:path/to/file.db or postgres://user:password@host/database, with commas between several hosts".to_owned())
}

/// Where a store may listen past a pooler.
pub(crate) fn listen_url(text: &str) -> Result<Secret, String> {
    let url = database_url(text).ok().filter(|url| url.expose().starts_with("postgres"));
    url.ok_or_else(|| "expected postgres://user:password@host/database, past the pooler".to_owned())
}

pub(crate) fn connections(text: &str) -> Result<u32, String> {
    let possible = syncline_store::CONNECTIONS_MIN..=syncline_store::CONNECTIONS_MAX;
    text.parse().ok().filter(|count| possible.contains(count)).ok_or_else(|| {
        format!("expected a number from {} to {}, found {text:?}", possible.start(), possible.end())
    })
}

pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("expected true or false, found {text:?}"))
}

/// Longest name of a node: with what is added to it, it is a part of keys.
const NODE_NAME_MAX_BYTES: usize = 40;

pub(crate) fn node(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.is_empty() || text.len() > NODE_NAME_MAX_BYTES || !text.chars().all(fits) {
        return Err(format!(
            "expected a name of 1 to {NODE_NAME_MAX_BYTES} letters, digits, -, _ and ., found {text:?}"
        ));
    }
    Ok(text.to_owned())
}

pub(crate) fn schema(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = text.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if text.len() > syncline_store::SCHEMA_MAX_BYTES || !begins || !text.chars().all(fits) {
        return Err(format!("expected the name of a schema, of a-z, 0-9 and _, found {text:?}"));
    }
    Ok(text.to_owned())
}

pub(crate) fn token(text: &str) -> Result<Secret, String> {
    let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.is_empty() || text.len() > TOKEN_MAX_BYTES || !visible {
        return Err(format!("expected 1 to {TOKEN_MAX_BYTES} visible ASCII characters without spaces"));
    }
    Ok(Secret::new(text))
}

/// An address without credentials, query or fragment.
pub fn base_url(text: &str) -> Result<Url, String> {
    let expected =
        || "expected an address such as https://sync.example.com, without credentials, query or fragment";
    let url = Url::parse(text).map_err(|error| format!("{}: {error}", expected()))?;
    let plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() || !plain || url.fragment().is_some()
    {
        return Err(expected().to_owned());
    }
    Ok(url)
}

pub(super) fn host(text: &str) -> Result<String, String> {
    let authority = text.parse::<Authority>().ok().filter(|_| !text.contains('@') && !text.contains('*'));
    match authority {
        Some(authority) => Ok(authority.as_str().to_ascii_lowercase()),
        None => {
            Err(format!("expected a host name, with its port if it is not the usual one, found {text:?}"))
        }
    }
}

/// An origin exactly as a browser sends it. A wildcard is refused: it would let every page in the world in.
pub fn origin(text: &str) -> Result<String, String> {
    let expected =
        || format!("expected an origin such as https://site.example, without a path, found {text:?}");
    let (scheme, rest) = text.split_once("://").ok_or_else(expected)?;
    let scheme_ok = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if !scheme_ok || rest.contains('/') {
        return Err(expected());
    }
    let host = host(rest).map_err(|_| expected())?;
    let scheme = scheme.to_ascii_lowercase();
    let usual = match scheme.as_str() {
        "http" => ":80",
        "https" => ":443",
        _ => "",
    };
    let host = host.strip_suffix(usual).unwrap_or(&host);
    Ok(format!("{scheme}://{host}"))
}

pub(crate) fn log_level(text: &str) -> Result<String, String> {
    for part in text.split(',') {
        let level = part.rsplit('=').next().unwrap_or(part);
        if !LOG_LEVELS.contains(&level) {
            let hint =
                closest(level, LOG_LEVELS).map_or(String::new(), |word| format!("; did you mean {word:?}?"));
            return Err(format!("expected one of {}, found {level:?}{hint}", LOG_LEVELS.join(", ")));
        }
    }
    Ok(text.to_owned())
}

pub(crate) fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "auto" => Ok(LogFormat::Auto),
        "human" => Ok(LogFormat::Human),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("expected auto, human or json, found {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeId;

    #[test]
    fn cn_22_a_node_has_the_name_that_it_was_given_and_a_wrong_one_is_refused() {
        for right in ["shop-1", "a", "node.eu_2", &"x".repeat(NODE_NAME_MAX_BYTES)] {
            assert_eq!(node(right).as_deref(), Ok(right));
        }
        for wrong in ["", "a b", "é", "a/b", &"x".repeat(NODE_NAME_MAX_BYTES + 1)] {
            assert!(node(wrong).is_err(), "{wrong}");
        }
        let (one, other) = (NodeId::named("shop-1"), NodeId::named("shop-1"));
        assert_eq!((one.name(), other.name()), ("shop-1", "shop-1"));
        assert_ne!(one.as_str(), other.as_str(), "two processes");
        assert_eq!(NodeId::random().name().len(), NodeId::random().as_str().len());
    }
}
