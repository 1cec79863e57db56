//! Nodes that really run, and ways to wait for what they do.

#[path = "../common/parts.rs"]
mod parts;

use std::path::Path;

use serde_json::{Value, json};
use syncline_node::config::Flags;
use syncline_node::{Config, Node, Running};
use syncline_sim::until_some;

/// A running node.
pub(crate) struct World {
    pub(crate) node: Running,
    client: reqwest::Client,
}

impl World {
    /// A node told `lines`, with its data in `folder`; on `database` if there is one.
    pub(crate) async fn start(
        folder: &Path,
        database: Option<&str>,
        lines: &str,
        environment: &[(&'static str, String)],
    ) -> World {
        let path = folder.join("syncline.toml");
        let database = database.map_or(String::new(), |url| format!("database_url = {url:?}\n"));
        let head =
            format!("listen = \"127.0.0.1:0\"\ndata = {:?}\njobs = []\n{database}", folder.join("data"));
        std::fs::write(&path, head + lines).unwrap();
        let flags = Flags { config: Some(path), apps: parts::apps(lines), ..Flags::default() };
        let environment = environment.to_vec();
        let variable = move |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        };
        let node = Node::start(Config::load(&flags, &variable, parts::all()).unwrap()).await.unwrap();
        World { node, client: reqwest::Client::new() }
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.client.get(self.url(path)).send().await.unwrap().json().await.unwrap()
    }

    pub(crate) async fn text(&self, path: &str) -> String {
        self.client.get(self.url(path)).send().await.unwrap().text().await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.client.post(self.url(path)).json(body).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {answer:?}");
        answer.json().await.unwrap()
    }

    pub(crate) async fn delete(&self, path: &str) -> Value {
        self.client.delete(self.url(path)).send().await.unwrap().json().await.unwrap()
    }

    /// Puts keys into a queue.
    pub(crate) async fn enqueue(&self, queue: &str, kind: &str, keys: &[&str]) -> Value {
        self.post(&format!("/api/queues/{queue}"), &json!({ "kind": kind, "keys": keys })).await
    }

    /// What is known of a key once it has ended.
    pub(crate) async fn ended(&self, queue: &str, key: &str) -> Value {
        until_some("a key to end", async || {
            let known = self.get(&format!("/api/queues/{queue}/results/{key}?wait_ms=20000")).await;
            ["done", "failed", "dead"].contains(&known["state"].as_str()?).then_some(known)
        })
        .await
    }

    /// How a queue is.
    pub(crate) async fn queue(&self, name: &str) -> Value {
        self.get(&format!("/api/queues/{name}")).await
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.node.address())
    }
}
