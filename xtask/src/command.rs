//! Running other programs: streamed, watched behind a spinner, or read.
//!
//! Whatever fails, the error carries the line that a person can paste into a shell to see the same failure.

use std::collections::VecDeque;
use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::screen::Spinner;

/// How much of a failed program's output is worth repeating.
const LAST_LINES: usize = 30;
const TICK: Duration = Duration::from_millis(100);

/// Runs with the terminal's own input and output; the program's text is for the user, not for us.
pub(crate) fn stream(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| cannot_start(command))?;
    if status.success() { Ok(()) } else { bail!(failure(command, status)) }
}

/// Runs behind a spinner that shows the latest line; the rest of the output appears only on failure.
pub(crate) fn watch(title: &str, command: &mut Command) -> Result<()> {
    let spinner = Spinner::start(title, &line(command));
    let mut last = VecDeque::with_capacity(LAST_LINES);
    let status = each_line(command, |event| match event {
        Event::Line(line) => {
            spinner.show(&line);
            remember(&mut last, line);
        }
        Event::Tick => spinner.tick(),
    });
    match status {
        Ok(status) if status.success() => {
            spinner.done();
            Ok(())
        }
        Ok(status) => {
            spinner.failed();
            let output = Vec::from(last).join("\n");
            Err(anyhow!("{}\n{output}\n\nby hand:\n    {}", failure(command, status), line(command)))
        }
        Err(error) => {
            spinner.failed();
            Err(error.context(format!("by hand:\n    {}", line(command))))
        }
    }
}

/// Runs, shows every line as it comes and hands it, without colours, to `read` as well.
pub(crate) fn tee(command: &mut Command, mut read: impl FnMut(&str)) -> Result<ExitStatus> {
    each_line(command, |event| {
        if let Event::Line(line) = event {
            println!("{line}");
            read(&console::strip_ansi_codes(&line));
        }
    })
}

/// Runs and returns what it printed.
pub(crate) fn text(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| cannot_start(command))?;
    if !output.status.success() {
        bail!("{}\n{}", failure(command, output.status), String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{}` printed no UTF-8", line(command)))
}

/// Whether it runs and ends well; for questions such as "is this tool there".
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// From now on Ctrl-C no longer ends this program but sends a message, and so do the polite signals of other programs.
pub(crate) fn interrupts() -> Result<Receiver<()>> {
    let (interrupted, interrupts) = mpsc::channel();
    let tell = move || {
        // Who has stopped listening is about to end anyway.
        let _ = interrupted.send(());
    };
    ctrlc::set_handler(tell).context("cannot listen for Ctrl-C")?;
    Ok(interrupts)
}

/// Where `name` is found along `PATH`.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    program_along(name, &env::var_os("PATH")?)
}

fn program_along(name: &str, path: &OsStr) -> Option<PathBuf> {
    env::split_paths(path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

/// The command as a line for a shell, from the folder the user stands in.
pub(crate) fn line(command: &Command) -> String {
    let mut words = Vec::new();
    let here = env::current_dir().ok();
    if let Some(folder) = command.get_current_dir().filter(|folder| here.as_deref() != Some(*folder)) {
        let shown = here.as_deref().and_then(|here| folder.strip_prefix(here).ok()).unwrap_or(folder);
        words.push(format!("cd {} &&", quoted(shown.as_os_str())));
    }
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!("{}={}", name.to_string_lossy(), quoted(value)));
        }
    }
    words.push(quoted(shown_program(command.get_program())));
    words.extend(command.get_args().map(quoted));
    words.join(" ")
}

enum Event {
    Line(String),
    Tick,
}

fn each_line(command: &mut Command, mut on: impl FnMut(Event)) -> Result<ExitStatus> {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().with_context(|| cannot_start(command))?;
    let (lines, received) = mpsc::channel();
    forward(child.stdout.take(), lines.clone());
    forward(child.stderr.take(), lines);
    loop {
        match received.recv_timeout(TICK) {
            Ok(line) => on(Event::Line(line)),
            Err(RecvTimeoutError::Timeout) => on(Event::Tick),
            // Both pipes are closed: nothing more will come.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    child.wait().with_context(|| format!("waiting for `{}`", line(command)))
}

fn forward(pipe: Option<impl Read + Send + 'static>, lines: mpsc::Sender<String>) {
    let Some(pipe) = pipe else { return };
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
            if lines.send(text).is_err() {
                break;
            }
        }
    });
}

pub(crate) fn remember(last: &mut VecDeque<String>, line: String) {
    if last.len() == LAST_LINES {
        last.pop_front();
    }
    last.push_back(line);
}

fn failure(command: &Command, status: ExitStatus) -> String {
    format!("`{}` failed ({status})", line(command))
}

fn cannot_start(command: &Command) -> String {
    format!("cannot start `{}`", line(command))
}

/// Cargo is called by its full path; people call it by its name.
fn shown_program(program: &OsStr) -> &OsStr {
    let name = Path::new(program).file_name().unwrap_or(program);
    if name == "cargo" { name } else { program }
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_command_is_shown_as_a_line_for_a_shell() {
        let mut command = Command::new("/opt/rust/bin/cargo");
        command.args(["clippy", "--", "-D", "warn ings", "it's"]).env("RUSTDOCFLAGS", "-D warnings");
        command.current_dir(env::current_dir().unwrap().join("web"));
        assert_eq!(
            line(&command),
            r"cd web && RUSTDOCFLAGS='-D warnings' cargo clippy -- -D 'warn ings' 'it'\''s'"
        );
    }

    #[test]
    fn both_streams_are_read_and_colours_removed() {
        let mut lines = Vec::new();
        let mut command = shell(r"printf '\033[32mgreen\033[0m\r\n'; echo error >&2; exit 3");
        let status = tee(&mut command, |line| lines.push(line.to_owned())).unwrap();
        lines.sort();
        assert_eq!(lines, ["error", "green"]);
        assert_eq!(status.code(), Some(3));
    }

    #[test]
    fn a_watched_failure_tells_its_last_lines_and_the_command() {
        let error = watch("break", &mut shell("seq 1 40; echo reason >&2; exit 1")).unwrap_err().to_string();
        assert!(error.contains("reason"), "{error}");
        assert!(!error.contains("\n1\n"), "only the last lines: {error}");
        assert!(error.ends_with("by hand:\n    sh -c 'seq 1 40; echo reason >&2; exit 1'"), "{error}");
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error_with_its_line() {
        let error = watch("none", &mut Command::new("/nowhere/at-all")).unwrap_err();
        assert!(format!("{error:#}").contains("cannot start `/nowhere/at-all`"), "{error:#}");
    }

    #[test]
    fn programs_are_looked_up_along_the_path() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tool"), "").unwrap();
        let path = env::join_paths([Path::new("/nowhere"), folder.path()]).unwrap();
        assert_eq!(program_along("tool", &path), Some(folder.path().join("tool")));
        assert_eq!(program_along("other", &path), None);
    }
}
