//! The bookshelf's six queues: what each is called and how fast it may go.

use std::time::Duration;

use syncline_core::queue::Settings;

/// A queue of the bookshelf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name, in configuration, tables, metrics and pages.
    pub name: &'static str,
    /// Keys worked on at once.
    pub concurrency: u32,
    /// Least time from the end of a call to the next, in milliseconds.
    pub interval_ms: u64,
    /// When a key that met a 429 comes back, in milliseconds. `None`: the queue makes no such calls itself.
    pub retry_delay_ms: Option<u64>,
    /// While a key runs it makes checks (is there a thumbnail?) that run all at once, without a pace.
    pub unpaced_checks: bool,
}

/// Google Books, one ISBN a call.
pub const FETCH_GOOGLE_SEARCH: Preset = Preset::calls("fetchGoogleSearch", 100, 500);
/// Rakuten Books, one ISBN a call.
pub const FETCH_RAKUTEN_SEARCH: Preset = Preset::calls("fetchRakutenSearch", 500, 500);
/// NDL Search, one page of a search a call.
pub const FETCH_NDL_SEARCH: Preset = Preset::calls("fetchNdlSearch", 50, 1_000);
/// All pages of a search, through [`FETCH_NDL_SEARCH`].
pub const NDL_SEARCH: Preset = Preset::steps("ndlSearch", 2);
/// From a scanned ISBN to a book on the shelf, through [`NDL_SEARCH`].
pub const SCANNER: Preset = Preset::steps("scanner", 1);
/// The cover of a book: NDL's thumbnail, or else through [`FETCH_GOOGLE_SEARCH`] and [`FETCH_RAKUTEN_SEARCH`].
pub const FETCH_BOOK_IMAGE: Preset = Preset { unpaced_checks: true, ..Preset::steps("fetchBookImage", 1) };

/// All six.
pub const ALL: [Preset; 6] =
    [FETCH_GOOGLE_SEARCH, FETCH_RAKUTEN_SEARCH, FETCH_NDL_SEARCH, NDL_SEARCH, SCANNER, FETCH_BOOK_IMAGE];

/// A run of a queue whose steps are other queues lasts as long as those take; it is renewed while it does.
const STEPS_DELAY: Duration = Duration::from_secs(1);

impl Preset {
    /// The preset of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|preset| preset.name == name)
    }

    /// The pace as a queue takes it.
    #[must_use]
    pub const fn settings(&self) -> Settings {
        let retry_delay = match self.retry_delay_ms {
            Some(ms) => Duration::from_millis(ms),
            None => STEPS_DELAY,
        };
        Settings::new(self.concurrency, Duration::from_millis(self.interval_ms), retry_delay)
    }

    /// A queue that calls an API: one call at a time.
    const fn calls(name: &'static str, interval_ms: u64, retry_delay_ms: u64) -> Self {
        Self {
            name,
            concurrency: 1,
            interval_ms,
            retry_delay_ms: Some(retry_delay_ms),
            unpaced_checks: false,
        }
    }

    /// A queue whose steps are keys in other queues, which have the pace.
    const fn steps(name: &'static str, concurrency: u32) -> Self {
        Self { name, concurrency, interval_ms: 0, retry_delay_ms: None, unpaced_checks: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qu_03_the_six_queues_have_the_paces_of_the_table() {
        let table: Vec<_> = ALL
            .iter()
            .map(|p| (p.name, p.concurrency, p.interval_ms, p.retry_delay_ms, p.unpaced_checks))
            .collect();
        assert_eq!(
            table,
            [
                ("fetchGoogleSearch", 1, 100, Some(500), false),
                ("fetchRakutenSearch", 1, 500, Some(500), false),
                ("fetchNdlSearch", 1, 50, Some(1_000), false),
                ("ndlSearch", 2, 0, None, false),
                ("scanner", 1, 0, None, false),
                ("fetchBookImage", 1, 0, None, true),
            ]
        );
        for preset in ALL {
            let settings = preset.settings();
            assert_eq!(settings.check(), Ok(()), "{}", preset.name);
            assert_eq!(settings.interval, Duration::from_millis(preset.interval_ms));
            assert_eq!(Preset::named(preset.name), Some(&preset));
        }
        assert_eq!(FETCH_NDL_SEARCH.settings().delay(1, 1.0), Some(Duration::from_secs(1)));
        assert_eq!(Preset::named("nothing"), None);
    }
}
