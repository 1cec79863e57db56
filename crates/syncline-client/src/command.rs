//! Commands that an app brings.
//!
//! An app gives a list of [`AppCommand`]s, each made from a type that derives [`clap::Args`]. A program adds them to its own
//! commands with [`add_to`] and finds the one that was called with [`called`]; it needs to know none of them by name.
//! Commands of several apps can stand in one [`Group`], which has the examples of all of them in its help.

use clap::ArgMatches;
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;

/// What a command is doing, until it is done.
pub type Work = LocalBoxFuture<'static, anyhow::Result<()>>;

/// Commands that try something out without asking anybody outside.
pub const DEMO: Group = Group { name: "demo", about: "Try things out without asking anybody" };

/// A command that an app brings.
pub struct AppCommand {
    command: clap::Command,
    group: Option<Group>,
    /// Its lines in the help of the group.
    examples: &'static str,
    run: Box<dyn Fn(&ArgMatches) -> Work>,
}

/// A command that consists of others: `syncline demo …`. Its name is one that the program does not have itself.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// The word before those of its commands.
    pub name: &'static str,
    /// What its commands have in common.
    pub about: &'static str,
}

impl AppCommand {
    /// The command `name` with the arguments of `A`, whose documentation is its help, done by `run`.
    #[must_use]
    pub fn new<A, F>(name: &'static str, run: impl Fn(A) -> F + 'static) -> AppCommand
    where
        A: clap::Args + 'static,
        F: Future<Output = anyhow::Result<()>> + 'static,
    {
        let run = move |matches: &ArgMatches| {
            // Arguments were checked against `A` when they were read; clap tells of what it missed, and ends.
            let arguments = A::from_arg_matches(matches).unwrap_or_else(|error| error.exit());
            run(arguments).boxed_local()
        };
        let command = A::augment_args(clap::Command::new(name));
        AppCommand { command, group: None, examples: "", run: Box::new(run) }
    }

    /// The same in a group. `examples` are its lines in the group's help, indented by two.
    #[must_use]
    pub fn in_group(self, group: Group, examples: &'static str) -> AppCommand {
        AppCommand { group: Some(group), examples, ..self }
    }

    fn is_in(&self, group: Group) -> bool {
        self.group.is_some_and(|own| own.name == group.name)
    }

    /// The arguments it was called with, if it was.
    fn arguments<'a>(&self, matches: &'a ArgMatches) -> Option<&'a ArgMatches> {
        let matches = match self.group {
            Some(group) => matches.subcommand_matches(group.name)?,
            None => matches,
        };
        matches.subcommand_matches(self.command.get_name())
    }
}

/// `program` with the commands of apps behind its own.
#[must_use]
pub fn add_to(mut program: clap::Command, commands: &[AppCommand]) -> clap::Command {
    for command in commands {
        program = match command.group {
            None => program.subcommand(command.command.clone()),
            // The first of a group brings the others along.
            Some(group) if program.find_subcommand(group.name).is_none() => {
                program.subcommand(whole(group, commands))
            }
            Some(_) => program,
        };
    }
    program
}

/// The work of the app's command that was called, not yet begun; nothing if the command is the program's own. `matches` must
/// come from a program to which the same commands were added.
#[must_use]
pub fn called(commands: &[AppCommand], matches: &ArgMatches) -> Option<Work> {
    commands.iter().find_map(|command| Some((command.run)(command.arguments(matches)?)))
}

/// A group with all of its commands.
fn whole(group: Group, commands: &[AppCommand]) -> clap::Command {
    let members = || commands.iter().filter(|command| command.is_in(group));
    let examples: Vec<&str> = members().map(|command| command.examples).collect();
    clap::Command::new(group.name)
        .about(group.about)
        .after_help(format!("Examples:\n{}", examples.join("\n")))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(members().map(|command| command.command.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::WrongUse;

    /// Greet somebody.
    #[derive(clap::Args)]
    struct Greet {
        /// Whom.
        name: String,
    }

    impl Greet {
        /// Fails with the name, so that a test sees what was run.
        async fn run(self, how: &'static str) -> anyhow::Result<()> {
            Err(WrongUse(format!("{how} {}", self.name)).into())
        }
    }

    fn commands() -> Vec<AppCommand> {
        let greeting = |name, how| AppCommand::new(name, move |greet: Greet| greet.run(how));
        vec![
            greeting("greet", "hello"),
            greeting("wave", "hi").in_group(DEMO, "  it demo wave ann   from afar"),
            greeting("bow", "sir").in_group(DEMO, "  it demo bow bob    from near"),
        ]
    }

    fn program() -> clap::Command {
        add_to(clap::Command::new("it").subcommand(clap::Command::new("own")), &commands())
    }

    fn said(words: &[&str]) -> Option<String> {
        let matches = program().try_get_matches_from([&["it"][..], words].concat()).unwrap();
        let work = called(&commands(), &matches)?;
        Some(work.now_or_never().unwrap().unwrap_err().to_string())
    }

    #[test]
    fn hs_02_the_command_that_was_called_runs_with_its_arguments() {
        program().debug_assert();
        assert_eq!(said(&["greet", "ann"]).as_deref(), Some("hello ann"));
        assert_eq!(said(&["demo", "wave", "bob"]).as_deref(), Some("hi bob"));
        assert_eq!(said(&["demo", "bow", "cleo"]).as_deref(), Some("sir cleo"));
        assert_eq!(said(&["own"]), None);
        assert_eq!(said(&[]), None);
    }

    #[test]
    fn a_group_is_listed_once_and_teaches_by_the_examples_of_its_commands() {
        let mut program = program();
        let names: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(names, ["own", "greet", "demo"]);
        let help = program.find_subcommand_mut("demo").unwrap().render_help().to_string();
        let examples = "Examples:\n  it demo wave ann   from afar\n  it demo bow bob    from near";
        assert!(help.contains(DEMO.about) && help.contains("Greet somebody"), "{help}");
        assert!(help.contains(examples), "{help}");
        let alone = program.try_get_matches_from(["it", "demo"]).unwrap_err();
        assert_eq!(alone.exit_code(), 2, "{alone}");
    }
}
