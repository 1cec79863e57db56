//! The routes of the outbox: changes in, entities out, and this node's own entries on their way elsewhere.

mod entities;
mod ingest;
mod outbox;

pub(crate) use outbox::OutboxView;

use syncline_core::outbox::PAYLOAD_MAX_BYTES;
use utoipa_axum::routes;

use crate::part::{Name, Routes, Rules};

pub(super) fn routes() -> Routes {
    let entity = |verb| Rules::new().needs("entity", verb, Name::Path("type"));
    let outbox = |verb| Rules::new().needs("outbox", verb, Name::All);
    let sending = Rules::new().needs("ingest", "send", Name::Caller);
    Routes::new()
        .with_rules(sending.body_max_bytes(ingest::BODY_MAX_BYTES), routes!(ingest::sync))
        .with_rules(Rules::new().needs("entity", "read", Name::Any), routes!(entities::kinds))
        .with_rules(entity("read"), routes!(entities::list))
        .with_rules(entity("read"), routes!(entities::read))
        .with_rules(entity("write").body_max_bytes(PAYLOAD_MAX_BYTES), routes!(entities::write))
        .with_rules(outbox("read"), routes!(outbox::status))
        .with_rules(outbox("read"), routes!(outbox::entries))
        .with_rules(outbox("read"), routes!(outbox::entry))
        .with_rules(outbox("manage"), routes!(outbox::retry))
        .with_rules(outbox("manage"), routes!(outbox::discard))
        .with_rules(outbox("manage"), routes!(outbox::pause))
        .with_rules(outbox("manage"), routes!(outbox::resume))
}
