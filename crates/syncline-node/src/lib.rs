//! What runs on a server: HTTP in front, workers behind, configuration around.
//!
//! - [`config`]: what the node is told, from flags, environment and `syncline.toml`
//! - [`node`]: the parts put together, started and stopped ([`Node::start`], [`Context`])
//! - [`server`]: the accept loop; no connection sits for ever
//! - [`http`]: the API, behind one door that checks, bounds, renders and counts ([`http::app`])
//! - [`viewer`]: who is watching: heartbeats in memory, one report per node in the store
//! - [`schedule`]: jobs that run while somebody watches
//! - [`lock`]: leases, with a line for those who wait
//! - [`folder`]: files beneath a folder and nowhere else
//! - [`gallery`]: the pictures that the built-in job makes
//! - [`demo`]: stand-ins for the book APIs, to try and to test
//! - [`entity`]: what came from elsewhere, and settings that go there
//! - [`recording`]: recordings of calls, received, kept and played
//! - [`queue`]: keyed work at the pace an API allows, a worker for each queue
//! - [`shelf`]: the bookshelf: six queues, from a scanned ISBN to a book with its cover
//! - [`outbox`]: carries what was committed here to its front end (`serversync`)
//! - [`events`]: what happens, told to whoever listens
//! - [`metrics`]: what is counted, for Prometheus
//! - [`log`], [`secret`]: one line per event, and nothing in it that is nobody's business
//!
//! Rules are `syncline-core`'s, durable truth is `syncline-store`'s.

pub mod config;
pub mod demo;
pub mod entity;
pub mod events;
pub mod folder;
pub mod gallery;
pub mod http;
pub mod lock;
pub mod log;
pub mod metrics;
pub mod node;
pub mod outbox;
pub mod queue;
pub mod recording;
pub mod schedule;
pub mod secret;
pub mod server;
pub mod shelf;
pub mod state;
pub mod viewer;

mod address;
mod clock;
mod outbound;
mod rationed;
mod text;

pub use config::Config;
pub use node::{Context, Node, Running, StartError};
