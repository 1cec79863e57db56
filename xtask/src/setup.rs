//! Installing what this repository needs and the machine lacks.
//!
//! Every step first asks, without the network, whether it is already done; then says what it does; and when it
//! fails, names the command to run by hand. Chores state what they need, so that `run` does not install a test tool.

mod debian;
mod node;
mod python;
mod toolchain;

use anyhow::Result;

use crate::screen;
use crate::workspace::Workspace;

pub(crate) use debian::{chromium, firefox, packages as debian_packages};
pub(crate) use node::packages as npm_packages;
pub(crate) use toolchain::WASM_TARGET;

/// Something a chore cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The standard library for browsers.
    WasmTarget,
    /// rustfmt and clippy, which a minimal toolchain lacks.
    RustComponents,
    /// The test runner.
    Nextest,
    /// PostgreSQL's server programs; tests that kill a server need them even where `TEST_DATABASE_URL` names another.
    Postgres,
    /// Patroni and etcd, for a cluster that fails over.
    Cluster,
    /// Chromium, and fonts for all that the pages may show.
    Chromium,
    /// Firefox, for what an engine does differently.
    Firefox,
    /// WebKit, for the same, and a screen for it.
    WebKit,
    /// Node.js and the packages that `web/package-lock.json` pins.
    Npm,
    /// The generator of TypeScript clients, which `web/clients/package-lock.json` pins.
    NpmClients,
    /// Python's server that speaks S3, and its generator of clients.
    Python,
}

/// What all chores together need.
pub(crate) const EVERYTHING: &[Need] = &[
    Need::WasmTarget,
    Need::RustComponents,
    Need::Nextest,
    Need::Postgres,
    Need::Cluster,
    Need::Chromium,
    Need::Firefox,
    Need::WebKit,
    Need::Npm,
    Need::NpmClients,
    Need::Python,
];

/// Installs whatever of `needs` is missing.
pub(crate) fn ensure(workspace: &Workspace, needs: &[Need]) -> Result<()> {
    screen::heading("Set-up");
    // Node.js comes first: where it is missing nothing here can install it, and the user should know at once.
    if needs.contains(&Need::Npm) || needs.contains(&Need::NpmClients) {
        node::check_version()?;
    }
    debian::ensure(needs)?;
    if needs.contains(&Need::RustComponents) {
        toolchain::components(workspace)?;
    }
    if needs.contains(&Need::WasmTarget) {
        toolchain::wasm_target()?;
    }
    if needs.contains(&Need::Nextest) {
        toolchain::nextest(workspace)?;
    }
    if needs.contains(&Need::Npm) {
        node::packages(workspace, &workspace.web())?;
    }
    if needs.contains(&Need::NpmClients) {
        node::packages(workspace, &workspace.web().join("clients"))?;
    }
    if needs.contains(&Need::Python) {
        python::packages(workspace)?;
    }
    Ok(())
}
