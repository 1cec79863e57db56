//! `syncline kv`: reads and changes keys of a running node.

use std::io::{self, Read};

use anyhow::Context;
use clap::Subcommand;
use serde_json::{Value, json};
use syncline_client::answer::{items, text};
use syncline_client::output::{self, Shown, Tone, WrongUse, toned};
use syncline_client::{Client, Heard, Listener, Method, Refusal, StatusCode, Target};

const EXAMPLES: &str = "\
Examples:
  syncline kv put greeting hello             keep a value
  syncline kv put session:7 on --ttl 60      keep it for 60 seconds
  syncline kv put config - < config.json     take the value from standard input
  syncline kv put owner me --if-absent       only if there is none; exit code 1 otherwise
  syncline kv put config v2 --if-version 41  only if nobody has written it since
  syncline kv incr visits                    add 1 to a whole number
  syncline kv get greeting                   print it; exit code 1 if there is none
  syncline kv get a b c                      several at once, as JSON lines
  syncline kv list session:                  keys that begin with session:
  syncline kv list viewer: --limit 1         is anybody watching this node?
  syncline kv watch session:                 a line for each change, until Ctrl-C
  syncline kv remove greeting                remove it";

/// Read and change keys.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Kv {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Print the value of a key, or several keys as JSON lines.
    Get {
        /// The key, or several.
        #[arg(required = true)]
        keys: Vec<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Set a key.
    Put {
        /// The key.
        key: String,
        /// The value, or - for standard input.
        value: String,
        /// How long it lives, in seconds; for ever if absent.
        #[arg(long, value_name = "SECONDS")]
        ttl: Option<f64>,
        /// Only if the key is not there.
        #[arg(long, conflicts_with = "if_version")]
        if_absent: bool,
        /// Only if the key has this version.
        #[arg(long, value_name = "VERSION")]
        if_version: Option<u64>,
        #[command(flatten)]
        target: Target,
    },
    /// Add to a key whose value is a whole number; one that is not there counts as zero.
    Incr {
        /// The key.
        key: String,
        /// How much.
        #[arg(default_value_t = 1, allow_negative_numbers = true)]
        by: i64,
        /// How long a key lives that was not there, in seconds.
        #[arg(long, value_name = "SECONDS")]
        ttl: Option<f64>,
        #[command(flatten)]
        target: Target,
    },
    /// Print a line for each key that is written or removed, until Ctrl-C.
    Watch {
        /// What the keys begin with; all keys if absent.
        #[arg(default_value = "")]
        prefix: String,
        #[command(flatten)]
        target: Target,
    },
    /// Remove a key.
    #[command(alias = "del")]
    Remove {
        /// The key.
        key: String,
        /// Only if the key has this version.
        #[arg(long, value_name = "VERSION")]
        if_version: Option<u64>,
        #[command(flatten)]
        target: Target,
    },
    /// List keys in their order.
    List {
        /// What the keys begin with; all keys if absent.
        #[arg(default_value = "")]
        prefix: String,
        /// At most this many, 1,000 at most.
        #[arg(long, default_value_t = 100)]
        limit: u32,
        /// Only keys behind this one.
        #[arg(long, value_name = "KEY")]
        after: Option<String>,
        #[command(flatten)]
        target: Target,
    },
}

impl Kv {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.action {
            Action::Get { keys, target } => match keys.as_slice() {
                [key] => get(&target, key).await,
                _ => get_many(&target, &keys).await,
            },
            Action::Put { key, value, ttl, if_absent, if_version, target } => {
                path(&key)?;
                let put = json!({
                    "op": "put", "key": key, "value": taken(value)?, "ttlSec": ttl, "ifAbsent": if_absent,
                    "ifVersion": if_version,
                });
                let stored = one(&target, &put).await?;
                show(&target, &stored, "stored")
            }
            Action::Incr { key, by, ttl, target } => {
                let body = json!({ "by": by, "ttlSec": ttl });
                let [api, kv, key] = path(&key)?;
                let address = [api, kv, key, "increment"];
                let stored = target.client()?.ask(Method::POST, &address, &[], Some(&body)).await?;
                show(&target, &stored, &output::foreign(stored["value"].as_str().unwrap_or_default()))
            }
            Action::Watch { prefix, target } => watch(&target, &prefix).await,
            Action::Remove { key, if_version, target } => {
                path(&key)?;
                let removed =
                    one(&target, &json!({ "op": "delete", "key": key, "ifVersion": if_version })).await?;
                let words = if removed["deleted"] == true { "removed" } else { "there was no such key" };
                show(&target, &json!({ "key": key, "deleted": removed["deleted"] }), words)
            }
            Action::List { prefix, limit, after, target } => {
                list(&target, &prefix, limit, after.as_deref()).await
            }
        }
    }
}

async fn get(target: &Target, key: &str) -> anyhow::Result<()> {
    let client = target.client()?;
    // A key that is not there is an answer; anything else that goes wrong is an error.
    let Some(entry) = existing(&client, key).await? else {
        if target.json {
            output::line(Value::Null)?;
        }
        output::remark("there is no such key")?;
        return Err(Shown.into());
    };
    show(target, &entry, &output::foreign(entry["value"].as_str().unwrap_or_default()))
}

async fn existing(client: &Client, key: &str) -> anyhow::Result<Option<Value>> {
    match client.get(&path(key)?, &[]).await {
        Ok(entry) => Ok(Some(entry)),
        Err(error) => match error.downcast_ref::<Refusal>() {
            Some(refusal) if refusal.status == StatusCode::NOT_FOUND => Ok(None),
            _ => Err(error),
        },
    }
}

/// The value as it was given, or from standard input.
fn taken(value: String) -> anyhow::Result<String> {
    if value != "-" {
        return Ok(value);
    }
    let mut read = String::new();
    io::stdin().read_to_string(&mut read).context("cannot read standard input as text")?;
    Ok(read)
}

/// Does one operation, and gives what it brought.
async fn one(target: &Target, operation: &Value) -> anyhow::Result<Value> {
    let answer = batch(&target.client()?, std::slice::from_ref(operation)).await?;
    Ok(answer["results"][0].clone())
}

async fn batch(client: &Client, operations: &[Value]) -> anyhow::Result<Value> {
    client.ask(Method::POST, &["api", "kv"], &[], Some(&json!({ "operations": operations }))).await
}

/// One line for each key, in the order they were asked for. Exit code 1 if one is not there.
async fn get_many(target: &Target, keys: &[String]) -> anyhow::Result<()> {
    let operations: Vec<Value> = keys.iter().map(|key| json!({ "op": "get", "key": key })).collect();
    let answer = batch(&target.client()?, &operations).await?;
    let results = items(&answer, "results");
    for result in results {
        output::line(result)?;
    }
    if results.iter().all(|result| result["exists"] == true) { Ok(()) } else { Err(Shown.into()) }
}

async fn watch(target: &Target, prefix: &str) -> anyhow::Result<()> {
    let client = target.client()?;
    let mut listener = Listener::open(&client, "kv").await?;
    loop {
        let Heard::Event { name, data } = listener.next().await? else { continue };
        let key = text(&data, "key");
        match name.as_str() {
            "kv.missed" => output::remark("changes may have been missed: list the keys again")?,
            _ if !key.starts_with(prefix) => {}
            _ if target.json => {
                output::line(json!({ "event": name, "key": key, "version": data["version"] }))?;
            }
            "kv.deleted" => output::line(format_args!("{key}  {}", toned(Tone::Quiet, "removed")))?,
            _ => output::line(format_args!(
                "{key}  {}",
                toned(Tone::Quiet, format_args!("version {}", data["version"]))
            ))?,
        }
    }
}

async fn list(target: &Target, prefix: &str, limit: u32, after: Option<&str>) -> anyhow::Result<()> {
    let limit = limit.to_string();
    let mut query = vec![("prefix", prefix), ("limit", limit.as_str())];
    query.extend(after.map(|after| ("after", after)));
    // Keys are what is shown; values may be large.
    if !target.json {
        query.push(("values", "false"));
    }
    let listing = target.client()?.get(&["api", "kv"], &query).await?;
    if target.json {
        return output::line(listing);
    }
    for entry in items(&listing, "entries") {
        let key = text(entry, "key");
        let ttl =
            entry["ttl_ms"].as_u64().map(|ms| format!("({} s left)", ms.div_ceil(1_000))).unwrap_or_default();
        output::line(format_args!("{key}  {}", toned(Tone::Quiet, ttl)).to_string().trim_end())?;
    }
    if let Some(next) = listing["next"].as_str() {
        output::remark(format_args!("there are more: go on with --after {next:?}"))?;
    }
    Ok(())
}

fn path(key: &str) -> anyhow::Result<[&str; 3]> {
    // Addresses cannot carry these as a name: they mean "here" and "one up".
    if key.is_empty() || key == "." || key == ".." {
        return Err(WrongUse(format!("{key:?} cannot be used as a key here")).into());
    }
    Ok(["api", "kv", key])
}

fn show(target: &Target, answer: &Value, words: &str) -> anyhow::Result<()> {
    if target.json { output::line(answer) } else { output::line(words) }
}
