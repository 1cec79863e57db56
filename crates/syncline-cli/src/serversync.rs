//! `serversync`: sends what an application committed to its front end, until it is told to stop.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;
use syncline_client::output::{self, Shown, WrongUse};
use syncline_client::{Progress as Bar, stop_signal};
use syncline_node::outbox::{
    InvalidSettings, Off, OpenError, Outcome, Progress, ProgressReader, Settings, Until, Worker,
};
use syncline_node::{StartError, log};

use crate::syncline::STYLES;
use crate::{exit, parts};

/// How often the bar moves.
const BAR_EVERY: Duration = Duration::from_millis(200);

/// Examples, the environment with the variables of apps, and exit codes.
fn help() -> String {
    format!(
        "\
Examples:
  export DATABASE_URL=sqlite:box.db FRONTEND_BASE_URL=http://localhost:3000
  serversync                    send what is committed, as it is committed
  serversync --once             send what is due now, then end
  serversync --drain            send all there is, with a bar, then end
  serversync --check            print the settings and look at the database, start nothing
  serversync --config serversync.toml  send files of your own, and to several receivers
  serversync --no-migrate       the tables are there: `syncline migrate --print --system outbox`

Environment:
  DATABASE_URL                  the application's database (required)
  FRONTEND_BASE_URL             where everything goes that no route takes (required
                                without [[routes]]); https unless it is this machine
                                or SYNC_ALLOW_HTTP=true
  SYNCLINE_TOKEN                what is presented there
  SYNC_SENDER                   under which name; that of the key, where SYNCLINE_TOKEN
                                is a key of the front end
  SYNC_POLL_INTERVAL_SEC  300   look this often without having been woken
  SYNC_BATCH_SIZE         100   entries in one request at most
  SYNC_TIMEOUT_SEC         30   how long an answer may take
  SYNC_MAX_ATTEMPTS        10   failures that make a dead letter
  SYNC_PLAIN_ENTRIES    false   send the contract's four fields of each entry and
                                nothing else
  SYNC_PLAIN_RECEIPTS   false   remove a file after a receipt without length and
                                SHA-256
  SYNC_METRICS_LISTEN           serve /metrics and /healthz here
  SYNC_CONFIG                   a file with [[files]], kinds of files to send, and
                                [[routes]], receivers beside the front end
{}
  SYNCLINE_SCHEMA    syncline   our schema in a PostgreSQL database
  SYNCLINE_MIGRATE       true   make our tables and bring them up to date
  DATABASE_LISTEN_URL           the same PostgreSQL database past a pooler, to be
                                woken there
  DATABASE_CONNECTIONS     10   to PostgreSQL at most, and one more that listens
  SYNCLINE_LOG_LEVEL, SYNCLINE_LOG_FORMAT

Ctrl-C or SIGTERM stops it: what is under way is finished or given back.
`syncline outbox` shows what waits and what was given up.
Exit codes: 0 done, 1 failed, 2 wrong use or configuration.",
        parts::FILE_VARIABLES
    )
}

/// Send what was committed here to its front end, through any outage, each change once.
#[derive(Parser)]
#[command(name = "serversync", version, styles = STYLES, after_help = help())]
struct Cli {
    /// A file with [[files]], the kinds of files to send, and [[routes]], receivers of entries. [env: SYNC_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<String>,
    /// Send what is due now and end. Exit code 1 if anything failed.
    #[arg(long, conflicts_with = "drain")]
    once: bool,
    /// Send all there is, waiting for retries, and end. Exit code 1 if anything was given up.
    #[arg(long)]
    drain: bool,
    /// Check the settings and the database, print what they come to (without secrets), and stop.
    #[arg(long, conflicts_with_all = ["once", "drain"])]
    check: bool,
    /// Change no tables: they were made by `syncline migrate`, or by an administrator from what it prints.
    #[arg(long)]
    no_migrate: bool,
    /// Our schema in the application's PostgreSQL database. [env: SYNCLINE_SCHEMA] [default: syncline]
    #[arg(long, value_name = "NAME")]
    schema: Option<String>,
}

/// Does what the command line and the environment say.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    crate::block_on(run(cli)).unwrap_or_else(|error| exit::fail(&error))
}

async fn run(cli: Cli) -> anyhow::Result<()> {
    let mut settings = load(&cli)?;
    if cli.check {
        output::line(settings.to_string().trim_end())?;
        return Worker::check(&settings).await.map_err(|error| match error {
            // It may be right, and only not be there now.
            OpenError::Start(StartError::Store { cause }) if cause.retryable() => {
                StartError::Store { cause }.into()
            }
            mistaken => WrongUse(mistaken.to_string()).into(),
        });
    }
    let bar = cli.drain && std::io::stderr().is_terminal();
    if bar && std::env::var_os("SYNCLINE_LOG_LEVEL").is_none() {
        // A line for each batch would chase the bar down the screen.
        settings.log.level = "error".to_owned();
    }
    log::start(&settings.log, settings.secrets()).context("cannot start the log")?;
    // Listened for from the beginning: a signal during the start must not be lost.
    let stop = stop_signal()?;
    let worker = Worker::open(&settings).await.map_err(|error| match error {
        OpenError::Start(error) => anyhow::Error::from(error),
        mistaken => WrongUse(mistaken.to_string()).into(),
    })?;
    if let Some(address) = worker.address() {
        output::line(format_args!("listening on http://{address}"))?;
    }
    let until = match &cli {
        Cli { once: true, .. } => Until::Idle,
        Cli { drain: true, .. } => Until::Drained,
        _ => Until::Stopped,
    };
    let watching = bar.then(|| tokio::spawn(watch(worker.progress())));
    let outcome = worker.run(until, stop).await;
    if let Some(watching) = watching {
        watching.abort();
        // However it ended, the bar is gone with it.
        let _ = watching.await;
    }
    if until == Until::Stopped { Ok(()) } else { report(&outcome) }
}

/// The settings of the environment and of `--config`, and the kinds of files of apps.
fn load(cli: &Cli) -> Result<Settings, InvalidSettings> {
    let mut settings = Settings::load(&|name| match name {
        "SYNC_CONFIG" if cli.config.is_some() => cli.config.clone(),
        "SYNCLINE_SCHEMA" if cli.schema.is_some() => cli.schema.clone(),
        "SYNCLINE_MIGRATE" if cli.no_migrate => Some("false".to_owned()),
        name => std::env::var(name).ok(),
    })?;
    let mut kinds = parts::file_kinds(&|name| std::env::var_os(name));
    // A configuration file that declares a kind by itself is right about it.
    kinds.retain(|kind| settings.files.iter().all(|declared| declared.entity_type != kind.entity_type));
    kinds.append(&mut settings.files);
    settings.files = kinds;
    Ok(settings)
}

/// Moves a bar for as long as it is polled.
async fn watch(reader: ProgressReader) {
    let mut bar = None;
    loop {
        // What a store that does not answer means is told by the worker.
        if let Ok(Progress { sent, pending }) = reader.read().await {
            let total = usize::try_from(sent + pending).unwrap_or(usize::MAX);
            let bar = bar.get_or_insert_with(|| Bar::new(total));
            bar.set_total(total);
            bar.set(usize::try_from(sent).unwrap_or(usize::MAX), format!("{pending} to go"));
        }
        tokio::time::sleep(BAR_EVERY).await;
    }
}

fn report(outcome: &Outcome) -> anyhow::Result<()> {
    let Outcome { sent, failed, dead, down, off } = outcome;
    output::line(format_args!("{sent} sent, {failed} failed attempts, {dead} given up"))?;
    if let Some(reason) = down {
        bail!("nothing more can be sent: {reason}");
    }
    match off {
        Some(Off::All) => bail!(
            "sending is switched off in this database: `syncline outbox settings --enabled true` switches it on"
        ),
        Some(Off::Files) => bail!(
            "files are switched off in this database: `syncline outbox settings --files true` switches them on"
        ),
        None => {}
    }
    if *dead > 0 {
        output::complain("some were given up: `syncline outbox list --state dead` says why");
    }
    if *dead > 0 || *failed > 0 { Err(Shown.into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_make_sense() {
        Cli::command().debug_assert();
    }
}
