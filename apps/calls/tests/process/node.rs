//! Nodes that take calls, as processes.

use syncline_testing::process::Node;
use tempfile::TempDir;

const APPS: (&str, &str) = ("SYNCLINE_APPS", "calls");

/// Starts a node told what `file`, a `syncline.toml`, says.
pub(crate) fn start(file: &str) -> Node {
    start_in(tempfile::tempdir().unwrap(), file, &[])
}

/// Starts a node in a folder, which an earlier node may have left.
pub(crate) fn start_in(folder: TempDir, file: &str, environment: &[(&str, &str)]) -> Node {
    let environment: Vec<_> = environment.iter().copied().chain([APPS]).collect();
    Node::start_in(folder, file, &environment)
}

/// Starts a node by a shell command in which `"$0" serve` is the node.
pub(crate) fn start_by(command: &str) -> Node {
    Node::start_by(command, "", &[APPS])
}
