//! `syncline kv`: reads and changes keys of a running node.

use std::io::{self, Read};

use anyhow::Context;
use clap::Subcommand;
use serde_json::{Value, json};
use syncline_client::answer::{items, text};
use syncline_client::output::{self, Shown, Tone, WrongUse, toned};
use syncline_client::{Client, Method, Refusal, StatusCode, Target};

const EXAMPLES: &str = "\
Examples:
  syncline kv put greeting hello             keep a value
  syncline kv put session:7 on --ttl 60      keep it for 60 seconds
  syncline kv put config - < config.json     take the value from standard input
  syncline kv get greeting                   print it; exit code 1 if there is none
  syncline kv list session:                  keys that begin with session:
  syncline kv list viewer: --limit 1         is anybody watching this node?
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
    /// Print the value of a key.
    Get {
        /// The key.
        key: String,
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
        #[command(flatten)]
        target: Target,
    },
    /// Remove a key.
    #[command(alias = "del")]
    Remove {
        /// The key.
        key: String,
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
            Action::Get { key, target } => get(&target, &key).await,
            Action::Put { key, value, ttl, target } => put(&target, &key, value, ttl).await,
            Action::Remove { key, target } => {
                let removed = target.client()?.ask(Method::DELETE, &path(&key)?, &[], None::<&()>).await?;
                let words = if removed["deleted"] == true { "removed" } else { "there was no such key" };
                show(&target, &removed, words)
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

async fn put(target: &Target, key: &str, value: String, ttl_sec: Option<f64>) -> anyhow::Result<()> {
    let value = if value == "-" {
        let mut read = String::new();
        io::stdin().read_to_string(&mut read).context("cannot read standard input as text")?;
        read
    } else {
        value
    };
    let body = json!({ "value": value, "ttl_sec": ttl_sec });
    let stored = target.client()?.ask(Method::PUT, &path(key)?, &[], Some(&body)).await?;
    show(target, &stored, "stored")
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
