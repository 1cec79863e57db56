//! The same tests with larger numbers: more seeds, more kills, more rounds, for as long as somebody has time.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use crate::screen;
use crate::setup::{self, EVERYTHING};
use crate::test::count::Count;
use crate::test::steps::{self, Nextest, Tries};
use crate::wasm;
use crate::workspace::Workspace;

/// The tests in browsers that read the same variables.
const BROWSER_TESTS: &[&str] = &[
    "e2e/lock-rounds.spec.js",
    "e2e/autosave-rounds.spec.js",
    "e2e/state-rounds.spec.js",
    "e2e/extension-state.spec.js",
    "e2e/engine-lock.spec.js",
    "e2e/engine-rounds.spec.js",
    "e2e/issuer.spec.js",
];

const A_WEEK_MINUTES: u64 = 7 * 24 * 60;

#[derive(Args)]
pub(crate) struct Options {
    /// Go on, each pass with twice the numbers of the one before, until this much time is spent; the pass under way
    /// is finished
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=A_WEEK_MINUTES))]
    minutes: u64,
    /// Only the tests that match, in nextest's filter language: `test(vw_)`, `package(syncline-core)`
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
    /// How many seeds each simulation tries
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// How often each crash test kills its process
    #[arg(long, default_value_t = 100)]
    kills: u64,
    /// How often each other test that repeats itself does so
    #[arg(long, default_value_t = 100)]
    rounds: u64,
    /// How often the crash tests of a whole node or database do so: each takes seconds to come back
    #[arg(long, default_value_t = 10)]
    restarts: u64,
    /// How many keys the crash tests of queues work through
    #[arg(long, default_value_t = 1_000)]
    tasks: u64,
}

impl Options {
    /// The variables that the tests read, in the given pass.
    fn environment(&self, pass: u32) -> Vec<(&'static str, String)> {
        let grown =
            |number: u64| number.saturating_mul(1_u64.checked_shl(pass).unwrap_or(u64::MAX)).to_string();
        vec![
            ("SYNCLINE_SEEDS", grown(self.seeds)),
            ("SYNCLINE_KILLS", grown(self.kills)),
            ("SYNCLINE_ROUNDS", grown(self.rounds)),
            ("SYNCLINE_POSTGRES_KILLS", grown(self.restarts)),
            ("SYNCLINE_QUEUE_KILLS", grown(self.restarts)),
            ("SYNCLINE_QUEUE_TASKS", grown(self.tasks)),
            ("SYNCLINE_OUTBOX_KILLS", grown(self.kills.saturating_mul(5))),
            ("SYNCLINE_SHELF_REAL_PACE", "1".to_owned()),
        ]
    }
}

pub(crate) fn perform(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    setup::ensure(workspace, EVERYTHING)?;
    screen::heading("Build");
    wasm::build(workspace)?;
    steps::build(workspace)?;
    let deadline = Instant::now() + Duration::from_secs(options.minutes * 60);
    let (mut total, mut lines) = (Count::default(), Vec::new());
    for pass in 0.. {
        let environment = options.environment(pass);
        let numbers: Vec<String> =
            environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        screen::heading(&format!("Pass {} with {}", pass + 1, numbers.join(" ")));
        let started = Instant::now();
        // A filter speaks of tests that the browser's runner does not know.
        let mut count = match options.filter {
            None => {
                steps::browser(workspace, BROWSER_TESTS, &environment, Tries::One)?.count.unwrap_or_default()
            }
            Some(_) => Count::default(),
        };
        let how =
            Nextest { profile: "soak", filter: options.filter.as_deref(), environment, tries: Tries::One };
        count += steps::nextest(workspace, &how)?.count.unwrap_or_default();
        total += count;
        lines.push(format!(
            "  pass {:<3} {:>12}   {count}   {}",
            pass + 1,
            screen::spent(started.elapsed()),
            numbers.join(" ")
        ));
        // A failure is what a soak is for: it stops with the evidence on the screen.
        if count.failed > 0 || Instant::now() >= deadline {
            break;
        }
    }
    screen::heading("Result");
    println!("{}\n\n{total}", lines.join("\n"));
    Ok(if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pass_has_twice_the_numbers_and_never_overflows() {
        let options = Options {
            minutes: 1,
            filter: None,
            seeds: 2_000,
            kills: 10,
            rounds: u64::MAX,
            restarts: 3,
            tasks: 50,
        };
        let values = |pass| options.environment(pass).into_iter().map(|(_, value)| value).collect::<Vec<_>>();
        assert_eq!(values(0), ["2000", "10", "18446744073709551615", "3", "3", "50", "50", "1"]);
        assert_eq!(values(3)[..2], ["16000", "80"]);
        assert_eq!(values(70)[0], u64::MAX.to_string());
    }
}
