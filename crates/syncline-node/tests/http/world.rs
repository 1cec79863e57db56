//! A node without a socket: real configuration, real store, real router.

#[path = "../common/parts.rs"]
mod parts;

use std::io::Write;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::Value;
use syncline_node::config::Flags;
use syncline_node::viewer::Viewers;
use syncline_node::{Config, Context, http as api};
use syncline_store::Store;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt;

/// The host every request names unless it says otherwise.
pub(crate) const HOST: &str = "127.0.0.1:3000";

/// A node under test.
pub(crate) struct World {
    pub(crate) context: Arc<Context>,
    pub(crate) app: Router,
    _workers: DropGuard,
}

impl World {
    /// A node told what `file`, a `syncline.toml`, says.
    pub(crate) async fn new(file: &str) -> World {
        World::with(file, api::app).await
    }

    /// A node that serves something else than the API behind the same door.
    pub(crate) async fn with(file: &str, app: impl FnOnce(&Arc<Context>) -> Router) -> World {
        World::on("sqlite::memory:", file, app).await
    }

    /// The same on a database of its own.
    pub(crate) async fn on(url: &str, file: &str, app: impl FnOnce(&Arc<Context>) -> Router) -> World {
        World::put_together(file, Store::open_with(url, &config(file).store_options()).await.unwrap(), app)
            .await
    }

    /// A node on a store of the test's own, with nothing at work but its answers.
    pub(crate) async fn quiet(file: &str, store: Store) -> World {
        let config = config(file);
        let address = config.listen;
        let context = Context::new(config, store, address).await.unwrap();
        World { app: api::app(&context), context, _workers: CancellationToken::new().drop_guard() }
    }

    async fn put_together(file: &str, store: Store, app: impl FnOnce(&Arc<Context>) -> Router) -> World {
        let config = config(file);
        let address = config.listen;
        let context = Context::new(config, store, address).await.unwrap();
        let halt = CancellationToken::new();
        let (viewers, until) = (context.find::<Arc<Viewers>>().unwrap(), halt.clone());
        tokio::spawn(async move { viewers.run(until).await });
        World { app: app(&context), context, _workers: halt.drop_guard() }
    }

    pub(crate) async fn send(&self, mut request: Request<Body>) -> Answer {
        if !request.headers().contains_key(header::HOST) && request.uri().authority().is_none() {
            request.headers_mut().insert(header::HOST, HOST.parse().unwrap());
        }
        self.send_as_is(request).await
    }

    /// Sends without adding a `Host`.
    pub(crate) async fn send_as_is(&self, request: Request<Body>) -> Answer {
        let response = self.app.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, body: response.into_body().collect().await.unwrap().to_bytes() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn json(&self, method: &str, path: &str, body: &str) -> Answer {
        self.send(request(method, path, body)).await
    }
}

/// A request with a JSON body.
pub(crate) fn request(method: &str, path: &str, body: &str) -> Request<Body> {
    let builder =
        Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
    builder.body(Body::from(body.to_owned())).unwrap()
}

/// The configuration of a file.
pub(crate) fn config(file: &str) -> Config {
    let mut written = tempfile::NamedTempFile::new().unwrap();
    written.write_all(file.as_bytes()).unwrap();
    let flags =
        Flags { config: Some(written.path().to_owned()), apps: parts::apps(file), ..Flags::default() };
    Config::load(&flags, &|_| None, parts::all()).unwrap()
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// Checks that this is an error as all errors are, and which one.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        let value = self.value();
        assert_eq!(value["code"], code, "{self:?}");
        let sentence = value["error"].as_str().unwrap();
        assert!(!sentence.is_empty() && !sentence.contains('\n'), "{sentence:?}");
        assert_eq!(self.header("content-type"), "application/json");
        assert_eq!(self.header("x-request-id").len(), 36, "{self:?}");
    }
}
