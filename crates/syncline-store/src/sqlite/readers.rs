//! The connections that only read, beside the writer. Each is used by one reader at a time, on a thread where it may block.
//!
//! Guarantees: a read sees every write acknowledged before it began; a reader that goes away while it waits leaves its connection
//! behind in order; a connection of a read that panicked is not used again.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::{BUSY_WAIT, connection};
use crate::Error;

/// Connections that only read.
const READERS: usize = 4;

/// A pool of reading connections. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Readers {
    store: Arc<str>,
    file: Arc<Path>,
    idle: Arc<Mutex<Vec<Connection>>>,
    places: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(store: Arc<str>, file: Arc<Path>) -> Self {
        Self { store, file, idle: Arc::default(), places: Arc::new(Semaphore::new(READERS)) }
    }

    /// Runs `work` on one of the connections.
    pub(super) async fn read<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    {
        let place = match timeout(BUSY_WAIT, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => place,
            Ok(Err(_)) => return Err(self.closed()),
            Err(_) => {
                let reason = "all of its reading connections are in use".to_owned();
                return Err(Error::Busy { store: self.store.to_string(), reason });
            }
        };
        let readers = self.clone();
        let read = spawn_blocking(move || {
            let _place = place;
            let mut connection = readers.take()?;
            let made = work(&mut connection);
            readers.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            made
        });
        // It panicked, or the runtime ends.
        read.await.unwrap_or_else(|error| {
            Err(Error::Engine {
                store: self.store.to_string(),
                reason: format!("a read ended early: {error}"),
            })
        })
    }

    fn take(&self) -> Result<Connection, Error> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match idle {
            Some(connection) => Ok(connection),
            None => {
                connection::open_read_only(&self.file).map_err(|error| Error::sqlite(&self.store, &error))
            }
        }
    }

    /// A connection that is not one of these, for whoever reads all the time.
    pub(super) async fn open(&self) -> Result<Mutex<Connection>, Error> {
        self.read({
            let readers = self.clone();
            move |_| {
                let opened = connection::open_read_only(&readers.file);
                opened.map(Mutex::new).map_err(|error| Error::sqlite(&readers.store, &error))
            }
        })
        .await
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Waits for the reads under way, closes every connection and refuses everything after.
    pub(super) async fn close(&self) {
        let all = self.places.acquire_many(READERS as u32).await;
        self.places.close();
        drop(all);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.places.is_closed()
    }

    fn closed(&self) -> Error {
        Error::Closed { store: self.store.to_string() }
    }
}
