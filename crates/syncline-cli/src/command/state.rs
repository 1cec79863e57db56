//! `syncline state`: which spaces of shared state a node has, and removing one.

use clap::Subcommand;
use syncline_client::answer::{items, number, text};
use syncline_client::output::{self, Shown, Tone, toned};
use syncline_client::{Method, Target};

const EXAMPLES: &str = "\
Examples:
  syncline state list                spaces, what is in them, how large they are
  syncline state list --after list   those behind this one
  syncline state delete list         remove a space with everything in it";

/// Show and remove spaces of shared state.
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
    /// Remove a space and everything in it. Devices that still have something of it send that again. Exit code 1 if there
    /// is no such space.
    Delete {
        /// The space.
        space: String,
        #[command(flatten)]
        target: Target,
    },
}

impl State {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.action {
            Action::List { limit, after, target } => list(&target, limit, after.as_deref()).await,
            Action::Delete { space, target } => delete(&target, &space).await,
        }
    }
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

async fn delete(target: &Target, space: &str) -> anyhow::Result<()> {
    let answer = target.client()?.ask(Method::DELETE, &["api", "state", space], &[], None::<&()>).await?;
    if target.json {
        output::line(&answer)?;
    }
    match (answer["deleted"] == true, target.json) {
        (true, true) => Ok(()),
        (true, false) => output::line("removed"),
        (false, _) => {
            output::remark("there is no such space")?;
            Err(Shown.into())
        }
    }
}
