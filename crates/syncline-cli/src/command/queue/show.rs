//! Looking at queues.

use serde_json::{Value, json};
use syncline_client::answer::{items, now_ms, number, span, text};
use syncline_client::output::{self, Tone, toned};
use syncline_client::{Client, Target};

use super::{Listing, State};

/// Most keys that a node lists at once.
const PAGE_MAX: usize = 1_000;

/// Longest result that is shown in a list; the rest is cut off.
const SHOWN_CHARS: usize = 80;

/// All queues, a line each.
pub(super) async fn list(target: &Target) -> anyhow::Result<()> {
    let answer = target.client()?.get(&["api", "queues"], &[]).await?;
    if target.json {
        return output::line(answer);
    }
    let queues = items(&answer, "queues");
    if queues.is_empty() {
        return output::line(toned(Tone::Quiet, "there are no queues; syncline.toml declares them"));
    }
    let head = format!(
        "{:<20} {:>16} {:>8} {:>8} {:>8} {:>8} {:>7} {:>6} {:>9} {:>8}  {}",
        "queue", "pace", "waiting", "running", "retrying", "done", "failed", "dead", "rate", "left", "state"
    );
    output::line(toned(Tone::Quiet, head))?;
    queues.iter().try_for_each(|queue| {
        let counts = &queue["counts"];
        output::line(format_args!(
            "{:<20} {:>16} {:>8} {:>8} {:>8} {:>8} {:>7} {:>6} {:>9} {:>8}  {}",
            text(queue, "name"),
            pace(queue),
            number(counts, "waiting"),
            number(counts, "running"),
            number(counts, "retrying"),
            number(counts, "done"),
            number(counts, "failed"),
            number(counts, "dead"),
            rate(queue),
            queue["left_ms"].as_u64().filter(|ms| *ms > 0).map_or("-".to_owned(), span),
            condition(queue)
        ))
    })
}

/// One queue, and the first keys of each of its lists, or of one.
pub(super) async fn show(
    target: &Target,
    name: &str,
    state: Option<State>,
    listing: &Listing,
) -> anyhow::Result<()> {
    if let Some(state) = state {
        return keys(target, name, state, listing).await;
    }
    let client = target.client()?;
    let queue = client.get(&["api", "queues", name], &[]).await?;
    let mut lists = Vec::new();
    for state in State::ALL.into_iter().filter(|state| number(&queue["counts"], state.name()) > 0) {
        lists.push((state, page(&client, name, state, listing).await?));
    }
    if target.json {
        let lists: serde_json::Map<String, Value> =
            lists.into_iter().map(|(state, page)| (state.name().to_owned(), page["keys"].clone())).collect();
        let mut whole = queue;
        whole["keys"] = json!(lists);
        return output::line(whole);
    }
    output::line(format_args!("{name}: {}, {}, {}", pace(&queue), rate(&queue), condition(&queue)))?;
    if let Some(url) = queue["url"].as_str() {
        output::line(toned(Tone::Quiet, url))?;
    }
    for (state, page) in &lists {
        let count = number(&queue["counts"], state.name());
        output::line(toned(Tone::Quiet, format_args!("\n{count} {}", state.name())))?;
        items(page, "keys").iter().try_for_each(entry)?;
    }
    if lists.is_empty() { output::line(toned(Tone::Quiet, "nothing in it")) } else { Ok(()) }
}

/// The keys in one state.
pub(super) async fn keys(target: &Target, name: &str, state: State, listing: &Listing) -> anyhow::Result<()> {
    let page = page(&target.client()?, name, state, listing).await?;
    if target.json {
        return output::line(page);
    }
    if items(&page, "keys").is_empty() {
        return output::line(toned(Tone::Quiet, format_args!("no key is {}", state.name())));
    }
    items(&page, "keys").iter().try_for_each(entry)?;
    match page["next"].as_str() {
        Some(next) => output::line(toned(Tone::Quiet, format_args!("more with --after {next}"))),
        None => Ok(()),
    }
}

/// As many keys as were asked for: a page of the node may be shorter, because results are long.
async fn page(client: &Client, name: &str, state: State, listing: &Listing) -> anyhow::Result<Value> {
    let (mut keys, mut after) = (Vec::new(), listing.after.clone());
    loop {
        let left = (listing.limit as usize).saturating_sub(keys.len());
        let limit = left.min(PAGE_MAX).to_string();
        let mut query = vec![("state", state.name()), ("limit", limit.as_str())];
        query.extend(after.as_deref().map(|after| ("after", after)));
        let page = client.get(&["api", "queues", name, "keys"], &query).await?;
        keys.extend(items(&page, "keys").iter().cloned());
        after = page["next"].as_str().map(str::to_owned);
        if after.is_none() || keys.len() >= listing.limit as usize {
            return Ok(json!({ "keys": keys, "next": after }));
        }
    }
}

fn entry(entry: &Value) -> anyhow::Result<()> {
    let attempts = match number(entry, "attempts") {
        0 | 1 => String::new(),
        attempts => format!("  {attempts} attempts"),
    };
    output::line(
        format_args!("  {}{attempts}  {}", text(entry, "key"), outcome(entry)).to_string().trim_end(),
    )
}

/// What came back for a key: its result, or why there is none.
pub(super) fn outcome(entry: &Value) -> String {
    let reason = text(entry, "reason");
    match (text(entry, "state"), &entry["result"]) {
        ("failed" | "dead", _) => toned(Tone::Bad, reason),
        ("retrying", _) | (_, Value::Null) => toned(Tone::Doubtful, reason),
        (_, Value::String(result)) => cut(result),
        (_, result) => cut(&result.to_string()),
    }
}

fn cut(text: &str) -> String {
    let line = text.replace(char::is_control, " ");
    match line.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

pub(super) fn pace(queue: &Value) -> String {
    let at_once = number(queue, "concurrency");
    match number(queue, "interval_ms") {
        0 => format!("{at_once} at once"),
        ms => format!("{at_once} every {}", span(ms)),
    }
}

fn rate(queue: &Value) -> String {
    format!("{:.1}/s", queue["rate_per_sec"].as_f64().unwrap_or_default())
}

/// What the queue is doing, in words.
pub(super) fn condition(queue: &Value) -> String {
    let until = |at: &Value| at.as_u64().map(|at| span(at.saturating_sub(now_ms())));
    if text(&queue["paused"], "reason") == "operator" {
        return toned(Tone::Doubtful, "paused; syncline queue resume goes on");
    }
    if let (Some(left), reason) = (until(&queue["paused"]["until"]), text(&queue["paused"], "reason")) {
        return toned(Tone::Doubtful, format_args!("paused for {left}: {reason}"));
    }
    let breaker = text(queue, "breaker");
    if !matches!(breaker, "" | "closed") {
        return toned(Tone::Bad, format_args!("breaker {breaker}"));
    }
    let counts = &queue["counts"];
    let busy = ["waiting", "running", "retrying"].iter().any(|state| number(counts, state) > 0);
    match (busy, text(queue, "waits_for")) {
        (false, _) => toned(Tone::Quiet, "idle"),
        (true, "") => toned(Tone::Good, "working"),
        (true, what) => toned(Tone::Good, format_args!("working; waits for {what}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qu_24_a_queue_says_what_it_is_doing() {
        let counts = json!({ "waiting": 3, "running": 1 });
        let paused = json!({ "until": now_ms() + 90_500, "reason": "retry-after" });
        for (queue, words) in [
            (json!({ "counts": {} }), "idle"),
            (json!({ "counts": counts, "breaker": "closed" }), "working"),
            (json!({ "counts": counts, "waits_for": "interval" }), "working; waits for interval"),
            (json!({ "counts": counts, "breaker": "open" }), "breaker open"),
            (json!({ "counts": counts, "paused": paused }), "paused for 90 s: retry-after"),
        ] {
            assert_eq!(condition(&queue), words);
        }
    }

    #[test]
    fn qu_24_a_long_result_is_cut_and_a_failure_gives_its_reason() {
        let long = "ä".repeat(200);
        let shown = outcome(&json!({ "state": "done", "result": long }));
        assert_eq!(shown.chars().count(), SHOWN_CHARS + 1);
        assert_eq!(outcome(&json!({ "state": "done", "result": { "a": 1 } })), "{\"a\":1}");
        assert_eq!(outcome(&json!({ "state": "failed", "reason": "status 404" })), "status 404");
    }
}
