//! `syncline jobs`: what is scheduled, what was run or skipped and why, and runs by hand.

use std::time::Duration;

use anyhow::bail;
use clap::Subcommand;
use futures::{StreamExt, TryStreamExt};
use serde_json::Value;
use syncline_client::answer::{items, now_ms, span, text};
use syncline_client::output::{self, Shown, Tone, toned};
use syncline_client::{Method, Target, Wait};

const EXAMPLES: &str = "\
Examples:
  syncline jobs list                       jobs, their next firing, what skipping saved
  syncline jobs run snapshot               run it now and wait for its end
  syncline jobs run snapshot --wait 0      only start it
  syncline jobs pause snapshot             skip its firings until it is resumed
  syncline jobs resume snapshot
  syncline jobs cancel snapshot            end the run under way, on whatever node
  syncline jobs history snapshot           what was run or skipped, and why
  syncline jobs history snapshot --json | jq '.runs[] | .reason'";

/// Show and run scheduled jobs.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Jobs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the jobs.
    List {
        #[command(flatten)]
        target: Target,
    },
    /// Run a job now. Exit code 1 if it fails, or has not ended when the time to wait is over.
    Run {
        /// The job's name.
        name: String,
        /// How long to wait for its end, such as 30s; 0 to only start it.
        #[arg(long, value_name = "DURATION", default_value = "forever")]
        wait: Wait,
        /// The same as --wait 0.
        #[arg(long, hide = true, conflicts_with = "wait")]
        no_wait: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Pause a job on all nodes: its firings are skipped, runs by hand are not.
    Pause {
        /// The job's name.
        name: String,
        #[command(flatten)]
        target: Target,
    },
    /// Let a paused job go on.
    Resume {
        /// The job's name.
        name: String,
        #[command(flatten)]
        target: Target,
    },
    /// End the run that is under way, on whatever node. Exit code 1 if there is none.
    Cancel {
        /// The job's name.
        name: String,
        #[command(flatten)]
        target: Target,
    },
    /// List what a job did and did not do, newest first.
    History {
        /// The job's name.
        name: String,
        /// At most this many lines, 1,000 at most.
        #[arg(long, default_value_t = 20)]
        limit: u32,
        /// Only lines before this one: the last id of the page before.
        #[arg(long, value_name = "ID")]
        before: Option<i64>,
        #[command(flatten)]
        target: Target,
    },
}

impl Jobs {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.action {
            Action::List { target } => list(&target).await,
            Action::Run { name, wait, no_wait, target } => {
                let wait = if no_wait { Wait::For(Duration::ZERO) } else { wait };
                run(&target, &name, wait).await
            }
            Action::Pause { name, target } => control(&target, &name, "pause", "paused").await,
            Action::Resume { name, target } => control(&target, &name, "resume", "goes on").await,
            Action::Cancel { name, target } => control(&target, &name, "cancel", "is to end").await,
            Action::History { name, limit, before, target } => history(&target, &name, limit, before).await,
        }
    }
}

async fn list(target: &Target) -> anyhow::Result<()> {
    let answer = target.client()?.get(&["api", "jobs"], &[]).await?;
    if target.json {
        return output::line(answer);
    }
    let jobs = items(&answer, "jobs");
    if jobs.is_empty() {
        return output::line(toned(Tone::Quiet, "no jobs are configured; syncline.toml declares them"));
    }
    let head = format!(
        "{:<20} {:<16} {:<16} {:>8} {:>7} {:>7} {:>11}  last",
        "job", "cron", "gate", "next in", "runs", "skips", "saved"
    );
    output::line(toned(Tone::Quiet, head))?;
    for job in jobs {
        let totals = &job["totals"];
        let skips: u64 =
            totals["skips"].as_object().map_or(0, |by| by.values().filter_map(Value::as_u64).sum());
        let saved = format!("${:.3}", totals["saved_usd"].as_f64().unwrap_or_default());
        let next = match job["paused_at"].is_null() {
            true => {
                job["next_at"].as_u64().map_or("never".to_owned(), |at| span(at.saturating_sub(now_ms())))
            }
            false => "paused".to_owned(),
        };
        output::line(format_args!(
            "{:<20} {:<16} {:<16} {next:>8} {:>7} {skips:>7} {saved:>11}  {}",
            text(job, "name"),
            text(job, "cron"),
            text(job, "gate"),
            totals["runs"].as_u64().unwrap_or_default(),
            if job["last"].is_null() { toned(Tone::Quiet, "nothing yet") } else { outcome(&job["last"]) },
        ))?;
    }
    Ok(())
}

async fn control(target: &Target, name: &str, action: &str, words: &str) -> anyhow::Result<()> {
    let answer = target.client()?.ask(Method::POST, &["api", "jobs", name, action], &[], None::<&()>).await?;
    if target.json { output::line(answer) } else { output::line(format_args!("{name} {words}")) }
}

async fn run(target: &Target, name: &str, wait: Wait) -> anyhow::Result<()> {
    let client = target.client()?;
    // Listened to before the run begins, or a quick one would be over unheard.
    let mut events = client.events("job").await?.boxed();
    let started = client.ask(Method::POST, &["api", "jobs", name, "run"], &[], None::<&()>).await?;
    let waits = started["state"] == "running" && !wait.is_none();
    let ended = if waits { wait.limit(end_of(&started, &mut events)).await.transpose()? } else { None };
    let ended = ended.unwrap_or(started);
    if target.json {
        output::line(&ended)?;
    } else {
        output::line(outcome(&ended))?;
    }
    let well =
        matches!(ended["state"].as_str(), Some("done")) || (wait.is_none() && ended["state"] == "running");
    if well { Ok(()) } else { Err(Shown.into()) }
}

/// Waits for the event that tells how a run ended. By hand only one runs at a time, so the job's name will do.
async fn end_of(
    started: &Value,
    events: &mut (impl futures::Stream<Item = anyhow::Result<(String, String)>> + Unpin),
) -> anyhow::Result<Value> {
    while let Some((name, data)) = events.try_next().await? {
        if name != "job" {
            continue;
        }
        let run: Value = serde_json::from_str(&data)?;
        let same = run["job"] == started["job"] && run["id"] == started["id"];
        if same && run["decision"] == "run" && run["state"] != "running" {
            return Ok(run);
        }
    }
    bail!("the node went away before the run ended; `syncline jobs history` will tell")
}

async fn history(target: &Target, name: &str, limit: u32, before: Option<i64>) -> anyhow::Result<()> {
    let (limit, before) = (limit.to_string(), before.map(|before| before.to_string()));
    let mut query = vec![("limit", limit.as_str())];
    query.extend(before.as_deref().map(|before| ("before", before)));
    let answer = target.client()?.get(&["api", "jobs", name, "history"], &query).await?;
    if target.json {
        return output::line(answer);
    }
    let runs = items(&answer, "runs");
    if runs.is_empty() {
        return output::line(toned(Tone::Quiet, "nothing yet"));
    }
    output::line(toned(Tone::Quiet, format!("{:>8}  {:<19}  {:<24}  what and why", "id", "bucket", "node")))?;
    for run in runs {
        let id = run["id"].as_i64().unwrap_or_default();
        let bucket = run["bucket"].as_str().unwrap_or("by hand");
        output::line(format_args!("{id:>8}  {bucket:<19}  {:<24}  {}", text(run, "node"), outcome(run)))?;
    }
    Ok(())
}

/// One run in words.
fn outcome(run: &Value) -> String {
    let (state, reason, detail) = (text(run, "state"), text(run, "reason"), text(run, "detail"));
    let tone = match state {
        "done" => Tone::Good,
        "failed" | "abandoned" => Tone::Bad,
        "running" => Tone::Doubtful,
        _ => Tone::Quiet,
    };
    let took = match (run["started_at"].as_u64(), run["finished_at"].as_u64()) {
        (Some(began), Some(ended)) if state != "skipped" => {
            format!(" in {}", span(ended.saturating_sub(began)))
        }
        _ => String::new(),
    };
    let said = if detail.is_empty() { String::new() } else { format!(": {detail}") };
    let words =
        if state == "skipped" { reason.to_owned() } else { format!("{state}{took} ({reason}){said}") };
    toned(tone, words)
}
