//! The node under test: all systems of the platform, without a socket.

use std::ops::Deref;
use std::sync::Arc;

use axum::Router;
use syncline_node::Context;
use syncline_testing::{NodeBuilder, RouterNode};

pub(crate) use syncline_testing::{Answer, HOST, request};

/// The node.
pub(crate) struct World(RouterNode);

impl World {
    /// A node told what `file`, a `syncline.toml`, says.
    pub(crate) async fn new(file: &str) -> World {
        World(builder(file).router().await)
    }

    /// A node that serves something else than the API behind the same door.
    pub(crate) async fn with(
        file: &str,
        app: impl FnOnce(&Arc<Context>) -> Router + Send + 'static,
    ) -> World {
        World(builder(file).app(app).router().await)
    }
}

impl Deref for World {
    type Target = RouterNode;

    fn deref(&self) -> &RouterNode {
        &self.0
    }
}

/// The same, not made yet.
pub(crate) fn builder(file: &str) -> NodeBuilder {
    NodeBuilder::new(syncline_node::systems()).file(file)
}
