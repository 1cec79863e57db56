//! The HTTP API: which address leads where, and the one door in front of all of them.
//!
//! [`app`] is the whole API without a socket. Every request passes the door (`http/door.rs`): host, origin and token are checked
//! before anything else is looked at, panics and slow handlers become errors, errors become JSON, and everything is
//! counted. Handlers only ever see requests that may be answered.

pub mod auth;
pub mod error;
pub mod guard;
pub mod metrics;

mod body;
mod byte_range;
mod door;
mod entities;
mod events;
mod gallery;
mod health;
mod ingest;
mod jobs;
mod kv;
mod locks;
mod multipart;
mod openapi;
mod outbox;
mod pages;
mod queues;
mod range;
mod recordings;
mod session;
mod shelf;
mod state;
mod viewer;

pub(crate) use door::ANSWERS_MAX_BYTES;
pub use error::Error;
pub(crate) use events::Streams;
pub(crate) use health::Readiness;
pub(crate) use outbox::OutboxView;
pub(crate) use pages::Policies;
pub use pages::has_browser_package;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use bytes::Bytes;
use http::StatusCode;
use tower_http::compression::CompressionLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Context;

/// Where heartbeats go. Its errors say `success: false`, pages of other sites may be allowed to call it, and it needs no
/// token.
pub(crate) const VIEWER_PATH: &str = "/api/viewer";

/// The whole API.
pub fn app(context: &Arc<Context>) -> Router {
    behind_door(routes().0, context)
}

/// `router` with the door in front, so that whatever it serves is checked, bounded and counted like the API itself.
pub fn behind_door(router: Router<Arc<Context>>, context: &Arc<Context>) -> Router {
    router
        .fallback(pages::missing)
        .method_not_allowed_fallback(async || Error::of_status(StatusCode::METHOD_NOT_ALLOWED))
        .layer(from_fn_with_state(Arc::clone(context), door::door))
        .with_state(Arc::clone(context))
}

/// The description of the API: as JSON, and as the list of series that requests are counted in.
pub(crate) fn description(registry: &crate::metrics::Registry) -> (Bytes, metrics::Routes) {
    let api = routes().1;
    let json = openapi::published(&api).to_json().expect("the description is made of strings");
    (json.into(), metrics::Routes::new(registry, &api))
}

fn routes() -> (Router<Arc<Context>>, OpenApi) {
    let mut pages = OpenApiRouter::new()
        .routes(routes!(pages::page))
        .routes(routes!(pages::asset))
        .routes(routes!(pages::package));
    for path in pages::further_paths() {
        pages = pages.route(path, get(pages::page));
    }
    let (router, api) = OpenApiRouter::with_openapi(openapi::base())
        .merge(pages.layer(CompressionLayer::new()))
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(metrics::metrics))
        .routes(routes!(openapi::openapi))
        .routes(routes!(auth::session, auth::sign_in, auth::sign_out))
        .routes(routes!(events::events))
        .routes(routes!(viewer::summary, viewer::beat, viewer::preflight))
        .routes(routes!(jobs::list))
        .routes(routes!(jobs::history))
        .routes(routes!(jobs::run))
        .routes(routes!(gallery::list))
        .routes(routes!(gallery::file))
        .routes(routes!(queues::list))
        .routes(routes!(queues::one, queues::enqueue))
        .routes(routes!(queues::result))
        .routes(routes!(queues::keys))
        .routes(routes!(queues::remove))
        .routes(routes!(queues::revive))
        .routes(routes!(shelf::scan))
        .routes(routes!(shelf::books))
        .routes(routes!(shelf::book, shelf::remove))
        .routes(routes!(shelf::save_search))
        .routes(routes!(shelf::searches))
        .routes(routes!(shelf::collection, shelf::change_search, shelf::remove_search))
        .routes(routes!(ingest::sync))
        .routes(routes!(entities::kinds))
        .routes(routes!(entities::list))
        .routes(routes!(entities::read, entities::write))
        .routes(routes!(entities::recordings))
        .routes(routes!(outbox::status))
        .routes(routes!(outbox::entries))
        .routes(routes!(outbox::entry))
        .routes(routes!(outbox::retry))
        .routes(routes!(outbox::discard))
        .routes(routes!(recordings::ingest))
        .routes(routes!(recordings::play))
        .routes(routes!(state::list))
        .routes(routes!(state::pull, state::push, state::remove))
        .routes(routes!(kv::list))
        .routes(routes!(kv::read, kv::write, kv::remove))
        .routes(routes!(locks::list))
        .routes(routes!(locks::acquire))
        .routes(routes!(locks::renew))
        .routes(routes!(locks::release))
        .split_for_parts();
    (router, openapi::complete(api))
}
