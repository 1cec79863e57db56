//! The two programs, `syncline` and `serversync`. Nothing but arguments, output and wiring.
//!
//! - [`syncline`]: runs a node and talks to one; its own commands are in `command`, one file each
//! - [`serversync`]: carries what an application committed to its front end
//! - `parts`: which parts a node can have, and what apps add to the two programs
//! - `exit`: with which code they end
//!
//! How a command talks to a node and to a person is in [`syncline_client`], which apps use as well.

pub mod serversync;
pub mod syncline;

mod command;
mod exit;
mod parts;

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
