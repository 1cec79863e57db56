//! `syncline serve`: a node until it is told to stop.

use std::path::{Path, PathBuf};

use anyhow::Context;
use syncline_client::{output, reload_signal, stop_signal_of_reloading};
use syncline_node::config::Flags;
use syncline_node::{Config, Node, log, server};

const EXAMPLES: &str = "\
Examples:
  syncline serve                          at 127.0.0.1:3000, with ./data
  syncline serve --listen 127.0.0.1:0     on a free port; the first line says which
  syncline serve --check                  print the configuration, start nothing
  DATABASE_URL=postgres://… syncline serve
                                          share a database with other nodes
  syncline serve --systems lock,queue     these systems and no other
  SYNCLINE_TOKEN=… syncline serve --listen 0.0.0.0:3000
                                          be reachable from elsewhere

Every setting can stand in syncline.toml; the environment wins over the file,
and a flag over both. Ctrl-C or SIGTERM stops it: answers in flight are
finished first.";

/// Run a node.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    #[command(flatten)]
    settings: Settings,
    /// Check the configuration, print what it comes to (without secrets), and stop.
    #[arg(long)]
    check: bool,
}

/// The settings of a node that can be given as flags.
#[derive(Clone, clap::Args)]
pub(crate) struct Settings {
    /// The configuration file. [env: SYNCLINE_CONFIG] [default: syncline.toml here, or where systemd says]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen. [env: SYNCLINE_LISTEN] [default: 127.0.0.1:3000]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// The folder to keep everything in. [env: SYNCLINE_DATA] [default: ./data]
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
    /// The database. [env: DATABASE_URL] [default: SQLite in the data folder]
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// The same PostgreSQL database past a pooler, to listen there. [env: DATABASE_LISTEN_URL]
    #[arg(long, value_name = "URL")]
    database_listen_url: Option<String>,
    /// Most connections to PostgreSQL, and one more that listens. [env: DATABASE_CONNECTIONS] [default: 10]
    #[arg(long, value_name = "NUMBER")]
    database_connections: Option<String>,
    /// What people call the node, over restarts. [env: SYNCLINE_NODE] [default: the machine's name and something random]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// The schema of our tables on PostgreSQL. [env: SYNCLINE_SCHEMA] [default: syncline]
    #[arg(long, value_name = "NAME")]
    schema: Option<String>,
    /// Trust that `syncline migrate` has prepared the database; change no table. [env: SYNCLINE_MIGRATE=false]
    #[arg(long)]
    no_migrate: bool,
    /// A file with the token callers must present. [env: SYNCLINE_TOKEN, the token itself]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The address by which browsers reach the node. [env: PUBLIC_BASE_URL]
    #[arg(long, value_name = "URL")]
    public_base_url: Option<String>,
    /// The systems that are on, with commas between. [env: SYNCLINE_SYSTEMS] [default: all]
    #[arg(long, value_name = "NAMES")]
    systems: Option<String>,
    /// The apps that are on, with commas between. [env: SYNCLINE_APPS] [default: none]
    #[arg(long, value_name = "NAMES")]
    apps: Option<String>,
    /// How much to log: error, warn, info, debug or trace. [env: SYNCLINE_LOG_LEVEL] [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// How to log: auto, human or json. [env: SYNCLINE_LOG_FORMAT] [default: auto]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

impl Settings {
    /// The configuration all layers together make.
    pub(crate) fn load(self) -> Result<Config, syncline_node::config::Error> {
        let flags = Flags {
            config: self.config,
            listen: self.listen,
            data: self.data,
            database_url: self.database_url,
            database_listen_url: self.database_listen_url,
            database_connections: self.database_connections,
            node: self.node,
            schema: self.schema,
            no_migrate: self.no_migrate,
            token_file: self.token_file,
            public_base_url: self.public_base_url,
            systems: self.systems,
            apps: self.apps,
            log_level: self.log_level,
            log_format: self.log_format,
        };
        Config::load(&flags, &|name| std::env::var(name).ok(), crate::parts::all())
    }
}

/// What is wrong with `file`, and what to do.
pub(crate) fn exposed(file: &Path) -> String {
    let file = file.display();
    format!("{file} holds a secret and everybody on this machine can read it: `chmod o-r {file}`")
}

impl Serve {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        // Commands of jobs have no business with the secrets in our environment, nor with our memory.
        #[cfg(target_os = "linux")]
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
            .context("cannot hide the environment from other processes")?;
        let settings = self.settings;
        let config = settings.clone().load()?;
        if self.check {
            if let Some(file) = config.exposed_file() {
                output::warn(exposed(file));
            }
            return output::line(config.to_string().trim_end());
        }
        log::start(&config.log, config.secrets()).context("cannot start the log")?;
        if let Some(file) = config.exposed_file() {
            tracing::warn!("{}", exposed(file));
        }
        server::raise_file_limit();
        // Listened for from the beginning: a signal during the start must not be lost.
        let (stop, mut reload) = (stop_signal_of_reloading()?, reload_signal()?);
        let node = Node::start(config).await?;
        output::line(format_args!("listening on http://{}", node.address()))?;
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                () = reload() => match settings.clone().load() {
                    Ok(config) => node.context().reload(&config),
                    Err(error) => {
                        tracing::error!(%error, "the configuration was not taken over; that of before stays");
                    }
                },
            }
        }
        node.stop().await;
        Ok(())
    }
}
