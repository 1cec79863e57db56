//! `syncline`: runs a node and talks to one.

use std::process::ExitCode;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use syncline_client::command::{AppCommand, add_to, called};
use syncline_client::{Target, output};

use crate::command::Command;
use crate::{exit, parts};

/// Coordinates applications that live in many places at once.
#[derive(Parser)]
#[command(name = "syncline", version, styles = STYLES, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    /// Which node to ask: before or behind the command, as one likes.
    #[command(flatten)]
    target: Target,
    /// Say nothing beside results and errors.
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Tell of every request, on standard error.
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

/// The arguments of [`Target`]: they may also stand before the command.
const GLOBAL: [&str; 3] = ["url", "json", "bearer"];

pub(crate) const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default());

const EXAMPLES: &str = "\
Examples:
  syncline serve                     run a node at http://127.0.0.1:3000
  syncline top                       all systems on one screen, live
  syncline viewers --watch           who is watching, live
  syncline jobs list                 what is scheduled, and what skipping saved
  syncline queue list                what waits for an outside API, and how long
  syncline lock run nightly -- ./backup.sh
                                     run it while nobody else does
  syncline outbox list               what serversync has not sent yet, and why
  syncline kv put greeting hello     keep a value
  syncline key add box-7 --may ingest:box-7:send
                                     let a box in, only where it belongs
  syncline backup monday.db          copy the node's database while it runs
  syncline config init               write a syncline.toml to begin with
  syncline doctor                    find out what keeps a node from starting
  syncline completions bash          let the shell complete commands

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
    output::set_talk(matches.get_flag("quiet"), matches.get_flag("verbose"));
    if let Some(work) = called(apps, matches) {
        return work.await;
    }
    let cli = Cli::from_arg_matches(matches).unwrap_or_else(|error| error.exit());
    match cli.command {
        Command::Completions(completions) => completions.run(&mut program(apps)),
        Command::Man(man) => man.run(program(apps)),
        command => command.run().await,
    }
}

/// The platform's commands, and behind them those of apps.
fn program(apps: &[AppCommand]) -> clap::Command {
    let program = GLOBAL
        .into_iter()
        .fold(Cli::command(), |program, name| program.mut_arg(name, |argument| argument.global(true)));
    add_to(program, apps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cn_23_flags_that_choose_the_node_stand_before_or_behind_the_command() {
        let apps = parts::commands();
        for words in [
            &["syncline", "--url", "http://a.example", "--json", "--token", "t", "-q", "kv", "get", "x"][..],
            &["syncline", "kv", "get", "x", "--url", "http://a.example", "--json", "--token", "t", "-q"],
            &["syncline", "kv", "--url", "http://a.example", "get", "--json", "x", "-q", "--token", "t"],
        ] {
            let matches = program(&apps).try_get_matches_from(words).unwrap();
            let get = matches.subcommand_matches("kv").unwrap().subcommand_matches("get").unwrap();
            let target = Target::from_arg_matches(get).unwrap();
            assert!(target.json && matches.get_flag("quiet"), "{words:?}");
            assert_eq!(get.get_one::<String>("bearer").unwrap(), "t", "{words:?}");
            let url = get.get_raw("url").unwrap().next().unwrap();
            assert_eq!(url, "http://a.example", "{words:?}");
        }
        let both = program(&apps).try_get_matches_from(["syncline", "-q", "-v", "kv", "list"]);
        assert!(both.is_err(), "quiet and verbose at once");
    }

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
