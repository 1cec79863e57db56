//! Which recordings have arrived: one row for each call that has one.
//!
//! Guarantees, on every engine: a row is durable when [`RecordingTable::put`] has answered, and the same recording again
//! changes nothing, not even when it arrived. The sound itself is kept elsewhere; the row says where.

use syncline_core::outbox::Moment;
use syncline_store::database::{Database, Row, Transaction};
use syncline_store::{Error, Migrations, Step, Store};

/// The tables of calls; name them when a store is opened.
pub static MIGRATIONS: Migrations = Migrations::new(
    "calls",
    &[Step {
        version: 1,
        name: "recordings",
        sqlite: include_str!("../../migrations/1_recordings.sqlite.sql"),
        postgres: include_str!("../../migrations/1_recordings.postgres.sql"),
    }],
);

/// Most recordings in one listing.
pub const LIST_MAX: usize = 1_000;
/// Longest text that describes a recording, its metadata included.
pub const TEXT_MAX_BYTES: usize = 64 * 1_024;

const PUT: &str = "INSERT INTO syncline.inbox_recordings \
     (call_log_id, recording_id, bytes, sha256, location, meta, received_at) VALUES ($1, $2, $3, $4, $5, $6, $7) \
     ON CONFLICT (call_log_id) DO UPDATE SET recording_id = excluded.recording_id, bytes = excluded.bytes, \
     sha256 = excluded.sha256, location = excluded.location, meta = excluded.meta, received_at = excluded.received_at";
const OF_CALL: &str = "SELECT call_log_id, recording_id, bytes, sha256, location, meta, received_at \
     FROM syncline.inbox_recordings WHERE call_log_id = $1";
const LIST: &str = "SELECT call_log_id, recording_id, bytes, sha256, location, meta, received_at \
     FROM syncline.inbox_recordings ORDER BY received_at DESC, call_log_id DESC LIMIT $1";
const LIST_AFTER: &str = "SELECT call_log_id, recording_id, bytes, sha256, location, meta, received_at \
     FROM syncline.inbox_recordings WHERE (received_at, call_log_id) < \
     (SELECT received_at, call_log_id FROM syncline.inbox_recordings WHERE call_log_id = $2) \
     ORDER BY received_at DESC, call_log_id DESC LIMIT $1";

/// A recording that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// The call.
    pub call_log_id: String,
    /// The recording.
    pub recording_id: String,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
    /// Where it is kept, in the words of whoever keeps it.
    pub location: String,
    /// What came with it, as JSON.
    pub meta: String,
    /// When it arrived, to the millisecond.
    pub received_at: Moment,
}

/// The recordings that arrived. Clones share them.
#[derive(Debug, Clone)]
pub struct RecordingTable {
    database: Database,
}

impl RecordingTable {
    /// The recordings in `store`, which was opened with [`MIGRATIONS`].
    #[must_use]
    pub fn new(store: &Store) -> Self {
        Self { database: store.database() }
    }

    /// Writes down a recording, in place of another one of the call.
    pub async fn put(&self, recording: &Recording) -> Result<(), Error> {
        check(recording)?;
        let recording = recording.clone();
        let put = self.database.write(move |transaction| {
            Box::pin(async move {
                let known = of_call(transaction, &recording.call_log_id).await?;
                if known.is_some_and(|known| known.sha256 == recording.sha256) {
                    return Ok(());
                }
                let bytes = i64::try_from(recording.bytes).unwrap_or(i64::MAX);
                let received_ms = recording.received_at.as_us() / 1_000;
                let values = [
                    recording.call_log_id.into(),
                    recording.recording_id.into(),
                    bytes.into(),
                    recording.sha256.into(),
                    recording.location.into(),
                    recording.meta.into(),
                    received_ms.into(),
                ];
                transaction.execute(PUT, &values).await.map(|_| ())
            })
        });
        put.await
    }

    /// The recording of a call.
    pub async fn of_call(&self, call_log_id: &str) -> Result<Option<Recording>, Error> {
        let call_log_id = call_log_id.to_owned();
        self.database
            .read(|transaction| Box::pin(async move { of_call(transaction, &call_log_id).await }))
            .await
    }

    /// Up to `limit` recordings, the last received first, from behind the one of the call `after` on.
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<Vec<Recording>, Error> {
        if limit > LIST_MAX {
            let reason = format!("is {limit}; at most {LIST_MAX} are allowed");
            return Err(Error::Invalid { field: "limit", reason });
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let (list, values) = match after {
            None => (LIST, vec![limit.into()]),
            Some(after) => (LIST_AFTER, vec![limit.into(), after.into()]),
        };
        let listed = self.database.read(move |transaction| {
            Box::pin(async move { transaction.all(list, &values).await?.iter().map(recording).collect() })
        });
        listed.await
    }
}

async fn of_call(transaction: &mut Transaction<'_>, call_log_id: &str) -> Result<Option<Recording>, Error> {
    transaction.first(OF_CALL, &[call_log_id.into()]).await?.as_ref().map(recording).transpose()
}

fn recording(row: &Row) -> Result<Recording, Error> {
    Ok(Recording {
        call_log_id: row.get(0)?,
        recording_id: row.get(1)?,
        bytes: row.get::<i64>(2)?.unsigned_abs(),
        sha256: row.get(3)?,
        location: row.get(4)?,
        meta: row.get(5)?,
        received_at: Moment::from_us(row.get::<i64>(6)?.saturating_mul(1_000)),
    })
}

fn check(recording: &Recording) -> Result<(), Error> {
    let texts = [
        ("call_log_id", &recording.call_log_id),
        ("recording_id", &recording.recording_id),
        ("sha256", &recording.sha256),
        ("location", &recording.location),
        ("meta", &recording.meta),
    ];
    for (field, text) in texts {
        if text.len() > TEXT_MAX_BYTES || text.contains('\0') {
            let reason = format!("must have {TEXT_MAX_BYTES} bytes at most and no zero character");
            return Err(Error::Invalid { field, reason });
        }
    }
    Ok(())
}
