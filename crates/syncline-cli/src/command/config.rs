//! `syncline config`: a configuration to begin with, and what it comes to.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Subcommand;
use syncline_client::output::{self, WrongUse};

use super::serve::Settings;

const EXAMPLES: &str = "\
Examples:
  syncline config init                    write syncline.toml here, with everything explained
  syncline config init --file box.toml    the same under another name
  syncline config show                    every setting, and where it comes from";

/// The file that `init` writes: nothing in it is on, everything can be.
const FIRST_FILE: &str = include_str!("config/first.toml");

/// Begin a configuration, and look at it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Config {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Write a configuration file with every part of it explained. A file that is there stays as it is.
    Init {
        /// Where to.
        #[arg(long, value_name = "FILE", default_value = "syncline.toml")]
        file: PathBuf,
    },
    /// Print what the configuration comes to, without secrets, and where each setting comes from.
    Show {
        #[command(flatten)]
        settings: Box<Settings>,
    },
}

impl Config {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.action {
            Action::Init { file } => {
                let shown = file.display();
                let opened = OpenOptions::new().write(true).create_new(true).open(&file);
                let mut opened = opened.map_err(|error| match error.kind() {
                    ErrorKind::AlreadyExists => WrongUse(format!("{shown} is there already")).into(),
                    _ => anyhow::Error::from(error).context(format!("cannot write {shown}")),
                })?;
                opened.write_all(FIRST_FILE.as_bytes()).with_context(|| format!("cannot write {shown}"))?;
                output::remark(format_args!("{shown} is written; `syncline serve` reads it"))
            }
            Action::Show { settings } => output::line(settings.load()?.to_string().trim_end()),
        }
    }
}
