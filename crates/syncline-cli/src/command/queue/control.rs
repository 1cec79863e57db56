//! Control of a queue while it runs: pause, resume, groups, pace.

use serde_json::{Map, Value, json};
use syncline_client::answer::{items, now_ms, number, span, text};
use syncline_client::output::{self, Tone, toned};
use syncline_client::{Method, Target};

use super::{Listing, NewPace, show};

/// Pauses or resumes a queue, or one group of it.
pub(super) async fn hold(target: &Target, name: &str, group: Option<&str>, verb: &str) -> anyhow::Result<()> {
    let client = target.client()?;
    if let Some(group) = group {
        let path = ["api", "queues", name, "groups", verb];
        let answer = client.ask(Method::POST, &path, &[], Some(&json!({ "group": group }))).await?;
        if target.json {
            return output::line(answer);
        }
        return output::line(format_args!("{name}  {group:?} {verb}d"));
    }
    let answer = client.ask(Method::POST, &["api", "queues", name, verb], &[], None::<&()>).await?;
    if target.json {
        return output::line(answer);
    }
    output::line(format_args!("{name}  {verb}d; {} keys wait", number(&answer["counts"], "waiting")))
}

/// Lists the groups of a queue, a line each.
pub(super) async fn groups(target: &Target, name: &str, listing: &Listing) -> anyhow::Result<()> {
    let limit = listing.limit.min(1_000).to_string();
    let mut query = vec![("limit", limit.as_str())];
    query.extend(listing.after.as_deref().map(|after| ("after", after)));
    let answer = target.client()?.get(&["api", "queues", name, "groups"], &query).await?;
    if target.json {
        return output::line(answer);
    }
    let groups = items(&answer, "groups");
    if groups.is_empty() {
        return output::line(toned(Tone::Quiet, "no group has keys in line"));
    }
    let head = format!("{:<40} {:>9} {:>8} {:>9}  {}", "group", "waiting", "running", "next", "state");
    output::line(toned(Tone::Quiet, head))?;
    for group in groups {
        let shown = match text(group, "name") {
            "" => "(none)",
            name => name,
        };
        let next =
            group["nextCallAt"].as_u64().map_or("-".to_owned(), |at| span(at.saturating_sub(now_ms())));
        let state = match (group["paused"] == true, number(group, "failures")) {
            (true, _) => "paused".to_owned(),
            (false, 0) => String::new(),
            (false, failures) => format!("{failures} failures in a row"),
        };
        let (waiting, running) = (number(group, "waiting"), number(group, "running"));
        output::line(format_args!("{shown:<40} {waiting:>9} {running:>8} {next:>9}  {state}"))?;
    }
    match answer["next"].as_str() {
        Some(next) => output::line(toned(Tone::Quiet, format_args!("more: --after {next:?}"))),
        None => Ok(()),
    }
}

/// Sets the pace of a queue, or gives it back to the configuration.
pub(super) async fn pace(target: &Target, name: &str, pace: &NewPace) -> anyhow::Result<()> {
    let (client, path) = (target.client()?, ["api", "queues", name, "pace"]);
    let answer = if pace.reset {
        client.ask(Method::DELETE, &path, &[], None::<&()>).await?
    } else {
        let fields = [
            ("concurrency", pace.concurrency.map(u64::from)),
            ("intervalMs", pace.interval_ms),
            ("groupConcurrency", pace.group_concurrency.map(u64::from)),
            ("groupIntervalMs", pace.group_interval_ms),
        ];
        let set: Map<String, Value> =
            fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?)))).collect();
        client.ask(Method::PUT, &path, &[], Some(&Value::Object(set))).await?
    };
    if target.json {
        return output::line(answer);
    }
    output::line(format_args!("{name}  {}", show::pace(&answer)))?;
    if let Some(groups) = answer.get("groups") {
        let (at_once, interval) = (number(groups, "concurrency"), number(groups, "interval_ms"));
        output::line(format_args!("each group  {at_once} at once, {interval} ms apart"))?;
    }
    Ok(())
}
