//! `syncline man`: the manual pages, one for each command.

use std::path::PathBuf;

use anyhow::Context;
use syncline_client::output;

const EXAMPLES: &str = "\
Examples:
  syncline man ~/.local/share/man/man1     write them where `man syncline` finds them";

/// Write the manual pages: one for the program and one for each command.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// The folder; it is made where there is none.
    folder: PathBuf,
}

impl Man {
    pub(crate) fn run(self, program: clap::Command) -> anyhow::Result<()> {
        let folder = self.folder.display();
        std::fs::create_dir_all(&self.folder).with_context(|| format!("cannot create {folder}"))?;
        clap_mangen::generate_to(program, &self.folder)
            .with_context(|| format!("cannot write to {folder}"))?;
        output::remark(format_args!("the manual pages are in {folder}"))
    }
}
