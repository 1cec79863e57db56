//! `syncline demo upstreams` and `syncline demo isbns`: the stand-ins as a program, and books to look up in them.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use syncline_client::command::{AppCommand, DEMO};
use syncline_client::output::{self, Tone, WrongUse, toned};
use syncline_client::stop_signal;

use crate::{Api, Catalogue, Figures, Flaky, InvalidSetting, RetryAfter, Settings, Shares, Stats, Upstreams};

const UPSTREAMS_EXAMPLES: &str = "  \
  syncline demo upstreams                   invented books behind the shapes of
                                            NDL, Google and Rakuten, and an API
                                            that spells words backwards
  syncline demo upstreams --flaky           with a 429, a 500, a slow answer
                                            now and then
  syncline demo upstreams --flaky 429=0.3   three calls in ten are too many
  syncline demo upstreams --pace google=0   no limit on how fast Google is asked
  curl -s http://127.0.0.1:3001/stats       what was asked, how fast, how often";

const ISBNS_EXAMPLES: &str =
    "  syncline demo isbns 20 | syncline scan -  put twenty of its books on the shelf";

/// The commands that the stand-ins add to a program.
#[must_use]
pub fn commands() -> Vec<AppCommand> {
    vec![
        AppCommand::new("upstreams", Behaviour::run).in_group(DEMO, UPSTREAMS_EXAMPLES),
        AppCommand::new("isbns", Isbns::run).in_group(DEMO, ISBNS_EXAMPLES),
    ]
}

/// Print ISBNs of invented books that the invented library has.
#[derive(clap::Args)]
struct Isbns {
    /// Books that it does not have among them, about one in twenty.
    #[arg(long)]
    unknown: bool,
    /// How many.
    #[arg(default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// Of which catalogue; the same as the stand-ins'.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Play the book APIs until Ctrl-C, then say how they were asked.
#[derive(clap::Args)]
struct Behaviour {
    /// Where to listen; port 0 takes any free one.
    #[arg(long, default_value = "127.0.0.1:3001", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Which books there are.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Misbehave: the share of calls that get a 429, a 500, a slow answer or half an answer.
    #[arg(long, value_name = "429=0.1,500=0.02,slow=0.02,broken=0.01", num_args = 0..=1, default_missing_value = "")]
    flaky: Option<String>,
    /// What a 429 says about when to come back: never, mixed, or a number of seconds.
    #[arg(long, default_value = "mixed", value_name = "WHAT")]
    retry_after: RetryAfter,
    /// Least milliseconds between two calls to ndl, google, rakuten, thumbnail or words; 0 for any number at once.
    #[arg(long, value_name = "API=MS")]
    pace: Vec<String>,
    /// Share of books known to library, thumbnail, google or rakuten, from 0 to 1.
    #[arg(long, value_name = "NAME=SHARE")]
    share: Vec<String>,
    /// How long every answer takes, in milliseconds.
    #[arg(long, default_value_t = 20, value_name = "MS")]
    latency: u64,
    /// How long a slow answer takes, in milliseconds.
    #[arg(long, default_value_t = 3_000, value_name = "MS")]
    slow: u64,
    /// Most records on a page of the library.
    #[arg(long, default_value_t = 50, value_name = "RECORDS", value_parser = clap::value_parser!(u32).range(1..=500))]
    page: u32,
    /// Print the figures at the end as JSON.
    #[arg(long)]
    json: bool,
}

impl Isbns {
    async fn run(self) -> anyhow::Result<()> {
        let catalogue = Catalogue::new(self.seed, Shares::default());
        let isbns = (0..).map(|n| catalogue.isbn(n));
        let wanted = isbns.filter(|isbn| self.unknown || catalogue.entry(*isbn).in_library);
        wanted.take(self.count as usize).try_for_each(output::line)
    }
}

impl Behaviour {
    async fn run(self) -> anyhow::Result<()> {
        let settings = self.settings()?;
        let stop = stop_signal()?;
        let upstreams = Upstreams::start(self.listen, settings)
            .await
            .with_context(|| format!("cannot listen on {}", self.listen))?;
        output::line(format_args!("listening on http://{}", upstreams.address()))?;
        for (name, value) in upstreams.environment() {
            output::line(format_args!("export {name}={value}"))?;
        }
        stop.await;
        let stats = upstreams.stop().await;
        if self.json { output::line(serde_json::to_string(&stats)?) } else { show(&stats) }
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        let wrong = |error: InvalidSetting| WrongUse(error.to_string());
        let mut settings = Settings {
            seed: self.seed,
            retry_after: self.retry_after,
            latency: Duration::from_millis(self.latency),
            slow: Duration::from_millis(self.slow),
            page_records: self.page,
            ..Settings::default()
        };
        settings.flaky = match self.flaky.as_deref() {
            None => Flaky::default(),
            Some("") => Flaky::USUAL,
            Some(shares) => shares.parse().map_err(wrong)?,
        };
        self.pace.iter().try_for_each(|pace| settings.set_interval(pace)).map_err(wrong)?;
        self.share.iter().try_for_each(|share| settings.shares.set(share)).map_err(wrong)?;
        Ok(settings)
    }
}

fn show(stats: &Stats) -> anyhow::Result<()> {
    let head = format!(
        "{:<10} {:>7} {:>7} {:>7} {:>7} {:>7} {:>8} {:>14} {:>10}",
        "api", "calls", "429", "failed", "gone", "keys", "again", "smallest gap", "at once"
    );
    output::line(toned(Tone::Quiet, head))?;
    stats.apis.iter().filter(|figures| figures.calls > 0).try_for_each(row)?;
    let silent: Vec<&str> =
        Api::ALL.iter().map(|api| api.name()).filter(|name| !asked(stats, name)).collect();
    if silent.is_empty() {
        Ok(())
    } else {
        output::line(toned(Tone::Quiet, format!("not asked: {}", silent.join(", "))))
    }
}

fn asked(stats: &Stats, name: &str) -> bool {
    stats.apis.iter().any(|figures| figures.api == name && figures.calls > 0)
}

fn row(figures: &Figures) -> anyhow::Result<()> {
    let gap = match figures.smallest_gap_ms {
        Some(gap) => format!("{gap:.1}/{} ms", figures.interval_ms),
        None => "any".to_owned(),
    };
    output::line(format_args!(
        "{:<10} {:>7} {:>7} {:>7} {:>7} {:>7} {:>8} {gap:>14} {:>10}",
        figures.api,
        figures.calls,
        figures.too_many,
        figures.failed,
        figures.abandoned,
        figures.keys,
        figures.asked_again,
        figures.most_at_once
    ))
}
