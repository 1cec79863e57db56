//! What goes to the screen: results to standard output, everything else to standard error, colours only on a terminal.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether remarks are left out, and whether requests are told. Set once, before anything is said.
static QUIET: AtomicBool = AtomicBool::new(false);
static VERBOSE: AtomicBool = AtomicBool::new(false);

/// The command was not used as it can be. Ends with exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WrongUse(pub String);

/// A check or request came out badly and has been shown already. Ends with exit code 1 and says nothing more.
#[derive(Debug, thiserror::Error)]
#[error("failed")]
pub struct Shown;

/// Colours for what a word means.
#[derive(Clone, Copy)]
pub enum Tone {
    /// It went well.
    Good,
    /// It deserves a look.
    Doubtful,
    /// It went wrong.
    Bad,
    /// It matters less than what is around it.
    Quiet,
}

/// How much is said beside results and errors: nothing, or every request too.
pub fn set_talk(is_quiet: bool, is_verbose: bool) {
    QUIET.store(is_quiet, Ordering::Relaxed);
    VERBOSE.store(is_verbose, Ordering::Relaxed);
}

/// Whether every request is told.
pub(crate) fn is_verbose() -> bool {
    VERBOSE.load(Ordering::Relaxed)
}

/// Writes a line of results. A reader that has seen enough (`| head`) is no failure.
pub fn line(text: impl Display) -> anyhow::Result<()> {
    quiet_end(writeln!(io::stdout(), "{text}"))
}

/// Text from elsewhere, as it may be shown: on a terminal, control characters are written out, so that they move no cursor
/// and change no title. What is read by a program stays as it is.
pub fn foreign(text: &str) -> Cow<'_, str> {
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
pub fn replace_line(text: impl Display) -> anyhow::Result<()> {
    let mut out = io::stdout();
    quiet_end(write!(out, "\r\x1b[2K{text}").and_then(|()| out.flush()))
}

/// Says something that is no result, on standard error.
pub fn remark(text: impl Display) -> anyhow::Result<()> {
    if QUIET.load(Ordering::Relaxed) {
        return Ok(());
    }
    Ok(writeln!(io::stderr(), "{text}")?)
}

/// `text` in a colour, if standard output is a terminal that wants any.
pub fn toned(tone: Tone, text: impl Display) -> String {
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
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Says what is wrong, beside the results.
pub fn complain(what: impl Display) {
    say_prefixed("\x1b[31m", "error:", what);
}

/// Says on standard error what deserves a look but stops nothing.
pub fn warn(what: impl Display) {
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
    use super::*;

    #[test]
    fn text_from_elsewhere_commands_no_terminal() {
        assert_eq!(printable("two\nlines\tand 日本"), "two\nlines\tand 日本");
        assert_eq!(printable("\u{1b}]0;owned\u{7}\r\u{9b}2J"), "\\u{1b}]0;owned\\u{7}\\r\\u{9b}2J");
    }
}
