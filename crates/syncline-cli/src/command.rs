//! The platform's own commands, one file each. Those of apps come from [`parts`](crate::parts).

mod audit;
mod backup;
mod completions;
mod config;
mod doctor;
mod entities;
mod jobs;
mod key;
mod kv;
mod lock;
mod man;
mod migrate;
mod outbox;
mod queue;
mod serve;
mod state;
mod token;
mod top;
mod viewers;
mod worker;

use clap::Subcommand;

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a node.
    Serve(serve::Serve),
    /// Show all systems on one screen, live.
    Top(top::Top),
    /// Show who is watching.
    Viewers(viewers::Viewers),
    /// Show and run scheduled jobs.
    Jobs(jobs::Jobs),
    /// Show and change paced queues.
    Queue(queue::Queue),
    /// Run a command for each key of a queue.
    Worker(worker::Worker),
    /// Do one thing at a time, across processes and machines.
    Lock(lock::Lock),
    /// Show and mend what waits to be sent.
    Outbox(outbox::Outbox),
    /// Make the tables of systems in a database, or print the SQL that does.
    Migrate(migrate::Migrate),
    /// Copy the node's database while it runs.
    Backup(backup::Backup),
    /// Put a copy in the place of the node's database.
    Restore(backup::Restore),
    /// Show and change spaces of shared state.
    State(state::State),
    /// Read and change entities that came from elsewhere.
    Entities(entities::Entities),
    /// Read and change keys.
    Kv(kv::Kv),
    /// Make, list and remove keys for boxes, dashboards and servers.
    Key(key::Key),
    /// Make, check and take back tokens of people.
    Token(token::Token),
    /// Show who did what, and who was refused.
    Audit(audit::Audit),
    /// Begin a configuration, and look at it.
    Config(config::Config),
    /// Check what a node needs to run.
    Doctor(doctor::Doctor),
    /// Print what a shell needs to complete commands.
    Completions(completions::Completions),
    /// Write the manual pages.
    Man(man::Man),
}

impl Command {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self {
            Command::Serve(serve) => serve.run().await,
            Command::Top(top) => top.run().await,
            Command::Viewers(viewers) => viewers.run().await,
            Command::Jobs(jobs) => jobs.run().await,
            Command::Queue(queue) => queue.run().await,
            Command::Worker(worker) => worker.run().await,
            Command::Lock(lock) => lock.run().await,
            Command::Outbox(outbox) => outbox.run().await,
            Command::Migrate(migrate) => migrate.run().await,
            Command::Backup(backup) => backup.run().await,
            Command::Restore(restore) => restore.run().await,
            Command::State(state) => state.run().await,
            Command::Entities(entities) => entities.run().await,
            Command::Kv(kv) => kv.run().await,
            Command::Key(key) => key.run().await,
            Command::Token(token) => token.run().await,
            Command::Audit(audit) => audit.run().await,
            Command::Config(config) => config.run(),
            Command::Doctor(doctor) => doctor.run().await,
            // They are about the whole program, which is put together in `syncline.rs`.
            Command::Completions(_) | Command::Man(_) => unreachable!("done before"),
        }
    }
}
