//! Rows of the inbox as values; what both engines read alike.

use syncline_core::outbox::{EntityType, Moment, SenderId};

use super::{Entity, LIST_MAX, TYPES_MAX};
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
