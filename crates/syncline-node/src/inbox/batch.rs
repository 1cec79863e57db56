//! What was posted, checked before the store sees any of it.
//!
//! A sender that gives its name and its entries' numbers is told of each entry what became of it, so the store may refuse
//! some and take the others. One that knows the plain contract alone hears `ok` or an error for all of them; for it a batch
//! with one bad entry is refused whole, and nothing of it is stored.

use serde_json::value::RawValue;
use syncline_core::outbox::{
    Invalid, InvalidMoment, Moment, Posted, PostedEntry, check_entity_id, check_payload_size,
};
use syncline_core::text::excerpt;
use syncline_store::inbox::{Arrival, BATCH_MAX, unknown_type};

use super::{Entities, FileType, Sender};

/// Deepest payload. What is nested deeper, many readers of JSON refuse, and nobody could read it back.
pub const DEPTH_MAX: usize = 100;

/// A batch as the store takes it.
pub(crate) struct Batch {
    pub(crate) sender: Sender,
    pub(crate) arrivals: Vec<Arrival>,
}

/// Why a batch is refused whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("{entries} entries are more than the {BATCH_MAX} that one request may have")]
    TooMany { entries: usize },
    #[error("entry {place}: {cause}")]
    Moment { place: usize, cause: InvalidMoment },
    #[error("entry {place} has no id, which all entries of a sender that gives its name must have")]
    Numberless { place: usize },
    #[error("entry {place}: {cause}")]
    Name { place: usize, cause: Invalid },
    #[error("entry {place}: the payload is larger than entities may be")]
    Payload { place: usize },
    #[error("entry {place}: the payload is nested more than {DEPTH_MAX} deep")]
    Deep { place: usize },
    #[error("entry {place}: {} stands for a file, which is posted to {}", file.name, file.path)]
    File { place: usize, file: FileType },
    #[error("entry {place}: {}", unknown_type(name))]
    Unknown { place: usize, name: String },
}

impl Batch {
    /// Checks what was posted.
    pub(crate) fn check(posted: Posted<Box<RawValue>>, entities: &Entities) -> Result<Batch, Refused> {
        let Posted { sender, entries } = posted;
        if entries.len() > BATCH_MAX {
            return Err(Refused::TooMany { entries: entries.len() });
        }
        let mut arrivals = Vec::with_capacity(entries.len());
        for (place, entry) in entries.into_iter().enumerate() {
            let PostedEntry { id, entity_type, entity_id, payload, created_at } = entry;
            let created_at: Moment = created_at.parse().map_err(|cause| Refused::Moment { place, cause })?;
            let payload = String::from(Box::<str>::from(payload));
            if is_deep(&payload) {
                return Err(Refused::Deep { place });
            }
            let arrival = Arrival { entry: id, entity_type, entity_id, payload, created_at };
            match &sender {
                Some(_) if id.is_none() => return Err(Refused::Numberless { place }),
                Some(_) => {}
                None => check(place, &arrival, entities)?,
            }
            arrivals.push(arrival);
        }
        Ok(Batch { sender, arrivals })
    }
}

/// Whether a payload, which is JSON, is nested too deeply. Its reader passes over what is inside without counting.
pub fn is_deep(json: &str) -> bool {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => depth += 1,
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest > DEPTH_MAX
}

/// All that the store would refuse an entry for.
fn check(place: usize, arrival: &Arrival, entities: &Entities) -> Result<(), Refused> {
    let name = &arrival.entity_type;
    if let Some(file) = entities.file(name) {
        return Err(Refused::File { place, file });
    }
    if entities.kind(name).is_err() {
        return Err(Refused::Unknown { place, name: excerpt(name) });
    }
    check_entity_id(&arrival.entity_id).map_err(|cause| Refused::Name { place, cause })?;
    check_payload_size(arrival.payload.len()).map_err(|_| Refused::Payload { place })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ss_27_depth_is_counted_outside_of_texts() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!is_deep(&nested(DEPTH_MAX)));
        assert!(is_deep(&nested(DEPTH_MAX + 1)));
        assert!(is_deep(&format!("{{\"a\":{}}}", nested(DEPTH_MAX))));
        assert!(!is_deep(&format!("[\"\\\"{}\"]", "[".repeat(1_000))));
        assert!(!is_deep(&"[[],{}],".repeat(1_000)));
    }
}
