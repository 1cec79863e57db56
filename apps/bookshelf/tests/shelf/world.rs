//! The node under test: all systems of the platform, and the bookshelf.

use std::path::Path;

use syncline_bookshelf::BookshelfPart;
use syncline_testing::{NodeBuilder, RouterNode, RunningNode};

/// A node without a socket, told what `file` says.
pub(crate) async fn node(file: &str) -> RouterNode {
    builder(file).router().await
}

/// A running node told `lines` and these variables, with its data in `folder`.
pub(crate) async fn start(folder: &Path, lines: &str, environment: &[(&str, String)]) -> RunningNode {
    builder(lines).folder(folder).environment(environment).start().await
}

/// A node, not made yet.
pub(crate) fn builder(file: &str) -> NodeBuilder {
    let mut parts = syncline_node::systems();
    parts.push(Box::new(BookshelfPart::default()));
    NodeBuilder::new(parts).file(file)
}
