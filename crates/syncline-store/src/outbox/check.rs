//! Bounds of what is asked of an outbox, and verdicts as rows.

use std::time::Duration;

use serde::de::IgnoredAny;
use syncline_core::outbox::{EntityType, Verdict, check_entity_id, check_payload_size};

use super::{ENTRIES_MAX, ERROR_MAX_BYTES, LEASE_MAX, NewEntry, Receipt, Which};
use crate::Error;

/// Longest name of a worker.
const WORKER_MAX_BYTES: usize = 128;
/// Longest text of a receipt.
const TEXT_MAX_BYTES: usize = 4 * 1_024;

pub(crate) fn new_entries(entries: &[NewEntry]) -> Result<(), Error> {
    count("entries", entries.len())?;
    entries.iter().try_for_each(|entry| {
        let refused = |error| Error::Invalid { field: "entry", reason: format!("is refused: {error}") };
        EntityType::new(entry.entity_type.as_str()).map_err(refused)?;
        check_entity_id(&entry.entity_id).map_err(refused)?;
        payload(&entry.payload)
    })
}

pub(crate) fn payload(payload: &str) -> Result<(), Error> {
    check_payload_size(payload.len()).map_err(|error| Error::invalid("payload", error.to_string()))?;
    match serde_json::from_str::<IgnoredAny>(payload) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::invalid("payload", format!("is no JSON: {error}"))),
    }
}

pub(crate) fn count(field: &'static str, count: usize) -> Result<i64, Error> {
    if count > ENTRIES_MAX {
        return Err(Error::invalid(field, format!("are {count}; at most {ENTRIES_MAX} are allowed")));
    }
    Ok(i64::try_from(count).expect("ENTRIES_MAX fits"))
}

pub(crate) fn claim(worker: &str, limit: usize, lease: Duration) -> Result<(i64, i64), Error> {
    if worker.is_empty() || worker.len() > WORKER_MAX_BYTES || worker.chars().any(char::is_control) {
        let reason = format!("must have 1 to {WORKER_MAX_BYTES} bytes and no control characters");
        return Err(Error::invalid("worker", reason));
    }
    if limit == 0 {
        return Err(Error::invalid("limit", "is 0; claim one entry at least"));
    }
    Ok((count("entries", limit)?, lease_ms(lease)?))
}

pub(crate) fn lease_ms(lease: Duration) -> Result<i64, Error> {
    if lease.is_zero() || lease > LEASE_MAX {
        return Err(Error::invalid(
            "lease",
            format!("must be more than 0 and at most {} s", LEASE_MAX.as_secs()),
        ));
    }
    Ok(i64::try_from(lease.as_millis()).expect("LEASE_MAX fits").max(1))
}

/// The ids, or `None` for all dead ones.
pub(crate) fn which(which: &Which) -> Result<Option<Vec<i64>>, Error> {
    match which {
        Which::Ids(ids) => count("ids", ids.len()).map(|_| Some(ids.clone())),
        Which::AllDead => Ok(None),
    }
}

pub(crate) fn receipt(receipt: &Receipt) -> Result<(), Error> {
    for (field, text) in
        [("file_id", &receipt.file_id), ("file_url", &receipt.file_url), ("sha256", &receipt.sha256)]
    {
        if text.len() > TEXT_MAX_BYTES || text.contains('\0') {
            return Err(Error::invalid(
                field,
                format!("must have {TEXT_MAX_BYTES} bytes at most and no zero"),
            ));
        }
    }
    Ok(())
}

/// A verdict as a row: what it is, after how many milliseconds, and why.
pub(crate) struct SettleRow {
    pub(crate) id: i64,
    pub(crate) verdict: i16,
    pub(crate) after_ms: Option<i64>,
    pub(crate) reason: Option<String>,
}

/// What becomes of an entry, roughly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    Failed,
    GivenBack,
}

impl SettleRow {
    /// How many attempts it is to be charged with.
    pub(crate) fn counted(&self) -> i64 {
        i64::from(matches!(self.verdict, RETRY | DEAD))
    }

    pub(crate) fn fate(&self) -> Fate {
        match self.verdict {
            DONE => Fate::Done,
            GIVE_BACK => Fate::GivenBack,
            _ => Fate::Failed,
        }
    }
}

/// The numbers of [`SettleRow::verdict`], as the statements know them.
const DONE: i16 = 0;
const RETRY: i16 = 1;
const DEAD: i16 = 2;
const GIVE_BACK: i16 = 3;
const POSTPONE: i16 = 4;

pub(crate) fn settle_rows(verdicts: &[(i64, Verdict)]) -> Result<Vec<SettleRow>, Error> {
    count("verdicts", verdicts.len())?;
    let ms = |after: &Duration| Some(i64::try_from(after.as_millis()).unwrap_or(i64::MAX / 2));
    let row = |(id, verdict): &(i64, Verdict)| {
        let (verdict, after_ms, reason) = match verdict {
            Verdict::Done => (DONE, None, None),
            Verdict::Retry { after, reason } => (RETRY, ms(after), Some(bounded(reason))),
            Verdict::Postpone { after, reason } => (POSTPONE, ms(after), Some(bounded(reason))),
            Verdict::Dead { reason } => (DEAD, None, Some(bounded(reason))),
            Verdict::GiveBack => (GIVE_BACK, None, None),
        };
        SettleRow { id: *id, verdict, after_ms, reason }
    };
    Ok(verdicts.iter().map(row).collect())
}

/// Those after which later entries of the same entity need not wait any more.
pub(crate) fn ended(settle_rows: &[SettleRow], settled: &[i64]) -> Vec<i64> {
    let ended = settle_rows.iter().filter(|row| matches!(row.verdict, DONE | DEAD));
    let settled: std::collections::HashSet<i64> = settled.iter().copied().collect();
    ended.map(|row| row.id).filter(|id| settled.contains(id)).collect()
}

/// A reason as it is kept: not too long, and without what PostgreSQL cannot hold.
fn bounded(reason: &str) -> String {
    reason[..reason.floor_char_boundary(ERROR_MAX_BYTES)].replace('\0', "\u{fffd}")
}
