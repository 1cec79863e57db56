//! Addresses that a part answers, each with the rules of the door for it.
//!
//! A route that names no grant is the owner's alone: what is forgotten is refused.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, header};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::Context;
use crate::http::{JSON_MAX_BYTES, operations};

/// The name that a route's grant must cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// The value of this variable of the path, decoded once, as the handler gets it.
    Path(&'static str),
    /// The caller's own name: a key's name, a person's subject.
    Caller,
    /// Any at all: the handler cuts its answer to what the caller may see.
    Any,
    /// Every one, because what the route does cannot be cut.
    All,
}

/// The grant that a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RouteGrant {
    pub(crate) system: &'static str,
    pub(crate) verb: &'static str,
    pub(crate) name: Name,
}

impl fmt::Display for RouteGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RouteGrant { system, verb, name } = self;
        match name {
            Name::Path(variable) => write!(f, "{system}:{{{variable}}}:{verb}"),
            Name::Caller => write!(f, "{system}:{{caller}}:{verb}"),
            Name::Any | Name::All => write!(f, "{system}:*:{verb}"),
        }
    }
}

/// Who may call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Access {
    /// The node's owner alone.
    #[default]
    Owner,
    /// Whoever has this grant.
    Granted(RouteGrant),
    /// Whoever shows a credential; the handler decides what it gets.
    AnyCaller,
    /// Everybody. Pages of other sites need an origin that their credential lists, and this grant where there is one.
    Open(Option<RouteGrant>),
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
    /// Under which system and verb the audit has it, where no grant says so.
    pub(crate) recorded_as: Option<(&'static str, &'static str)>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            access: Access::Owner,
            cross_site: CrossSite::Refused,
            patience: Patience::Request,
            body_max_bytes: JSON_MAX_BYTES,
            origins: Arc::default(),
            says_success: false,
            embedded: false,
            recorded_as: None,
        }
    }
}

impl Rules {
    /// The usual rules: the node's owner, own pages, a small body, a short wait.
    pub fn new() -> Rules {
        Rules::default()
    }

    /// For what is embedded in the program and holds no data.
    pub(crate) fn embedded() -> Rules {
        Rules { embedded: true, ..Rules::new().open().cross_site(CrossSite::Allowed) }
    }

    /// Whoever has the grant `system:name:verb` may call, as well as the owner. Without a grant a route is the owner's alone.
    #[must_use]
    pub fn needs(self, system: &'static str, verb: &'static str, name: Name) -> Rules {
        Rules { access: Access::Granted(RouteGrant { system, verb, name }), ..self }
    }

    /// Whoever shows a credential may call.
    #[must_use]
    pub(crate) fn any_caller(self) -> Rules {
        Rules { access: Access::AnyCaller, ..self }
    }

    /// No credential is asked for. A grant named before is asked of pages of other sites alone.
    #[must_use]
    pub fn open(self) -> Rules {
        let grant = match self.access {
            Access::Granted(grant) => Some(grant),
            _ => None,
        };
        Rules { access: Access::Open(grant), ..self }
    }

    /// Pages of other sites may read it in this way.
    #[must_use]
    pub fn cross_site(self, cross_site: CrossSite) -> Rules {
        Rules { cross_site, ..self }
    }

    /// Pages of these origins may call it, whatever credential they show.
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

    /// In the audit it is this verb of this system. For what no grant allows, such as signing in.
    #[must_use]
    pub(crate) fn recorded_as(self, system: &'static str, verb: &'static str) -> Rules {
        Rules { recorded_as: Some((system, verb)), ..self }
    }

    /// The origin of the page that calls, if it is one that may.
    pub(crate) fn allowed_origin<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        headers.get(header::ORIGIN).filter(|origin| lists(&self.origins, origin))
    }
}

/// Whether an origin is in a list of them.
pub(crate) fn lists(origins: &[String], origin: &HeaderValue) -> bool {
    origins.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(origin.as_bytes()))
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

    /// Adds handlers under the usual rules, for the owner alone.
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
