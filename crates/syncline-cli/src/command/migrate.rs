//! `syncline migrate`: makes the tables of systems in a database, or prints the SQL that does.

use anyhow::Context;
use syncline_node::config::{Config, Flags};
use syncline_store::{Backend, DEFAULT_SCHEMA, Migrations, Options, Store, migration_sql};

use crate::output::{self, WrongUse};

const EXAMPLES: &str = "\
Examples:
  syncline migrate                                  make or update the tables of this node's database
  syncline migrate --system outbox --database-url postgres://owner@db/shop
  syncline migrate --print --system outbox | psql postgres://postgres@db/shop
  serversync --no-migrate                           then a role that may only read and write rows is enough

Without --system all systems and apps of this program are meant. --print writes SQL
for PostgreSQL unless the address is that of a SQLite file.";

/// Make the tables of systems in a database, or print the SQL for a database administrator.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Migrate {
    /// Print the SQL instead of running it.
    #[arg(long)]
    print: bool,
    /// Only these, separated by commas, and what they need: kv, schedule, queue, lock, outbox, inbox, state.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    system: Vec<String>,
    /// Our schema on PostgreSQL.
    #[arg(long, env = "SYNCLINE_SCHEMA", default_value = DEFAULT_SCHEMA)]
    schema: String,
    /// The database; otherwise DATABASE_URL, or the node's own file.
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
}

impl Migrate {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let parts = self.parts()?;
        if self.print {
            let sql = migration_sql(self.backend(), &self.schema, &parts);
            return output::line(sql.map_err(|error| WrongUse(error.to_string()))?.trim_end());
        }
        let flags = Flags { database_url: self.database_url.clone(), ..Flags::default() };
        let config = Config::load(&flags, &|name| std::env::var(name).ok())?;
        // An application's database is never made by a mistyped address.
        let create = self.system.is_empty() || self.system.iter().any(|system| system != "outbox");
        let options = Options::of(&parts).schema(&self.schema).create(create);
        let store = Store::open_with(config.database_url.expose(), &options).await.map_err(|error| {
            let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
            anyhow::anyhow!("cannot make the tables: {error}{hint}")
        })?;
        let names: Vec<&str> = parts.iter().map(|part| part.part).collect();
        output::line(format_args!("{} is up to date: {}", store.name(), names.join(", ")))
            .context("cannot say so")?;
        store.close().await;
        Ok(())
    }

    fn parts(&self) -> anyhow::Result<Vec<&'static Migrations>> {
        let all = syncline_node::node::store_options();
        if self.system.is_empty() {
            return Ok(all.parts().to_vec());
        }
        let named = |name: &String| {
            let known: Vec<&str> = all.parts().iter().map(|part| part.part).collect();
            let found = all.parts().iter().copied().find(|part| part.part == name);
            found.ok_or_else(|| WrongUse(format!("there is no system {name}: {}", known.join(", "))).into())
        };
        self.system.iter().map(named).collect()
    }

    fn backend(&self) -> Backend {
        let url = self.database_url.clone().or_else(|| std::env::var("DATABASE_URL").ok());
        match url.is_some_and(|url| url.starts_with("sqlite:")) {
            true => Backend::Sqlite,
            false => Backend::Postgres,
        }
    }
}
