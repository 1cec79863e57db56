//! `serversync`: carries what an application committed to its front end, until it is told to stop.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use syncline_node::log;
use syncline_node::outbox::Settings;

use crate::output;
use crate::syncline::STYLES;

const EXAMPLES: &str = "\
Examples:
  export DATABASE_URL=sqlite:box.db FRONTEND_BASE_URL=http://localhost:3000
  serversync                    send what is committed, as it is committed
  serversync --once             send what is due now, then end
  serversync --drain            send all there is, with a bar, then end
  serversync --check            print the settings, start nothing

Environment:
  DATABASE_URL                  the application's database (required)
  FRONTEND_BASE_URL             where everything goes (required); https unless
                                it is this machine or SYNC_ALLOW_HTTP=true
  SYNCLINE_TOKEN                what is presented there
  SYNC_POLL_INTERVAL_SEC  300   look this often without having been woken
  SYNC_BATCH_SIZE         100   entries in one request at most
  SYNC_TIMEOUT_SEC         30   how long an answer may take
  SYNC_MAX_ATTEMPTS        10   failures that make a dead letter
  SYNC_METRICS_LISTEN           serve /metrics and /healthz here
  RECORDINGS_DIR                storage/recordings: a folder for each call
  SYNCLINE_LOG_LEVEL, SYNCLINE_LOG_FORMAT

Ctrl-C or SIGTERM stops it: what is under way is finished or given back.
`syncline outbox` shows what waits and what was given up.
Exit codes: 0 done, 1 failed, 2 wrong use or configuration.";

/// Carry what was committed here to its front end, through any outage, each change once.
#[derive(Parser)]
#[command(name = "serversync", version, styles = STYLES, after_help = EXAMPLES)]
struct Cli {
    /// Send what is due now and end. Exit code 1 if anything failed.
    #[arg(long, conflicts_with = "drain")]
    once: bool,
    /// Send all there is, waiting for retries, and end. Exit code 1 if anything was given up.
    #[arg(long)]
    drain: bool,
    /// Check the settings, print what they come to (without secrets), and stop.
    #[arg(long, conflicts_with_all = ["once", "drain"])]
    check: bool,
}

/// Does what the command line and the environment say.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    crate::block_on(run(cli)).unwrap_or_else(|error| output::fail(&error))
}

async fn run(cli: Cli) -> anyhow::Result<()> {
    let settings = Settings::load(&|name| std::env::var(name).ok())?;
    if cli.check {
        return output::line(settings.to_string().trim_end());
    }
    log::start(&settings.log, settings.secrets()).context("cannot start the log")?;
    Ok(())
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
