//! How the outbox is, told to whoever listens. Nobody listening, nobody asks the store.

use std::time::Duration;

use syncline_store::outbox::{Settings, Stats};
use tokio_util::sync::CancellationToken;

use super::Entities;
use crate::events::Bus;

/// How often the outbox is counted while somebody listens. A worker is another process; it announces nothing here.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Tells of the outbox until `stop`.
pub(super) async fn publish(entities: Entities, events: Bus, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut told: Option<(Stats, Settings)> = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        if !events.has_listeners() {
            told = None;
            continue;
        }
        let outbox = entities.outbox();
        let read =
            async { Ok::<_, syncline_store::Error>((outbox.stats().await?, outbox.settings().await?)) };
        match read.await {
            Ok((stats, settings)) if told != Some((stats, settings)) => {
                events.publish_here("outbox", &super::http::OutboxView::of(&stats, &settings));
                told = Some((stats, settings));
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "the outbox could not be counted"),
        }
    }
}
