//! An API that replies as the test says and writes down every call.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use http::{HeaderMap, Response, StatusCode};

/// Longest body of a call that is read.
const BODY_MAX_BYTES: usize = 1024 * 1024;

/// What the API replies to a path, given how many calls for the same path came before.
type Rule = Box<dyn Fn(&str, usize) -> Reply + Send + Sync>;

/// A reply to give.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    after: Duration,
}

impl Reply {
    /// A reply at once. Its body is called JSON.
    pub fn new(status: u16, body: &str) -> Reply {
        let headers = vec![("content-type", "application/json".to_owned())];
        Reply { status, headers, body: body.into(), after: Duration::ZERO }
    }

    /// The reply with a header, in the place of one of the same name.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Reply {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    /// The reply, so much later.
    #[must_use]
    pub fn after(self, after: Duration) -> Reply {
        Reply { after, ..self }
    }
}

/// One call as the API saw it.
#[derive(Debug, Clone)]
pub struct ReceivedCall {
    /// Its path and query.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: String,
    /// When it came.
    pub began: Instant,
    /// When it was replied to.
    pub ended: Option<Instant>,
}

impl ReceivedCall {
    /// A header; empty where there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

struct Inner {
    rule: Rule,
    calls: Mutex<Vec<ReceivedCall>>,
}

/// The API. It listens for as long as the test runs.
#[derive(Clone)]
pub struct StubApi {
    /// Where it listens.
    pub address: SocketAddr,
    inner: Arc<Inner>,
}

impl StubApi {
    /// Starts an API that replies as `rule` says, to a path and the number of calls for this path before.
    pub async fn start(rule: impl Fn(&str, usize) -> Reply + Send + Sync + 'static) -> StubApi {
        let inner = Arc::new(Inner { rule: Box::new(rule), calls: Mutex::default() });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().fallback(receive).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, app).await });
        StubApi { address, inner }
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A table of the configuration for a queue called `name` that calls this API, with more `lines`.
    pub fn queue(&self, name: &str, lines: &str) -> String {
        format!("[[queues]]\nname = \"{name}\"\nurl = \"{}\"\n{lines}\n", self.url("/{key}"))
    }

    /// All calls so far.
    pub fn calls(&self) -> Vec<ReceivedCall> {
        self.inner.calls.lock().unwrap().clone()
    }

    /// Shortest time from the start or the end of a call to the start of the next.
    pub fn smallest_gap(&self) -> Duration {
        let calls = self.calls();
        let gap = |pair: &[ReceivedCall]| {
            let last = pair[0].ended.unwrap_or(pair[0].began).max(pair[0].began);
            pair[1].began.saturating_duration_since(last)
        };
        calls.windows(2).map(gap).min().unwrap()
    }
}

async fn receive(State(inner): State<Arc<Inner>>, request: Request) -> Response<Body> {
    let began = Instant::now();
    let path = request.uri().to_string();
    let headers = request.headers().clone();
    let body = axum::body::to_bytes(request.into_body(), BODY_MAX_BYTES).await.unwrap();
    let body = String::from_utf8(body.into()).unwrap();
    let (place, before) = {
        let mut calls = inner.calls.lock().unwrap();
        let before = calls.iter().filter(|call| call.path == path).count();
        calls.push(ReceivedCall { path: path.clone(), headers, body, began, ended: None });
        (calls.len() - 1, before)
    };
    let reply = (inner.rule)(&path, before);
    tokio::time::sleep(reply.after).await;
    inner.calls.lock().unwrap()[place].ended = Some(Instant::now());
    let mut response = Response::new(Body::from(reply.body));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap();
    for (name, value) in reply.headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}
