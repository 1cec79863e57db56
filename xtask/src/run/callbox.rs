//! The edge box of the small world: a database and a node of its own, a call now and then, and `serversync` in both directions.

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::near;
use super::world::{Process, World};
use crate::workspace::Workspace;

/// A call every so many seconds: often enough to be seen coming, seldom enough to listen to one.
const CALL_EVERY_SEC: &str = "20";

/// The box has calls and settings, no pictures and no books.
const SETTINGS: &str = "apps = [\"calls\"]\n";

/// The programs to start.
pub(super) struct Programs<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) profile: &'a str,
}

impl Programs<'_> {
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.workspace.binary(self.profile, name));
        command.current_dir(&self.workspace.root);
        if env::var_os("SYNCLINE_LOG_FORMAT").is_none() {
            command.env("SYNCLINE_LOG_FORMAT", "human");
        }
        command
    }
}

/// Starts the box, which keeps its data below `data`, and what connects it with the front end at `frontend`; its address, or `None`
/// when the user interrupted.
pub(super) fn start(
    world: &mut World,
    programs: &Programs<'_>,
    data: &Path,
    frontend: &str,
    listen: SocketAddr,
) -> Result<Option<String>> {
    let place = data.join("box");
    fs::create_dir_all(&place).with_context(|| format!("cannot create {}", place.display()))?;
    let settings = place.join("syncline.toml");
    fs::write(&settings, SETTINGS).with_context(|| format!("cannot write {}", settings.display()))?;
    let database = format!("sqlite:{}", place.join("box.db").display());
    let recordings = place.join("recordings");

    let mut node = programs.command("syncline");
    node.arg("serve").env("SYNCLINE_LISTEN", near(listen, 2)?.to_string()).env("SYNCLINE_CONFIG", &settings);
    node.env("SYNCLINE_DATA", &place)
        .env("DATABASE_URL", &database)
        .env_remove("PUBLIC_BASE_URL")
        .env_remove("SYNCLINE_APPS");
    node.env("RECORDINGS_DIR", place.join("received"));
    let Some(url) = world.start(Process { name: "box", command: node, ready_path: Some("/readyz") })? else {
        return Ok(None);
    };

    let mut up = programs.command("serversync");
    up.env("DATABASE_URL", &database).env("RECORDINGS_DIR", &recordings).env("FRONTEND_BASE_URL", frontend);
    let mut down = programs.command("serversync");
    if env::var_os("DATABASE_URL").is_none() {
        down.env("DATABASE_URL", format!("sqlite:{}", data.join("syncline.db").display()));
    }
    down.env("RECORDINGS_DIR", data.join("outgoing")).env("FRONTEND_BASE_URL", &url);
    for (name, mut command) in [("up", up), ("down", down)] {
        // Whatever address the node listens on, this is the same machine.
        command.env("SYNC_METRICS_LISTEN", "127.0.0.1:0").env("SYNC_ALLOW_HTTP", "true");
        if world.start(Process { name, command, ready_path: Some("/healthz") })?.is_none() {
            return Ok(None);
        }
    }
    let mut calls = programs.command("syncline");
    calls.args(["demo", "call", "--every", CALL_EVERY_SEC]);
    calls.env("DATABASE_URL", &database).env("RECORDINGS_DIR", &recordings);
    world.start(Process { name: "calls", command: calls, ready_path: None })?;
    Ok(Some(url))
}
