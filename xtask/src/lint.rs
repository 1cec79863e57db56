//! Formatting and clippy, the way the gate wants them.

use anyhow::{Context, Result};

use crate::setup::{Need, WASM_TARGET};
use crate::workspace::Workspace;
use crate::{command, wasm};

pub(crate) const NEEDS: &[Need] = &[Need::RustComponents, Need::WasmTarget];

pub(crate) fn fmt(workspace: &Workspace, check: bool) -> Result<()> {
    let mut fmt = workspace.cargo(["fmt", "--all"]);
    if check {
        fmt.arg("--check");
    }
    command::stream(&mut fmt).with_context(|| {
        if check { "not formatted; this mends it:\n    cargo xtask fmt" } else { "cannot format" }
    })
}

/// Warnings are errors: for everything that runs on a server, and again for what runs in a browser, where other code
/// is compiled in.
pub(crate) fn clippy(workspace: &Workspace) -> Result<()> {
    let deny = ["--", "-D", "warnings"];
    let mut servers = workspace.cargo(["clippy", "--workspace", "--all-targets", "--keep-going"]);
    command::stream(servers.args(deny))?;
    let mut browsers = workspace.cargo(["clippy", "--target", WASM_TARGET]);
    for source in wasm::SOURCES {
        browsers.args(["-p", source.name]);
    }
    command::stream(browsers.args(deny))
}
