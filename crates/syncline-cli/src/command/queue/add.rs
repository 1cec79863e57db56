//! Putting keys into a queue, and getting out what came back.

use std::time::{Duration, Instant};

use anyhow::bail;
use serde_json::{Value, json};
use syncline_client::answer::{number, span, text};
use syncline_client::output::{self, Shown, Tone, toned};
use syncline_client::{Client, Heard, IN_VAIN_MAX, Listener, Method, Pending, Progress, Target, Wait};

use super::{Kind, show};

/// Keys sent at once.
const BATCH: usize = 1_000;

/// The longest a node is asked to wait for a result before it is asked again.
const WAIT_STEP: Duration = Duration::from_secs(5);

/// Puts keys in; while it is to `wait`, prints each result as it comes.
pub(super) async fn add(
    target: &Target,
    name: &str,
    keys: &[String],
    kind: Kind,
    group: Option<&str>,
    wait: Wait,
) -> anyhow::Result<()> {
    let client = target.client()?;
    // Listened to before anything is sent, or a quick answer would come unheard.
    let listener = if wait.is_none() { None } else { Some(Listener::open(&client, "queue").await?) };
    let mut totals = [("added", 0), ("moved", 0), ("again", 0), ("unchanged", 0)];
    for batch in keys.chunks(BATCH) {
        let body = match group {
            None => json!({ "kind": kind.name(), "keys": batch }),
            Some(group) => {
                let tasks: Vec<Value> =
                    batch.iter().map(|key| json!({ "key": key, "group": group })).collect();
                json!({ "kind": kind.name(), "tasks": tasks })
            }
        };
        let answer = client.ask(Method::POST, &["api", "queues", name], &[], Some(&body)).await?;
        totals.iter_mut().for_each(|(field, total)| *total += number(&answer, field));
    }
    let Some(listener) = listener else {
        return if target.json {
            let totals: serde_json::Map<String, Value> =
                totals.iter().map(|(field, total)| ((*field).to_owned(), json!(total))).collect();
            output::line(Value::Object(totals))
        } else {
            output::line(handed_over(&totals))
        };
    };
    if !target.json {
        output::line(toned(Tone::Quiet, handed_over(&totals)))?;
    }
    let mut waiting = Waiting::new(target, name, keys);
    match wait.limit(waiting.wait(&client, listener)).await {
        Some(ended) => ended,
        None => bail!(
            "{} without a result when the time to wait was over",
            keys_in_words(waiting.pending.keys().len())
        ),
    }
}

fn keys_in_words(count: usize) -> String {
    if count == 1 { "1 key was".to_owned() } else { format!("{count} keys were") }
}

/// Prints what came back for each key.
pub(super) async fn results(target: &Target, name: &str, keys: &[String], wait: Wait) -> anyhow::Result<()> {
    let client = target.client()?;
    let mut well = true;
    // One time for all of them: who waits half a minute means that, however many keys there are.
    let deadline = wait.deadline();
    for key in keys {
        let result = result(&client, name, key, deadline).await?;
        well &= text(&result, "state") == "done";
        print(target, &result, keys.len() == 1, output::line)?;
    }
    if well { Ok(()) } else { Err(Shown.into()) }
}

/// How a key stands, asked again and again until it has ended or the time is over.
async fn result(client: &Client, name: &str, key: &str, deadline: Option<Instant>) -> anyhow::Result<Value> {
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let step = left.map_or(WAIT_STEP, |left| left.min(WAIT_STEP));
        let wait_ms = step.as_millis().to_string();
        let path = ["api", "queues", name, "results", key];
        let answer = client.get(&path, &[("wait_ms", &wait_ms)]).await?;
        if left.is_some_and(|left| left <= step) || has_ended(&answer) {
            return Ok(answer);
        }
    }
}

fn has_ended(entry: &Value) -> bool {
    matches!(text(entry, "state"), "done" | "failed" | "dead")
}

/// What is ahead, in words: how many wait, how fast they go, how long it takes.
fn rest(waiting: u64, rate_per_sec: f64, left_ms: Option<u64>) -> String {
    let left = left_ms.map_or(String::new(), |ms| format!(", {} left", span(ms)));
    format!("{waiting} to go, {rate_per_sec:.1}/s{left}")
}

fn handed_over(totals: &[(&str, u64); 4]) -> String {
    let said: Vec<String> = totals
        .iter()
        .filter(|(_, total)| *total > 0)
        .map(|(field, total)| format!("{total} {field}"))
        .collect();
    said.join(", ")
}

/// One result. A single one is printed whole, for pipes; of several, each gets a line with its key.
fn print(
    target: &Target,
    entry: &Value,
    whole: bool,
    line: impl Fn(String) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if target.json {
        return line(entry.to_string());
    }
    let key = text(entry, "key");
    match (text(entry, "state"), &entry["result"]) {
        ("done", Value::String(result)) if whole => line(result.clone()),
        ("done", result) if whole => line(result.to_string()),
        ("done", _) => line(format!("{key}  {}", show::outcome(entry))),
        (state, _) => line(
            format!("{key}  {}  {}", toned(Tone::Doubtful, state), show::outcome(entry))
                .trim_end()
                .to_owned(),
        ),
    }
}

/// Keys whose results are waited for.
struct Waiting<'a> {
    target: &'a Target,
    name: &'a str,
    pending: Pending,
    failed: usize,
}

impl<'a> Waiting<'a> {
    fn new(target: &'a Target, name: &'a str, keys: &[String]) -> Self {
        Self { target, name, pending: Pending::new(keys.iter().cloned()), failed: 0 }
    }

    async fn wait(&mut self, client: &Client, mut listener: Listener<'_>) -> anyhow::Result<()> {
        let bar = Progress::new(self.pending.total());
        let mut ahead = String::new();
        while !self.pending.is_empty() {
            match listener.next().await? {
                Heard::Event { name, data } if name == "queue.result" => {
                    if text(&data, "queue") == self.name && self.pending.contains(text(&data, "key")) {
                        self.look(client, text(&data, "key"), &bar).await?;
                    }
                }
                Heard::Event { name, data } if name == "queue" && text(&data, "name") == self.name => {
                    let counts = &data["counts"];
                    let waiting =
                        ["waiting", "running", "retrying"].iter().map(|state| number(counts, state)).sum();
                    let rate = data["rate_per_sec"].as_f64().unwrap_or_default();
                    ahead = rest(waiting, rate, data["left_ms"].as_u64());
                }
                Heard::Event { .. } => {}
                Heard::LookAgain => self.look_at_all(client, &bar).await?,
            }
            bar.set(self.pending.done(), ahead.clone());
        }
        bar.end();
        if self.failed > 0 { Err(Shown.into()) } else { Ok(()) }
    }

    /// Asks for one key, and prints what came back if it has ended.
    async fn look(&mut self, client: &Client, key: &str, bar: &Progress) -> anyhow::Result<()> {
        // A node that is down now is no reason to give up: the listener waits for it.
        let Ok(entry) = result(client, self.name, key, Some(Instant::now())).await else { return Ok(()) };
        if !has_ended(&entry) {
            return Ok(());
        }
        self.pending.remove(key);
        self.failed += usize::from(text(&entry, "state") != "done");
        print(self.target, &entry, false, |line| bar.line(line))
    }

    /// Asks for keys that may have ended unheard, those that were put in first before the others, until so many in a row
    /// have not.
    async fn look_at_all(&mut self, client: &Client, bar: &Progress) -> anyhow::Result<()> {
        let mut in_vain = 0;
        for key in self.pending.keys() {
            self.look(client, &key, bar).await?;
            in_vain = if self.pending.contains(&key) { in_vain + 1 } else { 0 };
            if in_vain == IN_VAIN_MAX {
                break;
            }
        }
        Ok(())
    }
}
