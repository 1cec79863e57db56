//! Nodes that really run, and ways to wait for what they do.

#[path = "../common/parts.rs"]
mod parts;

use std::io::Write as _;

use serde_json::Value;
use syncline_node::config::Flags;
use syncline_node::{Config, Node, Running};
use syncline_sim::until_some;

/// A node with its folder.
pub(crate) struct World {
    pub(crate) node: Running,
    client: reqwest::Client,
    _folder: tempfile::TempDir,
}

impl World {
    /// A node with these `[[jobs]]` on a SQLite file of its own.
    pub(crate) async fn new(jobs: &str) -> World {
        World::on(None, jobs).await
    }

    /// A node on a database that others may use too.
    pub(crate) async fn on(database_url: Option<&str>, jobs: &str) -> World {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("syncline.toml");
        let mut file = std::fs::File::create(&path).unwrap();
        writeln!(file, "listen = \"127.0.0.1:0\"\ndata = {:?}", folder.path().join("data")).unwrap();
        if let Some(url) = database_url {
            writeln!(file, "database_url = {url:?}").unwrap();
        }
        file.write_all(jobs.as_bytes()).unwrap();
        let flags = Flags { config: Some(path), apps: parts::apps(""), ..Flags::default() };
        let node = Node::start(Config::load(&flags, &|_| None, parts::all()).unwrap()).await.unwrap();
        World { node, client: reqwest::Client::new(), _folder: folder }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.node.address())
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.client.get(self.url(path)).send().await.unwrap().json().await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let answer = self.client.post(self.url(path)).json(body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    pub(crate) async fn beat(&self, session: &str) {
        let (status, answer) = self.post("/api/viewer", &serde_json::json!({ "sessionId": session })).await;
        assert_eq!((status, &answer["success"]), (200, &Value::Bool(true)), "{answer}");
    }

    pub(crate) async fn bye(&self, session: &str) {
        self.post("/api/viewer", &serde_json::json!({ "sessionId": session, "bye": true })).await;
    }

    /// The job's history, newest first.
    pub(crate) async fn history(&self, job: &str) -> Vec<Value> {
        let page = self.get(&format!("/api/jobs/{job}/history?limit=1000")).await;
        page["runs"].as_array().unwrap().clone()
    }

    /// Waits for a line of history that fits.
    pub(crate) async fn run(&self, job: &str, fits: impl Fn(&Value) -> bool) -> Value {
        until_some("a line of history", async || self.history(job).await.into_iter().find(&fits)).await
    }
}

/// Whether a line of history gives this reason and stands there.
pub(crate) fn is(run: &Value, reason: &str, state: &str) -> bool {
    run["reason"] == reason && run["state"] == state
}
