//! The node under test: all systems of the platform, running.

use std::ops::Deref;
use std::path::Path;

use syncline_testing::{NodeBuilder, RunningNode};

/// A running node.
pub(crate) struct World {
    pub(crate) node: RunningNode,
}

impl World {
    /// A node told `lines`, with its data in `folder`; on `database` if there is one.
    pub(crate) async fn start(folder: &Path, database: Option<&str>, lines: &str) -> World {
        let builder = NodeBuilder::new(syncline_node::systems()).folder(folder).file(lines);
        let builder = if let Some(url) = database { builder.database(url) } else { builder };
        World { node: builder.start().await }
    }
}

impl Deref for World {
    type Target = RunningNode;

    fn deref(&self) -> &RunningNode {
        &self.node
    }
}
