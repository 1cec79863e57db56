//! Every chore of this repository, as `cargo xtask <chore>`: the only automation there is.
//!
//! Two chores matter to a newcomer and need nothing but Rust, Node.js and a package manager: `run` and `test`.
//! Each installs what is missing first ([`setup`]), and each failure names the command to run by hand.
//! This crate depends on no product crate, so it builds even where the product does not.

// Printing is what this program does.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod command;
mod database;
mod dist;
mod files;
mod lint;
mod run;
mod screen;
mod setup;
mod soak;
mod test;
mod wasm;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Install what this repository needs and the machine lacks
    Setup,
    /// Build everything, start Syncline and print where to look
    Run(run::Options),
    /// Run every check and every test, PostgreSQL and Chromium included
    Test(test::Options),
    /// Run the same tests with larger numbers, for as long as you like
    Soak(soak::Options),
    /// Measure one thing side by side with its peers; without a name, list what can be measured
    Bench(bench::Options),
    /// Make everything that is shipped: binaries, npm packages, extension, checksums
    Dist,
    /// Build the browser packages into web/pkg and hold them to their sizes
    Wasm,
    /// Format all Rust code
    Fmt {
        /// Change nothing, fail where something would change
        #[arg(long)]
        check: bool,
    },
    /// Clippy with warnings denied, for servers and for browsers
    Lint,
    /// Start a throwaway PostgreSQL and print its address, until Ctrl-C
    Postgres,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match perform(arguments.chore) {
        Ok(code) => code,
        Err(error) => {
            screen::error(&error);
            ExitCode::FAILURE
        }
    }
}

fn perform(chore: Chore) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    match chore {
        Chore::Setup => setup::ensure(&workspace, setup::EVERYTHING)?,
        Chore::Run(options) => run::perform(&workspace, &options)?,
        Chore::Test(options) => return test::perform(&workspace, &options),
        Chore::Soak(options) => return soak::perform(&workspace, &options),
        Chore::Bench(options) => bench::perform(&workspace, &options)?,
        Chore::Dist => dist::perform(&workspace)?,
        Chore::Wasm => {
            setup::ensure(&workspace, wasm::NEEDS)?;
            wasm::build(&workspace)?;
        }
        Chore::Fmt { check } => lint::fmt(&workspace, check)?,
        Chore::Lint => {
            setup::ensure(&workspace, lint::NEEDS)?;
            lint::clippy(&workspace)?;
        }
        Chore::Postgres => database::serve(&workspace)?,
    }
    Ok(ExitCode::SUCCESS)
}
