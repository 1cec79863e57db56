//! Whether anybody may have written to a database, told by its files and not by asking it.
//!
//! A commit is written to the log before it can be seen, and a slow disk may take a while in between. So for [`SETTLES`] after a
//! write the answer stays yes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;

use super::Engine;
use crate::queue::registry::QueueRegistry;
use crate::queue::table::QueueNotices;

/// How long after a write its commit may still become visible.
const SETTLES: Duration = Duration::from_secs(5);

/// The files of a database as they were when somebody asked last.
#[derive(Debug)]
pub(crate) struct FileStamp {
    files: [PathBuf; 2],
    known: [Option<(SystemTime, u64)>; 2],
    written_at: Option<Instant>,
}

impl FileStamp {
    pub(crate) fn new(file: &Path) -> Self {
        let mut log = file.as_os_str().to_owned();
        log.push("-wal");
        Self { files: [file.to_owned(), log.into()], known: [None; 2], written_at: None }
    }

    /// Whether somebody may have committed something since the last time that this was asked. The first time: yes.
    pub(crate) fn take_change(&mut self) -> bool {
        let now = [0, 1].map(|file| {
            let found = fs::metadata(&self.files[file]).ok()?;
            Some((found.modified().ok()?, found.len()))
        });
        if std::mem::replace(&mut self.known, now) != now || now[0].is_none() {
            self.written_at = Some(Instant::now());
        }
        self.written_at.is_some_and(|at| at.elapsed() < SETTLES)
    }
}

/// How queues hear of other processes: by what is written to the file.
#[derive(Debug)]
pub(crate) struct SqliteQueueNotices {
    /// `None` in memory, where there are no others.
    stamp: Option<Mutex<FileStamp>>,
}

impl SqliteQueueNotices {
    pub(crate) fn new(engine: &Engine) -> Arc<Self> {
        Arc::new(Self { stamp: engine.stamp().map(Mutex::new) })
    }
}

#[async_trait]
impl QueueNotices for SqliteQueueNotices {
    async fn listen(&self, _registry: &QueueRegistry) {
        std::future::pending::<()>().await;
    }

    fn announce(&self, _queue: &str) {}

    fn may_have_changed(&self) -> bool {
        let stamp = self.stamp.as_ref();
        stamp.is_some_and(|stamp| stamp.lock().unwrap_or_else(PoisonError::into_inner).take_change())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn op_05_a_write_by_another_connection_shows_and_silence_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("box.db");
        let other = rusqlite::Connection::open(&file).unwrap();
        other.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER)").unwrap();
        let mut stamp = FileStamp::new(&file);
        assert!(stamp.take_change(), "nobody has looked before");
        let settled = |stamp: &mut FileStamp| stamp.written_at = Instant::now().checked_sub(SETTLES);
        settled(&mut stamp);
        assert!(!stamp.take_change());
        for n in 0..3 {
            other.execute("INSERT INTO t VALUES (?1)", [n]).unwrap();
            assert!(stamp.take_change(), "write {n}");
            assert!(stamp.take_change(), "its commit may come later");
            settled(&mut stamp);
            assert!(!stamp.take_change());
        }
        other.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        assert!(stamp.take_change(), "the log is gone, the file has it");
    }
}
