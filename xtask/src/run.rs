//! Builds everything, starts Syncline and says where to look.
//!
//! The small world is a list of processes ([`world`]): whoever adds one adds a line there. They start in order, each
//! waiting for the one before, and all stop together: on Ctrl-C, or when one of them dies.

mod port;
mod world;

use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;
use console::style;

use crate::workspace::Workspace;
use crate::{command, screen, setup, wasm};
use world::{Process, World};

#[derive(Args)]
pub(crate) struct Options {
    /// Start only the node
    #[arg(long)]
    bare: bool,
    /// Build without optimisation, which is faster to build and slower to run
    #[arg(long)]
    dev: bool,
    /// Where the node listens; port 0 takes any free one
    #[arg(long, env = "SYNCLINE_LISTEN", default_value = "127.0.0.1:3000", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Where the node keeps its data [default: the folder `data` of this repository]
    #[arg(long, env = "SYNCLINE_DATA", value_name = "FOLDER")]
    data: Option<PathBuf>,
}

pub(crate) fn perform(workspace: &Workspace, options: &Options) -> Result<()> {
    setup::ensure(workspace, wasm::NEEDS)?;
    // Before the build, so that nobody waits minutes to learn it.
    if let Some(owner) = port::taken(options.listen)? {
        bail!(
            "{} is already in use by {owner}\n\
             Stop that, or choose another address:\n    cargo xtask run --listen {}:0",
            options.listen,
            options.listen.ip()
        );
    }
    screen::heading("Build");
    wasm::build(workspace)?;
    let profile = if options.dev { "dev" } else { "release" };
    command::stream(&mut workspace.cargo(["build", "-p", "syncline-cli", "--bins", "--profile", profile]))?;

    screen::heading("Start");
    let mut world = World::new()?;
    let mut addresses = Vec::new();
    for process in processes(workspace, options) {
        match world.start(process)? {
            Some(address) => addresses.push(address),
            None => return Ok(()),
        }
    }
    println!("{}", where_to_look(&addresses[0], &data(workspace, options).display().to_string()));
    world.until_stopped()
}

/// Everything that runs, in the order of starting.
fn processes(workspace: &Workspace, options: &Options) -> Vec<Process> {
    let profile = if options.dev { "debug" } else { "release" };
    let mut node = Command::new(workspace.binary(profile, "syncline"));
    node.arg("serve").current_dir(&workspace.root);
    node.env("SYNCLINE_LISTEN", options.listen.to_string()).env("SYNCLINE_DATA", data(workspace, options));
    if env::var_os("SYNCLINE_LOG_FORMAT").is_none() {
        // Behind our pipe the node sees no terminal and would log for machines.
        node.env("SYNCLINE_LOG_FORMAT", "human");
    }
    vec![Process { name: "node", command: node, ready_path: "/readyz" }]
}

fn data(workspace: &Workspace, options: &Options) -> PathBuf {
    workspace.root.join(options.data.as_deref().unwrap_or("data".as_ref()))
}

fn where_to_look(node: &str, data: &str) -> String {
    let rows = [
        ("dashboard", format!("{node}/")),
        ("viewers", format!("{node}/viewer")),
        ("gallery", format!("{node}/gallery")),
        ("API", format!("{node}/openapi.json")),
        ("metrics", format!("{node}/metrics")),
        ("data", data.to_owned()),
    ];
    let rows: String =
        rows.iter().map(|(what, place)| format!("    {what:<12}{}\n", style(place).cyan())).collect();
    format!("\n  {}\n\n{rows}\n  Ctrl-C stops everything.\n", style("Syncline is running").green().bold())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_names_the_dashboard_and_the_data() {
        let block =
            console::strip_ansi_codes(&where_to_look("http://127.0.0.1:3000", "/src/data")).into_owned();
        assert!(block.contains("    dashboard   http://127.0.0.1:3000/\n"), "{block}");
        assert!(block.contains("    data        /src/data\n"), "{block}");
    }
}
