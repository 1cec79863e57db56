//! `GET /api/settings`: what this node runs with, as the file that would make another one like it. Secrets are not in it.

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::Context;

/// What the node runs with.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NodeSettings, example = json!({ "toml": "listen = \"127.0.0.1:3000\"\n" }))]
pub(crate) struct Settings {
    /// A `syncline.toml` with every setting; before them, as comments, where those come from that are not the usual ones.
    toml: String,
}

/// What this node runs with, without secrets.
#[utoipa::path(get, path = "/api/settings", tag = "health", responses((status = 200, body = Settings)))]
pub(crate) async fn settings(State(context): State<Arc<Context>>) -> axum::Json<Settings> {
    axum::Json(Settings { toml: context.config.to_string() })
}
