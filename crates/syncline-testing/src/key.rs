//! Keys for nodes under test: what the file says of them, and what their holders send.

use http::{HeaderValue, Request, header};
use syncline_node::access::new_key;
use syncline_node::secret::Secret;

/// A static key that a node can be told of.
pub struct TestKey {
    /// Its name, under which it acts.
    pub name: String,
    key: Secret,
    table: String,
}

impl TestKey {
    /// A secret key that may do what these grants say.
    pub fn new(name: &str, may: &[&str]) -> TestKey {
        TestKey::with_origins(name, may, &[])
    }

    /// The same, which pages of these origins may show.
    pub fn with_origins(name: &str, may: &[&str], origins: &[&str]) -> TestKey {
        let (key, hash) = new_key(false);
        let table =
            format!("[[keys]]\nname = {name:?}\nhash = \"{hash}\"\nmay = {may:?}\norigins = {origins:?}\n");
        TestKey { name: name.to_owned(), key, table }
    }

    /// What the file says of it.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// What is sent as `authorization`.
    pub fn bearer(&self) -> HeaderValue {
        format!("Bearer {}", self.key.expose()).parse().unwrap()
    }

    /// A request that shows it.
    pub fn shown_by<T>(&self, mut request: Request<T>) -> Request<T> {
        request.headers_mut().insert(header::AUTHORIZATION, self.bearer());
        request
    }
}
