//! `syncline queue`: what waits for an outside API, how fast it goes, and what came back.

mod add;
mod control;
mod show;

use clap::{Subcommand, ValueEnum};
use serde_json::json;
use syncline_client::answer::number;
use syncline_client::output::{self, Shown, Tone, toned};
use syncline_client::{Keys, Method, Target, Wait};
use syncline_store::queue::KEY_MAX_BYTES;

const EXAMPLES: &str = "\
Examples:
  syncline queue list                       queues, their depth, pace, time left
  syncline queue show words                 one of them, and what is in it
  syncline queue show words --state failed  what ended without a result, and why
  syncline queue add words tide moon        put keys in; known ones stay as they are
  syncline queue add words - --wait < keys  many, and wait for their results
  syncline queue add words tide --kind again
                                            once more, although it has a result
  syncline queue results words tide         what came back
  syncline queue results words tide --wait 30s
                                            or comes within half a minute
  syncline queue dead words                 keys given up after too many 429s
  syncline queue retry words                give dead and failed keys another chance
  syncline queue retry words --failed       only those that failed
  syncline queue remove words tide          forget a key and its result
  syncline queue pause words                start nothing any more, on all nodes
  syncline queue resume words               go on, also before a pause the API asked for is over
  syncline queue clear words --state waiting
                                            forget all that wait
  syncline queue groups pages               the groups of a queue, and how they are
  syncline queue pause pages --group shop.example
                                            start nothing of one group any more
  syncline queue pace words --interval-ms 250
                                            another pace, on all nodes, until --reset";

/// Show and change paced queues.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Queue {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the queues.
    List {
        #[command(flatten)]
        target: Target,
    },
    /// Show one queue and the keys in it.
    Show {
        /// The queue's name.
        name: String,
        /// Only keys in this state.
        #[arg(long, value_enum)]
        state: Option<State>,
        #[command(flatten)]
        listing: Listing,
        #[command(flatten)]
        target: Target,
    },
    /// Put keys into a queue.
    Add {
        /// The queue's name.
        name: String,
        #[command(flatten)]
        keys: Keys,
        /// What to do with keys that are known already.
        #[arg(long, value_enum, default_value_t = Kind::New)]
        kind: Kind,
        /// Put them into this group, instead of the one that the queue's configuration says.
        #[arg(long, value_name = "GROUP")]
        group: Option<String>,
        /// Wait so long for the results, such as 30s, and print them; without a duration for ever. Exit code 1 if any key
        /// brought none.
        #[arg(long, value_name = "DURATION", num_args = 0..=1, default_value = "0", default_missing_value = "forever")]
        wait: Wait,
        #[command(flatten)]
        target: Target,
    },
    /// Print what came back for keys. Exit code 1 if any has no result.
    Results {
        /// The queue's name.
        name: String,
        #[command(flatten)]
        keys: Keys,
        /// Wait so long for those that have not ended, such as 30s; without a duration for ever.
        #[arg(long, value_name = "DURATION", num_args = 0..=1, default_value = "0", default_missing_value = "forever")]
        wait: Wait,
        #[command(flatten)]
        target: Target,
    },
    /// List keys that were given up after too many 429s.
    Dead {
        /// The queue's name.
        name: String,
        #[command(flatten)]
        listing: Listing,
        #[command(flatten)]
        target: Target,
    },
    /// Give keys that are dead or failed all their attempts once more: those named, or all.
    Retry {
        /// The queue's name.
        name: String,
        #[command(flatten)]
        keys: Keys,
        /// Of all keys, only those in this state; both if absent.
        #[arg(long, value_enum, conflicts_with_all = ["keys", "file"])]
        state: Option<GivenUp>,
        /// The same as --state failed.
        #[arg(long, conflicts_with_all = ["keys", "file", "state"])]
        failed: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Start nothing any more, on all nodes, until it is resumed. What runs goes on.
    Pause {
        /// The queue's name.
        name: String,
        /// Only this group of it.
        #[arg(long, value_name = "GROUP")]
        group: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Go on, also before a pause that the API asked for is over.
    Resume {
        /// The queue's name.
        name: String,
        /// Only this group of it.
        #[arg(long, value_name = "GROUP")]
        group: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// List the groups of a queue: what waits, runs, and is paused.
    Groups {
        /// The queue's name.
        name: String,
        #[command(flatten)]
        listing: Listing,
        #[command(flatten)]
        target: Target,
    },
    /// Set the pace of a queue on all nodes, at once. What is not named stays as the configuration has it.
    Pace {
        /// The queue's name.
        name: String,
        #[command(flatten)]
        pace: NewPace,
        #[command(flatten)]
        target: Target,
    },
    /// Forget every key in one state.
    Clear {
        /// The queue's name.
        name: String,
        /// Which keys; those that run are removed one by one.
        #[arg(long, value_enum)]
        state: State,
        #[command(flatten)]
        target: Target,
    },
    /// Forget keys and their results.
    Remove {
        /// The queue's name.
        name: String,
        #[command(flatten)]
        keys: Keys,
        #[command(flatten)]
        target: Target,
    },
}

/// A pace to set.
#[derive(clap::Args)]
#[group(required = true, multiple = true)]
struct NewPace {
    /// Keys worked on at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    concurrency: Option<u32>,
    /// Least time from the end of a call to the next, in milliseconds.
    #[arg(long, value_name = "MS")]
    interval_ms: Option<u64>,
    /// Keys of one group worked on at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    group_concurrency: Option<u32>,
    /// Least time from the end of a call to the next of the same group, in milliseconds.
    #[arg(long, value_name = "MS")]
    group_interval_ms: Option<u64>,
    /// Give the pace back to the configuration.
    #[arg(long, conflicts_with_all = ["concurrency", "interval_ms", "group_concurrency", "group_interval_ms"])]
    reset: bool,
}

/// Which part of a list.
#[derive(clap::Args)]
struct Listing {
    /// At most this many keys.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Go on behind here: what the page before ended with.
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

/// Where a key can be.
#[derive(Clone, Copy, ValueEnum)]
enum State {
    Waiting,
    Running,
    Retrying,
    Done,
    Failed,
    Dead,
}

/// The two ways in which a key is given up.
#[derive(Clone, Copy, ValueEnum)]
enum GivenUp {
    /// After too many 429s.
    Dead,
    /// Refused by the API, or failed too often.
    Failed,
}

/// How a key is put into a queue.
#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// At the end, unless the key is known.
    New,
    /// Right after the head, also if it waits further back.
    Priority,
    /// One more run from now on, whatever there was before.
    Again,
    /// At once, if it is waiting for its retry.
    Retry,
}

impl Queue {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.action {
            Action::List { target } => show::list(&target).await,
            Action::Show { name, state, listing, target } => {
                show::show(&target, &name, state, &listing).await
            }
            Action::Add { name, keys, kind, group, wait, target } => {
                let keys = keys.some_checked("key", check_key)?;
                add::add(&target, &name, &keys, kind, group.as_deref(), wait).await
            }
            Action::Results { name, keys, wait, target } => {
                add::results(&target, &name, &keys.some("key")?, wait).await
            }
            Action::Dead { name, listing, target } => show::keys(&target, &name, State::Dead, &listing).await,
            Action::Retry { name, keys, state, failed, target } => {
                let state = if failed { Some(GivenUp::Failed) } else { state };
                retry(&target, &name, &keys.read()?, state).await
            }
            Action::Pause { name, group, target } => {
                control::hold(&target, &name, group.as_deref(), "pause").await
            }
            Action::Resume { name, group, target } => {
                control::hold(&target, &name, group.as_deref(), "resume").await
            }
            Action::Groups { name, listing, target } => control::groups(&target, &name, &listing).await,
            Action::Pace { name, pace, target } => control::pace(&target, &name, &pace).await,
            Action::Clear { name, state, target } => clear(&target, &name, state).await,
            Action::Remove { name, keys, target } => remove(&target, &name, &keys.some("key")?).await,
        }
    }
}

impl State {
    const ALL: [State; 6] =
        [State::Running, State::Waiting, State::Retrying, State::Done, State::Failed, State::Dead];

    fn name(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Running => "running",
            State::Retrying => "retrying",
            State::Done => "done",
            State::Failed => "failed",
            State::Dead => "dead",
        }
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::New => "new",
            Kind::Priority => "priority",
            Kind::Again => "again",
            Kind::Retry => "retry",
        }
    }
}

async fn retry(target: &Target, name: &str, keys: &[String], state: Option<GivenUp>) -> anyhow::Result<()> {
    let mut body = if keys.is_empty() { json!({}) } else { json!({ "keys": keys }) };
    if let Some(state) = state {
        body["state"] = json!(match state {
            GivenUp::Dead => "dead",
            GivenUp::Failed => "failed",
        });
    }
    let path = ["api", "queues", name, "revive"];
    let answer = target.client()?.ask(Method::POST, &path, &[], Some(&body)).await?;
    if target.json {
        return output::line(answer);
    }
    match number(&answer, "revived") {
        0 => output::line(toned(Tone::Quiet, "none was dead or failed")),
        1 => output::line("1 key is back in line"),
        count => output::line(format_args!("{count} keys are back in line")),
    }
}

async fn clear(target: &Target, name: &str, state: State) -> anyhow::Result<()> {
    let path = ["api", "queues", name, "keys"];
    let client = target.client()?;
    let answer = client.ask(Method::DELETE, &path, &[("state", state.name())], None::<&()>).await?;
    if target.json {
        return output::line(answer);
    }
    output::line(format_args!("{} keys forgotten", number(&answer, "deleted")))
}

/// What a queue would refuse, so that a list with one such key is not added by half.
fn check_key(key: &str) -> Result<(), String> {
    if key.len() > KEY_MAX_BYTES {
        return Err(format!("a key has {KEY_MAX_BYTES} bytes at most, this one {}", key.len()));
    }
    if key.chars().any(char::is_control) {
        return Err("a key has no control characters".to_owned());
    }
    Ok(())
}

async fn remove(target: &Target, name: &str, keys: &[String]) -> anyhow::Result<()> {
    let client = target.client()?;
    let mut missing = false;
    for key in keys {
        let answer =
            client.ask(Method::DELETE, &["api", "queues", name, "keys", key], &[], None::<&()>).await?;
        let removed = answer["deleted"] == true;
        missing |= !removed;
        if target.json {
            output::line(answer)?;
        } else {
            output::line(format_args!(
                "{key}  {}",
                if removed { "removed" } else { "there was no such key" }
            ))?;
        }
    }
    if missing { Err(Shown.into()) } else { Ok(()) }
}
