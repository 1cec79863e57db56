//! How far it is: a bar on a terminal, nothing elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::answer;
use crate::output;

/// A bar under the lines of a command. It draws on standard error, so that results can be piped away.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Of `total` steps.
    pub(crate) fn new(total: usize) -> Self {
        let bar = ProgressBar::new(total as u64);
        let style = ProgressStyle::with_template("{bar:30.green} {pos}/{len}  {msg:.dim}")
            .expect("the template is a constant that reads");
        bar.set_style(style.progress_chars("━╸─"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// There are `total` steps by now.
    pub(crate) fn set_total(&self, total: usize) {
        self.0.set_length(total as u64);
    }

    /// Prints a line of results above the bar.
    pub(crate) fn line(&self, text: impl std::fmt::Display) -> anyhow::Result<()> {
        self.0.suspend(|| output::line(text))
    }

    /// `done` steps are behind us; `rest` says what is ahead.
    pub(crate) fn set(&self, done: usize, rest: String) {
        self.0.set_position(done as u64);
        self.0.set_message(rest);
    }

    /// Takes the bar away.
    pub(crate) fn end(self) {
        self.0.finish_and_clear();
    }
}

/// What is ahead, in words: how many wait, how fast they go, how long it takes.
pub(crate) fn ahead(waiting: u64, rate_per_sec: f64, left_ms: Option<u64>) -> String {
    let left = left_ms.map_or(String::new(), |ms| format!(", {} left", answer::span(ms)));
    format!("{waiting} to go, {rate_per_sec:.1}/s{left}")
}
