//! Addresses that a part answers, each with the rules of the door for it.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, header};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::Context;
use crate::http::{JSON_MAX_BYTES, operations};

/// Who may call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Access {
    /// Whoever shows the node's token.
    #[default]
    Token,
    /// Everybody.
    Open,
}

/// Which pages of other sites may read. Programs that are no page are not asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CrossSite {
    /// None: an answer that a page cannot see still costs.
    #[default]
    Refused,
    /// A person may follow a link to it.
    Links,
    /// All.
    Allowed,
}

/// How long the node waits for the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Patience {
    /// `limits.request_timeout_sec`.
    #[default]
    Request,
    /// `limits.upload_timeout_sec`.
    Upload,
}

/// What the door does for one address.
#[derive(Debug, Clone)]
pub struct Rules {
    pub(crate) access: Access,
    pub(crate) cross_site: CrossSite,
    pub(crate) patience: Patience,
    pub(crate) body_max_bytes: usize,
    /// Origins of other sites whose pages may call it.
    pub(crate) origins: Arc<[String]>,
    /// Whether errors also say `success: false`.
    pub(crate) says_success: bool,
    /// Whether the answer is a part of the program and takes no memory.
    pub(crate) embedded: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            access: Access::Token,
            cross_site: CrossSite::Refused,
            patience: Patience::Request,
            body_max_bytes: JSON_MAX_BYTES,
            origins: Arc::default(),
            says_success: false,
            embedded: false,
        }
    }
}

impl Rules {
    /// The usual rules: the node's token, own pages, a small body, a short wait.
    pub fn new() -> Rules {
        Rules::default()
    }

    /// For what is embedded in the program and holds no data.
    pub(crate) fn embedded() -> Rules {
        Rules { embedded: true, ..Rules::new().open().cross_site(CrossSite::Allowed) }
    }

    /// No credential is asked for.
    #[must_use]
    pub fn open(self) -> Rules {
        Rules { access: Access::Open, ..self }
    }

    /// Pages of other sites may read it in this way.
    #[must_use]
    pub fn cross_site(self, cross_site: CrossSite) -> Rules {
        Rules { cross_site, ..self }
    }

    /// Pages of these origins may call it.
    #[must_use]
    pub fn from_origins(self, origins: &[String]) -> Rules {
        Rules { origins: origins.into(), ..self }
    }

    /// A body may have this many bytes.
    #[must_use]
    pub fn body_max_bytes(self, body_max_bytes: usize) -> Rules {
        Rules { body_max_bytes, ..self }
    }

    /// The node waits this long for the answer.
    #[must_use]
    pub fn patience(self, patience: Patience) -> Rules {
        Rules { patience, ..self }
    }

    /// Its errors also say `success: false`.
    #[must_use]
    pub fn says_success(self) -> Rules {
        Rules { says_success: true, ..self }
    }

    /// The origin of the page that calls, if it is one that may.
    pub(crate) fn allowed_origin<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        let origin = headers.get(header::ORIGIN)?;
        let known = self.origins.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(origin.as_bytes()));
        known.then_some(origin)
    }
}

/// Addresses with their handlers and rules. `routes!` of `utoipa-axum` makes one of handlers that share a path.
#[derive(Default)]
pub struct Routes {
    pub(crate) router: OpenApiRouter<Arc<Context>>,
    pub(crate) rules: Vec<(String, Method, Rules)>,
}

impl Routes {
    /// None yet.
    pub fn new() -> Routes {
        Routes::default()
    }

    /// Adds handlers under the usual rules.
    #[must_use]
    pub fn with(self, handlers: UtoipaMethodRouter<Arc<Context>>) -> Routes {
        self.with_rules(Rules::new(), handlers)
    }

    /// Adds handlers under rules of their own.
    #[must_use]
    #[allow(clippy::needless_pass_by_value, reason = "rules are made where they are given")]
    pub fn with_rules(mut self, rules: Rules, handlers: UtoipaMethodRouter<Arc<Context>>) -> Routes {
        for (path, item) in &handlers.1.paths {
            self.rules.extend(operations(item).map(|(method, _)| (path.clone(), method, rules.clone())));
        }
        Routes { router: self.router.routes(handlers), ..self }
    }

    /// These and those.
    #[must_use]
    pub fn and(mut self, other: Routes) -> Routes {
        self.rules.extend(other.rules);
        Routes { router: self.router.merge(other.router), ..self }
    }
}
