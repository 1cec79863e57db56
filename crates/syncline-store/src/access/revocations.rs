//! What was taken back: a token by its id, the tokens of a subject by the time they were issued, a key by its hash.
//!
//! A row outlives what it refuses: tokens end by themselves, and their rows end after them. Taking the same thing back
//! again keeps one row, with the later of both times.

use std::time::Duration;

use super::{AccessStore, count_up};
use crate::Error;
use crate::database::{Row, Value};

/// Most revocations that count at a time.
pub const REVOCATIONS_MAX: i64 = 50_000;
/// Most rows that one call of [`AccessStore::forget_revocations`] deletes.
const FORGET_MAX: i64 = 1_000;

const COUNT: &str = "SELECT count(*) FROM syncline.access_revocations";
const REVOKE: &str = "INSERT INTO syncline.access_revocations \
     (kind, scope, value, issued_before, made_at, made_by, ends_at) VALUES ($1, $2, $3, $4, $5, $6, $7) \
     ON CONFLICT (kind, scope, value) DO UPDATE SET \
     issued_before = CASE WHEN excluded.issued_before > syncline.access_revocations.issued_before \
     THEN excluded.issued_before ELSE syncline.access_revocations.issued_before END, \
     ends_at = CASE WHEN excluded.ends_at IS NULL OR syncline.access_revocations.ends_at IS NULL THEN NULL \
     WHEN excluded.ends_at > syncline.access_revocations.ends_at THEN excluded.ends_at \
     ELSE syncline.access_revocations.ends_at END RETURNING id";
const READ: &str = "SELECT id, kind, scope, value, issued_before, made_at, made_by, ends_at \
     FROM syncline.access_revocations WHERE id = $1";
const LIST: &str = "SELECT id, kind, scope, value, issued_before, made_at, made_by, ends_at \
     FROM syncline.access_revocations WHERE (ends_at IS NULL OR ends_at > $1) AND id > $2 ORDER BY id LIMIT $3";
const REMOVE: &str = "DELETE FROM syncline.access_revocations WHERE id = $1";
const FORGET: &str = "DELETE FROM syncline.access_revocations WHERE id IN \
     (SELECT id FROM syncline.access_revocations WHERE ends_at <= $1 ORDER BY ends_at LIMIT $2)";

/// What is taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRevocation {
    /// `token`, `subject` or `key`.
    pub kind: &'static str,
    /// The issuer, or the name of the key.
    pub scope: String,
    /// The token's id, the subject, or the key's hash.
    pub value: String,
    /// Tokens issued up to this moment are refused, in milliseconds since the epoch; now, by the store's clock, if absent.
    pub issued_before_ms: Option<i64>,
    /// By whom.
    pub made_by: String,
    /// How long it counts; for ever if absent.
    pub lasts: Option<Duration>,
}

/// A revocation as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRevocation {
    /// Its number.
    pub id: i64,
    /// `token`, `subject` or `key`.
    pub kind: String,
    /// The issuer, or the name of the key.
    pub scope: String,
    /// The token's id, the subject, or the key's hash.
    pub value: String,
    /// Tokens issued up to this moment are refused, in milliseconds since the epoch.
    pub issued_before_ms: i64,
    /// When it was made.
    pub made_at_ms: i64,
    /// By whom.
    pub made_by: String,
    /// When it ends by itself.
    pub ends_at_ms: Option<i64>,
}

impl AccessStore {
    /// Takes something back.
    pub async fn revoke(&self, new: NewRevocation) -> Result<StoredRevocation, Error> {
        let lasts_ms = new.lasts.map(|lasts| i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX));
        self.database
            .write(move |transaction| {
                Box::pin(async move {
                    if transaction.value::<i64>(COUNT, &[]).await? >= REVOCATIONS_MAX {
                        let reason =
                            format!("are {REVOCATIONS_MAX}, and that is the most: change the issuer's key");
                        return Err(Error::invalid("revocations", reason));
                    }
                    let now_ms = transaction.now_ms().await?;
                    let values: [Value; 7] = [
                        new.kind.into(),
                        new.scope.into(),
                        new.value.into(),
                        new.issued_before_ms.unwrap_or(now_ms).into(),
                        now_ms.into(),
                        new.made_by.into(),
                        lasts_ms.map(|lasts_ms| now_ms.saturating_add(lasts_ms)).into(),
                    ];
                    let id: i64 = transaction.value(REVOKE, &values).await?;
                    count_up(transaction).await?;
                    let row = transaction.first(READ, &[id.into()]).await?;
                    row.as_ref().map_or_else(|| Err(Error::invalid("revocation", "is gone")), read)
                })
            })
            .await
    }

    /// Takes a revocation back, and says whether there was one.
    pub async fn remove_revocation(&self, id: i64) -> Result<bool, Error> {
        self.database
            .write(move |transaction| {
                Box::pin(async move {
                    let removed = transaction.execute(REMOVE, &[id.into()]).await? > 0;
                    if removed {
                        count_up(transaction).await?;
                    }
                    Ok(removed)
                })
            })
            .await
    }

    /// All revocations that count, in the order in which they were made.
    pub async fn revocations(&self) -> Result<Vec<StoredRevocation>, Error> {
        self.revocations_after(0, REVOCATIONS_MAX as usize).await
    }

    /// The same, a page at a time: `limit` at most, behind the one with this number.
    pub async fn revocations_after(&self, id: i64, limit: usize) -> Result<Vec<StoredRevocation>, Error> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.database
            .read(move |transaction| {
                Box::pin(async move {
                    let now_ms = transaction.now_ms().await?;
                    let rows = transaction.all(LIST, &[now_ms.into(), id.into(), limit.into()]).await?;
                    rows.iter().map(read).collect()
                })
            })
            .await
    }

    /// Deletes revocations that have ended, and says how many. Whether they count never depends on it.
    pub async fn forget_revocations(&self) -> Result<u64, Error> {
        self.database
            .write(|transaction| {
                Box::pin(async move {
                    let now_ms = transaction.now_ms().await?;
                    transaction.execute(FORGET, &[now_ms.into(), FORGET_MAX.into()]).await
                })
            })
            .await
    }
}

fn read(row: &Row) -> Result<StoredRevocation, Error> {
    Ok(StoredRevocation {
        id: row.get(0)?,
        kind: row.get(1)?,
        scope: row.get(2)?,
        value: row.get(3)?,
        issued_before_ms: row.get(4)?,
        made_at_ms: row.get(5)?,
        made_by: row.get(6)?,
        ends_at_ms: row.get(7)?,
    })
}
