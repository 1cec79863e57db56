//! Starts a throwaway PostgreSQL, prints its address as the first line, and stops it when standard input closes.
//!
//! For scripts and test runners that want one server for many processes: hold the pipe, pass the address on as
//! `TEST_DATABASE_URL`, close the pipe. Killing this program cleans up as well.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use syncline_sim::postgres::Cluster;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell when standard error is closed too.
            let _ = writeln!(io::stderr(), "throwaway-postgres: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = Cluster::start()?;
    let mut out = io::stdout();
    writeln!(out, "{}", cluster.url("postgres"))?;
    out.flush()?;
    let mut ignored = [0; 256];
    while io::stdin().read(&mut ignored)? > 0 {}
    Ok(())
}
