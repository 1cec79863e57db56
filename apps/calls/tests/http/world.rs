//! The node under test: all systems of the platform, and calls.

use syncline_calls::CallsPart;
use syncline_testing::{NodeBuilder, RouterNode};

/// A node without a socket, told what `file` says.
pub(crate) async fn node(file: &str) -> RouterNode {
    builder(file).router().await
}

/// The same, not made yet.
pub(crate) fn builder(file: &str) -> NodeBuilder {
    let mut parts = syncline_node::systems();
    parts.push(Box::new(CallsPart::default()));
    NodeBuilder::new(parts).file(file)
}
