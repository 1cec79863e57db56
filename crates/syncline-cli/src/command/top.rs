//! `syncline top`: one screen with all systems of a node, live.

use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;
use syncline_client::answer::{items, number, span, text};
use syncline_client::output::{self, Tone, foreign, toned};
use syncline_client::{Client, Refusal, Screen, Target, stop_signal};

const EXAMPLES: &str = "\
Examples:
  syncline top                       all systems, live, until Ctrl-C
  syncline top --every 10            drawn anew every ten seconds
  syncline top --once                once, for a log or a mail
  syncline top --json | jq .queues   the figures behind it, once

Systems that are off, and those that the token may not read, are left out.";

/// Show all systems of a node on one screen, live.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Top {
    #[command(flatten)]
    target: Target,
    /// Seconds between two views.
    #[arg(long, default_value_t = 2, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    every: u64,
    /// Show it once and end; so it is where standard output is no terminal.
    #[arg(long)]
    once: bool,
}

/// A system on the screen.
struct Section {
    /// What its figures are called, and the last word of the path where they are.
    name: &'static str,
    query: &'static [(&'static str, &'static str)],
    lines: fn(&Value) -> Vec<String>,
}

/// As many as one answer may have.
const MANY: &[(&str, &str)] = &[("limit", "1000")];

/// From the top to the bottom.
const SECTIONS: [Section; 7] = [
    Section { name: "nodes", query: &[], lines: nodes },
    Section { name: "viewer", query: &[], lines: viewer },
    Section { name: "jobs", query: &[], lines: jobs },
    Section { name: "queues", query: &[], lines: queues },
    Section { name: "outbox", query: &[], lines: outbox },
    Section { name: "locks", query: MANY, lines: locks },
    Section { name: "state", query: MANY, lines: state },
];

impl Top {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let client = self.target.client()?;
        // A node that was never reached is an error; one that went away may come back.
        let first = ask(&client).await?;
        if self.target.json {
            return output::line(Value::Object(first));
        }
        if self.once || !output::is_terminal() {
            return lines_of(&Value::Object(first)).into_iter().try_for_each(output::line);
        }
        let (screen, stop) = (Screen::enter()?, stop_signal()?);
        tokio::pin!(stop);
        let mut lines = lines_of(&Value::Object(first));
        loop {
            screen.draw(&lines)?;
            tokio::select! {
                () = &mut stop => return Ok(()),
                () = tokio::time::sleep(Duration::from_secs(self.every)) => {}
            }
            match ask(&client).await {
                Ok(answers) => lines = lines_of(&Value::Object(answers)),
                Err(error) => {
                    let trouble = toned(Tone::Bad, format!("no answer: {error:#}; it is tried again"));
                    match lines.last_mut() {
                        Some(last) if last.contains("no answer: ") => *last = trouble,
                        _ => lines.push(trouble),
                    }
                }
            }
        }
    }
}

/// The answers by name, without those that there are none of.
async fn ask(client: &Client) -> anyhow::Result<serde_json::Map<String, Value>> {
    let asked = SECTIONS
        .map(|Section { name, query, .. }| async move { (name, client.get(&["api", name], query).await) });
    let mut answers = serde_json::Map::new();
    for (name, answer) in join_all(asked).await {
        match answer {
            Ok(answer) => drop(answers.insert(name.to_owned(), answer)),
            // The system is off, or the token may not look at it.
            Err(error) if error.downcast_ref::<Refusal>().is_some_and(is_left_out) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(answers)
}

fn is_left_out(refusal: &Refusal) -> bool {
    matches!(refusal.status.as_u16(), 403 | 404)
}

/// The lines of the screen.
fn lines_of(answers: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for section in SECTIONS {
        if let Some(answer) = answers.get(section.name) {
            lines.extend((section.lines)(answer));
        }
    }
    if lines.is_empty() {
        lines.push("nothing that this token may look at".to_owned());
    }
    lines
}

/// A heading with its figures, as wide as all others.
fn heading(name: &str, figures: &str) -> String {
    format!("{} {figures}", toned(Tone::Good, format!("{name:<8}")))
}

/// `n` in a colour that deserves a look, if it is more than none.
fn bad(n: u64, word: &str) -> String {
    if n > 0 { toned(Tone::Bad, format!("{n} {word}")) } else { format!("0 {word}") }
}

/// What is said of something that an operator has stopped.
fn paused(is_paused: bool) -> String {
    if is_paused { toned(Tone::Doubtful, ", paused") } else { String::new() }
}

fn nodes(answer: &Value) -> Vec<String> {
    let nodes = items(answer, "nodes");
    let mut lines = vec![heading("nodes", &nodes.len().to_string())];
    lines.extend(nodes.iter().map(|node| {
        let own = if node["self"] == true { ", asked" } else { "" };
        let silent = number(node, "silentMs");
        let (name, version, up) =
            (foreign(text(node, "node")), text(node, "version"), span(number(node, "uptimeMs")));
        match node["standsStill"] == true {
            true => format!("  {name}  {}", toned(Tone::Bad, format!("silent for {}", span(silent)))),
            false => format!("  {name}  {version}, up for {up}{own}"),
        }
    }));
    lines
}

fn viewer(answer: &Value) -> Vec<String> {
    let (viewers, visible) = (number(answer, "viewers"), number(answer, "visible"));
    vec![heading("viewers", &format!("{viewers} ({visible} with the page in view)"))]
}

fn jobs(answer: &Value) -> Vec<String> {
    let jobs = items(answer, "jobs");
    let mut lines = vec![heading("jobs", &jobs.len().to_string())];
    lines.extend(jobs.iter().map(|job| {
        let last = text(&job["last"], "state");
        let last = match last {
            "" => toned(Tone::Quiet, "never ran"),
            "failed" | "abandoned" => toned(Tone::Bad, last),
            other => other.to_owned(),
        };
        format!("  {}  {last}{}", foreign(text(job, "name")), paused(!job["paused_at"].is_null()))
    }));
    lines
}

fn queues(answer: &Value) -> Vec<String> {
    let queues = items(answer, "queues");
    let mut lines = vec![heading("queues", &queues.len().to_string())];
    lines.extend(queues.iter().map(|queue| {
        let of = |state| number(&queue["counts"], state);
        format!(
            "  {}  {} waiting, {} running, {} retrying, {}, {}{}",
            foreign(text(queue, "name")),
            of("waiting"),
            of("running"),
            of("retrying"),
            bad(of("failed"), "failed"),
            bad(of("dead"), "dead"),
            paused(!queue["paused"].is_null()),
        )
    }));
    lines
}

fn outbox(answer: &Value) -> Vec<String> {
    let of = |field| number(answer, field);
    let oldest = answer["oldestMs"].as_u64().map(|ms| format!(", the oldest for {}", span(ms)));
    vec![heading(
        "outbox",
        &format!(
            "{} pending{}, {} in flight, {}, {} sent in the last minute{}",
            of("pending"),
            oldest.unwrap_or_default(),
            of("inFlight"),
            bad(of("dead"), "dead"),
            of("deliveredLastMinute"),
            paused(answer["paused"] == true),
        ),
    )]
}

fn locks(answer: &Value) -> Vec<String> {
    let locks = items(answer, "locks");
    let more = if answer["next"].is_null() { "" } else { " and more" };
    let mut lines = vec![heading("locks", &format!("{}{more} held", locks.len()))];
    lines.extend(locks.iter().take(LOCKS_SHOWN).map(|lock| {
        let (name, holder) = (foreign(text(lock, "name")), foreign(text(lock, "holder")));
        format!("  {name}  {holder}, for {}", span(number(lock, "ageMs")))
    }));
    lines
}

/// Locks that are shown with their holders.
const LOCKS_SHOWN: usize = 10;

fn state(answer: &Value) -> Vec<String> {
    let spaces = items(answer, "spaces");
    let more = if answer["next"].is_null() { "" } else { " and more" };
    let [entities, bytes] =
        ["entities", "bytes"].map(|field| spaces.iter().map(|space| number(space, field)).sum::<u64>());
    vec![heading(
        "state",
        &format!("{}{more} spaces, {entities} entities, {} kB", spaces.len(), bytes.div_ceil(1_000)),
    )]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn op_09_every_system_that_answers_is_on_the_screen_and_trouble_is_named() {
        let answers = json!({
            "nodes": { "nodes": [{ "node": "a", "version": "1", "self": true, "silentMs": 0, "uptimeMs": 3_000 },
                { "node": "b", "version": "1", "self": false, "silentMs": 120_000, "standsStill": true, "uptimeMs": 3_000 }] },
            "queues": { "queues": [{ "name": "orders", "counts": { "waiting": 2, "running": 1, "dead": 3 } }] },
            "outbox": { "pending": 4, "inFlight": 1, "dead": 0, "oldestMs": 5_000, "deliveredLastMinute": 9 },
            "locks": { "locks": [{ "name": "nightly", "holder": "box", "ageMs": 61_000 }], "next": "x" },
        });
        let shown = lines_of(&answers).join("\n");
        let expected = "\
nodes    2
  a  1, up for 3 s, asked
  b  silent for 2 min
queues   1
  orders  2 waiting, 1 running, 0 retrying, 0 failed, 3 dead
outbox   4 pending, the oldest for 5 s, 1 in flight, 0 dead, 9 sent in the last minute
locks    1 and more held
  nightly  box, for 61 s";
        assert_eq!(shown, expected);
        assert_eq!(lines_of(&json!({})).len(), 1);
    }
}
