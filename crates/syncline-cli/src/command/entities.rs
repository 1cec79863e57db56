//! `syncline entities`: what came from elsewhere, and the entities that are edited here.

use clap::Subcommand;
use serde_json::Value;
use syncline_client::answer::{items, text};
use syncline_client::output::{self, Tone, WrongUse, toned};
use syncline_client::{Method, Target};

const EXAMPLES: &str = "\
Examples:
  syncline entities list                       which kinds there are
  syncline entities list order                 the newest of one kind
  syncline entities get order o-1              one of them
  syncline entities put note n-1 '{\"text\":\"hi\"}'
                                               write one of a kind that is edited here";

/// Read and change entities that came from elsewhere.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Entities {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the kinds, or the entities of one kind, newest first.
    List {
        /// The kind; the kinds themselves if absent.
        kind: Option<String>,
        /// At most this many, 1,000 at most.
        #[arg(long, default_value_t = 20)]
        limit: u32,
        #[command(flatten)]
        target: Target,
    },
    /// Print one entity.
    Get {
        /// The kind.
        kind: String,
        /// Its id.
        id: String,
        #[command(flatten)]
        target: Target,
    },
    /// Write one entity of a kind that is edited here. The other side hears of it.
    Put {
        /// The kind.
        kind: String,
        /// Its id.
        id: String,
        /// Its value, as JSON.
        value: String,
        #[command(flatten)]
        target: Target,
    },
}

impl Entities {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.action {
            Action::List { kind: None, target, .. } => kinds(&target).await,
            Action::List { kind: Some(kind), limit, target } => list(&target, &kind, limit).await,
            Action::Get { kind, id, target } => {
                let entity = target.client()?.get(&["api", "entities", &kind, &id], &[]).await?;
                show(&target, &entity)
            }
            Action::Put { kind, id, value, target } => {
                let value: Value = serde_json::from_str(&value)
                    .map_err(|error| WrongUse(format!("the value is no JSON: {error}")))?;
                let path = ["api", "entities", &kind, &id];
                let stored = target.client()?.ask(Method::PUT, &path, &[], Some(&value)).await?;
                if target.json { output::line(stored) } else { output::line("stored") }
            }
        }
    }
}

async fn kinds(target: &Target) -> anyhow::Result<()> {
    let answer = target.client()?.get(&["api", "entities"], &[]).await?;
    if target.json {
        return output::line(answer);
    }
    let kinds = items(&answer, "types");
    if kinds.is_empty() {
        return output::line(toned(Tone::Quiet, "no kind is declared; [[entities]] of syncline.toml does"));
    }
    for kind in kinds {
        let note = if kind["settings"] == true { "may be edited here" } else { "read only" };
        output::line(format_args!("{:<32} {}", text(kind, "name"), toned(Tone::Quiet, note)))?;
    }
    Ok(())
}

async fn list(target: &Target, kind: &str, limit: u32) -> anyhow::Result<()> {
    let limit = limit.to_string();
    let answer = target.client()?.get(&["api", "entities", kind], &[("limit", &limit)]).await?;
    if target.json {
        return output::line(answer);
    }
    for entity in items(&answer, "entities") {
        let value = entity["payload"].to_string();
        output::line(format_args!("{:<32} {}", text(entity, "entityId"), output::foreign(&value)))?;
    }
    Ok(())
}

fn show(target: &Target, entity: &Value) -> anyhow::Result<()> {
    if target.json {
        return output::line(entity);
    }
    output::line(output::foreign(&entity["payload"].to_string()))
}
