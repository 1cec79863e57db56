//! What an application's `sync_outbox` must have, and must not have, on either engine.

/// The columns of the contract.
pub(crate) const CONTRACT: [&str; 6] =
    ["id", "entity_type", "entity_id", "payload", "created_at", "processed_at"];

/// The columns that are added to it.
pub(crate) const OURS: [&str; 8] =
    ["attempts", "due_at", "behind", "claim", "leased_until", "claimed_by", "last_error", "dead_at"];

pub(crate) fn missing_column(name: &str) -> String {
    format!("it has no column {name}; the contract's columns are {}", CONTRACT.join(", "))
}

pub(crate) fn own_column(name: &str) -> String {
    format!(
        "it has a column {name} of its own, and serversync adds one of this name; rename the application's"
    )
}
