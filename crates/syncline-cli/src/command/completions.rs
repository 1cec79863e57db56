//! `syncline completions`: what a shell needs to complete commands.

use std::io;

use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  syncline completions bash > ~/.local/share/bash-completion/completions/syncline
  syncline completions zsh > ~/.zfunc/_syncline
  syncline completions fish > ~/.config/fish/completions/syncline.fish";

/// Print what a shell needs to complete commands.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// For which shell.
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, program: &mut clap::Command) -> anyhow::Result<()> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, program, "syncline", &mut text);
        match io::Write::write_all(&mut io::stdout(), &text) {
            // A reader that has seen enough is no failure.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }
}
