//! Keeps gauges and listeners up to date with one queue, whichever node changes it.
//!
//! A change is shown at once, further ones at most every [`SHOW_EVERY`]; while keys are left the rate and the time left
//! are shown again every second. An idle queue costs nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::handle::{QueueHandle, StatusView};

/// Least time between two looks.
const SHOW_EVERY: Duration = Duration::from_millis(250);

/// How often a queue with keys left is looked at though nothing changed.
const REFRESH_EVERY: Duration = Duration::from_secs(1);

/// How long to wait before asking a store again that did not answer.
const STORE_PAUSE: Duration = Duration::from_secs(5);

/// Publishes the queue's status until told to stop.
pub(super) async fn publish(handle: Arc<QueueHandle>, stop: CancellationToken) {
    let Ok(mut changes) = handle.store.changes(handle.name()) else {
        return tracing::error!(
            queue = handle.name(),
            "the changes of a queue cannot be followed; its status is not shown"
        );
    };
    let mut shown: Option<StatusView> = None;
    loop {
        changes.mark_unchanged();
        let (pause, busy) = match handle.view().await {
            Ok(view) => {
                let busy = view.counts.waiting + view.counts.running + view.counts.retrying > 0;
                if shown.as_ref() != Some(&view) {
                    handle.publish(&view);
                    shown = Some(view);
                }
                (SHOW_EVERY, busy)
            }
            Err(error) => {
                handle.meters.store_errors.increment(1);
                tracing::warn!(queue = handle.name(), %error, "the status of a queue could not be read; it is tried again");
                (STORE_PAUSE, true)
            }
        };
        let next = async {
            tokio::time::sleep(pause).await;
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    // The store is closed: nothing will change any more.
                    std::future::pending::<()>().await;
                },
                () = tokio::time::sleep(REFRESH_EVERY - SHOW_EVERY), if busy => {}
            }
        };
        if stop.run_until_cancelled(next).await.is_none() {
            return;
        }
    }
}
