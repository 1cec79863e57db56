//! `syncline outbox`: what waits to be sent, what was given up, and what to do about it.
//!
//! Asks the database itself, so that it works while `serversync` is stopped, which is when one wants to know.

mod show;

use std::time::Duration;

use anyhow::bail;
use clap::{Subcommand, ValueEnum};
use serde_json::json;
use syncline_client::output::{self, Shown, Tone, WrongUse, toned};
use syncline_core::outbox::SenderId;
use syncline_node::Config;
use syncline_node::config::Flags;
use syncline_store::outbox::{ENTRIES_MAX, List, Outbox as Port, Settings, Which};
use syncline_store::{Error, OutboxStore};

const EXAMPLES: &str = "\
Examples:
  syncline outbox stats                     how much waits, and for how long
  syncline outbox list                      what waits, oldest first, and why
  syncline outbox list --state dead         what was given up, and why
  syncline outbox show 42                   one entry with its payload
  syncline outbox retry 42 43               try dead entries again
  syncline outbox retry --dead              all of them
  syncline outbox discard 42                remove a dead entry for good
  syncline outbox purge --older-than-days 7 remove what was sent long ago
  syncline outbox settings --batch-size 50  change a running serversync
  syncline outbox sender --new              after a copy or a restored backup: a new name
  syncline outbox list --route billing      what waits for one receiver of several
  DATABASE_URL=sqlite:box.db syncline outbox stats --json

The database is the one of `syncline serve` here, or DATABASE_URL.";

/// Show and mend what waits to be sent.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Outbox {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Count what waits, what was given up, and what was sent.
    Stats {
        #[command(flatten)]
        database: Database,
    },
    /// List entries.
    List {
        /// Which ones.
        #[arg(long, value_enum, default_value_t = State::Pending)]
        state: State,
        /// At most this many.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=ENTRIES_MAX as u64))]
        limit: u64,
        /// Go on behind this entry.
        #[arg(long, value_name = "ID")]
        after: Option<i64>,
        #[command(flatten)]
        database: Database,
    },
    /// Show one entry with its payload.
    Show {
        /// Its number.
        id: i64,
        #[command(flatten)]
        database: Database,
    },
    /// Put entries in line again that are dead or wait for their next attempt.
    Retry {
        #[command(flatten)]
        entries: Entries,
        #[command(flatten)]
        database: Database,
    },
    /// Remove dead entries for good. The front end will never get them.
    #[command(visible_alias = "remove")]
    Discard {
        #[command(flatten)]
        entries: Entries,
        #[command(flatten)]
        database: Database,
    },
    /// Remove entries that were sent long ago. Waiting and dead ones stay.
    Purge {
        /// How long ago.
        #[arg(long, default_value_t = 30, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(..=36_500))]
        older_than_days: u64,
        #[command(flatten)]
        database: Database,
    },
    /// Show under which name receivers know this outbox, or give it a new one.
    ///
    /// A copied SD card or a restored backup sends numbers that receivers know with another content, and they refuse them. Under a
    /// new name all of its entries are new. Restart serversync afterwards, and put in line again what was given up.
    Sender {
        /// Give it a new name that nobody else has.
        #[arg(long, conflicts_with = "name")]
        new: bool,
        /// Give it this name.
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        #[command(flatten)]
        database: Database,
    },
    /// Show what a running serversync is told through the database, or change it.
    Settings {
        /// How often to look without having been woken, in seconds.
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
        interval_sec: Option<u64>,
        /// Entries in one request at most.
        #[arg(long, value_name = "ENTRIES", value_parser = clap::value_parser!(u64).range(1..=ENTRIES_MAX as u64))]
        batch_size: Option<u64>,
        /// Whether to send anything.
        #[arg(long, value_name = "true|false")]
        enabled: Option<bool>,
        /// Whether to send files.
        #[arg(long, value_name = "true|false")]
        files: Option<bool>,
        #[command(flatten)]
        database: Database,
    },
}

/// Which database to ask.
#[derive(clap::Args)]
struct Database {
    /// The database. [env: DATABASE_URL] [default: SQLite in the data folder]
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// The data folder. [env: SYNCLINE_DATA] [default: ./data]
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
    /// What goes to this receiver, where serversync has [[routes]].
    #[arg(long, value_name = "NAME")]
    route: Option<String>,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

/// Which entries are meant.
#[derive(clap::Args)]
struct Entries {
    /// Their numbers.
    #[arg(value_name = "ID", required_unless_present = "dead", conflicts_with = "dead")]
    ids: Vec<i64>,
    /// All dead ones.
    #[arg(long)]
    dead: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum State {
    Pending,
    Dead,
    Processed,
}

impl Outbox {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.action {
            Action::Stats { database } => show::stats(&*database.open().await?, database.json).await,
            Action::List { state, limit, after, database } => {
                let list = match state {
                    State::Pending => List::Pending,
                    State::Dead => List::Dead,
                    State::Processed => List::Processed,
                };
                show::list(&*database.open().await?, list, after, limit as usize, database.json).await
            }
            Action::Show { id, database } => show::show(&*database.open().await?, id, database.json).await,
            Action::Retry { entries, database } => {
                change(&database, entries, "in line again", async |outbox, which| outbox.retry(which).await)
                    .await
            }
            Action::Discard { entries, database } => {
                change(&database, entries, "removed", async |outbox, which| outbox.discard(which).await).await
            }
            Action::Purge { older_than_days, database } => purge(&database, older_than_days).await,
            Action::Sender { new, name, database } => sender(&database, new, name).await,
            Action::Settings { interval_sec, batch_size, enabled, files, database } => {
                let wanted = Settings {
                    interval: interval_sec.map(Duration::from_secs),
                    batch_size: batch_size.map(|size| size as usize),
                    enabled,
                    files_enabled: files,
                };
                settings(&database, &wanted).await
            }
        }
    }
}

impl Database {
    async fn open(&self) -> anyhow::Result<std::sync::Arc<dyn Port>> {
        let flags =
            Flags { database_url: self.database_url.clone(), data: self.data.clone(), ..Flags::default() };
        let config = Config::load(&flags, &|name| std::env::var(name).ok(), crate::parts::all())?;
        // Who asks how things are must not change them: the table is prepared by serversync, or by a node.
        match OutboxStore::open_prepared(config.database_url.expose(), config.store_options()).await {
            Ok(store) => match &self.route {
                None => Ok(store.outbox()),
                Some(route) => match store.route(route).await? {
                    Some(outbox) => Ok(outbox),
                    None => Err(WrongUse(format!("there is no route {route:?} in this database")).into()),
                },
            },
            Err(error @ Error::Missing { .. }) => {
                bail!("{error}: name a database with DATABASE_URL, --database-url or --data")
            }
            Err(error) => {
                let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
                bail!("cannot open the database: {error}{hint}")
            }
        }
    }
}

/// Changes the entries that are meant, and says how many that were.
async fn change(
    database: &Database,
    entries: Entries,
    done: &str,
    step: impl AsyncFn(&dyn Port, &Which) -> Result<u64, syncline_store::Error>,
) -> anyhow::Result<()> {
    if entries.ids.len() > ENTRIES_MAX {
        return Err(WrongUse(format!("at most {ENTRIES_MAX} entries can be named at once")).into());
    }
    let outbox = database.open().await?;
    let mut changed = 0;
    if entries.dead {
        loop {
            match step(&*outbox, &Which::AllDead).await? {
                0 => break,
                some => changed += some,
            }
        }
    } else {
        changed = step(&*outbox, &Which::Ids(entries.ids.clone())).await?;
    }
    if database.json {
        output::line(json!({ "changed": changed }))?;
    } else {
        let noun = if changed == 1 { "entry" } else { "entries" };
        output::line(format_args!("{changed} {noun} {done}"))?;
    }
    // Who names entries wants all of them.
    if changed < entries.ids.len() as u64 {
        output::complain("some of these are not there, or in no state for that");
        return Err(Shown.into());
    }
    Ok(())
}

async fn purge(database: &Database, older_than_days: u64) -> anyhow::Result<()> {
    let outbox = database.open().await?;
    let older_than = Duration::from_secs(older_than_days * 86_400);
    let mut removed = 0;
    loop {
        match outbox.cleanup(older_than, ENTRIES_MAX).await? {
            0 => break,
            some => removed += some,
        }
    }
    if database.json {
        return output::line(json!({ "removed": removed }));
    }
    output::line(format_args!(
        "{removed} entries removed that were sent more than {older_than_days} days ago"
    ))
}

async fn sender(database: &Database, new: bool, name: Option<String>) -> anyhow::Result<()> {
    let name = match name {
        Some(name) => Some(SenderId::new(name).map_err(|error| WrongUse(error.to_string()))?),
        None if new => Some(SenderId::new(random_name())?),
        None => None,
    };
    let outbox = database.open().await?;
    if let Some(name) = &name {
        outbox.set_sender(name).await?;
    }
    let now = outbox.sender().await?;
    if database.json {
        return output::line(json!({ "sender": now.as_str() }));
    }
    output::line(now.as_str())?;
    if name.is_some() {
        output::complain("restart serversync, then `syncline outbox retry --dead` sends what was refused");
    }
    Ok(())
}

/// A name that nobody else has.
fn random_name() -> String {
    format!("{:032x}", rand::random::<u128>())
}

async fn settings(database: &Database, wanted: &Settings) -> anyhow::Result<()> {
    let outbox = database.open().await?;
    if *wanted != Settings::default() {
        outbox.set_settings(wanted).await?;
    }
    let now = outbox.settings().await?;
    let interval_sec = now.interval.map(|interval| interval.as_secs());
    if database.json {
        return output::line(json!({
            "intervalSec": interval_sec,
            "batchSize": now.batch_size,
            "enabled": now.enabled,
            "filesEnabled": now.files_enabled,
        }));
    }
    let unset = || toned(Tone::Quiet, "as serversync's environment says");
    let rows = [
        ("interval", interval_sec.map(|sec| format!("{sec} s"))),
        ("batch size", now.batch_size.map(|size| size.to_string())),
        ("enabled", now.enabled.map(|on| on.to_string())),
        ("files", now.files_enabled.map(|on| on.to_string())),
    ];
    rows.into_iter().try_for_each(|(name, value)| {
        output::line(format_args!("{name:<11} {}", value.unwrap_or_else(unset)))
    })
}
