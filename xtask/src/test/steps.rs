//! What each step of the gate does.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, bail, ensure};
use console::Term;

use super::count::{self, Count};
use super::{Step, Tally};
use crate::database::{Database, TEST_DATABASE_URL};
use crate::setup::{self, EVERYTHING};
use crate::workspace::Workspace;
use crate::{command, files, lint, screen, wasm};

/// How a step ended that did not fail.
pub(super) enum Done {
    Ran(Tally),
    Skipped(String),
}

pub(super) fn perform(workspace: &Workspace, step: Step, tries: Tries) -> Result<Done> {
    if step != Step::Setup {
        screen::heading(title(step));
    }
    let ran = match step {
        Step::Setup => plain(setup::ensure(workspace, EVERYTHING)),
        Step::Fmt => plain(lint::fmt(workspace, true)),
        Step::Wasm => wasm::build(workspace).map(|package| noted(package.summary)),
        Step::Lint => plain(lint::clippy(workspace)),
        Step::Build => plain(build(workspace)),
        Step::Tests => nextest(workspace, &Nextest { tries, ..Nextest::default() }),
        Step::Doctests => doctests(workspace),
        Step::Docs => plain(docs(workspace)),
        Step::Deny => return deny(workspace),
        Step::Types => {
            plain(command::stream(&mut workspace.npm(&workspace.web(), ["run", "--silent", "check"])))
        }
        Step::Scripts => scripts(workspace),
        Step::Browser => browser(workspace, &[], &[], tries),
    };
    ran.map(Done::Ran)
}

fn title(step: Step) -> &'static str {
    match step {
        Step::Setup => "Set-up",
        Step::Fmt => "Formatting",
        Step::Wasm => "Browser package",
        Step::Lint => "Clippy",
        Step::Build => "Build",
        Step::Tests => "Tests",
        Step::Doctests => "Documentation tests",
        Step::Docs => "Documentation",
        Step::Deny => "Dependencies",
        Step::Types => "Types",
        Step::Scripts => "Scripts",
        Step::Browser => "Browser tests",
    }
}

fn plain(result: Result<()>) -> Result<Tally> {
    result.map(|()| Tally::default())
}

fn noted(note: String) -> Tally {
    Tally { note, ..Tally::default() }
}

/// After so many failed tests in browsers the rest would tell nothing new: something that all of them use is broken, and each
/// of them may wait for it as long as a test may take.
const BROWSER_FAILURES_MAX: u32 = 12;

/// Exactly the targets that the test runner builds: Cargo then has nothing left to do there, and features are unified
/// in the same way for the tests and for the binaries they start.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    command::stream(&mut workspace.cargo(["build", "--workspace", "--bins", "--tests", "--examples"]))
}

/// How often a test may run until it has passed.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Tries {
    #[default]
    One,
    /// One that failed is tried again, and the counts say so.
    Two,
}

/// How the test runner is started, where it differs from the gate.
pub(crate) struct Nextest<'a> {
    pub(crate) profile: &'a str,
    /// A filter in nextest's language; all tests without one.
    pub(crate) filter: Option<&'a str>,
    pub(crate) environment: Vec<(&'a str, String)>,
    pub(crate) tries: Tries,
}

impl Default for Nextest<'_> {
    fn default() -> Self {
        Nextest { profile: "default", filter: None, environment: Vec::new(), tries: Tries::One }
    }
}

/// Unit and integration tests, with a PostgreSQL of their own unless one is named from outside.
pub(crate) fn nextest(workspace: &Workspace, how: &Nextest<'_>) -> Result<Tally> {
    // Nextest keeps its reports there, wherever Cargo builds.
    let report = workspace.root.join("target/nextest").join(how.profile).join("junit.xml");
    files::forget(&report)?;
    let mut run =
        workspace.cargo(["nextest", "run", "--workspace", "--no-fail-fast", "--profile", how.profile]);
    if let Some(filter) = how.filter {
        run.args(["--filterset", filter]);
    }
    if how.tries == Tries::Two {
        run.args(["--retries", "1"]);
    }
    run.envs(how.environment.iter().map(|(name, value)| (name, value)));
    let given = env::var(TEST_DATABASE_URL).is_ok_and(|url| !url.is_empty());
    let own = if given { None } else { Some(Database::start(workspace)?) };
    if let Some(database) = &own {
        run.env(TEST_DATABASE_URL, &database.url);
    }
    let mut counted = None;
    let status = command::tee(coloured(&mut run), |line| counted = count::nextest(line).or(counted))?;
    let count = settle(&run, status, counted.unwrap_or_default())?;
    let junit = fs::read_to_string(&report).with_context(|| format!("cannot read {}", report.display()))?;
    let postgres = count::postgres(&junit)?;
    if how.filter.is_none() {
        ensure!(postgres.ran() > 0, "no test ran on PostgreSQL, though some should");
    }
    Ok(Tally { count: Some(count), special: Some(("PostgreSQL", postgres)), ..Tally::default() })
}

fn doctests(workspace: &Workspace) -> Result<Tally> {
    let mut run = workspace.cargo(["test", "--workspace", "--doc", "--no-fail-fast"]);
    let mut counted = Count::default();
    let status =
        command::tee(coloured(&mut run), |line| counted += count::rustdoc(line).unwrap_or_default())?;
    if status.success() {
        // Not every crate has an example to run, and none has to.
        return Ok(Tally { count: Some(counted), ..Tally::default() });
    }
    Ok(Tally { count: Some(settle(&run, status, counted)?), ..Tally::default() })
}

fn docs(workspace: &Workspace) -> Result<()> {
    let mut doc = workspace.cargo(["doc", "--workspace", "--no-deps", "--keep-going"]);
    command::stream(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Advisories are left out: they change from day to day, and a gate must not.
fn deny(workspace: &Workspace) -> Result<Done> {
    if !command::succeeds(&mut workspace.cargo(["deny", "--version"])) {
        return Ok(Done::Skipped("cargo-deny is not installed".to_owned()));
    }
    command::stream(&mut workspace.cargo(["deny", "check", "licenses", "bans", "sources"]))?;
    Ok(Done::Ran(Tally::default()))
}

fn scripts(workspace: &Workspace) -> Result<Tally> {
    let mut run = workspace.npm(&workspace.web(), ["run", "--silent", "unit"]);
    let mut counted = Count::default();
    let status = command::tee(&mut run, |line| count::node(line, &mut counted))?;
    Ok(Tally { count: Some(settle(&run, status, counted)?), ..Tally::default() })
}

/// The product in Chromium, and what depends on the engine in Firefox: all of it, or only the given files.
pub(crate) fn browser(
    workspace: &Workspace,
    only: &[&str],
    environment: &[(&str, String)],
    tries: Tries,
) -> Result<Tally> {
    let report = workspace.notes().join("playwright.json");
    files::forget(&report)?;
    let runner = workspace.web().join("node_modules/@playwright/test/cli.js");
    let mut run = workspace.node(&workspace.web(), [runner.as_path(), Path::new("test")]);
    run.arg("--reporter=list,json").arg(format!("--max-failures={BROWSER_FAILURES_MAX}")).args(only);
    if tries == Tries::Two {
        run.args(["--retries", "1"]);
    }
    run.envs(environment.iter().map(|(name, value)| (name, value)));
    run.env("PLAYWRIGHT_JSON_OUTPUT_FILE", &report);
    run.env("SYNCLINE_BIN", workspace.binary("debug", "syncline"));
    run.env("CHROMIUM_PATH", setup::chromium().context("there is no Chromium on this machine")?);
    run.env("FIREFOX_PATH", setup::firefox().context("there is no Firefox on this machine")?);
    let status = run.status().with_context(|| format!("cannot start `{}`", command::line(&run)))?;
    let told = fs::read_to_string(&report).context("Playwright wrote no report")?;
    let count = settle(&run, status, count::playwright(&told)?)?;
    Ok(Tally { count: Some(count), special: Some(("Chromium", count)), ..Tally::default() })
}

/// Holds a runner's counts against how it ended: it ran something, and failed exactly where it counted failures.
fn settle(run: &Command, status: ExitStatus, count: Count) -> Result<Count> {
    let line = command::line(run);
    if count.ran() == 0 {
        bail!("no test ran, though some should ({status}); by hand:\n    {line}");
    }
    if !status.success() && count.failed == 0 {
        bail!("all counted tests passed, and yet the runner failed ({status}); by hand:\n    {line}");
    }
    Ok(count)
}

/// A pipe hides the terminal from the program behind it; the colours are for the user all the same.
fn coloured(run: &mut Command) -> &mut Command {
    if Term::stdout().is_term() {
        run.env("CARGO_TERM_COLOR", "always");
    }
    run
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn settled(code: i32, passed: u64, failed: u64) -> Result<Count> {
        let count = Count { passed, failed, ..Count::default() };
        settle(&Command::new("runner"), ExitStatus::from_raw(code << 8), count)
    }

    #[test]
    fn counts_must_agree_with_how_the_runner_ended() {
        assert_eq!(settled(0, 3, 0).unwrap().passed, 3);
        assert_eq!(settled(100, 3, 2).unwrap().failed, 2);
        assert!(settled(0, 0, 0).unwrap_err().to_string().starts_with("no test ran"));
        assert!(settled(101, 0, 0).unwrap_err().to_string().starts_with("no test ran"));
        assert!(settled(101, 3, 0).unwrap_err().to_string().contains("the runner failed"));
    }
}
