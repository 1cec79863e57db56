//! Which parts a node of this program can have: the systems of the platform, and the apps. The only place that lists apps, with
//! all that they bring: parts of a node, commands of `syncline`, and kinds of files for `serversync`.

use std::ffi::OsString;

use syncline_bookshelf::BookshelfPart;
use syncline_calls::{CallsPart, file_kind};
use syncline_client::command::AppCommand;
use syncline_gallery::GalleryPart;
use syncline_node::outbox::FileKind;
use syncline_node::part::Part;

/// All of them; the configuration says which are on.
pub(crate) fn all() -> Vec<Box<dyn Part>> {
    let apps: [Box<dyn Part>; 3] =
        [Box::new(BookshelfPart::default()), Box::new(CallsPart::default()), Box::new(GalleryPart)];
    syncline_node::systems().into_iter().chain(apps).collect()
}

/// The commands of apps, in the order of the help.
pub(crate) fn commands() -> Vec<AppCommand> {
    let apps =
        [syncline_bookshelf::commands(), syncline_stand_ins::commands(), syncline_calls::commands(all)];
    apps.into_iter().flatten().collect()
}

/// The kinds of files of apps, with folders as `environment` sets them.
pub(crate) fn file_kinds(environment: &dyn Fn(&str) -> Option<OsString>) -> Vec<FileKind> {
    vec![file_kind::from_environment(environment)]
}

/// The variables that [`file_kinds`] reads, as lines of a help text.
pub(crate) const FILE_VARIABLES: &str = file_kind::VARIABLE_HELP;

#[cfg(test)]
mod tests {
    use syncline_client::command::add_to;

    use super::*;

    #[test]
    fn hs_01_the_commands_of_apps_are_commands_of_the_program() {
        let program = add_to(clap::Command::new("syncline"), &commands());
        let names = |command: &clap::Command| {
            command.get_subcommands().map(|command| command.get_name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&program), ["scan", "demo"]);
        assert_eq!(names(program.find_subcommand("demo").unwrap()), ["upstreams", "isbns", "call"]);
    }
}
