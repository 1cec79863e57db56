//! `/healthz`: the process is alive. `/readyz`: it can do its work.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::Error;
use crate::Context;

/// How long the store may take to answer before the node counts as not ready.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// How the node is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `alive` or `ready`.
    status: &'static str,
}

/// Answers as long as the process can answer anything.
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, body = Health)))]
pub(crate) async fn alive() -> Json<Health> {
    Json(Health { status: "alive" })
}

/// Answers 200 while the store answers.
#[utoipa::path(get, path = "/readyz", tag = "health",
    responses((status = 200, body = Health), (status = 503, description = "The store does not answer")))]
pub(crate) async fn ready(State(context): State<Arc<Context>>) -> Result<Json<Health>, Error> {
    // The reason is for everybody to see, so it names no hosts; the log does.
    let unready = |message: &'static str| Error::new(StatusCode::SERVICE_UNAVAILABLE, "store", message);
    match tokio::time::timeout(PING_TIMEOUT, context.store.ping()).await {
        Ok(Ok(())) => Ok(Json(Health { status: "ready" })),
        Ok(Err(error)) => Err(unready("the store answered with an error").because(error)),
        Err(_) => {
            Err(unready("the store did not answer in time").because("the store did not answer in time"))
        }
    }
}
