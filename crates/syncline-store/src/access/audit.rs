//! The audit: who did what to which thing, when, from where, and with which outcome.
//!
//! What cannot be undone is recorded before it is done ([`AccessStore::begin`]) and settled afterwards, so a crash leaves a row
//! that says `begun`. Refusals come gathered, a row for many alike ([`AccessStore::record`]). A page reads at most
//! [`SCAN_MAX`] rows, whatever it looks for, and says where to go on.

use std::time::Duration;

use syncline_core::text::one_line;

use super::AccessStore;
use crate::Error;
use crate::database::{Row, Transaction, Value};

/// How long a row is kept.
pub const AUDIT_KEPT: Duration = Duration::from_secs(90 * 24 * 3_600);
/// Longest text in one field of a row, in characters; what is longer is cut.
pub const FIELD_MAX_CHARS: usize = 255;
/// Most rows of one page.
pub const PAGE_MAX: usize = 1_000;
/// Most rows that one page looks at.
pub const SCAN_MAX: i64 = 5_000;
/// Most rows that are written or pruned at a time.
pub const STEP_MAX: usize = 1_000;

const INSERT: &str = "INSERT INTO syncline.access_audit \
     (at, node, kind, name, subject, system, verb, thing, action, address, origin, outcome, code, count) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) RETURNING id";
const SETTLE: &str =
    "UPDATE syncline.access_audit SET outcome = $2, code = $3 WHERE id = $1 AND outcome = 'begun'";
/// below, above, most to look at, system, who, outcome, pattern, limit
const PAGE: &str = "SELECT id, at, node, kind, name, subject, system, verb, thing, action, address, origin, outcome, \
     code, count FROM (SELECT * FROM syncline.access_audit WHERE id < $1 AND id > $2 ORDER BY id DESC LIMIT $3) AS recent \
     WHERE ($4 IS NULL OR system = $4) AND ($5 IS NULL OR name = $5 OR subject = $5) AND ($6 IS NULL OR outcome = $6) \
     AND ($7 IS NULL OR lower(name || ' ' || coalesce(subject, '') || ' ' || system || ' ' || verb || ' ' || thing || ' ' \
     || action || ' ' || coalesce(address, '') || ' ' || coalesce(origin, '') || ' ' || code) LIKE $7 ESCAPE '!') \
     ORDER BY id DESC LIMIT $8";
const SCANNED: &str = "SELECT count(*), min(id) FROM \
     (SELECT id FROM syncline.access_audit WHERE id < $1 AND id > $2 ORDER BY id DESC LIMIT $3) AS recent";
const PRUNE: &str = "DELETE FROM syncline.access_audit WHERE id IN \
     (SELECT id FROM syncline.access_audit WHERE at < $1 ORDER BY at LIMIT $2)";

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was begun; nobody has said how it ended. After a crash that stays.
    Begun,
    /// It was done.
    Done,
    /// It was tried and failed.
    Failed,
    /// The caller was not let in, or not let do it.
    Refused,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Begun, Self::Done, Self::Failed, Self::Refused];

    /// Its word in rows and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }

    /// The outcome with this word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == word)
    }
}

/// What is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// The node that recorded it.
    pub node: String,
    /// `owner`, `key`, `person` or `nobody`.
    pub kind: &'static str,
    /// The name of the key or of the issuer.
    pub name: String,
    /// Under which name the caller acts.
    pub subject: Option<String>,
    /// The system.
    pub system: String,
    /// What was to be done.
    pub verb: String,
    /// To which thing; empty where there is none in particular.
    pub thing: String,
    /// By which operation, as in `DELETE /api/keys/{name}`.
    pub action: String,
    /// From which address.
    pub address: Option<String>,
    /// By a page of which origin.
    pub origin: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it failed or was refused: the code of the answer.
    pub code: String,
    /// How many alike this stands for.
    pub count: u64,
}

/// A row of the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Its number; later rows have greater ones.
    pub id: i64,
    /// When, in milliseconds since the epoch by the store's clock.
    pub at_ms: i64,
    /// The node that recorded it.
    pub node: String,
    /// `owner`, `key`, `person` or `nobody`.
    pub kind: String,
    /// The name of the key or of the issuer.
    pub name: String,
    /// Under which name the caller acted.
    pub subject: Option<String>,
    /// The system.
    pub system: String,
    /// What was to be done.
    pub verb: String,
    /// To which thing.
    pub thing: String,
    /// By which operation.
    pub action: String,
    /// From which address.
    pub address: Option<String>,
    /// By a page of which origin.
    pub origin: Option<String>,
    /// How it ended.
    pub outcome: String,
    /// Why it failed or was refused.
    pub code: String,
    /// How many alike it stands for.
    pub count: i64,
}

/// Which rows are asked for. Every filter that is there has to fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditAsked {
    /// A text anywhere in the row, whatever its case.
    pub text: Option<String>,
    /// The system.
    pub system: Option<String>,
    /// The name or the subject.
    pub who: Option<String>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Rows older than this one alone: the `next` of the page before.
    pub after: Option<i64>,
    /// Rows newer than this one alone.
    pub newer: Option<i64>,
    /// At most this many, [`PAGE_MAX`] at most.
    pub limit: usize,
}

/// A page, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// The rows.
    pub rows: Vec<AuditRow>,
    /// Where to go on, if there may be more. A page with few rows may have a `next`: it has looked at [`SCAN_MAX`] rows.
    pub next: Option<i64>,
}

impl AccessStore {
    /// Records something before it is done. [`AccessStore::settle`] takes the number of its row.
    pub async fn begin(&self, record: AuditRecord) -> Result<i64, Error> {
        self.database
            .write(|transaction| {
                Box::pin(async move {
                    let now_ms = transaction.now_ms().await?;
                    insert(transaction, now_ms, record).await
                })
            })
            .await
    }

    /// Says how something ended that was begun.
    pub async fn settle(&self, id: i64, outcome: Outcome, code: &str) -> Result<(), Error> {
        let values = [id.into(), outcome.as_str().into(), field(code).into()];
        self.database
            .write(move |transaction| Box::pin(async move { transaction.execute(SETTLE, &values).await }))
            .await
            .map(drop)
    }

    /// Records what has ended, [`STEP_MAX`] at most, together.
    pub async fn record(&self, records: Vec<AuditRecord>) -> Result<(), Error> {
        if records.len() > STEP_MAX {
            return Err(Error::invalid("records", format!("are more than {STEP_MAX}")));
        }
        self.database
            .write(|transaction| {
                Box::pin(async move {
                    let now_ms = transaction.now_ms().await?;
                    for record in records {
                        insert(transaction, now_ms, record).await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// A page of what was recorded, newest first.
    pub async fn page(&self, asked: AuditAsked) -> Result<AuditPage, Error> {
        if !(1..=PAGE_MAX).contains(&asked.limit) {
            return Err(Error::invalid("limit", format!("is not from 1 to {PAGE_MAX}")));
        }
        let range =
            [asked.after.unwrap_or(i64::MAX).into(), asked.newer.unwrap_or(-1).into(), SCAN_MAX.into()];
        let mut values = range.to_vec();
        values.extend([
            Value::from(asked.system.as_deref().map(field)),
            Value::from(asked.who.as_deref().map(field)),
            Value::from(asked.outcome.map(Outcome::as_str)),
            Value::from(asked.text.as_deref().map(pattern)),
            Value::from(asked.limit as i64),
        ]);
        self.database
            .read(move |transaction| {
                Box::pin(async move {
                    let rows = transaction.all(PAGE, &values).await?;
                    let rows = rows.iter().map(read).collect::<Result<Vec<_>, Error>>()?;
                    if rows.len() >= asked.limit {
                        let next = rows.last().map(|row| row.id);
                        return Ok(AuditPage { rows, next });
                    }
                    let scanned = transaction.first(SCANNED, &range).await?;
                    let (looked_at, oldest) = match scanned {
                        Some(row) => (row.get::<i64>(0)?, row.get::<Option<i64>>(1)?),
                        None => (0, None),
                    };
                    Ok(AuditPage { rows, next: oldest.filter(|_| looked_at >= SCAN_MAX) })
                })
            })
            .await
    }

    /// Deletes rows older than [`AUDIT_KEPT`], `limit` at most, and says how many.
    pub async fn prune(&self, limit: usize) -> Result<u64, Error> {
        self.prune_older_than(AUDIT_KEPT, limit).await
    }

    /// The same for rows older than `kept`.
    pub async fn prune_older_than(&self, kept: Duration, limit: usize) -> Result<u64, Error> {
        let kept_ms = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX);
        let limit = limit.min(STEP_MAX) as i64;
        self.database
            .write(move |transaction| {
                Box::pin(async move {
                    let oldest_ms = transaction.now_ms().await?.saturating_sub(kept_ms);
                    transaction.execute(PRUNE, &[oldest_ms.into(), limit.into()]).await
                })
            })
            .await
    }
}

async fn insert(transaction: &mut Transaction<'_>, now_ms: i64, record: AuditRecord) -> Result<i64, Error> {
    let values: [Value; 14] = [
        now_ms.into(),
        field(&record.node).into(),
        record.kind.into(),
        field(&record.name).into(),
        record.subject.as_deref().map(field).into(),
        field(&record.system).into(),
        field(&record.verb).into(),
        field(&record.thing).into(),
        field(&record.action).into(),
        record.address.as_deref().map(field).into(),
        record.origin.as_deref().map(field).into(),
        record.outcome.as_str().into(),
        field(&record.code).into(),
        i64::try_from(record.count).unwrap_or(i64::MAX).into(),
    ];
    transaction.value(INSERT, &values).await
}

fn read(row: &Row) -> Result<AuditRow, Error> {
    Ok(AuditRow {
        id: row.get(0)?,
        at_ms: row.get(1)?,
        node: row.get(2)?,
        kind: row.get(3)?,
        name: row.get(4)?,
        subject: row.get(5)?,
        system: row.get(6)?,
        verb: row.get(7)?,
        thing: row.get(8)?,
        action: row.get(9)?,
        address: row.get(10)?,
        origin: row.get(11)?,
        outcome: row.get(12)?,
        code: row.get(13)?,
        count: row.get(14)?,
    })
}

/// Text of strangers as a field: one line, bounded, and nothing in it that PostgreSQL would refuse.
fn field(text: &str) -> String {
    one_line(text, FIELD_MAX_CHARS)
}

/// A pattern that finds `text` as it is, anywhere.
fn pattern(text: &str) -> String {
    let mut pattern = String::from("%");
    for character in field(text).to_lowercase().chars() {
        if "!%_".contains(character) {
            pattern.push('!');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}
