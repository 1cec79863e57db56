//! Rows of the inbox as values; what both engines read alike.

use syncline_core::outbox::{EntityType, Moment, SenderId};

use super::{Entity, LIST_MAX, Recording, TEXT_MAX_BYTES, TYPES_MAX};
use crate::Error;

/// id, payload, sender, changed and received in microseconds, place.
pub(crate) type EntityRow = (String, String, String, i64, i64, i64);

/// When the entity was changed, where that is not the moment that was expected.
pub(crate) fn other(seen: Option<(i64,)>, expected: Moment) -> Option<Moment> {
    seen.map(|(changed_us,)| Moment::from_us(changed_us)).filter(|changed_at| *changed_at != expected)
}

pub(crate) fn entity((id, payload, sender, changed_us, received_us, place): EntityRow) -> Entity {
    Entity {
        id,
        payload,
        changed_at: Moment::from_us(changed_us),
        sender: SenderId::new(sender).ok(),
        received_at: Moment::from_us(received_us),
        place,
    }
}

/// call, recording, bytes, digest, location, metadata, received in milliseconds.
pub(crate) type RecordingRow = (String, String, i64, String, String, String, i64);

pub(crate) fn recording(row: RecordingRow) -> Recording {
    let (call_log_id, recording_id, bytes, sha256, location, meta, received_ms) = row;
    Recording {
        call_log_id,
        recording_id,
        bytes: bytes.unsigned_abs(),
        sha256,
        location,
        meta,
        received_at: Moment::from_us(received_ms.saturating_mul(1_000)),
    }
}

pub(crate) fn check_recording(recording: &Recording) -> Result<(), Error> {
    let texts = [
        ("call_log_id", &recording.call_log_id),
        ("recording_id", &recording.recording_id),
        ("sha256", &recording.sha256),
        ("location", &recording.location),
        ("meta", &recording.meta),
    ];
    for (field, text) in texts {
        if text.len() > TEXT_MAX_BYTES || text.contains('\0') {
            return Err(Error::invalid(
                field,
                format!("must have {TEXT_MAX_BYTES} bytes at most and no zero"),
            ));
        }
    }
    Ok(())
}

pub(crate) fn check_types(types: &[EntityType]) -> Result<(), Error> {
    if types.len() > TYPES_MAX {
        let reason = format!("are {}; at most {TYPES_MAX} are allowed", types.len());
        return Err(Error::invalid("types", reason));
    }
    Ok(())
}

pub(crate) fn unknown_type(entity_type: &EntityType) -> Error {
    Error::invalid("entity type", format!("`{entity_type}` is not known here"))
}

pub(crate) fn check_list(limit: usize) -> Result<i64, Error> {
    if limit > LIST_MAX {
        return Err(Error::invalid("limit", format!("is {limit}; at most {LIST_MAX} are allowed")));
    }
    Ok(i64::try_from(limit).expect("LIST_MAX fits"))
}
