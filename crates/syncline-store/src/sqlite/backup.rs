//! Copies of a database that is in use, and putting one in its place.
//!
//! A copy is of one moment, page by page: everything acknowledged before it began is in it, and writers go on meanwhile. It gets
//! its name after it was checked and is on the disk, so that a copy that was cut short is never taken for one.
//!
//! A restore changes nothing before the copy was checked and nobody else has the database open. What was there stays beside it
//! under another name. A restore that dies leaves the one or the other in place, whole.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::{AGAIN_AFTER, BUSY_WAIT, Place, SCHEME, address, connection, create_private};
use crate::Error;

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// How large it is.
    pub bytes: u64,
    /// Whether the database has an outbox. One that was restored sends numbers that its receivers know, and needs a new name.
    pub has_outbox: bool,
    /// Where the database is now that stood in the place of a restored one.
    pub former: Option<PathBuf>,
}

/// Copies the database at `url` to the file `to`, which is not there yet. Blocks.
pub(crate) fn back_up(url: &str, to: &Path) -> Result<Copied, Error> {
    let (store, file) = file_of(url)?;
    if !file.exists() {
        return Err(Error::Missing { store });
    }
    if to.exists() {
        return Err(Error::invalid(
            "the copy",
            format!("{} is there already; choose another name", to.display()),
        ));
    }
    let from = connection::open_read_only(&file).map_err(|error| Error::sqlite(&store, &error))?;
    let part = beside(to, "part");
    let copied = copy(&from, &store, &part)?;
    put(&part, to).map_err(|error| failed(to, &error))?;
    Ok(copied)
}

/// Puts the copy `from` in the place of the database at `url`. Blocks.
pub(crate) fn restore(url: &str, from: &Path) -> Result<Copied, Error> {
    let (store, file) = file_of(url)?;
    let shown = from.display().to_string();
    if !from.is_file() {
        return Err(Error::Missing { store: shown });
    }
    let source = connection::open_read_only(from).map_err(|error| Error::sqlite(&shown, &error))?;
    let part = beside(&file, "restoring");
    let mut copied = copy(&source, &shown, &part)?;
    drop(source);
    if file.exists() {
        let held = hold_alone(&file, &store);
        let held = held.inspect_err(|_| drop(fs::remove_file(&part)))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let former = beside(&file, &format!("before-restore-{now}"));
        // A second name for it: there is a database at every moment.
        fs::hard_link(&file, &former)
            .and_then(|()| put(&part, &file))
            .map_err(|error| failed(&file, &error))?;
        copied.former = Some(former);
        drop(held);
    } else {
        put(&part, &file).map_err(|error| failed(&file, &error))?;
    }
    Ok(copied)
}

/// The name of the store as it is shown, and its file.
fn file_of(url: &str) -> Result<(String, PathBuf), Error> {
    let refused = |reason: &str| Error::Address { address: SCHEME.to_owned(), reason: reason.to_owned() };
    if !url.starts_with(SCHEME) {
        return Err(refused("is needed here; a PostgreSQL database is copied by pg_dump or pg_basebackup"));
    }
    match address(url)?.0 {
        Place::Memory => Err(refused("in memory has no file")),
        Place::File(file) => Ok((format!("{SCHEME}{}", file.display()), file.to_path_buf())),
    }
}

/// Copies everything that `from` reads into the new file `to`, checks it, and has it on the disk.
fn copy(from: &Connection, store: &str, to: &Path) -> Result<Copied, Error> {
    match fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(to, &error)),
        _ => create_private(store, to)?,
    }
    let shown = to.display().to_string();
    let copied = fill(from, store, to, &shown);
    copied.inspect_err(|_| drop(fs::remove_file(to)))
}

fn fill(from: &Connection, store: &str, to: &Path, shown: &str) -> Result<Copied, Error> {
    let reading = |error: rusqlite::Error| Error::sqlite(store, &error);
    let writing = |error: rusqlite::Error| Error::sqlite(shown, &error);
    let ours: bool = from.query_row(HAS_TABLE, ["syncline_migrations"], |row| row.get(0)).map_err(reading)?;
    if !ours {
        let reason = "has no tables of Syncline".to_owned();
        return Err(Error::Unprepared { store: store.to_owned(), reason });
    }
    let has_outbox = from.query_row(HAS_TABLE, ["sync_outbox_sender"], |row| row.get(0)).map_err(reading)?;
    let mut into = connection::open(to).map_err(writing)?;
    let copying = Backup::new(from, &mut into).map_err(reading)?;
    let mut waited = Duration::ZERO;
    // All pages in one step are of one moment.
    while copying.step(-1).map_err(reading)? != StepResult::Done {
        if waited >= BUSY_WAIT {
            let reason = "others keep it locked".to_owned();
            return Err(Error::Busy { store: store.to_owned(), reason });
        }
        thread::sleep(AGAIN_AFTER);
        waited += AGAIN_AFTER;
    }
    drop(copying);
    // The copy is one file, without a log beside it.
    into.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).map_err(writing)?;
    let found: String = into.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(writing)?;
    if found != "ok" {
        return Err(Error::Corrupt { store: store.to_owned(), reason: found });
    }
    drop(into);
    let file = File::open(to).map_err(|error| failed(to, &error))?;
    file.sync_all().map_err(|error| failed(to, &error))?;
    let bytes = file.metadata().map_err(|error| failed(to, &error))?.len();
    Ok(Copied { bytes, has_outbox, former: None })
}

const HAS_TABLE: &str = "SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name LIKE '%' || ?1";

/// A connection that nobody else is beside, with nothing left in the log.
fn hold_alone(file: &Path, store: &str) -> Result<Connection, Error> {
    let held = connection::open(file).map_err(|error| Error::sqlite(store, &error))?;
    let alone = held.busy_timeout(Duration::ZERO).and_then(|()| {
        held.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; COMMIT")?;
        held.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get::<_, String>(0))
    });
    match alone.map_err(|error| Error::sqlite(store, &error)) {
        Ok(_) => Ok(held),
        Err(Error::Busy { store, .. }) => {
            let reason = "a node or another program has it open; stop it first".to_owned();
            Err(Error::Busy { store, reason })
        }
        Err(error) => Err(error),
    }
}

/// Gives `part` its name, for good.
fn put(part: &Path, to: &Path) -> io::Result<()> {
    fs::rename(part, to)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// `file` with something behind its name.
fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

fn failed(file: &Path, error: &io::Error) -> Error {
    let (store, reason) = (file.display().to_string(), error.to_string());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full { store, reason },
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => Error::Denied { store, reason },
        _ => Error::Disk { store, reason },
    }
}
