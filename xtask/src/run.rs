//! Builds everything, starts Syncline and says where to look.
//!
//! The small world is a list of processes ([`world`]): whoever adds one adds a line there. They start in order, each
//! waiting for the one before, and all stop together: on Ctrl-C, or when one of them dies.

mod callbox;
mod port;
mod world;

use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;
use console::style;

use crate::workspace::Workspace;
use crate::{command, screen, setup, wasm};
use world::{Process, World};

/// The apps of the whole world.
const APPS: &str = "bookshelf,calls,gallery";

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
    let upstreams = if options.bare { None } else { Some(upstreams(workspace, options)?) };
    let upstreams = match upstreams.map(|process| world.start(process)).transpose()? {
        Some(None) => return Ok(()),
        address => address.flatten(),
    };
    let Some(node) = world.start(node(workspace, options, upstreams.as_deref()))? else { return Ok(()) };
    let data = data(workspace, options);
    let mut callbox = None;
    if !options.bare {
        let programs = callbox::Programs { workspace, profile: profile_folder(options) };
        let Some(url) = callbox::start(&mut world, &programs, &data, &node, options.listen)? else {
            return Ok(());
        };
        callbox = Some(url);
    }
    let places = Places { node: &node, upstreams: upstreams.as_deref(), callbox: callbox.as_deref() };
    println!("{}", where_to_look(&places, &data.display().to_string()));
    world.until_stopped()
}

fn profile_folder(options: &Options) -> &'static str {
    if options.dev { "debug" } else { "release" }
}

fn syncline(workspace: &Workspace, options: &Options) -> Command {
    Command::new(workspace.binary(profile_folder(options), "syncline"))
}

/// The address so many ports after the node's where that is free, any free one otherwise.
fn near(listen: SocketAddr, ports: u16) -> Result<SocketAddr> {
    let near = listen.port().checked_add(ports).filter(|port| *port > ports).unwrap_or(0);
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), near);
    Ok(if port::taken(address)?.is_some() { SocketAddr::new(address.ip(), 0) } else { address })
}

/// Stand-ins for the book APIs. They are at the port after the node's where that is free, so that covers which were found
/// yesterday are still there today.
fn upstreams(workspace: &Workspace, options: &Options) -> Result<Process> {
    let address = near(options.listen, 1)?;
    let mut command = syncline(workspace, options);
    command.args(["demo", "upstreams", "--listen", &address.to_string()]);
    Ok(Process { name: "demo", command, ready_path: Some("/stats") })
}

/// The node, which asks the stand-ins where the environment names no others.
fn node(workspace: &Workspace, options: &Options, upstreams: Option<&str>) -> Process {
    let mut node = syncline(workspace, options);
    node.arg("serve").current_dir(&workspace.root);
    node.env("SYNCLINE_LISTEN", options.listen.to_string()).env("SYNCLINE_DATA", data(workspace, options));
    if !options.bare && env::var_os("SYNCLINE_APPS").is_none() {
        node.env("SYNCLINE_APPS", APPS);
    }
    if env::var_os("SYNCLINE_LOG_FORMAT").is_none() {
        // Behind our pipe the node sees no terminal and would log for machines.
        node.env("SYNCLINE_LOG_FORMAT", "human");
    }
    let apis = [
        ("NDL_BASE_URL", "/ndl"),
        ("NDL_THUMBNAIL_BASE_URL", "/ndl/thumbnail"),
        ("GOOGLE_BOOKS_BASE_URL", "/google"),
        ("RAKUTEN_BASE_URL", "/rakuten"),
    ];
    if let Some(upstreams) = upstreams {
        for (name, path) in apis.into_iter().filter(|(name, _)| env::var_os(name).is_none()) {
            node.env(name, format!("{upstreams}{path}"));
        }
        if env::var_os("RAKUTEN_APPLICATION_ID").is_none() {
            node.env("RAKUTEN_APPLICATION_ID", "demo");
        }
    }
    Process { name: "node", command: node, ready_path: Some("/readyz") }
}

fn data(workspace: &Workspace, options: &Options) -> PathBuf {
    workspace.root.join(options.data.as_deref().unwrap_or("data".as_ref()))
}

/// Where everything is.
struct Places<'a> {
    node: &'a str,
    upstreams: Option<&'a str>,
    callbox: Option<&'a str>,
}

fn where_to_look(places: &Places<'_>, data: &str) -> String {
    let Places { node, upstreams, callbox } = places;
    let mut rows = vec![
        ("dashboard", format!("{node}/")),
        ("viewers", format!("{node}/viewer")),
        ("gallery", format!("{node}/gallery")),
        ("project", format!("{node}/project")),
        ("state", format!("{node}/state")),
        ("shelf", format!("{node}/shelf")),
        ("calls", format!("{node}/calls")),
        ("API", format!("{node}/openapi.json")),
        ("metrics", format!("{node}/metrics")),
        ("data", data.to_owned()),
    ];
    rows.extend(upstreams.map(|demo| ("book APIs", format!("{demo}/stats (stand-ins)"))));
    rows.extend(callbox.map(|callbox| ("edge box", format!("{callbox}/ (takes a call now and then)"))));
    let rows: String =
        rows.iter().map(|(what, place)| format!("    {what:<12}{}\n", style(place).cyan())).collect();
    format!("\n  {}\n\n{rows}\n  Ctrl-C stops everything.\n", style("Syncline is running").green().bold())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_names_the_dashboard_the_data_and_the_stand_ins() {
        let places = Places {
            node: "http://127.0.0.1:3000",
            upstreams: Some("http://127.0.0.1:3001"),
            callbox: Some("http://127.0.0.1:3002"),
        };
        let block = console::strip_ansi_codes(&where_to_look(&places, "/src/data")).into_owned();
        assert!(block.contains("    dashboard   http://127.0.0.1:3000/\n"), "{block}");
        assert!(block.contains("    data        /src/data\n"), "{block}");
        assert!(block.contains("    edge box    http://127.0.0.1:3002/"), "{block}");
        assert!(block.contains("    book APIs   http://127.0.0.1:3001/stats (stand-ins)\n"), "{block}");
    }
}
