//! `/metrics` and `/healthz` of a worker.
//!
//! What waits is counted in the table when somebody asks, so that a worker that hangs shows as a rising age. The page holds
//! counts and no names, so it has no token; it listens where it is told to and nowhere else.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use http::header;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::shared::Shared;
use crate::config::Limits;
use crate::metrics::Registry;
use crate::node::StartError;
use crate::server;

/// How long the table may take to be counted; after that the last counts are shown.
const COUNT_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let listening = |cause| StartError::Listen { address, cause };
    let listener = server::listen(address).map_err(listening)?;
    let address = listener.local_addr().map_err(listening)?;
    Ok((listener, address))
}

/// Answers until told to stop.
pub(super) async fn serve(
    listener: TcpListener,
    receivers: Vec<Arc<Shared>>,
    registry: Registry,
    halt: CancellationToken,
) {
    let limits = Limits { connections: 64, ..Limits::default() };
    let app = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(alive))
        .with_state((receivers, registry.clone()));
    server::run(listener, app, &limits, &registry, halt).await;
}

async fn alive() -> Json<Value> {
    Json(json!({ "status": "alive" }))
}

async fn metrics(State((receivers, registry)): State<(Vec<Arc<Shared>>, Registry)>) -> impl IntoResponse {
    for shared in &receivers {
        let counting = shared.count_store_errors("stats", shared.outbox.stats());
        if let Ok(Ok(stats)) = tokio::time::timeout(COUNT_TIMEOUT, counting).await {
            shared.meters.pending.set(stats.pending as f64);
            shared.meters.oldest_age.set(stats.oldest.unwrap_or_default().as_secs_f64());
            shared.meters.dead.set(stats.dead as f64);
        }
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], registry.render())
}
