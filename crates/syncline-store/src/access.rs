//! The access port: the audit, keys that were made on a running node, and what was taken back.
//!
//! - [`audit`]: who did what to which thing, kept for [`AUDIT_KEPT`](audit::AUDIT_KEPT)
//! - [`keys`]: the hashes of keys with their grants, and when each key was last shown
//! - [`revocations`]: tokens, subjects and keys that are no longer accepted
//!
//! Written once over [`Database`], so both engines have one meaning. Guarantees: every change of keys and revocations counts
//! [`AccessStore::version`] up in its own transaction. A node that sees the same number knows everything that was
//! acknowledged before it looked. Times are the store's own.

pub mod audit;
pub mod keys;
pub mod revocations;

use crate::database::{Database, Transaction};
use crate::{Backend, Error};

const VERSION: &str = "SELECT version FROM syncline.access_version WHERE only_row = 1";
const ANNOUNCE: &str = "SELECT pg_notify('syncline.access', '')";
const COUNT_UP: &str = "UPDATE syncline.access_version SET version = version + 1 WHERE only_row = 1";

/// The access tables of a store. Clones share them.
#[derive(Debug, Clone)]
pub struct AccessStore {
    database: Database,
}

impl AccessStore {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }

    /// A number that grows with every change of keys and revocations.
    pub async fn version(&self) -> Result<i64, Error> {
        self.database.read(|transaction| Box::pin(transaction.value(VERSION, &[]))).await
    }
}

/// Tells nodes that keys or revocations have changed, together with the change itself.
async fn count_up(transaction: &mut Transaction<'_>) -> Result<(), Error> {
    transaction.execute(COUNT_UP, &[]).await?;
    if transaction.backend() == Backend::Postgres {
        transaction.execute(ANNOUNCE, &[]).await?;
    }
    Ok(())
}
