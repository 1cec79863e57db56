//! The bookshelf on a node: its routes without a socket, and from a scan to a book with nodes that really run, here and as
//! processes that are killed.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]
#![allow(clippy::print_stdout, reason = "what was counted is told to whoever reads the run")]

mod nodes;
mod process;
mod routes;
mod scans;
mod world;
