//! What runs on a server: a frame of door, bus, store and configuration, and the parts that plug into it.
//!
//! The frame, which knows no part by name:
//!
//! - [`config`]: what the node is told, from flags, environment and `syncline.toml`
//! - [`part`]: the seam through which systems, apps and anybody's own part plug in
//! - [`Node`]: the parts put together, started and stopped ([`Node::start`], [`Context`])
//! - [`server`]: the accept loop; no connection sits for ever
//! - [`access`]: who calls, and what they may do
//! - [`http`]: the API, behind one door that checks, bounds, renders and counts ([`http::app`])
//! - [`folder`]: files beneath a folder and nowhere else
//! - [`events`]: what happens, told to whoever listens
//! - [`metrics`]: what is counted, for Prometheus
//! - [`outbound`]: calls to the outside, bounded; [`clock`]: the time
//! - [`log`], [`secret`]: one line per event, and nothing in it that is nobody's business
//!
//! The systems, each a part ([`systems`] lists them):
//!
//! - [`kv`]: keys with a time to live
//! - [`state`]: entities that devices share, by space
//! - [`lock`]: leases, with a line for those who wait
//! - [`queue`]: keyed work at the pace an API allows, a worker for each queue
//! - [`viewer`]: who is watching: heartbeats in memory, one report per node in the store
//! - [`schedule`]: jobs that run while somebody watches, a part of `viewer`
//! - [`inbox`]: what came from elsewhere, and settings that go there
//! - [`outbox`]: carries what was committed here to its front end (`serversync`)
//!
//! Rules are `syncline-core`'s, durable truth is `syncline-store`'s.

pub mod access;
pub mod clock;
pub mod config;
pub mod events;
pub mod folder;
pub mod http;
pub mod inbox;
pub mod kv;
pub mod lock;
pub mod log;
pub mod metrics;
pub mod outbound;
pub mod outbox;
pub mod part;
pub mod queue;
pub mod schedule;
pub mod secret;
pub mod server;
pub mod state;
pub mod viewer;

mod address;
mod address_rate;
mod log_throttle;
mod node;
mod reload;
mod store_retry;

pub use config::Config;
pub use node::{Context, Node, NodeId, Running, StartError};

/// The systems of the platform, in the order in which they are built: a system may use those before it.
pub fn systems() -> Vec<Box<dyn part::Part>> {
    vec![
        Box::new(access::AccessPart),
        Box::new(kv::KvPart),
        Box::new(lock::LockPart),
        Box::new(state::StatePart),
        Box::new(queue::QueuePart::default()),
        Box::new(viewer::ViewerPart::default()),
        Box::new(inbox::OutboxPart::default()),
    ]
}

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
