//! A node that really runs, and ways to ask it and to wait for what it does.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use syncline_node::{Context, Running, outbound};
use tempfile::TempDir;

use crate::{Answer, until_some};

/// A running node, asked over HTTP. [`NodeBuilder::start`](crate::NodeBuilder::start) makes one.
pub struct RunningNode {
    node: Running,
    client: reqwest::Client,
    _folder: Option<TempDir>,
}

impl RunningNode {
    pub(crate) fn new(node: Running, folder: Option<TempDir>) -> RunningNode {
        RunningNode { node, client: outbound::client(), _folder: folder }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.node.address()
    }

    /// The node as handlers see it.
    pub fn context(&self) -> &Arc<Context> {
        self.node.context()
    }

    /// Stops it in order, and waits for its workers.
    pub async fn stop(self) {
        self.node.stop().await;
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }

    /// Sends a request, with JSON if there is any, and reads the answer to its end, whatever it is.
    pub async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let request = self.client.request(method.parse().unwrap(), self.url(path));
        let request = if let Some(body) = body { request.json(body) } else { request };
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, body: response.bytes().await.unwrap() }
    }

    /// What a path answers, as JSON.
    pub async fn get(&self, path: &str) -> Value {
        self.send("GET", path, None).await.value()
    }

    /// What a path answers, as text.
    pub async fn text(&self, path: &str) -> String {
        self.send("GET", path, None).await.text().to_owned()
    }

    /// Posts JSON, which has to succeed.
    pub async fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.send("POST", path, Some(body)).await;
        assert!(answer.status.is_success(), "{path}: {answer:?}");
        answer.value()
    }

    /// Deletes what is at a path.
    pub async fn delete(&self, path: &str) -> Value {
        self.send("DELETE", path, None).await.value()
    }
}

/// With the system `queue`.
impl RunningNode {
    /// Puts keys into a queue. `kind` is one of `new`, `priority`, `retry` and `again`.
    pub async fn enqueue(&self, queue: &str, kind: &str, keys: &[&str]) -> Value {
        self.post(&format!("/api/queues/{queue}"), &json!({ "kind": kind, "keys": keys })).await
    }

    /// How a queue is.
    pub async fn queue(&self, name: &str) -> Value {
        self.get(&format!("/api/queues/{name}")).await
    }

    /// What is known of a key once it has ended.
    pub async fn ended(&self, queue: &str, key: &str) -> Value {
        until_some("a key to end", async || {
            let known = self.get(&format!("/api/queues/{queue}/results/{key}?wait_ms=20000")).await;
            ["done", "failed", "dead"].contains(&known["state"].as_str()?).then_some(known)
        })
        .await
    }
}

/// With the system `viewer`.
impl RunningNode {
    /// Somebody watches from now on.
    pub async fn beat(&self, session: &str) {
        let answer = self.post("/api/viewer", &json!({ "sessionId": session })).await;
        assert_eq!(answer["success"], true, "{answer}");
    }

    /// Somebody does not watch any more.
    pub async fn bye(&self, session: &str) {
        self.post("/api/viewer", &json!({ "sessionId": session, "bye": true })).await;
    }

    /// A job's history, newest first.
    pub async fn history(&self, job: &str) -> Vec<Value> {
        let page = self.get(&format!("/api/jobs/{job}/history?limit=1000")).await;
        page["runs"].as_array().unwrap().clone()
    }

    /// Waits for a line of a job's history that fits.
    pub async fn wait_for_run(&self, job: &str, fits: impl Fn(&Value) -> bool) -> Value {
        until_some("a line of history", async || self.history(job).await.into_iter().find(&fits)).await
    }
}
