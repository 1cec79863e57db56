//! One throwaway PostgreSQL for a whole run, started by `throwaway-postgres` of `syncline-sim`.
//!
//! The server lives exactly as long as the pipe to that program: it ends with this program, however that ends.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::setup::{self, Need};
use crate::workspace::Workspace;
use crate::{command, screen};

/// The variable that names a server to the tests.
pub(crate) const TEST_DATABASE_URL: &str = "TEST_DATABASE_URL";

const PROGRAM: &str = "throwaway-postgres";

/// A running server; dropping it stops it.
pub(crate) struct Database {
    pub(crate) url: String,
    program: Child,
}

impl Database {
    /// Starts the server from the built workspace.
    pub(crate) fn start(workspace: &Workspace) -> Result<Database> {
        let mut command = Command::new(workspace.binary("debug", PROGRAM));
        // A process group of its own: Ctrl-C is for us, and the server is stopped by closing its pipe.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut program = command.spawn().with_context(|| format!("cannot start {PROGRAM}"))?;
        let mut url = String::new();
        let stdout = program.stdout.take().expect("its output is piped");
        BufReader::new(stdout).read_line(&mut url).with_context(|| format!("cannot read from {PROGRAM}"))?;
        let url = url.trim().to_owned();
        if url.is_empty() {
            let status = program.wait().with_context(|| format!("waiting for {PROGRAM}"))?;
            bail!(
                "{PROGRAM} started no server ({status}); by hand:\n    cargo run -p syncline-sim --bin {PROGRAM}"
            );
        }
        Ok(Database { url, program })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        drop(self.program.stdin.take());
        // The server cleans up after itself; a failure to wait for it leaves nothing to be done here.
        let _ = self.program.wait();
    }
}

/// For developers: a server until Ctrl-C.
pub(crate) fn serve(workspace: &Workspace) -> Result<()> {
    setup::ensure(workspace, &[Need::Postgres])?;
    command::stream(&mut workspace.cargo(["build", "-p", "syncline-sim", "--bin", PROGRAM]))?;
    let interrupts = command::interrupts()?;
    let database = Database::start(workspace)?;
    screen::heading("PostgreSQL is running; Ctrl-C stops it and throws it away");
    println!("{TEST_DATABASE_URL}={}", database.url);
    interrupts.recv().context("waiting for Ctrl-C")
}
