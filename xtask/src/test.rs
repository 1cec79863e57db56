//! The one gate: every check and every test of the repository, counted honestly.
//!
//! Guarantees: the last line is `N passed, M failed` (and `, K skipped`) as the runners reported it; a check that fails
//! adds one failure, a check that cannot run adds one skip; a step that should have found tests and found none has
//! failed. A test is tried again only where `--second-try` asks for it, and then counted apart. All steps run even after a failure, save those that need the result of a failed one.

pub(crate) mod count;
pub(crate) mod steps;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Args, ValueEnum};
use console::style;

use crate::screen;
use crate::workspace::Workspace;
use count::Count;
use steps::Tries;

#[derive(Args)]
pub(crate) struct Options {
    /// Run only these steps, and what they need
    #[arg(long, value_enum, value_name = "STEP", value_delimiter = ',')]
    only: Vec<Step>,
    /// Try a failed test once more, and say how many passed only then: for machines that nobody watches
    #[arg(long)]
    second_try: bool,
}

/// One part of the gate, in the order of running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Step {
    /// Install what is missing
    Setup,
    /// The code is formatted
    Fmt,
    /// The browser package builds and keeps to its size
    Wasm,
    /// Clippy has nothing to say
    Lint,
    /// Everything compiles
    Build,
    /// Unit and integration tests, on a real PostgreSQL too
    Tests,
    /// The examples in the documentation
    Doctests,
    /// The documentation builds without a warning
    Docs,
    /// Licences and sources of dependencies
    Deny,
    /// The types of the browser package and its scripts
    Types,
    /// Scripts of the package and the pages, in Node.js
    Scripts,
    /// The product in Chromium
    Browser,
}

impl Step {
    /// The steps whose result this one uses.
    fn needs(self) -> &'static [Step] {
        match self {
            Step::Setup => &[],
            Step::Fmt | Step::Wasm | Step::Deny => &[Step::Setup],
            // The node embeds the browser package and the scripts import it.
            Step::Lint | Step::Build | Step::Docs | Step::Types | Step::Scripts => &[Step::Setup, Step::Wasm],
            Step::Tests | Step::Doctests | Step::Browser => &[Step::Setup, Step::Wasm, Step::Build],
        }
    }

    fn name(self) -> String {
        self.to_possible_value().expect("no step is hidden").get_name().to_owned()
    }
}

/// What a step tells about itself when it went through.
#[derive(Default)]
pub(crate) struct Tally {
    /// What its runner counted, for steps that run tests.
    pub(crate) count: Option<Count>,
    /// Which of them really had a database or a browser, and its name.
    special: Option<(&'static str, Count)>,
    /// A fact for the table.
    note: String,
}

enum Outcome {
    Passed(Tally),
    Failed(Tally),
    /// The machine lacks the tool, and the step is not worth failing for.
    Skipped(String),
    /// A step whose result is needed has failed.
    NotRun(Step),
}

struct Report {
    step: Step,
    outcome: Outcome,
    took: Duration,
}

pub(crate) fn perform(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    let tries = if options.second_try { Tries::Two } else { Tries::One };
    let mut reports: Vec<Report> = Vec::new();
    for step in chosen(&options.only) {
        let failed = |needed: &Step| {
            reports
                .iter()
                .any(|report| report.step == *needed && !matches!(report.outcome, Outcome::Passed(_)))
        };
        let started = Instant::now();
        let outcome = match step.needs().iter().copied().find(failed) {
            Some(needed) => Outcome::NotRun(needed),
            None => attempt(workspace, step, tries),
        };
        reports.push(Report { step, outcome, took: started.elapsed() });
    }
    Ok(conclude(&reports))
}

/// The steps to run, in order: all, or the named ones and what they need.
fn chosen(only: &[Step]) -> Vec<Step> {
    let asked =
        |step: &Step| only.is_empty() || only.iter().any(|one| one == step || one.needs().contains(step));
    Step::value_variants().iter().copied().filter(asked).collect()
}

fn attempt(workspace: &Workspace, step: Step, tries: Tries) -> Outcome {
    match steps::perform(workspace, step, tries) {
        Ok(steps::Done::Ran(tally)) if tally.count.is_some_and(|count| count.failed > 0) => {
            Outcome::Failed(tally)
        }
        Ok(steps::Done::Ran(tally)) => Outcome::Passed(tally),
        Ok(steps::Done::Skipped(reason)) => {
            screen::note(&format!("skipped: {reason}"));
            Outcome::Skipped(reason)
        }
        Err(error) => {
            screen::error(&error);
            Outcome::Failed(Tally::default())
        }
    }
}

fn conclude(reports: &[Report]) -> ExitCode {
    screen::heading("Result");
    for report in reports {
        let line = format!(
            "  {:<9} {:<8} {:>12}   {}",
            report.step.name(),
            result(report),
            screen::spent(report.took),
            remark(report)
        );
        println!("{}", line.trim_end());
    }
    let total = total(reports);
    println!("{}\n", special(reports));
    println!("{total}");
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How many tests really had a database or a browser, for the steps that ran.
fn special(reports: &[Report]) -> String {
    let tallies = reports.iter().filter_map(|report| match &report.outcome {
        Outcome::Passed(tally) | Outcome::Failed(tally) => tally.special,
        _ => None,
    });
    tallies.map(|(name, count)| format!("\nof these with {name}: {count}")).collect()
}

/// The tests of all runners; and so that nothing is hidden, each failed or skipped check beside them.
fn total(reports: &[Report]) -> Count {
    let mut total = Count::default();
    for report in reports {
        match &report.outcome {
            Outcome::Passed(tally) => total += tally.count.unwrap_or_default(),
            Outcome::Failed(tally) => total += tally.count.unwrap_or(Count { failed: 1, ..Count::default() }),
            Outcome::Skipped(_) => total.skipped += 1,
            Outcome::NotRun(_) => {}
        }
    }
    total
}

fn result(report: &Report) -> String {
    // Padded before it is coloured: the codes have no width on the screen but count as letters.
    match report.outcome {
        Outcome::Passed(_) => style(format!("{:<8}", "ok")).green().to_string(),
        Outcome::Failed(_) => style(format!("{:<8}", "FAILED")).red().bold().to_string(),
        Outcome::Skipped(_) => style(format!("{:<8}", "skipped")).yellow().to_string(),
        Outcome::NotRun(_) => style(format!("{:<8}", "not run")).yellow().to_string(),
    }
}

fn remark(report: &Report) -> String {
    match &report.outcome {
        Outcome::Passed(tally) | Outcome::Failed(tally) => {
            tally.count.map_or_else(|| tally.note.clone(), |count| count.to_string())
        }
        Outcome::Skipped(reason) => reason.clone(),
        Outcome::NotRun(needed) => format!("needs {}", needed.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(step: Step, outcome: Outcome) -> Report {
        Report { step, outcome, took: Duration::from_secs(1) }
    }

    fn counted(passed: u64, failed: u64, skipped: u64) -> Tally {
        Tally { count: Some(Count { passed, failed, skipped, unsteady: 0 }), ..Tally::default() }
    }

    #[test]
    fn all_steps_run_in_order_unless_some_are_named() {
        let all = chosen(&[]);
        assert_eq!(all.first(), Some(&Step::Setup));
        assert_eq!(all.last(), Some(&Step::Browser));
        assert_eq!(all.len(), Step::value_variants().len());
        assert_eq!(chosen(&[Step::Browser]), [Step::Setup, Step::Wasm, Step::Build, Step::Browser]);
        assert_eq!(chosen(&[Step::Deny, Step::Fmt]), [Step::Setup, Step::Fmt, Step::Deny]);
    }

    #[test]
    fn a_step_runs_after_all_that_it_needs() {
        for step in Step::value_variants() {
            assert!(step.needs().iter().all(|needed| needed < step), "{step:?}");
        }
    }

    #[test]
    fn only_tests_pass_but_checks_can_fail_and_be_skipped() {
        let reports = [
            report(Step::Fmt, Outcome::Failed(Tally::default())),
            report(Step::Lint, Outcome::Passed(Tally::default())),
            report(Step::Tests, Outcome::Passed(counted(40, 0, 1))),
            report(Step::Deny, Outcome::Skipped("cargo-deny is not installed".to_owned())),
            report(Step::Browser, Outcome::Failed(counted(5, 2, 0))),
        ];
        assert_eq!(total(&reports), Count { passed: 45, failed: 3, skipped: 2, unsteady: 0 });
    }

    #[test]
    fn a_broken_build_fails_once_and_leaves_the_rest_unrun() {
        let reports = [
            report(Step::Build, Outcome::Failed(Tally::default())),
            report(Step::Tests, Outcome::NotRun(Step::Build)),
            report(Step::Browser, Outcome::NotRun(Step::Build)),
        ];
        assert_eq!(total(&reports), Count { failed: 1, ..Count::default() });
        assert_eq!(remark(&reports[1]), "needs build");
    }
}
