//! Rows of the outbox as values; what both engines read alike.

use std::time::Duration;

use syncline_core::outbox::Moment;

use super::{Detail, Entry, Receipt, Settings, State, Stats};
use crate::database::{FromRow, Row};
use crate::{Error, names};

/// Entries that wait in vain are looked for this often.
pub(crate) const ORPHANS_EVERY: Duration = Duration::from_secs(10);
/// Rounds of one claim in which all it found had to wait for others.
pub(crate) const ROUNDS_MAX: usize = 8;

/// A column as it was found: a value, NULL, or something else than its type promises. An application writes what it likes, so
/// each column of each row is read by itself, and one that cannot be read harms its own row alone.
type Read<T> = Result<Option<T>, ()>;

/// A row of the outbox as it was found.
pub(crate) struct EntryRow {
    id: Read<i64>,
    entity_type: Read<String>,
    entity_id: Read<String>,
    payload: Read<String>,
    /// In microseconds; NULL where it is no time.
    created_us: Read<i64>,
    attempts: Read<i64>,
    failed_before: bool,
}

/// The same, then the entry it has to wait for, and whether it still fits into the claim.
pub(crate) struct LineRow {
    row: EntryRow,
    blocker: Option<i64>,
    fits: bool,
}

// None of these fails as a whole.
impl FromRow for EntryRow {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            id: row.take(0).map_err(drop),
            entity_type: row.take(1).map_err(drop),
            entity_id: row.take(2).map_err(drop),
            payload: row.take(3).map_err(drop),
            created_us: row.take(4).map_err(drop),
            attempts: row.take(5).map_err(drop),
            failed_before: row.take(6)?,
        })
    }
}

impl FromRow for LineRow {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let (blocker, fits) = (row.take(7)?, row.take(8)?);
        Ok(Self { row: EntryRow::from_row(row)?, blocker, fits })
    }
}

impl FromRow for DetailRow {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let mut text = |place: usize| match row.take::<Option<String>>(place) {
            Ok(text) => text.unwrap_or_default(),
            Err(_) => UNREADABLE.to_owned(),
        };
        let (entity_type, entity_id) = (text(1), text(2));
        Ok(Self {
            id: row.take(0)?,
            entity_type,
            entity_id,
            bytes: row.take(3)?,
            created_us: row.take(4).unwrap_or(None),
            attempts: row.take(5).unwrap_or(0),
            due_ms: row.take(6)?,
            behind: row.take(7)?,
            lease_ms: row.take(8)?,
            claimed_by: row.take(9)?,
            last_error: row.take(10)?,
            processed_us: row.take(11)?,
            dead_ms: row.take(12)?,
        })
    }
}

/// What is shown of a text that is none.
pub(crate) const UNREADABLE: &str = "(not readable as text)";

/// The entry that a row is; if it is none, its number, where it has one, and what is wrong.
pub(crate) fn entry(row: EntryRow) -> Result<Entry, (Option<i64>, String)> {
    let Ok(Some(id)) = row.id else { return Err((None, "id is no whole number".to_owned())) };
    let text = |column: &str, read: Read<String>| match read {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err((Some(id), format!("{column} is NULL"))),
        Err(()) => Err((Some(id), format!("{column} is no text in UTF-8"))),
    };
    let Ok(Some(created_us)) = row.created_us else {
        let reason = "created_at is no time: NULL, infinite, out of range, or not as in 2026-02-07T10:20:30Z";
        return Err((Some(id), reason.to_owned()));
    };
    Ok(Entry {
        id,
        entity_type: text("entity_type", row.entity_type)?,
        entity_id: text("entity_id", row.entity_id)?,
        payload: text("payload", row.payload)?,
        created_at: Moment::from_us(created_us),
        attempts: row
            .attempts
            .ok()
            .flatten()
            .map_or(0, |attempts| u32::try_from(attempts).unwrap_or(u32::MAX)),
        failed_before: row.failed_before,
    })
}

/// What a claim found.
#[derive(Default)]
pub(crate) struct Found {
    /// Entries that are ours now.
    pub(crate) ours: Vec<Entry>,
    /// Those that have to wait, and what for.
    pub(crate) blocked: Vec<(i64, i64)>,
    /// Those that can never be sent, and why.
    pub(crate) unreadable: Vec<(i64, String)>,
    /// Whether there is more in line for sure.
    pub(crate) more: bool,
}

pub(crate) fn sort_out(rows: Vec<LineRow>, limit: i64) -> Found {
    let mut more = rows.len() as i64 >= limit;
    let (mut ours, mut blocked, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
    for LineRow { row, blocker, fits } in rows {
        let id = row.id;
        match (entry(row), blocker) {
            // Rows without a number are in no line.
            (Err((None, _)), _) => {}
            (_, Some(blocker)) => blocked.extend(id.ok().flatten().map(|id| (id, blocker))),
            (Err((Some(id), reason)), None) => unreadable.push((id, reason)),
            (Ok(entry), None) if fits => ours.push(entry),
            (Ok(_), None) => more = true,
        }
    }
    more |= !unreadable.is_empty();
    Found { ours, blocked, unreadable, more }
}

/// The statement that takes the newest entries of the line, where this one takes the oldest. What it gives is in the same order.
pub(crate) fn from_the_newest(claim: &'static str) -> &'static str {
    names::kept(claim.replacen("/* or DESC */", "DESC", 1))
}

/// pending, in flight, retrying, behind, dead, age in milliseconds, delivered, in the last minute.
pub(crate) type StatsRow = (i64, i64, i64, i64, i64, Option<i64>, i64, i64);

pub(crate) fn stats(row: StatsRow) -> Stats {
    let (pending, in_flight, retrying, behind, dead, oldest_ms, delivered, last_minute) = row;
    Stats {
        pending: pending.unsigned_abs(),
        in_flight: in_flight.unsigned_abs(),
        retrying: retrying.unsigned_abs(),
        behind: behind.unsigned_abs(),
        dead: dead.unsigned_abs(),
        oldest: oldest_ms.map(duration),
        delivered: delivered.unsigned_abs(),
        delivered_last_minute: last_minute.unsigned_abs(),
    }
}

/// A row as operators see it, in the order of the statement's columns.
pub(crate) struct DetailRow {
    id: i64,
    entity_type: String,
    entity_id: String,
    bytes: i64,
    created_us: Option<i64>,
    attempts: i64,
    /// Until it is due.
    due_ms: Option<i64>,
    behind: Option<i64>,
    /// Until the lease ends.
    lease_ms: Option<i64>,
    claimed_by: Option<String>,
    last_error: Option<String>,
    processed_us: Option<i64>,
    dead_ms: Option<i64>,
}

pub(crate) fn detail(row: DetailRow) -> Detail {
    let DetailRow {
        id, entity_type, entity_id, bytes, created_us, attempts, due_ms, behind, lease_ms, ..
    } = row;
    let DetailRow { claimed_by, last_error, processed_us, dead_ms, .. } = row;
    let lease_ms = lease_ms.filter(|left| *left > 0);
    let state = match (processed_us, dead_ms, lease_ms, behind, due_ms) {
        (Some(_), ..) => State::Processed,
        (_, Some(_), ..) => State::Dead,
        (_, _, Some(_), ..) => State::InFlight,
        (_, _, _, Some(_), _) => State::Behind,
        (.., Some(_)) => State::Retrying,
        _ => State::Waiting,
    };
    let due_in = match state {
        State::InFlight => lease_ms,
        State::Retrying => due_ms,
        _ => None,
    };
    Detail {
        id,
        entity_type,
        entity_id,
        bytes: bytes.unsigned_abs(),
        created_at: created_us.map(Moment::from_us),
        state,
        attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
        due_in: due_in.map(duration),
        behind: behind.filter(|_| state == State::Behind),
        claimed_by,
        last_error,
        ended_at: processed_us.or(dead_ms.map(|ms| ms.saturating_mul(1_000))).map(Moment::from_us),
    }
}

pub(crate) fn duration(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// entry, file, address, bytes, digest.
pub(crate) type ReceiptRow = (i64, String, String, i64, String);

pub(crate) fn receipt((entry, file_id, file_url, bytes, sha256): ReceiptRow) -> Receipt {
    Receipt { entry, file_id, file_url, bytes: bytes.unsigned_abs(), sha256 }
}

/// The settings there are, as columns or as keys.
pub(crate) const SETTINGS: [&str; 4] =
    ["sync_interval_sec", "sync_batch_size", "sync_enabled", "sync_files_enabled"];

/// Settings from their texts, in the order of [`SETTINGS`]. What cannot be understood counts as not set.
pub(crate) fn settings(texts: [Option<String>; 4]) -> Settings {
    let [interval, batch_size, enabled, files_enabled] = texts.map(|text| {
        let text = text.unwrap_or_default();
        text.trim().trim_matches('"').to_ascii_lowercase()
    });
    let positive = |text: String| text.parse::<u64>().ok().filter(|number| *number > 0);
    let switch = |text: String| match text.as_str() {
        "true" | "t" | "1" | "on" | "yes" => Some(true),
        "false" | "f" | "0" | "off" | "no" => Some(false),
        _ => None,
    };
    Settings {
        interval: positive(interval).map(Duration::from_secs),
        batch_size: positive(batch_size).and_then(|size| usize::try_from(size).ok()),
        enabled: switch(enabled),
        files_enabled: switch(files_enabled),
    }
}

/// Settings as texts, in the order of [`SETTINGS`].
pub(crate) fn settings_texts(settings: &Settings) -> [Option<String>; 4] {
    [
        settings.interval.map(|interval| interval.as_secs().max(1).to_string()),
        settings.batch_size.map(|size| size.to_string()),
        settings.enabled.map(|enabled| enabled.to_string()),
        settings.files_enabled.map(|enabled| enabled.to_string()),
    ]
}

pub(crate) fn no_such_setting(name: &str) -> Error {
    Error::invalid(
        "system_settings",
        format!("has no column {name}; set it where the application keeps its settings"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ss_25_settings_are_read_as_people_write_them_and_nonsense_is_none() {
        let some = |texts: [&str; 4]| settings(texts.map(|text| Some(text.to_owned())));
        let read = some(["60", "\"250\"", "true", "OFF"]);
        assert_eq!(read.interval, Some(Duration::from_secs(60)));
        assert_eq!((read.batch_size, read.enabled, read.files_enabled), (Some(250), Some(true), Some(false)));
        assert_eq!(some(["0", "-5", "maybe", ""]), Settings::default());
        assert_eq!(settings([None, None, None, None]), Settings::default());
        assert_eq!(settings(settings_texts(&read)), read);
    }
}
