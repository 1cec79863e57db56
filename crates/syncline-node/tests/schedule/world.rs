//! The node under test: all systems of the platform, running.

use std::ops::Deref;

use serde_json::Value;
use syncline_testing::{NodeBuilder, ReceivedCall, Reply, RunningNode, StubApi};

/// A running node with a folder of its own.
pub(crate) struct World {
    pub(crate) node: RunningNode,
}

impl World {
    /// A node with these `[[jobs]]` on a SQLite file of its own.
    pub(crate) async fn new(jobs: &str) -> World {
        World { node: NodeBuilder::new(syncline_node::systems()).file(jobs).start().await }
    }

    /// A node on a database that others may use too.
    pub(crate) async fn on(database_url: &str, jobs: &str) -> World {
        let builder = NodeBuilder::new(syncline_node::systems()).file(jobs);
        World { node: builder.database(database_url).start().await }
    }
}

impl Deref for World {
    type Target = RunningNode;

    fn deref(&self) -> &RunningNode {
        &self.node
    }
}

/// An address that jobs call, which is content with every call.
pub(crate) async fn content_api() -> StubApi {
    StubApi::start(|_, _| Reply::new(200, "rendered")).await
}

/// The firing that a call was made for.
pub(crate) fn bucket(call: &ReceivedCall) -> String {
    call.header("x-syncline-bucket").to_owned()
}

/// Whether a line of history gives this reason and stands there.
pub(crate) fn is(run: &Value, reason: &str, state: &str) -> bool {
    run["reason"] == reason && run["state"] == state
}
