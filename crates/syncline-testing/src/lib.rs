//! Nodes to test parts with: yours, ours, in any combination.
//!
//! - [`NodeBuilder`]: says which parts a node has and what its file says, and makes one of two kinds
//! - [`RouterNode`]: answers requests without a socket. No worker runs, so what a request left behind stays as it is
//! - [`RunningNode`]: the whole node with its workers, on a port of its own, in a folder of its own
//! - [`process`]: the real programs as processes, to be stopped and killed
//! - [`TestKey`]: a key that a node can be told of, and what its holder sends
//! - [`StubApi`]: an API that replies as the test says and writes down every call
//! - [`until`], [`until_some`]: wait for something that a worker does
//! - [`walk`]: checks for everything that a node answers, so that no route of a part escapes them
//!
//! Guarantees: nodes share nothing, and take what they made with them. Everything here panics where something is not as
//! it should be, because a test can do no better. Throwaway databases on PostgreSQL are `syncline-sim`'s.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use syncline_testing::NodeBuilder;
//!
//! // A test of your own part pushes it to this list.
//! let parts = syncline_node::systems();
//! let node = NodeBuilder::new(parts).file("[viewer]\nmax_sessions = 1\n").router().await;
//! assert_eq!(node.json("POST", "/api/viewer", r#"{"sessionId":"ann"}"#).await.status, 200);
//! node.json("POST", "/api/viewer", r#"{"sessionId":"bob"}"#).await.refused(429, "too-many-viewers");
//! # });
//! ```
#![allow(clippy::unwrap_used, reason = "it is for tests, and a test may panic")]

mod answer;
mod builder;
mod key;
pub mod process;
mod router;
mod running;
mod stub;
pub mod walk;

pub use answer::Answer;
pub use builder::NodeBuilder;
pub use key::TestKey;
pub use router::{HOST, RouterNode, request};
pub use running::RunningNode;
pub use stub::{ReceivedCall, Reply, StubApi};
/// Ways to wait for something that a worker does.
pub use syncline_sim::{until, until_some};
