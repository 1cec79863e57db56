//! The HTTP API: which address leads where, and the one door in front of all of them.
//!
//! [`app`] is the whole API without a socket: the frame's own routes and those of every part that is on. Every request
//! passes the door (`http/door.rs`): host, origin, credential and grant are checked as the route's rules say before anything
//! else is looked at, panics and slow handlers become errors, errors become JSON, and everything is counted. Handlers only ever
//! see requests that may be answered.

pub mod body;
pub mod range;

mod admission;
pub(crate) mod auth;
pub(crate) mod caller;
mod cors;
mod docs;
mod door;
mod error;
mod events;
pub(crate) mod guard;
mod health;
mod metrics;
mod openapi;
mod pages;
mod principal;
mod quota;
mod record;
mod rules;
pub(crate) mod search;
mod session;
mod settings;
mod sign_in;
pub(crate) mod visible;

pub(crate) use body::JSON_MAX_BYTES;
pub(crate) use door::ANSWERS_MAX_BYTES;
pub use error::Error;
pub(crate) use events::Streams;
pub(crate) use health::Readiness;
pub(crate) use openapi::operations;
pub(crate) use pages::Console;
pub use pages::ConsoleFiles;
pub use pages::has_browser_package;
pub use principal::Caller;
pub(crate) use quota::{CallerQuota, exceeded};
pub(crate) use record::Recorder;
pub(crate) use rules::Endpoints;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use bytes::Bytes;
use http::{Method, StatusCode};
use tower_http::compression::CompressionLayer;
use utoipa::openapi::tag::TagBuilder;
use utoipa_axum::routes;

use crate::Context;
use crate::metrics::Registry;
use crate::part::{CrossSite, Name, Parts, Routes, Rules};

/// The whole API.
pub fn app(context: &Arc<Context>) -> Router {
    let mut router = Router::new();
    for routes in all(&context.config.parts) {
        router = router.merge(routes.router.split_for_parts().0);
    }
    let mut pages = files().router.split_for_parts().0;
    for path in context.console.paths() {
        pages = pages.route(path, get(pages::page));
    }
    behind_door(router.merge(pages.layer(CompressionLayer::new())), context)
}

/// `router` with the door in front, so that whatever it serves is checked, bounded and counted like the API itself.
pub fn behind_door(router: Router<Arc<Context>>, context: &Arc<Context>) -> Router {
    router
        .fallback(pages::missing)
        .method_not_allowed_fallback(async || Error::of_status(StatusCode::METHOD_NOT_ALLOWED))
        .layer(from_fn_with_state(Arc::clone(context), door::door))
        .with_state(Arc::clone(context))
}

/// The description of the API as JSON, and every address with its rules.
pub(crate) fn description(parts: &Parts, console: &Console, registry: &Registry) -> (Bytes, Endpoints) {
    let mut rules = files().rules;
    rules.extend(console.paths().map(|path| (path.to_owned(), Method::GET, Rules::embedded())));
    let mut api = openapi::base();
    let tags =
        parts.on().map(|part| TagBuilder::new().name(part.name()).description(Some(part.about())).build());
    api.tags.get_or_insert_default().extend(tags);
    for routes in all(parts) {
        rules.extend(routes.rules);
        api.merge(routes.router.split_for_parts().1);
    }
    let access_of = |method: &Method, path: &str| {
        let found = rules.iter().find(|(known, of, _)| known == path && of == method);
        found.map(|(_, _, rules)| rules.access).unwrap_or_default()
    };
    let json = openapi::complete(api, access_of).to_string();
    (json.into(), Endpoints::new(registry, rules))
}

/// The routes of the frame and of the parts that are on.
fn all(parts: &Parts) -> impl Iterator<Item = Routes> {
    std::iter::once(frame()).chain(parts.on().map(crate::part::Part::routes))
}

/// The addresses of the frame itself.
fn frame() -> Routes {
    let open = || Rules::new().open();
    let health = || open().cross_site(CrossSite::Allowed);
    let session = || open().body_max_bytes(4_096);
    Routes::new()
        .with_rules(health(), routes!(health::alive))
        .with_rules(health(), routes!(health::ready))
        .with_rules(Rules::new().needs("node", "metrics", Name::All), routes!(metrics::metrics))
        .with_rules(Rules::new().needs("node", "metrics", Name::All), routes!(metrics::history))
        .with(routes!(openapi::openapi))
        .with_rules(Rules::new().needs("node", "settings", Name::All), routes!(settings::settings))
        .with_rules(session(), routes!(sign_in::session))
        .with_rules(session().recorded_as("session", "sign-in"), routes!(sign_in::sign_in))
        .with_rules(session().recorded_as("session", "sign-out"), routes!(sign_in::sign_out))
        .with_rules(Rules::new().any_caller(), routes!(events::events))
}

/// The rules of the frame's own addresses.
pub(crate) fn frame_rules() -> Vec<Rules> {
    frame().rules.into_iter().map(|(_, _, rules)| rules).collect()
}

/// Files of the pages and of the browser package. They are for browsers and in no description.
fn files() -> Routes {
    Routes::new()
        .with_rules(Rules::embedded(), routes!(pages::asset))
        .with_rules(Rules::embedded(), routes!(pages::package))
        .with_rules(Rules::embedded(), routes!(docs::first))
        .with_rules(Rules::embedded(), routes!(docs::one))
}
