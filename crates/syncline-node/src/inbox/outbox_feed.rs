//! How the outbox is, told to whoever listens. Nobody listening, nobody asks the store.

use std::time::Duration;

use syncline_store::outbox::Stats;
use tokio_util::sync::CancellationToken;

use super::Entities;
use crate::events::Bus;

/// How often the outbox is counted while somebody listens. A worker is another process; it announces nothing here.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Tells of the outbox until `stop`.
pub(super) async fn publish(entities: Entities, events: Bus, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut told: Option<Stats> = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        if !events.has_listeners() {
            told = None;
            continue;
        }
        match entities.outbox().stats().await {
            Ok(stats) if told != Some(stats) => {
                events.publish_here("outbox", &super::http::OutboxView::of(&stats));
                told = Some(stats);
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "the outbox could not be counted"),
        }
    }
}
