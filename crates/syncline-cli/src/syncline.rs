//! `syncline`: runs a node and talks to one.

use std::process::ExitCode;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use syncline_client::command::{AppCommand, add_to, called};

use crate::command::Command;
use crate::{exit, parts};

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
  syncline lock run nightly -- ./backup.sh
                                     run it while nobody else does
  syncline outbox list               what serversync has not sent yet, and why
  syncline kv put greeting hello     keep a value
  syncline key add box-7 --may ingest:box-7:send
                                     let a box in, only where it belongs
  syncline doctor                    find out what keeps a node from starting

Commands that ask a node find it by SYNCLINE_URL (http://127.0.0.1:3000) and
show SYNCLINE_TOKEN if there is one.
Exit codes: 0 done, 1 failed, 2 wrong use or configuration.";

/// Does what the command line says.
pub fn main() -> ExitCode {
    let apps = parts::commands();
    let matches = program(&apps).get_matches();
    crate::block_on(run(&apps, &matches)).unwrap_or_else(|error| exit::fail(&error))
}

async fn run(apps: &[AppCommand], matches: &ArgMatches) -> anyhow::Result<()> {
    if let Some(work) = called(apps, matches) {
        return work.await;
    }
    let cli = Cli::from_arg_matches(matches).unwrap_or_else(|error| error.exit());
    cli.command.run().await
}

/// The platform's commands, and behind them those of apps.
fn program(apps: &[AppCommand]) -> clap::Command {
    add_to(Cli::command(), apps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_make_sense_and_every_command_teaches_by_example() {
        let mut cli = program(&parts::commands());
        cli.clone().debug_assert();
        cli.build();
        let leaves = cli.get_subcommands().filter(|command| command.get_name() != "help");
        for command in leaves {
            let help = command.clone().render_long_help().to_string();
            assert!(help.contains("Examples:"), "{} shows no example:\n{help}", command.get_name());
        }
    }
}
