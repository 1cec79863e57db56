//! What the user sees: spinners on a terminal, plain lines in a log.

use std::cell::Cell;
use std::time::{Duration, Instant};

use console::{Term, style};
use indicatif::{ProgressBar, ProgressStyle};

/// In a log a silent step says every so often that it is still at work.
const STILL_AT_WORK: Duration = Duration::from_secs(30);

/// A heading above the output of the step that follows.
pub(crate) fn heading(text: &str) {
    println!("\n{} {}", style("==>").cyan().bold(), style(text).bold());
}

/// A fact in one line.
pub(crate) fn note(text: &str) {
    println!("    {text}");
}

/// A step that needed no work, or is now done.
pub(crate) fn done(text: &str) {
    println!("  {} {text}", style("ok").green());
}

/// A failure with its causes.
pub(crate) fn error(error: &anyhow::Error) {
    eprintln!("\n{} {error}", style("error:").red().bold());
    for cause in error.chain().skip(1) {
        eprintln!("  because {cause}");
    }
}

/// A duration as people say it: `0.4 s`, `12 s`, `3 min 05 s`.
pub(crate) fn spent(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 10..60 => format!("{seconds} s"),
        seconds => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}

/// One running step: what it does, how long it has been at it, and its latest line of output.
pub(crate) struct Spinner {
    title: String,
    started: Instant,
    /// Absent where nobody watches: a log gets lines instead.
    bar: Option<ProgressBar>,
    spoken: Cell<Instant>,
}

impl Spinner {
    pub(crate) fn start(title: &str, doing: &str) -> Spinner {
        let bar = Term::stdout().is_term().then(|| {
            let style =
                ProgressStyle::with_template("  {spinner:.cyan} {prefix} ({elapsed}) {wide_msg:.dim}")
                    .expect("the template above is well formed");
            let bar = ProgressBar::new_spinner().with_style(style).with_prefix(title.to_owned());
            bar.set_message(doing.to_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        if bar.is_none() {
            println!("  .. {title}: {doing}");
        }
        let started = Instant::now();
        Spinner { title: title.to_owned(), started, bar, spoken: Cell::new(started) }
    }

    pub(crate) fn show(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(console::strip_ansi_codes(line).trim().to_owned()),
            None => self.tick(),
        }
    }

    pub(crate) fn tick(&self) {
        if self.bar.is_none() && self.spoken.get().elapsed() >= STILL_AT_WORK {
            println!("  .. {}: still at work after {}", self.title, spent(self.started.elapsed()));
            self.spoken.set(Instant::now());
        }
    }

    pub(crate) fn done(self) {
        self.end(&style("ok").green().to_string());
    }

    pub(crate) fn failed(self) {
        self.end(&style("failed").red().to_string());
    }

    fn end(self, result: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        println!("  {result} {} ({})", self.title, spent(self.started.elapsed()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_said_as_people_say_them() {
        let said = |ms| spent(Duration::from_millis(ms));
        assert_eq!(
            [said(412), said(9_960), said(10_000), said(59_999), said(185_000)],
            ["0.4 s", "10.0 s", "10 s", "59 s", "3 min 05 s"]
        );
    }
}
