//! How far it is: a bar on a terminal, nothing elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// A bar under the lines of a command. It draws on standard error, so that results can be piped away.
pub struct Progress(ProgressBar);

impl Progress {
    /// Of `total` steps.
    pub fn new(total: usize) -> Self {
        let bar = ProgressBar::new(total as u64);
        let style = ProgressStyle::with_template("{bar:30.green} {pos}/{len}  {msg:.dim}")
            .expect("the template is a constant that reads");
        bar.set_style(style.progress_chars("━╸─"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// There are `total` steps by now.
    pub fn set_total(&self, total: usize) {
        self.0.set_length(total as u64);
    }

    /// Prints a line of results above the bar.
    pub fn line(&self, text: impl std::fmt::Display) -> anyhow::Result<()> {
        self.0.suspend(|| output::line(text))
    }

    /// `done` steps are behind us; `rest` says what is ahead.
    pub fn set(&self, done: usize, rest: String) {
        self.0.set_position(done as u64);
        self.0.set_message(rest);
    }

    /// Takes the bar away.
    pub fn end(self) {
        self.0.finish_and_clear();
    }
}
