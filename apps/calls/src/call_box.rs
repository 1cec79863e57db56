//! A box that takes calls, small: the application's side of an outbox, to try and to test it.
//!
//! It has tables of its own, `call_logs` and `recordings`, on a connection of its own, and knows of Syncline only that it inserts
//! into `sync_outbox` in the same transaction. Guarantees that a call, its recording's row and their entries are committed
//! together or not at all.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::TransactionBehavior;
use rusqlite::params;
use serde_json::json;
use sqlx::{Connection as _, Executor as _, PgConnection};

use syncline_store::outbox::{NewEntry, enqueue_in, enqueue_in_postgres};

/// How long another writer is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS call_logs (
        id TEXT PRIMARY KEY, caller_number TEXT NOT NULL, disposition TEXT NOT NULL,
        started_at TEXT NOT NULL, duration_sec BIGINT NOT NULL
    );
    CREATE TABLE IF NOT EXISTS recordings (
        id TEXT PRIMARY KEY, call_log_id TEXT NOT NULL REFERENCES call_logs (id),
        upload_status TEXT NOT NULL DEFAULT 'pending', s3_url TEXT
    );";

const INSERT_CALL: &str = "INSERT INTO call_logs (id, caller_number, disposition, started_at, duration_sec) \
    VALUES ($1, $2, $3, $4, $5)";
const INSERT_RECORDING: &str = "INSERT INTO recordings (id, call_log_id) VALUES ($1, $2)";

/// Why a call could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The application's database failed or refused.
    #[error("the application's database: {0}")]
    Postgres(#[from] sqlx::Error),
    /// The same, where it is a file.
    #[error("the application's database: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The outbox refused an entry.
    #[error(transparent)]
    Outbox(#[from] syncline_store::Error),
}

/// A call that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its id, and the name of its recording's folder.
    pub id: String,
    /// The recording's id, if there is one.
    pub recording_id: Option<String>,
    /// The number that called.
    pub caller_number: String,
    /// What became of it.
    pub disposition: String,
    /// When it began, as ISO 8601.
    pub started_at: String,
    /// How long it took.
    pub duration_sec: u32,
}

/// The application's own connection to its database.
pub struct CallBox(Connection);

enum Connection {
    /// One statement after the other; a lock only for those who look at the box from several threads.
    Sqlite(Mutex<rusqlite::Connection>),
    Postgres(PgConnection),
}

impl CallBox {
    /// Connects to the database at `url`, which has an outbox already, and makes the application's tables where they are missing.
    pub async fn open(url: &str) -> Result<Self, Error> {
        if let Some(file) = url.strip_prefix("sqlite:") {
            let connection = rusqlite::Connection::open(file.trim_start_matches("//"))?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.execute_batch(TABLES)?;
            return Ok(Self(Connection::Sqlite(Mutex::new(connection))));
        }
        let mut connection = PgConnection::connect(url).await?;
        connection.execute(sqlx::raw_sql(TABLES)).await?;
        Ok(Self(Connection::Postgres(connection)))
    }

    /// Commits a call, its recording's row, and an entry for each of them and for the recording's file.
    pub async fn record(&mut self, call: &Call) -> Result<(), Error> {
        match &mut self.0 {
            Connection::Sqlite(connection) => {
                let connection = connection.get_mut().unwrap_or_else(PoisonError::into_inner);
                record_in_sqlite(connection, call)
            }
            Connection::Postgres(connection) => record_in_postgres(connection, call).await,
        }
    }
}

fn record_in_sqlite(connection: &mut rusqlite::Connection, call: &Call) -> Result<(), Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let Call { id, caller_number, disposition, started_at, duration_sec, .. } = call;
    transaction.execute(INSERT_CALL, params![id, caller_number, disposition, started_at, duration_sec])?;
    if let Some(recording) = &call.recording_id {
        transaction.execute(INSERT_RECORDING, [recording, id])?;
    }
    for entry in entries(call) {
        enqueue_in(&transaction, &entry)?;
    }
    transaction.commit()?;
    Ok(())
}

async fn record_in_postgres(connection: &mut PgConnection, call: &Call) -> Result<(), Error> {
    let mut transaction = connection.begin().await?;
    let insert = sqlx::query(INSERT_CALL).bind(&call.id).bind(&call.caller_number).bind(&call.disposition);
    let insert = insert.bind(&call.started_at).bind(i64::from(call.duration_sec));
    insert.execute(&mut *transaction).await?;
    if let Some(recording) = &call.recording_id {
        let insert = sqlx::query(INSERT_RECORDING).bind(recording).bind(&call.id);
        insert.execute(&mut *transaction).await?;
    }
    for entry in entries(call) {
        enqueue_in_postgres(&mut transaction, &entry).await?;
    }
    transaction.commit().await?;
    Ok(())
}

fn entries(call: &Call) -> Vec<NewEntry> {
    let entry = |entity_type: &str, entity_id: &str, payload: serde_json::Value| NewEntry {
        entity_type: entity_type.to_owned(),
        entity_id: entity_id.to_owned(),
        payload: payload.to_string(),
    };
    let Call { id, caller_number, disposition, started_at, duration_sec, .. } = call;
    let log = json!({
        "id": id, "callerNumber": caller_number, "disposition": disposition, "startedAt": started_at,
        "durationSec": duration_sec,
    });
    let mut entries = vec![entry("call_log", id, log)];
    if let Some(recording) = &call.recording_id {
        let row = json!({ "id": recording, "callLogId": id, "durationSec": duration_sec });
        let file = json!({ "callLogId": id, "recordingId": recording });
        entries.extend([entry("recording", recording, row), entry("recording_file", recording, file)]);
    }
    entries
}
