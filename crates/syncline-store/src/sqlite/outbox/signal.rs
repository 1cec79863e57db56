//! Hearing that another process has committed something, without asking all the time.
//!
//! SQLite tells nobody of a commit, but it writes to its log first, and the system tells of that (inotify, on Linux). A
//! moment later, when the log is synced, the commit can be seen by `PRAGMA data_version`. So this waits for a write,
//! looks a few times at growing distances until the version has changed. In case a signal is lost, it also asks once in a while
//! whether the log is another than before. Where there is no inotify, it looks every few milliseconds.

use std::iter::repeat_n;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rusqlite::Connection;
use tokio::time::{sleep, timeout};

use super::super::Engine;
use super::super::FileStamp;
use super::super::readers::Readers;
use crate::Error;
use crate::outbox::wakes::Wakes;

/// How often it asks for the log although no write was signalled.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long it rests after it could not look.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Begins to follow what other processes commit, once for each engine. What is in memory has no other processes.
pub(super) fn follow(engine: &Engine) {
    let Some(readers) = &engine.readers else { return };
    engine.outbox.follow(|| watch(readers.clone(), Arc::downgrade(&engine.outbox)));
}

async fn watch(readers: Readers, wakes: Weak<Wakes>) {
    while !readers.is_closed() {
        if let Err(error) = look_after(&readers, &wakes).await {
            tracing::debug!(%error, "commits of other processes cannot be watched; it is tried again");
            sleep(AGAIN_AFTER).await;
        }
    }
}

/// Looks until the store is closed, or something fails.
async fn look_after(readers: &Readers, wakes: &Weak<Wakes>) -> Result<(), Error> {
    let file = readers.file();
    let mut log = Log::open(file).map_err(|error| Error::Engine {
        store: file.display().to_string(),
        reason: format!("its log cannot be watched: {error}"),
    })?;
    // A connection of its own: the number is about commits of others than this connection.
    let connection = readers.open().await?;
    let mut version = data_version(&connection)?;
    let mut stamp = FileStamp::new(file);
    let wake = || wakes.upgrade().map(|wakes| wakes.wake());
    wake();
    while !readers.is_closed() {
        let mut pauses = match timeout(LOOK_EVERY, log.written()).await {
            Ok(()) => pauses(),
            Err(_) if stamp.take_change() => Pauses::default(),
            Err(_) => continue,
        };
        loop {
            let now = data_version(&connection)?;
            if now != version {
                version = now;
                wake();
                break;
            }
            let Some(pause) = pauses.next() else { break };
            // What is written meanwhile may be another commit, which need not wait for the longer pauses of this one.
            if timeout(pause, log.written()).await.is_ok() {
                pauses = self::pauses();
            }
        }
    }
    Ok(())
}

type Pauses = std::vec::IntoIter<Duration>;

/// The pauses between looks, for as long as the commit may still come after a write. On a fast disk a sync takes less
/// than a millisecond, so the first looks follow each other at once; on a slow one it may take a second.
fn pauses() -> Pauses {
    let doubled = (0..10).map(|times| Duration::from_millis(1 << times));
    repeat_n(Duration::ZERO, 64).chain(doubled).collect::<Vec<_>>().into_iter()
}

/// A number that changes when another connection has committed. It is read from shared memory: the disk is not asked, so that this
/// may be done where others wait.
fn data_version(connection: &Mutex<Connection>) -> Result<i64, Error> {
    let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
    let read = connection
        .prepare_cached("PRAGMA data_version")
        .and_then(|mut read| read.query_row([], |row| row.get(0)));
    read.map_err(|error| Error::sqlite("sqlite", &error))
}

#[cfg(target_os = "linux")]
use self::inotify::Log;

#[cfg(target_os = "linux")]
mod inotify {
    use std::ffi::{CString, OsString};
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::Path;

    use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// The log beside a database. Its folder is what is watched, because the log comes and goes.
    pub(super) struct Log {
        events: AsyncFd<OwnedFd>,
        name: CString,
    }

    impl Log {
        pub(super) fn open(file: &Path) -> io::Result<Self> {
            let folder =
                file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let mut name: OsString = file.file_name().unwrap_or_default().to_owned();
            name.push("-wal");
            let events = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            add_watch(&events, folder.as_os_str().as_bytes(), WatchFlags::MODIFY | WatchFlags::CREATE)?;
            let name = CString::new(name.into_vec()).map_err(io::Error::other)?;
            // The descriptor is an owned one and never given out, which is all that the unsafe successor asks for.
            #[allow(deprecated)]
            let events = AsyncFd::with_interest(events, Interest::READABLE)?;
            Ok(Self { events, name })
        }

        /// Ends when the log was written to since the last time.
        pub(super) async fn written(&mut self) {
            loop {
                let Ok(mut ready) = self.events.readable().await else { return };
                let mut buffer = [MaybeUninit::uninit(); 4_096];
                let mut reader = Reader::new(ready.get_inner(), &mut buffer);
                let mut written = false;
                // One that cannot be read is no reason not to look.
                while let Ok(event) = reader.next() {
                    written |= event.file_name().is_none_or(|name| name == self.name.as_c_str());
                }
                ready.clear_ready();
                if written {
                    return;
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
struct Log;

#[cfg(not(target_os = "linux"))]
impl Log {
    fn open(_file: &std::path::Path) -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn written(&mut self) {
        sleep(Duration::from_millis(5)).await;
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The store looks once a second in any case, so a test of the whole passes even if the system's signal is never heard.
    /// This one waits for the signal alone.
    #[tokio::test]
    async fn ss_20_a_write_by_another_connection_is_signalled_by_the_system() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("box.db");
        let other = rusqlite::Connection::open(&file).unwrap();
        other.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER)").unwrap();
        let mut log = Log::open(&file).unwrap();
        for n in 0..3 {
            other.execute("INSERT INTO t VALUES (?1)", [n]).unwrap();
            timeout(Duration::from_secs(30), log.written()).await.expect("the system tells of the write");
        }
    }
}
