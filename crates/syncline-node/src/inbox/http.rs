//! The routes of the outbox: changes in, entities out, and this node's own entries on their way elsewhere.

mod entities;
mod ingest;
mod outbox;

pub(crate) use outbox::OutboxView;

use syncline_core::outbox::PAYLOAD_MAX_BYTES;
use utoipa_axum::routes;

use crate::part::{Routes, Rules};

pub(super) fn routes() -> Routes {
    let limited = |bytes| Rules::new().body_max_bytes(bytes);
    Routes::new()
        .with_rules(limited(ingest::BODY_MAX_BYTES), routes!(ingest::sync))
        .with(routes!(entities::kinds))
        .with(routes!(entities::list))
        .with_rules(limited(PAYLOAD_MAX_BYTES), routes!(entities::read, entities::write))
        .with(routes!(outbox::status))
        .with(routes!(outbox::entries))
        .with(routes!(outbox::entry))
        .with(routes!(outbox::retry))
        .with(routes!(outbox::discard))
}
