//! `/healthz`: the process is alive. `/readyz`: it can do its work.
//!
//! A store that answers may still take no writes, because its disk is full or its file is gone. Whether it does is tried in
//! the background while somebody asks for `/readyz`; the question itself writes nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use syncline_store::Store;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::Error;
use crate::Context;

/// How long the store may take to answer before the node counts as not ready.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a write may take before it counts as failed.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Writes are tried for this long after somebody has asked.
const WATCHED_FOR: Duration = Duration::from_secs(120);

/// Whether the store took the last write that was tried.
#[derive(Default)]
pub(crate) struct Readiness {
    /// When somebody last asked.
    asked: Mutex<Option<Instant>>,
    /// Why the last write failed.
    failure: Mutex<Option<String>>,
}

impl Readiness {
    /// Tries a write, if anybody wants to know.
    pub(crate) async fn look(&self, store: &Store) {
        let asked = *self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.is_none_or(|at| at.elapsed() >= WATCHED_FOR) {
            return;
        }
        let failure = match tokio::time::timeout(WRITE_TIMEOUT, store.try_write()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("the store did not take a write in time".to_owned()),
        };
        let mut known = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*known, &failure) {
            (None, Some(error)) => tracing::warn!(error, "the store takes no writes: the node is not ready"),
            (Some(_), None) => tracing::info!("the store takes writes again"),
            _ => {}
        }
        *known = failure;
    }

    fn failure(&self) -> Option<String> {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

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

/// Answers 200 while the store answers and takes writes.
#[utoipa::path(get, path = "/readyz", tag = "health",
    responses((status = 200, body = Health), (status = 503, description = "The store does not answer")))]
pub(crate) async fn ready(State(context): State<Arc<Context>>) -> Result<Json<Health>, Error> {
    // The reason is for everybody to see, so it names no hosts; the log does.
    let unready = |message: &'static str| Error::new(StatusCode::SERVICE_UNAVAILABLE, "store", message);
    match tokio::time::timeout(PING_TIMEOUT, context.store.ping()).await {
        Ok(Ok(())) => match context.readiness.failure() {
            None => Ok(Json(Health { status: "ready" })),
            Some(reason) => Err(unready("the store takes no writes").because(reason)),
        },
        Ok(Err(error)) => Err(unready("the store answered with an error").because(error)),
        Err(_) => {
            Err(unready("the store did not answer in time").because("the store did not answer in time"))
        }
    }
}

#[cfg(test)]
mod tests {
    use syncline_store::{Options, parts};

    use super::*;

    /// A full disk used to leave the node ready while every write failed: a ping only reads. And a node without the kv tried
    /// no write at all.
    #[tokio::test]
    async fn a_store_that_takes_no_writes_makes_the_node_unready_until_it_does() {
        let locks = Options::of(&[&parts::LOCK]);
        let open = || Store::open_with("sqlite::memory:", &locks);
        let (good, closed) = (open().await.unwrap(), open().await.unwrap());
        closed.close().await;
        let readiness = Readiness::default();
        readiness.look(&closed).await;
        assert_eq!(readiness.failure(), None, "nobody had asked, and nothing was tried");
        readiness.look(&closed).await;
        assert!(readiness.failure().is_some_and(|reason| reason.contains("closed")));
        readiness.look(&good).await;
        assert_eq!(readiness.failure(), None);
    }
}
