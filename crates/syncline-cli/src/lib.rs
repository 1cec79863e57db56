//! The two programs, `syncline` and `serversync`. Nothing but arguments, output and wiring.
//!
//! - [`syncline`]: runs a node and talks to one; its commands are in `command`, one file each
//! - [`serversync`]: carries what an application committed to its front end
//! - `client`: asks a running node over HTTP
//! - `answer`: what a node said, in words
//! - `listener`: what a node tells, for as long as it takes
//! - `input`: keys from the command line, a file or standard input
//! - `parts`: which parts a node can have
//! - `pending`: what is waited for
//! - `progress`: how far it is, on a terminal
//! - `output`: what goes to the screen, and with which colours
//! - `signal`: being asked to stop
//!
//! Exit codes: 0 done, 1 failed, 2 wrong use or configuration.

pub mod serversync;
pub mod syncline;

mod answer;
mod client;
mod command;
mod input;
mod listener;
mod output;
mod parts;
mod pending;
mod progress;
mod signal;

use std::process::ExitCode;

/// Every part that the programs know, on or off: for tests that walk over all of them.
#[doc(hidden)]
pub fn all_parts() -> Vec<Box<dyn syncline_node::part::Part>> {
    parts::all()
}

/// Runs `work` to its end, on all processors and with TLS ready.
fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<ExitCode> {
    // The one place that chooses how TLS is done; an error only says that somebody has chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(work).map(|()| ExitCode::SUCCESS)
}
