//! `syncline state`: which spaces of shared state a node has, what is in them, and changing it.

use clap::Subcommand;
use serde_json::Value;
use syncline_client::answer::{items, number, text};
use syncline_client::output::{self, Shown, Tone, WrongUse, toned};
use syncline_client::{Method, Target};

const EXAMPLES: &str = "\
Examples:
  syncline state list                spaces, what is in them, how large they are
  syncline state list --after list   those behind this one
  syncline state remove list         remove a space with everything in it
  syncline state entities list       what is in one
  syncline state get list milk       one entity
  syncline state put list milk '{\"amount\":1}'
                                     write one; every device hears of it
  syncline state remove list milk    remove one, on every device";

/// Show and change spaces of shared state.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct State {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the spaces by name.
    List {
        /// At most this many, 1,000 at most.
        #[arg(long, default_value_t = 100)]
        limit: u32,
        /// Only spaces behind this one.
        #[arg(long, value_name = "SPACE")]
        after: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Remove a space and everything in it, or one entity on every device. Devices that still have something of a space
    /// that was removed send that again. Exit code 1 if there is no such thing.
    #[command(alias = "delete")]
    Remove {
        /// The space.
        space: String,
        /// Only this entity.
        id: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// List the entities of a space by id.
    Entities {
        /// The space.
        space: String,
        /// At most this many, 1,000 at most.
        #[arg(long, default_value_t = 100)]
        limit: u32,
        /// Only entities behind this one.
        #[arg(long, value_name = "ID")]
        after: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Print the value of one entity.
    Get {
        /// The space.
        space: String,
        /// The entity.
        id: String,
        #[command(flatten)]
        target: Target,
    },
    /// Write one entity. Every device of the space hears of it.
    Put {
        /// The space.
        space: String,
        /// The entity.
        id: String,
        /// Its value, as JSON.
        value: String,
        #[command(flatten)]
        target: Target,
    },
}

impl State {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.action {
            Action::List { limit, after, target } => list(&target, limit, after.as_deref()).await,
            Action::Remove { space, id, target } => remove(&target, &space, id.as_deref()).await,
            Action::Entities { space, limit, after, target } => {
                entities(&target, &space, limit, after.as_deref()).await
            }
            Action::Get { space, id, target } => {
                let entity = target.client()?.get(&["api", "state", &space, &id], &[]).await?;
                let value = entity["value"].to_string();
                if target.json { output::line(entity) } else { output::line(output::foreign(&value)) }
            }
            Action::Put { space, id, value, target } => {
                let value: Value = serde_json::from_str(&value)
                    .map_err(|error| WrongUse(format!("the value is no JSON: {error}")))?;
                let path = ["api", "state", &space, &id];
                let stored = target.client()?.ask(Method::PUT, &path, &[], Some(&value)).await?;
                if target.json { output::line(stored) } else { output::line("stored") }
            }
        }
    }
}

async fn entities(target: &Target, space: &str, limit: u32, after: Option<&str>) -> anyhow::Result<()> {
    let limit = limit.to_string();
    let mut query = vec![("limit", limit.as_str())];
    query.extend(after.map(|after| ("after", after)));
    let answer = target.client()?.get(&["api", "spaces", space, "entities"], &query).await?;
    if target.json {
        return output::line(answer);
    }
    for entity in items(&answer, "entities") {
        let value = entity["value"].to_string();
        output::line(format_args!("{:<32} {}", text(entity, "id"), output::foreign(&value)))?;
    }
    if let Some(next) = answer["next"].as_str() {
        output::remark(format_args!("there may be more: go on with --after {next}"))?;
    }
    Ok(())
}

async fn list(target: &Target, limit: u32, after: Option<&str>) -> anyhow::Result<()> {
    let limit = limit.to_string();
    let query = [("limit", limit.as_str()), ("after", after.unwrap_or_default())];
    let answer = target.client()?.get(&["api", "state"], &query).await?;
    if target.json {
        return output::line(answer);
    }
    let spaces = items(&answer, "spaces");
    if spaces.is_empty() {
        return output::line(toned(Tone::Quiet, "no spaces"));
    }
    let head = format!("{:<64} {:>8} {:>12} {:>10}", "space", "entities", "bytes", "number");
    output::line(toned(Tone::Quiet, head))?;
    for space in spaces {
        output::line(format_args!(
            "{:<64} {:>8} {:>12} {:>10}",
            text(space, "space"),
            number(space, "entities"),
            number(space, "bytes"),
            number(space, "number")
        ))?;
    }
    if let Some(next) = answer["next"].as_str() {
        output::remark(format_args!("there may be more: go on with --after {next}"))?;
    }
    Ok(())
}

async fn remove(target: &Target, space: &str, id: Option<&str>) -> anyhow::Result<()> {
    let path: Vec<&str> = ["api", "state", space].into_iter().chain(id).collect();
    let answer = target.client()?.ask(Method::DELETE, &path, &[], None::<&()>).await?;
    if target.json {
        output::line(&answer)?;
    }
    match (answer["deleted"] == true, target.json) {
        (true, true) => Ok(()),
        (true, false) => output::line("removed"),
        (false, _) => {
            output::remark(if id.is_some() { "there is no such entity" } else { "there is no such space" })?;
            Err(Shown.into())
        }
    }
}
