//! What goes to the screen: results to standard output, everything else to standard error, colours only on a terminal.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

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
    let wrong_use = error.is::<WrongUse>() || error.is::<config::Error>() || error.is::<InvalidSettings>();
    if let Some(Exit(code)) = error.downcast_ref() {
        return ExitCode::from(*code);
    }
    if !error.is::<Shown>() {
        complain(format_args!("{error:#}"));
    }
    ExitCode::from(if wrong_use { 2 } else { 1 })
}

/// Says what is wrong, beside the results.
pub(crate) fn complain(what: impl Display) {
    let prefix = if io::stderr().is_terminal() { "\x1b[31merror:\x1b[0m" } else { "error:" };
    // Nobody is left to tell if even this cannot be written.
    let _ = writeln!(io::stderr(), "{prefix} {what}");
}

fn quiet_end(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_elsewhere_commands_no_terminal() {
        assert_eq!(printable("two\nlines\tand 日本"), "two\nlines\tand 日本");
        assert_eq!(printable("\u{1b}]0;owned\u{7}\r\u{9b}2J"), "\\u{1b}]0;owned\\u{7}\\r\\u{9b}2J");
    }
}
