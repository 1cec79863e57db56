//! What a node under test is made of and told.

use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use syncline_node::config::Flags;
use syncline_node::part::{Kind, Part};
use syncline_node::viewer::Viewers;
use syncline_node::{Config, Context, Node, http as api};
use syncline_store::Store;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::{RouterNode, RunningNode};

/// Where a node without a socket keeps its rows.
const IN_MEMORY: &str = "sqlite::memory:";

/// Where a running node listens: on a port that the system chooses.
const ANY_PORT: &str = "127.0.0.1:0";

/// What a node serves, once its parts are put together.
type App = Box<dyn FnOnce(&Arc<Context>) -> Router + Send>;

/// Says what a node is made of, and makes it.
pub struct NodeBuilder {
    parts: Vec<Box<dyn Part>>,
    file: String,
    listen: Option<String>,
    database_url: Option<String>,
    folder: Option<PathBuf>,
    environment: Vec<(String, String)>,
    app: App,
}

impl NodeBuilder {
    /// A node of these parts. Apps among them are on, unless the file has a list of `apps` itself.
    pub fn new(parts: Vec<Box<dyn Part>>) -> NodeBuilder {
        NodeBuilder {
            parts,
            file: String::new(),
            listen: None,
            database_url: None,
            folder: None,
            environment: Vec::new(),
            app: Box::new(api::app),
        }
    }

    /// What its `syncline.toml` says. Nothing, unless told.
    #[must_use]
    pub fn file(self, text: &str) -> NodeBuilder {
        NodeBuilder { file: text.to_owned(), ..self }
    }

    /// Where it listens, whatever the file says.
    #[must_use]
    pub fn listen(self, address: &str) -> NodeBuilder {
        NodeBuilder { listen: Some(address.to_owned()), ..self }
    }

    /// The database it uses. Otherwise a router's is in memory, and a running node's is a file in its folder.
    #[must_use]
    pub fn database(self, url: &str) -> NodeBuilder {
        NodeBuilder { database_url: Some(url.to_owned()), ..self }
    }

    /// The folder for its file and its data. Otherwise it has one of its own, which goes with it.
    #[must_use]
    pub fn folder(self, folder: &Path) -> NodeBuilder {
        NodeBuilder { folder: Some(folder.to_owned()), ..self }
    }

    /// The variables of its environment. The test's own environment is not read.
    #[must_use]
    pub fn environment(mut self, variables: &[(&str, String)]) -> NodeBuilder {
        self.environment =
            variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        self
    }

    /// Serves something else than the API, for tests of the door in front of it.
    #[must_use]
    pub fn app(self, app: impl FnOnce(&Arc<Context>) -> Router + Send + 'static) -> NodeBuilder {
        NodeBuilder { app: Box::new(app), ..self }
    }

    /// Makes a node without a socket. Of its workers only the one runs that heartbeats wait for.
    pub async fn router(self) -> RouterNode {
        let halt = CancellationToken::new();
        let node = self.router_until(halt.clone()).await;
        if let Some(viewers) = node.context.find::<Arc<Viewers>>() {
            tokio::spawn(async move { viewers.run(halt).await });
        }
        node
    }

    /// Makes a node without a socket and without any worker: it writes nothing but what a request makes it write.
    pub(crate) async fn idle_router(self) -> RouterNode {
        self.router_until(CancellationToken::new()).await
    }

    async fn router_until(mut self, halt: CancellationToken) -> RouterNode {
        // A file may name a database that is not there: what it says of one is shown, and not opened.
        let url = self.database_url.take().unwrap_or_else(|| IN_MEMORY.to_owned());
        let (config, folder) = self.load();
        let store = Store::open_with(&url, &config.store_options()).await.unwrap();
        let address = config.listen;
        let context = Context::new(config, store, address).await.unwrap();
        let app = (self.app)(&context);
        RouterNode { context, app, _halt: halt.drop_guard(), _folder: folder }
    }

    /// Starts a node with all its workers and waits until it answers.
    pub async fn start(mut self) -> RunningNode {
        self.listen.get_or_insert_with(|| ANY_PORT.to_owned());
        let (config, folder) = self.load();
        let node = Node::start_with(config, self.app).await.unwrap();
        RunningNode::new(node, folder)
    }

    /// Reads the configuration as a program does. The folder, where nobody named one, goes with the node.
    fn load(&mut self) -> (Config, Option<TempDir>) {
        let own = self.folder.is_none().then(|| tempfile::tempdir().unwrap());
        let folder = own.as_ref().map(|own| own.path().to_owned()).or(self.folder.take()).unwrap();
        let path = folder.join("syncline.toml");
        fs::write(&path, &self.file).unwrap();
        let flags = Flags {
            config: Some(path),
            listen: self.listen.take(),
            data: Some(folder.join("data").to_str().unwrap().to_owned()),
            database_url: self.database_url.take(),
            apps: self.apps(),
            ..Flags::default()
        };
        let variable = |name: &str| {
            let found = self.environment.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        };
        let parts = mem::take(&mut self.parts);
        let config = Config::load(&flags, &variable, parts).unwrap_or_else(|error| panic!("{error}"));
        (config, own)
    }

    /// The names of all apps, for the flag; none where the file says which are on.
    fn apps(&self) -> Option<String> {
        let listed = self.file.parse::<toml::Table>().is_ok_and(|file| file.contains_key("apps"));
        let apps = self.parts.iter().filter(|part| part.kind() == Kind::App).map(|part| part.name());
        (!listed).then(|| apps.collect::<Vec<_>>().join(","))
    }
}
