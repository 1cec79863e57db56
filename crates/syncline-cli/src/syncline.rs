//! `syncline`: runs a node and talks to one.

use std::process::ExitCode;

use clap::Parser;
use clap::builder::styling::{AnsiColor, Styles};

use crate::command::Command;
use crate::output;

/// Coordinates applications that live in many places at once.
#[derive(Parser)]
#[command(name = "syncline", version, styles = STYLES, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

pub(crate) const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default());

const EXAMPLES: &str = "\
Examples:
  syncline serve                     run a node at http://127.0.0.1:3000
  syncline viewers --watch           who is watching, live
  syncline jobs list                 what is scheduled, and what skipping saved
  syncline queue list                what waits for an outside API, and how long
  syncline scan 9784990000011        look a book up and put it on the shelf
  syncline demo upstreams            stand-ins for the book APIs, to try it
  syncline lock run nightly -- ./backup.sh
                                     run it while nobody else does
  syncline outbox list               what serversync has not sent yet, and why
  syncline kv put greeting hello     keep a value
  syncline doctor                    find out what keeps a node from starting

Commands that ask a node find it by SYNCLINE_URL (http://127.0.0.1:3000) and
show SYNCLINE_TOKEN if there is one.
Exit codes: 0 done, 1 failed, 2 wrong use or configuration.";

/// Does what the command line says.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    crate::block_on(cli.command.run()).unwrap_or_else(|error| output::fail(&error))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_make_sense_and_every_command_teaches_by_example() {
        let mut cli = Cli::command();
        cli.clone().debug_assert();
        cli.build();
        let leaves = cli.get_subcommands().filter(|command| command.get_name() != "help");
        for command in leaves {
            let help = command.clone().render_long_help().to_string();
            assert!(help.contains("Examples:"), "{} shows no example:\n{help}", command.get_name());
        }
    }
}
