//! `syncline backup` and `syncline restore`: copies of a SQLite database, made while it is in use.

use std::path::PathBuf;

use syncline_client::output;
use syncline_node::config::{Config, Flags};
use syncline_store::{Copied, Error, Store};

const BACKUP_EXAMPLES: &str = "\
Examples:
  syncline backup /mnt/copies/monday.db             copy this node's database, while it runs
  syncline backup monday.db --database-url sqlite:/var/lib/shop/shop.db

The copy is of one moment, and is checked: everything that was acknowledged before is in it. It is one
file, readable by its owner alone. Files that nodes keep outside of their database are not in it.
A PostgreSQL database is copied by pg_dump or pg_basebackup.";

const RESTORE_EXAMPLES: &str = "\
Examples:
  syncline restore /mnt/copies/monday.db            put it in the place of this node's database
  syncline restore monday.db --database-url sqlite:/var/lib/shop/shop.db

Stop the node and everybody else who has the database open; as long as somebody has, nothing is done.
What was there is kept beside it, under another name.";

/// Copy the node's database to a file while it runs, and check the copy.
#[derive(clap::Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub(crate) struct Backup {
    /// The file to make; it must not be there yet.
    file: PathBuf,
    #[command(flatten)]
    database: DatabaseFlag,
}

/// Put a copy in the place of the node's database.
#[derive(clap::Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub(crate) struct Restore {
    /// The copy that `syncline backup` made.
    file: PathBuf,
    #[command(flatten)]
    database: DatabaseFlag,
}

#[derive(clap::Args)]
struct DatabaseFlag {
    /// The database; otherwise DATABASE_URL, or the node's own file.
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
}

impl DatabaseFlag {
    fn url(self) -> anyhow::Result<String> {
        let flags = Flags { database_url: self.database_url, ..Flags::default() };
        let config = Config::load(&flags, &|name| std::env::var(name).ok(), crate::parts::all())?;
        Ok(config.database_url.expose().to_owned())
    }
}

impl Backup {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let copied =
            Store::back_up(&self.database.url()?, &self.file).await.map_err(|error| hinted(&error))?;
        let (file, size) = (self.file.display(), size(copied.bytes));
        output::line(format_args!("{file} is a whole copy, checked: {size}"))
    }
}

impl Restore {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let url = self.database.url()?;
        let Copied { bytes, has_outbox, former } =
            Store::restore(&url, &self.file).await.map_err(|error| hinted(&error))?;
        let (file, size) = (self.file.display(), size(bytes));
        output::line(format_args!("{file} is the database now: {size}"))?;
        if let Some(former) = former {
            output::line(format_args!("what was there is kept as {}", former.display()))?;
        }
        if has_outbox {
            output::line(
                "if it sends from an outbox: run `syncline outbox sender --new` before serversync starts, \
                 because receivers know the numbers it would use again",
            )?;
        }
        Ok(())
    }
}

fn hinted(error: &Error) -> anyhow::Error {
    let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
    anyhow::anyhow!("{error}{hint}")
}

fn size(bytes: u64) -> String {
    match bytes as f64 / 1_000_000.0 {
        megabytes if megabytes < 1.0 => format!("{} kB", bytes.div_ceil(1_000)),
        megabytes => format!("{megabytes:.1} MB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn op_08_a_size_is_shown_in_the_unit_that_fits() {
        assert_eq!(
            (size(0), size(4_096), size(12_340_000)),
            ("0 kB".into(), "5 kB".into(), "12.3 MB".into())
        );
    }
}
