//! A batch as it is posted to `/api/ingest/sync`: the plain contract, and beside it what makes a repeat recognisable.
//!
//! The contract is `{ "entries": [ { "entityType", "entityId", "payload", "createdAt" } ] }`. A sender of ours adds `sender` and
//! to each entry its `id`; whoever does not know them passes them over. How a payload is read is left to whoever reads
//! JSON, and so is checking what came in: these are shapes, not promises.

use serde::{Deserialize, Serialize};

use super::SenderId;

/// The body of a request with entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posted<P> {
    /// Who sends them; `None` where the sender knows only the plain contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<SenderId>,
    /// In the order in which they were written.
    pub entries: Vec<PostedEntry<P>>,
}

/// One entry in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PostedEntry<P> {
    /// The sender's number of it; `None` where the sender knows only the plain contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
    /// What kind of entity was changed.
    pub entity_type: String,
    /// Which one.
    pub entity_id: String,
    /// What it is now.
    pub payload: P,
    /// When it was changed, as ISO 8601.
    pub created_at: String,
}
