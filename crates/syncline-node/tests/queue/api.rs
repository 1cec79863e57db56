//! An API that answers as told and writes down every call.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode};

/// How the API answers a path, given how many calls came before for the same path.
type Rule = Box<dyn Fn(&str, usize) -> Said + Send + Sync>;

/// An answer to give.
#[derive(Clone)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) after: Duration,
}

impl Said {
    pub(crate) fn new(status: u16, body: &str) -> Said {
        let headers = vec![("content-type", "application/json".to_owned())];
        Said { status, headers, body: body.into(), after: Duration::ZERO }
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Said {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn after(self, after: Duration) -> Said {
        Said { after, ..self }
    }
}

/// One call as the API saw it.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    pub(crate) began: Instant,
    pub(crate) ended: Option<Instant>,
}

struct Inner {
    rule: Rule,
    calls: Mutex<Vec<Call>>,
}

/// The API.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) address: SocketAddr,
    inner: Arc<Inner>,
}

impl Api {
    pub(crate) async fn start(rule: impl Fn(&str, usize) -> Said + Send + Sync + 'static) -> Api {
        let inner = Arc::new(Inner { rule: Box::new(rule), calls: Mutex::default() });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().fallback(receive).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Api { address, inner }
    }

    /// A queue called `name` that calls this API, with more `lines`.
    pub(crate) fn queue(&self, name: &str, lines: &str) -> String {
        format!("[[queues]]\nname = \"{name}\"\nurl = \"http://{}/{{key}}\"\n{lines}\n", self.address)
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.inner.calls.lock().unwrap().clone()
    }

    /// Shortest time from the start or the end of a call to the start of the next.
    pub(crate) fn smallest_gap(&self) -> Duration {
        let calls = self.calls();
        let gap = |pair: &[Call]| {
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
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let body = String::from_utf8(body.into()).unwrap();
    let (place, before) = {
        let mut calls = inner.calls.lock().unwrap();
        let before = calls.iter().filter(|call| call.path == path).count();
        calls.push(Call { path: path.clone(), headers, body, began, ended: None });
        (calls.len() - 1, before)
    };
    let said = (inner.rule)(&path, before);
    tokio::time::sleep(said.after).await;
    inner.calls.lock().unwrap()[place].ended = Some(Instant::now());
    let mut response = Response::new(Body::from(said.body));
    *response.status_mut() = StatusCode::from_u16(said.status).unwrap();
    for (name, value) in said.headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}
