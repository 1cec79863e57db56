//! Front ends, workers and backlogs: two databases and what stands between them.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use sqlx::{Connection, PgConnection};
use syncline_sim::postgres::{self, Database};
use syncline_store::Store;
use syncline_store::outbox::{ENTRIES_MAX, NewEntry};
use tempfile::TempDir;

/// Two databases of a kind, and a front end on the second.
pub(crate) struct World {
    /// The database that entries come from.
    pub(crate) box_url: String,
    /// The one that they go to.
    pub(crate) front_url: String,
    /// Where the front end listens.
    pub(crate) base: String,
    _front: Running,
    _folder: TempDir,
    _databases: Vec<Database>,
}

/// A process that goes when it is dropped.
pub(crate) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What kind of databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Postgres,
    Sqlite,
}

impl World {
    /// Empty databases and a front end that listens.
    pub(crate) fn new(kind: Kind) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot create a folder")?;
        let (mut databases, mut urls) = (Vec::new(), Vec::new());
        for name in ["box", "front"] {
            match kind {
                Kind::Postgres => {
                    let database = postgres::database();
                    urls.push(database.url.clone());
                    databases.push(database);
                }
                Kind::Sqlite => {
                    // The application was there first: a worker opens a database, it makes none.
                    let file = folder.path().join(name).join("store.db");
                    fs::create_dir_all(folder.path().join(name)).context("cannot create a folder")?;
                    fs::write(&file, "").context("cannot create a database")?;
                    urls.push(format!("sqlite:{}", file.display()));
                }
            }
        }
        let (front_url, box_url) = (urls.pop().unwrap_or_default(), urls.pop().unwrap_or_default());
        let config = folder.path().join("syncline.toml");
        fs::write(&config, "[[entities]]\nname = \"order\"\n").context("cannot write a configuration")?;
        let mut serve = Command::new(binary("syncline")?);
        serve
            .arg("serve")
            .arg("--config")
            .arg(config)
            .env("SYNCLINE_LISTEN", "127.0.0.1:0")
            .env("DATABASE_URL", &front_url);
        serve.env("SYNCLINE_DATA", folder.path().join("data")).env("SYNCLINE_LOG_LEVEL", "error");
        serve.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = serve.spawn().context("cannot start a front end")?;
        let output = BufReader::new(child.stdout.take().context("a child without output")?);
        let front = Running(child);
        let base = output.lines().map_while(Result::ok).find_map(|line| {
            let at = line.find("http://")?;
            Some(line[at..].split_whitespace().next()?.trim_end_matches(['/', ',', '.']).to_owned())
        });
        let base = base.context("the front end does not say where it listens")?;
        Ok(Self { box_url, front_url, base, _front: front, _folder: folder, _databases: databases })
    }

    /// Puts `count` changes into the outbox, each of an entity of its own.
    pub(crate) async fn fill(&self, count: u32) -> Result<()> {
        let store = Store::open(&self.box_url).await?;
        let all: Vec<u32> = (0..count).collect();
        for some in all.chunks(ENTRIES_MAX) {
            let entries: Vec<NewEntry> = some.iter().map(|n| entry(*n)).collect();
            store.outbox().enqueue(&entries).await?;
        }
        store.close().await;
        Ok(())
    }

    /// Our worker between the two.
    pub(crate) fn worker(&self, arguments: &[&str]) -> Result<Running> {
        let mut worker = Command::new(binary("serversync")?);
        worker.args(arguments).env("DATABASE_URL", &self.box_url).env("FRONTEND_BASE_URL", &self.base);
        worker.env("SYNC_BATCH_SIZE", "1000").env("SYNCLINE_LOG_LEVEL", "error");
        worker.current_dir(self._folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Running(worker.spawn().context("cannot start serversync")?))
    }

    /// The same with routes in a configuration file, and no front end beside them.
    pub(crate) fn worker_of_routes(&self, arguments: &[&str]) -> Result<Running> {
        let mut worker = Command::new(binary("serversync")?);
        worker.args(arguments).env("DATABASE_URL", &self.box_url).env_remove("FRONTEND_BASE_URL");
        worker.env("SYNC_BATCH_SIZE", "1000").env("SYNCLINE_LOG_LEVEL", "error");
        worker.current_dir(self._folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Running(worker.spawn().context("cannot start serversync")?))
    }

    /// Where its files are.
    pub(crate) fn folder(&self) -> &Path {
        self._folder.path()
    }

    /// How many entities the front end has, past the front end.
    pub(crate) async fn arrived(&self) -> Result<u64> {
        let count: i64 = if self.front_url.starts_with("sqlite:") {
            let front = rusqlite::Connection::open(self.front_url.trim_start_matches("sqlite:"))?;
            front.query_row("SELECT count(*) FROM syncline_entity_order", [], |row| row.get(0))?
        } else {
            let mut front = PgConnection::connect(&self.front_url).await?;
            let count = "SELECT count(*) FROM syncline.entity_order";
            sqlx::query_scalar(count).fetch_one(&mut front).await?
        };
        Ok(count.unsigned_abs())
    }
}

impl Running {
    /// Waits for its end, which must be a good one.
    pub(crate) fn finish(mut self) -> Result<()> {
        let status = self.0.wait().context("cannot wait for a worker")?;
        ensure!(status.success(), "a worker ended with {status}");
        Ok(())
    }
}

/// The `n`th change, as all contenders send it.
pub(crate) fn entry(n: u32) -> NewEntry {
    NewEntry {
        entity_type: "order".to_owned(),
        entity_id: format!("order-{n}"),
        payload: format!(
            r#"{{"id":"order-{n}","from":"+81312345678","to":"+81398765432","durationSec":{},"status":"ended"}}"#,
            n % 600
        ),
    }
}

/// A program of the product, built for release.
fn binary(name: &str) -> Result<PathBuf> {
    let syncline = env::var_os("SYNCLINE_BIN").context("SYNCLINE_BIN must name the syncline binary")?;
    let folder = Path::new(&syncline).parent().context("SYNCLINE_BIN names no file")?;
    Ok(folder.join(name))
}
