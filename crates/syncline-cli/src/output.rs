//! What goes to the screen: results to standard output, everything else to standard error, colours only on a terminal.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use syncline_node::StartError;
use syncline_node::config;
use syncline_node::outbox::InvalidSettings;

/// The command was not used as it can be. Ends with exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongUse(pub(crate) String);

/// A check or request came out badly and has been shown already. Ends with exit code 1 and says nothing more.
#[derive(Debug, thiserror::Error)]
#[error("failed")]
pub(crate) struct Shown;

/// What was run ended with this code, which is passed on in silence.
#[derive(Debug, thiserror::Error)]
#[error("ended with {0}")]
pub(crate) struct Exit(pub(crate) u8);

/// Colours for what a word means.
#[derive(Clone, Copy)]
pub(crate) enum Tone {
    Good,
    Doubtful,
    Bad,
    Quiet,
}

/// Writes a line of results. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn line(text: impl Display) -> anyhow::Result<()> {
    quiet_end(writeln!(io::stdout(), "{text}"))
}

/// Text from elsewhere, as it may be shown: on a terminal, control characters are written out, so that they move no cursor
/// and change no title. What is read by a program stays as it is.
pub(crate) fn foreign(text: &str) -> Cow<'_, str> {
    if is_terminal() { printable(text) } else { Cow::Borrowed(text) }
}

fn printable(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !c.is_control() || c == '\n' || c == '\t';
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if is_plain(c) { c.to_string() } else { c.escape_default().to_string() };
    Cow::Owned(text.chars().map(shown).collect())
}

/// Writes without ending the line, for what is about to be replaced.
pub(crate) fn replace_line(text: impl Display) -> anyhow::Result<()> {
    let mut out = io::stdout();
    quiet_end(write!(out, "\r\x1b[2K{text}").and_then(|()| out.flush()))
}

/// Says something that is no result, on standard error.
pub(crate) fn remark(text: impl Display) -> anyhow::Result<()> {
    Ok(writeln!(io::stderr(), "{text}")?)
}

/// `text` in a colour, if standard output is a terminal that wants any.
pub(crate) fn toned(tone: Tone, text: impl Display) -> String {
    let code = match tone {
        Tone::Good => 32,
        Tone::Doubtful => 33,
        Tone::Bad => 31,
        Tone::Quiet => 2,
    };
    if is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.to_string()
    }
}

/// Whether results are read by eyes.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Says why it went wrong and with which code the process ends.
pub(crate) fn fail(error: &anyhow::Error) -> ExitCode {
    let wrong_use = error.is::<WrongUse>()
        || error.is::<config::Error>()
        || error.is::<InvalidSettings>()
        || error.downcast_ref().is_some_and(is_wrong_setting);
    if let Some(Exit(code)) = error.downcast_ref() {
        return ExitCode::from(*code);
    }
    if !error.is::<Shown>() {
        complain(format_args!("{error:#}"));
    }
    ExitCode::from(if wrong_use { 2 } else { 1 })
}

/// Whether a start failed for a reason that only another setting, or another table, can mend.
fn is_wrong_setting(error: &StartError) -> bool {
    use syncline_store::Error;

    matches!(error, StartError::Store { cause: Error::Address { .. } | Error::Unfit { .. } })
}

/// Says what is wrong, beside the results.
pub(crate) fn complain(what: impl Display) {
    say_prefixed("\x1b[31m", "error:", what);
}

/// Says on standard error what deserves a look but stops nothing.
pub(crate) fn warn(what: impl Display) {
    say_prefixed("\x1b[33m", "warning:", what);
}

fn say_prefixed(colour: &str, prefix: &str, what: impl Display) {
    let mut out = io::stderr();
    let (on, off) = if out.is_terminal() { (colour, "\x1b[0m") } else { ("", "") };
    // Nobody is left to tell if even this cannot be written.
    let _ = writeln!(out, "{on}{prefix}{off} {what}");
}

fn quiet_end(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn printed(error: impl std::error::Error + Send + Sync + 'static) -> String {
        format!("{:#}", anyhow::Error::from(error))
    }

    /// Every start error said everything twice: the message held its cause, and the cause was printed after it.
    #[test]
    fn no_clause_of_an_error_is_printed_twice() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let store = || "sqlite:box.db".to_owned();
        let errors = [
            printed(StartError::Listen { address: "127.0.0.1:80".parse().unwrap(), cause: denied() }),
            printed(StartError::Data { path: "data".into(), cause: denied() }),
            printed(StartError::from(syncline_store::Error::Missing { store: store() })),
            printed(syncline_store::Error::Denied { store: store(), reason: "no".to_owned() }),
            printed(config::Error::Unreadable { path: "syncline.toml".into(), cause: denied() }),
            printed(WrongUse("so not".to_owned())),
        ];
        for said in errors {
            let clauses: Vec<&str> =
                said.split([':', '(', ')']).map(str::trim).filter(|c| !c.is_empty()).collect();
            let distinct: std::collections::BTreeSet<&&str> = clauses.iter().collect();
            assert_eq!(distinct.len(), clauses.len(), "{said}");
        }
    }

    /// The rule behind it, for every error there is: what a message says of its cause, it does not pass on as its source.
    #[test]
    fn a_message_holds_its_cause_or_passes_it_on_and_never_both() {
        let mut seen = 0;
        for part in ["store", "node", "cli"] {
            let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
                .join(format!("syncline-{part}/src"));
            for file in files(&root) {
                let text = fs::read_to_string(&file).unwrap();
                for variant in text.split("#[error(").skip(1) {
                    seen += 1;
                    let (message, rest) = variant.split_once(")]").unwrap_or((variant, ""));
                    let fields = rest.split("#[error(").next().unwrap_or_default();
                    let fields = fields.split("\n}\n").next().unwrap_or_default();
                    let has_source =
                        ["#[from]", "#[source]", " source:"].iter().any(|mark| fields.contains(mark));
                    let says_it = message.contains("{0}") || message.contains("source");
                    assert!(!(has_source && says_it), "{}: {message}", file.display());
                }
            }
        }
        assert!(seen > 50, "{seen}");
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
        let sources = files.into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "rs"));
        sources.chain(folders.iter().flat_map(|folder| self::files(folder))).collect()
    }

    #[test]
    fn text_from_elsewhere_commands_no_terminal() {
        assert_eq!(printable("two\nlines\tand 日本"), "two\nlines\tand 日本");
        assert_eq!(printable("\u{1b}]0;owned\u{7}\r\u{9b}2J"), "\\u{1b}]0;owned\\u{7}\\r\\u{9b}2J");
    }
}
