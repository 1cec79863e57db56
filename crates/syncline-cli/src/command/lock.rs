//! `syncline lock`: one at a time, across processes and machines.

mod run;

use clap::Subcommand;
use serde_json::{Value, json};
use syncline_client::answer::{items, number, span, text};
use syncline_client::output::{self, Tone, WrongUse, toned};
use syncline_client::{Method, Target};
use syncline_core::lock::{LeaseId, Name};

const EXAMPLES: &str = "\
Examples:
  syncline lock run nightly -- ./backup.sh         run it while nobody else does
  syncline lock run nightly --wait 0 -- ./job      or not at all, if somebody does
  syncline lock run db --ttl 60 -- sh -c 'psql -v token=$SYNCLINE_LOCK_TOKEN -f load.sql'
                                                   tell the resource who comes later
  syncline lock list                               who holds what, and for how long
  syncline lock show nightly                       how one lock stands
  syncline lock list project:                      locks whose names begin with project:
  syncline lock release nightly --force            take it away from a holder that hangs

A lock is held by a lease: it is renewed while the command runs and ends by
itself when its holder dies. Its token only grows. A resource that remembers
the highest token it has seen, and refuses lower ones, is safe even from a
holder that was frozen and wakes up late.";

/// Do one thing at a time, across processes and machines.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Lock {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Run a command while holding a lock.
    Run(run::Run),
    /// List the locks that are held.
    List {
        /// What the names begin with; all locks if absent.
        #[arg(default_value = "")]
        prefix: String,
        /// At most this many, 1,000 at most.
        #[arg(long, default_value_t = 100)]
        limit: u32,
        #[command(flatten)]
        target: Target,
    },
    /// Show how one lock stands: who holds it, and how many wait on this node. Exit code 0 either way.
    Show {
        /// The lock's name.
        name: Name,
        #[command(flatten)]
        target: Target,
    },
    /// Give a lock back, or take it away from whoever has it.
    Release {
        /// The lock's name.
        name: Name,
        /// The lease to end, as `lock run` tells its command in SYNCLINE_LOCK_LEASE.
        #[arg(long, value_name = "UUID", conflicts_with = "force")]
        lease: Option<LeaseId>,
        /// End whatever lease is in force. Its holder finds out when it renews.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Run the command for the one who holds the lock, and end all it started.
    #[command(hide = true)]
    Keep {
        /// The process that holds the lock.
        holder: u32,
        /// The command.
        #[arg(last = true, required = true)]
        command: Vec<std::ffi::OsString>,
    },
    /// Become the command, as a child that does not outlive its keeper.
    #[command(hide = true)]
    Exec {
        /// The keeper.
        keeper: u32,
        /// The command.
        #[arg(last = true, required = true)]
        command: Vec<std::ffi::OsString>,
    },
}

impl Lock {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.action {
            Action::Run(run) => run.run().await,
            Action::List { prefix, limit, target } => list(&target, &prefix, limit).await,
            Action::Show { name, target } => show(&target, &name).await,
            Action::Release { name, lease, force, target } => release(&target, &name, lease, force).await,
            Action::Keep { holder, command } => run::keep(holder, &command).await,
            Action::Exec { keeper, command } => run::become_command(keeper, &command),
        }
    }
}

async fn show(target: &Target, name: &Name) -> anyhow::Result<()> {
    let state = target.client()?.get(&["api", "locks", name.as_str()], &[]).await?;
    if target.json {
        return output::line(state);
    }
    let waiting = match number(&state, "waiting") {
        0 => String::new(),
        count => format!(", {count} waiting on this node"),
    };
    if state["held"] != true {
        return output::line(format_args!("{name} is free{waiting}"));
    }
    output::line(format_args!(
        "{name} is held by {} since {}, {} left, token {}{waiting}",
        output::foreign(text(&state, "holder")),
        span(number(&state, "ageMs")),
        span(number(&state, "expiresInMs")),
        number(&state, "token"),
    ))
}

async fn list(target: &Target, prefix: &str, limit: u32) -> anyhow::Result<()> {
    let query = [("prefix", prefix), ("limit", &limit.to_string())];
    let listing = target.client()?.get(&["api", "locks"], &query).await?;
    if target.json {
        return output::line(listing);
    }
    let locks = items(&listing, "locks");
    if locks.is_empty() {
        return output::line(toned(Tone::Quiet, "no lock is held"));
    }
    let width = |field: &str| locks.iter().map(|lock| text(lock, field).len()).max().unwrap_or(0).max(6);
    let (name_width, holder_width) = (width("name"), width("holder"));
    let head =
        format!("{:<name_width$}  {:<holder_width$}  {:>8}  {:>8}  token", "name", "holder", "age", "left");
    output::line(toned(Tone::Quiet, head))?;
    for lock in locks {
        output::line(format_args!(
            "{:<name_width$}  {:<holder_width$}  {:>8}  {:>8}  {}",
            text(lock, "name"),
            text(lock, "holder"),
            span(number(lock, "ageMs")),
            span(number(lock, "expiresInMs")),
            number(lock, "token"),
        ))?;
    }
    Ok(())
}

async fn release(target: &Target, name: &Name, lease: Option<LeaseId>, force: bool) -> anyhow::Result<()> {
    let body = match (lease, force) {
        (Some(lease), _) => json!({ "leaseId": lease }),
        (None, true) => json!({ "force": true }),
        (None, false) => {
            let sentence = "say which lease to end with --lease, or --force to end whatever is in force";
            return Err(WrongUse(sentence.to_owned()).into());
        }
    };
    let path = ["api", "locks", name.as_str(), "release"];
    let released: Value = target.client()?.ask(Method::POST, &path, &[], Some(&body)).await?;
    if target.json {
        return output::line(released);
    }
    output::line(if released["released"] == true { "released" } else { "nobody held it" })
}
