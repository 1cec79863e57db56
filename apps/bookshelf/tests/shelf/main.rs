//! The bookshelf on a node: its routes without a socket, and from a scan to a book with nodes that really run.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod nodes;
mod routes;
mod scans;
mod world;
