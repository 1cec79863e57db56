//! Routes: which entries go to which receiver, and how.
//!
//! A [`Route`] is data, read from `[[routes]]` of the configuration file. Each has a table, dead letters, retries and pauses of its
//! own: a receiver that is down holds up no other. What could not work is found before anything is sent. Secrets are named by the
//! variable that holds them and stand in no file.

use serde::{Deserialize, Deserializer, de};
use syncline_core::outbox::EntityType;
use syncline_store::outbox::ROUTE_MAX_BYTES;
use url::Url;

use super::webhook::Keys;
use crate::secret::Secret;

/// Stands for every type in `types`.
const ANY: &str = "*";

/// How entries travel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Many in one request, to `/api/ingest/sync` below the address.
    #[default]
    Batch,
    /// Each as a request of its own to the address itself, signed as Standard Webhooks says.
    Webhook,
}

/// A receiver, and what goes to it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Its name in commands, metrics and the log.
    pub name: String,
    /// The types of entries that go there; `*` for all.
    pub types: Vec<String>,
    /// Where they go.
    #[serde(deserialize_with = "address")]
    pub url: Url,
    /// How they travel.
    #[serde(default, rename = "as")]
    pub shape: Shape,
    /// Whether a batch has the contract's four fields of each entry and nothing else: no sender and no ids. For a receiver that
    /// refuses what it does not know.
    #[serde(default)]
    pub plain: bool,
    /// The variable with the bearer token that is presented there.
    #[serde(default)]
    pub token_env: Option<String>,
    /// The variable with the secret that signs webhooks, `whsec_…`; several with spaces between, while they are changed.
    #[serde(default)]
    pub secret_env: Option<String>,
    /// Whether it gets what no other route names: the front end beside routes.
    #[serde(skip)]
    pub rest: bool,
    /// What `token_env` names.
    #[serde(skip)]
    pub token: Option<Secret>,
    /// What `secret_env` names.
    #[serde(skip)]
    pub keys: Option<Keys>,
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Url, D::Error> {
    let text = String::deserialize(deserializer)?;
    Url::parse(&text).map_err(|error| de::Error::custom(format_args!("url is no address: {error}")))
}

/// The name of the front end among routes.
pub(super) const FRONTEND: &str = "frontend";

impl Route {
    /// The front end beside routes: it gets what none of them names.
    pub(super) fn frontend(url: Url, token: Option<Secret>, plain: bool) -> Route {
        Route {
            name: FRONTEND.to_owned(),
            types: Vec::new(),
            url,
            shape: Shape::Batch,
            plain,
            token_env: None,
            secret_env: None,
            rest: true,
            token,
            keys: None,
        }
    }

    /// Whether entries of this type go there.
    #[must_use]
    pub fn takes(&self, entity_type: &str) -> bool {
        self.types.iter().any(|named| named == ANY || named == entity_type)
    }

    /// Whether entries of all types go there.
    #[must_use]
    pub fn takes_everything(&self) -> bool {
        self.types.iter().any(|named| named == ANY)
    }

    /// Reads the variables it names, and finds every setting that could not work: its key, and what was expected. `address` says
    /// what is wrong with an address.
    pub(super) fn complete(
        &mut self,
        environment: &dyn Fn(&str) -> Option<String>,
        address: &dyn Fn(&str) -> Result<Url, String>,
    ) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        let name = &self.name;
        let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
        if !(1..=ROUTE_MAX_BYTES).contains(&name.len())
            || !name.bytes().all(plain)
            || !name.as_bytes()[0].is_ascii_lowercase()
        {
            let what = format!(
                "expected 1 to {ROUTE_MAX_BYTES} small letters, digits and underscores, beginning with a letter; found {name:?}"
            );
            problems.push(("name", what));
        }
        if self.types.is_empty() {
            problems.push(("types", "expected at least one entity type, or \"*\" for all".to_owned()));
        }
        for wrong in self.types.iter().filter(|name| *name != ANY && EntityType::new(name.as_str()).is_err())
        {
            problems.push(("types", format!("{wrong:?} can be no entity type")));
        }
        if let Err(what) = address(self.url.as_str()) {
            problems.push(("url", what));
        }
        let read = |variable: &str| environment(variable).filter(|text| !text.is_empty());
        if let Some(variable) = &self.token_env {
            self.token = read(variable).map(Secret::new);
            if self.token.is_none() {
                problems.push(("token_env", format!("the variable {variable} is not set")));
            }
        }
        if self.plain && self.shape == Shape::Webhook {
            problems.push(("plain", "is for batches: a webhook has a shape of its own".to_owned()));
        }
        match (self.shape, &self.secret_env) {
            (Shape::Batch, None) => {}
            (Shape::Batch, Some(_)) => {
                problems.push(("secret_env", "is for webhooks: set as = \"webhook\"".to_owned()));
            }
            (Shape::Webhook, None) => {
                problems.push(("secret_env", "is missing: webhooks are signed".to_owned()));
            }
            (Shape::Webhook, Some(variable)) => match read(variable).map(|text| Keys::parse(&text)) {
                None => problems.push(("secret_env", format!("the variable {variable} is not set"))),
                Some(Err(what)) => problems.push(("secret_env", format!("the variable {variable} {what}"))),
                Some(Ok(keys)) => self.keys = Some(keys),
            },
        }
        problems
    }
}
