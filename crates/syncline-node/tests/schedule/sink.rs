//! An address that jobs call: it counts the calls and answers as told.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::any;

/// What the sink does with a call, given how many came before.
type Answer = Box<dyn Fn(usize) -> StatusCode + Send + Sync>;

/// Calls received.
#[derive(Clone)]
pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
}

/// One call's headers that matter.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) bucket: String,
    pub(crate) key: String,
}

struct Inner {
    calls: Arc<Mutex<Vec<Call>>>,
    answer: Answer,
}

impl Sink {
    /// Always content.
    pub(crate) async fn new() -> Sink {
        Sink::answering(|_| StatusCode::OK).await
    }

    /// Answers by the number of calls that came before; `408` means not at all.
    pub(crate) async fn answering(answer: impl Fn(usize) -> StatusCode + Send + Sync + 'static) -> Sink {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let inner = Arc::new(Inner { calls: Arc::clone(&calls), answer: Box::new(answer) });
        let app = Router::new().route("/job", any(receive)).with_state(inner);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Sink { address, calls }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/job", self.address)
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }
}

async fn receive(State(inner): State<Arc<Inner>>, headers: HeaderMap) -> (StatusCode, &'static str) {
    let text = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let before = {
        let mut calls = inner.calls.lock().unwrap();
        calls.push(Call { bucket: text("x-syncline-bucket"), key: text("idempotency-key") });
        calls.len() - 1
    };
    match (inner.answer)(before) {
        StatusCode::REQUEST_TIMEOUT => std::future::pending().await,
        status => (status, "painted"),
    }
}
