//! `syncline migrate`: makes the tables of systems in a database, or prints the SQL that does.

use anyhow::Context;
use syncline_client::output::{self, WrongUse};
use syncline_node::config::{Config, Flags};
use syncline_store::{Backend, DEFAULT_SCHEMA, Migrations, Options, Store, migration_sql};

const EXAMPLES: &str = "\
Examples:
  syncline migrate                                  make or update the tables of this node's database
  syncline migrate --system outbox --database-url postgres://owner@db/shop
  syncline migrate --print --system outbox | psql postgres://postgres@db/shop
  serversync --no-migrate                           then a role that may only read and write rows is enough

Without --system those are meant that the configuration has on: `systems` and `apps`. --print writes SQL
for PostgreSQL unless the address is that of a SQLite file.";

/// Make the tables of systems in a database, or print the SQL for a database administrator.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Migrate {
    /// Print the SQL instead of running it.
    #[arg(long)]
    print: bool,
    /// Only these systems or apps, with commas between, and what they need.
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
        let flags = Flags { database_url: self.database_url.clone(), ..Flags::default() };
        let config = Config::load(&flags, &|name| std::env::var(name).ok(), crate::parts::all())?;
        let parts = self.parts(&config)?;
        if self.print {
            let sql = migration_sql(self.backend(), &self.schema, &parts);
            return output::line(sql.map_err(|error| WrongUse(error.to_string()))?.trim_end());
        }
        // An application's database is never made by a mistyped address.
        let create = self.system.is_empty() || self.system.iter().any(|system| system != "outbox");
        let connections = config.database_connections;
        let options = Options::of(&parts).schema(&self.schema).connections(connections).create(create);
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

    /// The tables that are meant: those of the systems named, or of all that are on.
    fn parts(&self, config: &Config) -> anyhow::Result<Vec<&'static Migrations>> {
        if self.system.is_empty() {
            return Ok(config.store_options().parts().to_vec());
        }
        let mut parts: Vec<&'static Migrations> = Vec::new();
        for name in &self.system {
            let found = tables_of(name).ok_or_else(|| {
                let known: Vec<&str> = crate::parts::all().iter().map(|part| part.name()).collect();
                WrongUse(format!("there is no system {name}: {}", known.join(", ")))
            })?;
            for part in found {
                if !parts.iter().any(|known| known.part == part.part) {
                    parts.push(part);
                }
            }
        }
        Ok(parts)
    }

    fn backend(&self) -> Backend {
        let url = self.database_url.clone().or_else(|| std::env::var("DATABASE_URL").ok());
        match url.is_some_and(|url| url.starts_with("sqlite:")) {
            true => Backend::Sqlite,
            false => Backend::Postgres,
        }
    }
}

/// The tables of a system or an app, or one set of tables by its own name. `outbox` means the sending side, in an
/// application's database.
fn tables_of(name: &str) -> Option<Vec<&'static Migrations>> {
    let all = crate::parts::all();
    let by_tables = all.iter().flat_map(|part| part.migrations()).find(|tables| tables.part == name);
    let by_part = || all.iter().find(|part| part.name() == name).map(|part| part.migrations());
    by_tables.map(|tables| vec![tables]).or_else(by_part)
}
