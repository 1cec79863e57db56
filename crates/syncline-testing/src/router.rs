//! A node without a socket: real configuration, real store, real router.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{Request, Response, header};
use http_body_util::BodyExt;
use syncline_node::Context;
use tempfile::TempDir;
use tokio_util::sync::DropGuard;
use tower::ServiceExt;

use crate::Answer;

/// The host that every request names unless it says otherwise.
pub const HOST: &str = "127.0.0.1:3000";

/// A node that is asked through its router. [`NodeBuilder::router`](crate::NodeBuilder::router) makes one.
pub struct RouterNode {
    /// The node as handlers see it.
    pub context: Arc<Context>,
    /// What answers.
    pub app: Router,
    pub(crate) _halt: DropGuard,
    pub(crate) _folder: Option<TempDir>,
}

impl RouterNode {
    /// Sends a request, with a `Host` where it has none, and reads the answer to its end.
    pub async fn send(&self, request: Request<Body>) -> Answer {
        read(self.respond(request).await).await
    }

    /// Sends a request as it is.
    pub async fn send_as_is(&self, request: Request<Body>) -> Answer {
        read(self.app.clone().oneshot(request).await.unwrap()).await
    }

    /// Sends a request, with a `Host` where it has none, and leaves the body unread: some have no end.
    pub async fn respond(&self, mut request: Request<Body>) -> Response<Body> {
        if !request.headers().contains_key(header::HOST) && request.uri().authority().is_none() {
            request.headers_mut().insert(header::HOST, HOST.parse().unwrap());
        }
        self.app.clone().oneshot(request).await.unwrap()
    }

    /// Asks for a path.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    /// Sends JSON to a path.
    pub async fn json(&self, method: &str, path: &str, body: &str) -> Answer {
        self.send(request(method, path, body)).await
    }
}

async fn read(response: Response<Body>) -> Answer {
    let (status, headers) = (response.status(), response.headers().clone());
    Answer { status, headers, body: response.into_body().collect().await.unwrap().to_bytes() }
}

/// A request with a JSON body.
pub fn request(method: &str, path: &str, body: &str) -> Request<Body> {
    let builder =
        Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
    builder.body(Body::from(body.to_owned())).unwrap()
}
