//! `syncline audit`: who did what to which thing, when, from where, and with which outcome.

use std::time::Duration;

use serde_json::Value;
use syncline_client::answer::{items, number, text};
use syncline_client::output::{self, Tone, toned};
use syncline_client::{Client, Target, stop_signal};
use syncline_core::outbox::Moment;

const EXAMPLES: &str = "\
Examples:
  syncline audit                         the newest, newest last
  syncline audit --outcome refused       who was kept out, and why
  syncline audit --who shop --system state
                                         what the issuer or key shop did to spaces
  syncline audit --find cart-7           rows with this text anywhere
  syncline audit --follow                and everything from now on
  syncline audit --json --limit 1000     for programs

Recorded is what cannot be undone, before it is done, every sign-in and sign-out of a
browser, and every refusal; refusals that are alike are one line with a count. Rows are
kept for 90 days. Needs the owner's token or the grant audit:*:read.";

/// How often a node is asked for what is new.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Show who did what, and who was refused.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Audit {
    /// Rows with this text anywhere, whatever its case.
    #[arg(long, value_name = "TEXT")]
    find: Option<String>,
    /// Rows of this system, as in lock.
    #[arg(long)]
    system: Option<String>,
    /// Rows of this key, issuer or subject; owner and nobody are names, too.
    #[arg(long, value_name = "NAME")]
    who: Option<String>,
    /// begun, done, failed or refused.
    #[arg(long)]
    outcome: Option<String>,
    /// At most this many, 1,000 at most.
    #[arg(long, default_value_t = 50)]
    limit: u32,
    /// Rows older than this one, as the page before said.
    #[arg(long, value_name = "ID")]
    after: Option<i64>,
    /// Go on with what is new, until Ctrl-C.
    #[arg(long, conflicts_with = "after")]
    follow: bool,
    #[command(flatten)]
    target: Target,
}

impl Audit {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let client = self.target.client()?;
        let page = self.page(&client, "after", self.after).await?;
        if self.target.json && !self.follow {
            return output::line(page);
        }
        let mut newest = self.show(&page, 0)?;
        if !self.follow {
            if items(&page, "entries").is_empty() && page["next"].is_null() {
                output::remark("nothing was recorded that fits")?;
            }
            return match page["next"].as_i64() {
                Some(next) => output::remark(format_args!("there may be more: go on with --after {next}")),
                None => Ok(()),
            };
        }
        let stop = stop_signal()?;
        tokio::pin!(stop);
        loop {
            tokio::select! {
                _ = &mut stop => return Ok(()),
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let page = self.page(&client, "newer", Some(newest)).await?;
            newest = self.show(&page, newest)?;
        }
    }

    async fn page(&self, client: &Client, from: &'static str, id: Option<i64>) -> anyhow::Result<Value> {
        let (limit, id) = (self.limit.to_string(), id.map(|id| id.to_string()));
        let asked = [
            ("q", self.find.as_deref()),
            ("system", self.system.as_deref()),
            ("who", self.who.as_deref()),
            ("outcome", self.outcome.as_deref()),
            (from, id.as_deref()),
            ("limit", Some(limit.as_str())),
        ];
        let query: Vec<(&str, &str)> =
            asked.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        client.get(&["api", "audit"], &query).await
    }

    /// Shows a page, oldest first, and answers with its newest row, or with `newest` if it has none.
    fn show(&self, page: &Value, newest: i64) -> anyhow::Result<i64> {
        let entries = items(page, "entries");
        for entry in entries.iter().rev() {
            if self.target.json { output::line(entry)? } else { output::line(row(entry))? }
        }
        Ok(entries.first().and_then(|entry| entry["id"].as_i64()).unwrap_or(newest))
    }
}

fn row(entry: &Value) -> String {
    let at = Moment::from_us(entry["at"].as_i64().unwrap_or_default().saturating_mul(1_000));
    let outcome = text(entry, "outcome");
    let tone = match outcome {
        "done" => Tone::Good,
        "refused" | "begun" => Tone::Doubtful,
        _ => Tone::Bad,
    };
    let who = match entry["subject"].as_str() {
        Some(subject) if subject != text(entry, "name") => format!("{}/{subject}", text(entry, "name")),
        _ => text(entry, "name").to_owned(),
    };
    let what = match text(entry, "thing") {
        "" => format!("{}:{}", text(entry, "system"), text(entry, "verb")),
        thing => format!("{}:{thing}:{}", text(entry, "system"), text(entry, "verb")),
    };
    let mut line = format!("{at}  {}  {who}  {what}", toned(tone, format!("{outcome:<7}")));
    let mut quiet = vec![text(entry, "action").to_owned()];
    quiet.extend(entry["address"].as_str().map(|address| format!("from {address}")));
    quiet.extend(entry["origin"].as_str().map(|origin| format!("by a page of {origin}")));
    quiet.extend(Some(text(entry, "code")).filter(|code| !code.is_empty()).map(str::to_owned));
    quiet.extend(
        Some(number(entry, "count")).filter(|count| *count > 1).map(|count| format!("{count} times")),
    );
    line.push_str(&toned(Tone::Quiet, format!("  {}", quiet.join(", "))));
    output::foreign(&line).into_owned()
}
