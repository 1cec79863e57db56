//! What came back from a node.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Answer {
    /// A header; empty where there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    /// The body as JSON.
    #[track_caller]
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// Checks that this is an error as all errors are, and which one: its status, and the word for it in `code`.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        let value = self.value();
        assert_eq!(value["code"], code, "{self:?}");
        let sentence = value["error"].as_str().unwrap();
        assert!(!sentence.is_empty() && !sentence.contains('\n'), "{sentence:?}");
        assert_eq!(self.header("content-type"), "application/json");
        assert_eq!(self.header("x-request-id").len(), 36, "{self:?}");
    }
}
