//! Rows of the outbox as values; what both engines read alike.

use std::time::Duration;

use syncline_core::outbox::Moment;

use super::{Detail, Entry, Receipt, Settings, State, Stats};
use crate::Error;

/// Entries that wait in vain are looked for this often.
pub(crate) const ORPHANS_EVERY: Duration = Duration::from_secs(10);
/// Rounds of one claim in which all it found had to wait for others.
pub(crate) const ROUNDS_MAX: usize = 8;

/// id, type, entity, payload, created in microseconds, attempts.
pub(crate) type EntryRow = (i64, String, String, String, i64, i64);

pub(crate) fn entry((id, entity_type, entity_id, payload, created_us, attempts): EntryRow) -> Entry {
    Entry {
        id,
        entity_type,
        entity_id,
        payload,
        created_at: Moment::from_us(created_us),
        attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
    }
}

/// The same, then the entry it has to wait for, and whether it still fits into the claim.
pub(crate) type LineRow = (i64, String, String, String, i64, i64, Option<i64>, bool);

/// What a claim found.
pub(crate) struct Found {
    /// Entries that are ours now.
    pub(crate) ours: Vec<Entry>,
    /// Those that have to wait, and what for.
    pub(crate) blocked: Vec<(i64, i64)>,
    /// Whether there is more in line for sure.
    pub(crate) more: bool,
}

pub(crate) fn sort_out(rows: Vec<LineRow>, limit: i64) -> Found {
    let mut more = rows.len() as i64 >= limit;
    let (mut ours, mut blocked) = (Vec::new(), Vec::new());
    for (id, entity_type, entity_id, payload, created_us, attempts, blocker, fits) in rows {
        match blocker {
            Some(blocker) => blocked.push((id, blocker)),
            None if fits => ours.push(entry((id, entity_type, entity_id, payload, created_us, attempts))),
            None => more = true,
        }
    }
    Found { ours, blocked, more }
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

/// id, type, entity, bytes, created in microseconds, attempts, milliseconds until due, behind, milliseconds of lease, who,
/// last error, processed in microseconds, dead in milliseconds.
pub(crate) type DetailRow = (
    i64,
    String,
    String,
    i64,
    i64,
    i64,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<String>,
    Option<String>,
    Option<i64>,
    Option<i64>,
);

pub(crate) fn detail(row: DetailRow) -> Detail {
    let (id, entity_type, entity_id, bytes, created_us, attempts, due_ms, behind, lease_ms, ..) = row;
    let (.., claimed_by, last_error, processed_us, dead_ms) = row;
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
        created_at: Moment::from_us(created_us),
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

/// entry, recording, address, bytes, digest.
pub(crate) type ReceiptRow = (i64, String, String, i64, String);

pub(crate) fn receipt((entry, recording_id, file_url, bytes, sha256): ReceiptRow) -> Receipt {
    Receipt { entry, recording_id, file_url, bytes: bytes.unsigned_abs(), sha256 }
}

/// The settings there are, as columns or as keys.
pub(crate) const SETTINGS: [&str; 4] =
    ["sync_interval_sec", "sync_batch_size", "sync_enabled", "sync_recordings_enabled"];

/// Settings from their texts, in the order of [`SETTINGS`]. What cannot be understood counts as not set.
pub(crate) fn settings(texts: [Option<String>; 4]) -> Settings {
    let [interval, batch_size, enabled, recordings_enabled] = texts.map(|text| {
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
        recordings_enabled: switch(recordings_enabled),
    }
}

/// Settings as texts, in the order of [`SETTINGS`].
pub(crate) fn settings_texts(settings: &Settings) -> [Option<String>; 4] {
    [
        settings.interval.map(|interval| interval.as_secs().max(1).to_string()),
        settings.batch_size.map(|size| size.to_string()),
        settings.enabled.map(|enabled| enabled.to_string()),
        settings.recordings_enabled.map(|enabled| enabled.to_string()),
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
        assert_eq!(
            (read.batch_size, read.enabled, read.recordings_enabled),
            (Some(250), Some(true), Some(false))
        );
        assert_eq!(some(["0", "-5", "maybe", ""]), Settings::default());
        assert_eq!(settings([None, None, None, None]), Settings::default());
        assert_eq!(settings(settings_texts(&read)), read);
    }
}
