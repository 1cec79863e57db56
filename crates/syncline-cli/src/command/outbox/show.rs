//! Looking at an outbox.

use std::time::Duration;

use anyhow::bail;
use serde_json::{Value, json};
use syncline_client::answer::{now_ms, span};
use syncline_client::output::{self, Tone, toned};
use syncline_core::outbox::Moment;
use syncline_core::text::one_line;
use syncline_store::outbox::{Detail, List, Outbox, State};

/// Longest error that is shown in a list; the rest is cut off.
const SHOWN_CHARS: usize = 90;

pub(super) async fn stats(outbox: &dyn Outbox, as_json: bool) -> anyhow::Result<()> {
    let stats = outbox.stats().await?;
    let oldest_ms = stats.oldest.map(ms);
    if as_json {
        return output::line(json!({
            "pending": stats.pending,
            "inFlight": stats.in_flight,
            "retrying": stats.retrying,
            "behind": stats.behind,
            "dead": stats.dead,
            "oldestMs": oldest_ms,
            "delivered": stats.delivered,
            "deliveredLastMinute": stats.delivered_last_minute,
        }));
    }
    let oldest = oldest_ms.map_or(String::new(), |ms| format!(", the oldest for {}", span(ms)));
    output::line(format_args!("{} pending{oldest}", stats.pending))?;
    for (count, what) in [
        (stats.in_flight, "being sent"),
        (stats.retrying, "failed and waiting for their next attempt"),
        (stats.behind, "waiting for an earlier change of the same entity"),
    ] {
        if count > 0 {
            output::line(format_args!("  {count} {what}"))?;
        }
    }
    let dead = format!("{} dead", stats.dead);
    output::line(if stats.dead > 0 { toned(Tone::Bad, dead) } else { dead })?;
    output::line(format_args!("{} sent, {} in the last minute", stats.delivered, stats.delivered_last_minute))
}

pub(super) async fn list(
    outbox: &dyn Outbox,
    list: List,
    after: Option<i64>,
    limit: usize,
    as_json: bool,
) -> anyhow::Result<()> {
    let entries = outbox.list(list, after, limit).await?;
    let next = entries.last().filter(|_| entries.len() == limit).map(|entry| entry.id);
    if as_json {
        let entries: Vec<Value> = entries.iter().map(value).collect();
        return output::line(json!({ "entries": entries, "next": next }));
    }
    if entries.is_empty() {
        let none = match list {
            List::Pending => "nothing waits",
            List::Dead => "nothing was given up",
            List::Processed => "nothing was sent yet, or it was purged",
        };
        return output::line(toned(Tone::Quiet, none));
    }
    let head = format!(
        "{:>8} {:<18} {:<38} {:>9} {:<10} {:>8}  {}",
        "id", "type", "entity", "age", "state", "attempts", "why"
    );
    output::line(toned(Tone::Quiet, head.trim_end()))?;
    entries.iter().try_for_each(row)?;
    match next {
        Some(next) => output::line(toned(Tone::Quiet, format_args!("more with --after {next}"))),
        None => Ok(()),
    }
}

pub(super) async fn show(outbox: &dyn Outbox, id: i64, as_json: bool) -> anyhow::Result<()> {
    let Some((detail, payload)) = outbox.entry(id).await? else { bail!("there is no entry {id}") };
    // An application may have put anything there.
    let read: Option<Value> = serde_json::from_str(&payload).ok();
    if as_json {
        let mut whole = value(&detail);
        whole["payload"] = read.unwrap_or(Value::String(payload));
        return output::line(whole);
    }
    output::line(format_args!("{id}  {} {}", detail.entity_type, detail.entity_id))?;
    match detail.created_at {
        Some(at) => output::line(format_args!("created     {at}, {} ago", span(age_ms(at))))?,
        None => output::line("created     at no time that can be read")?,
    }
    output::line(format_args!("state       {}", state(&detail)))?;
    output::line(format_args!("attempts    {}", detail.attempts))?;
    let rows = [
        ("due in", detail.due_in.map(|wait| span(ms(wait)))),
        ("behind", detail.behind.map(|behind| behind.to_string())),
        ("claimed by", detail.claimed_by.clone()),
        ("ended", detail.ended_at.map(|at| at.to_string())),
        ("last error", detail.last_error.clone()),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            output::line(format_args!("{name:<11} {value}"))?;
        }
    }
    match read {
        Some(read) => output::line(format_args!("\n{read:#}")),
        None => output::line(format_args!("\n{payload}")),
    }
}

fn row(entry: &Detail) -> anyhow::Result<()> {
    let why = match (&entry.last_error, entry.behind) {
        (_, Some(behind)) => format!("waits for {behind}"),
        (Some(error), None) => one_line(error, SHOWN_CHARS),
        (None, None) => String::new(),
    };
    let line = format!(
        "{:>8} {:<18} {:<38} {:>9} {:<10} {:>8}  {why}",
        entry.id,
        entry.entity_type,
        entry.entity_id,
        entry.created_at.map_or_else(|| "?".to_owned(), |at| span(age_ms(at))),
        state(entry),
        entry.attempts,
    );
    output::line(line.trim_end())
}

/// The state's name; coloured ones are as wide as the others.
fn state(entry: &Detail) -> String {
    let name = format!("{:<10}", entry.state.as_str());
    match entry.state {
        State::Dead => toned(Tone::Bad, name),
        State::Retrying => toned(Tone::Doubtful, name),
        State::Processed => toned(Tone::Good, name),
        State::Waiting | State::InFlight | State::Behind => name,
    }
}

fn value(entry: &Detail) -> Value {
    json!({
        "id": entry.id,
        "entityType": entry.entity_type,
        "entityId": entry.entity_id,
        "bytes": entry.bytes,
        "createdAt": entry.created_at.map(|at| at.to_string()),
        "state": entry.state.as_str(),
        "attempts": entry.attempts,
        "dueInMs": entry.due_in.map(ms),
        "behind": entry.behind,
        "claimedBy": entry.claimed_by,
        "lastError": entry.last_error,
        "endedAt": entry.ended_at.map(|at| at.to_string()),
    })
}

fn age_ms(at: Moment) -> u64 {
    let at_ms = u64::try_from(at.as_us() / 1_000).unwrap_or(0);
    now_ms().saturating_sub(at_ms)
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
