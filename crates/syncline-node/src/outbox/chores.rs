//! Small things that are done now and then: settings that changed, room on the disk, processed entries that are old.

use std::sync::Arc;
use std::time::Duration;

use syncline_store::outbox::{self, KEEP_PROCESSED};
use syncline_store::{minute_before, next_minute};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::reserve::Reserve;
use super::shared::{Live, Shared};
use crate::metrics::Registry;

/// How old settings may be while something is sent or switched off, and before anything is claimed.
pub(super) const SETTINGS_EVERY: Duration = Duration::from_secs(2);

/// How often the disk is looked at.
const DISK_EVERY: Duration = Duration::from_secs(10);

/// How often old entries are removed, how many at a time, and how long the application has the database to itself in between.
const CLEANUP_EVERY: Duration = Duration::from_secs(600);
const CLEANUP_STEP: usize = 500;
const CLEANUP_PAUSE: Duration = Duration::from_millis(100);

/// Does the chores until told to stop.
pub(super) async fn run(
    shared: Arc<Shared>,
    mut reserve: Option<Reserve>,
    registry: Registry,
    halt: CancellationToken,
) {
    let mut settings = tokio::time::interval(SETTINGS_EVERY);
    let mut disk = tokio::time::interval(DISK_EVERY);
    let mut cleanup = Instant::now();
    loop {
        tokio::select! {
            () = halt.cancelled() => return,
            _ = settings.tick() => {
                registry.tidy();
                // While there is nothing to send they do not matter, and the database is left alone.
                if !shared.is_idle() {
                    tune(&shared).await;
                }
            }
            _ = disk.tick() => check_disk(&shared, &mut reserve, false).await,
            () = shared.full.notified() => check_disk(&shared, &mut reserve, true).await,
            () = tokio::time::sleep_until(cleanup) => {
                halt.run_until_cancelled(clean(&shared)).await;
                cleanup = minute_before(Instant::now() + CLEANUP_EVERY);
            }
            () = next_minute() => tune(&shared).await,
        }
    }
}

/// Reads what can be changed while running, unless that was done a moment ago.
pub(super) async fn tune_if_old(shared: &Shared) {
    if shared.tuned_at.lock().await.is_none_or(|at| at.elapsed() >= SETTINGS_EVERY) {
        tune(shared).await;
    }
}

/// Reads what can be changed while running.
pub(super) async fn tune(shared: &Shared) {
    let mut tuned_at = shared.tuned_at.lock().await;
    let Ok(outbox::Settings { interval, batch_size, enabled, files_enabled, .. }) =
        shared.count_store_errors("settings", shared.outbox.settings()).await
    else {
        return;
    };
    *tuned_at = Some(Instant::now());
    let usual = shared.usual;
    let live = Live {
        poll_interval: interval.unwrap_or(usual.poll_interval),
        batch_size: batch_size.unwrap_or(usual.batch_size).clamp(1, outbox::ENTRIES_MAX),
        enabled: enabled.unwrap_or(usual.enabled),
        files_enabled: files_enabled.unwrap_or(usual.files_enabled),
    };
    let changed = shared.live.send_if_modified(|current| std::mem::replace(current, live) != live);
    if changed {
        let Live { poll_interval, batch_size, enabled, files_enabled } = live;
        let interval_sec = poll_interval.as_secs_f64();
        tracing::info!(interval_sec, batch_size, enabled, files_enabled, "settings changed");
    }
}

async fn check_disk(shared: &Shared, reserve: &mut Option<Reserve>, full: bool) {
    let Some(reserve) = reserve else { return };
    // Both take no longer than a look into a folder, but for the first reserve, which is made once.
    let looked = tokio::task::block_in_place(|| {
        if full {
            reserve.give_up()?;
        }
        reserve.look()
    });
    match looked {
        Ok(free_bytes) => shared.meters.disk_free.set(free_bytes as f64),
        // A folder that is not there is reported by the upload that needs it.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(%error, "the free space of the disk cannot be read"),
    }
}

/// Removes what was processed long ago, in small steps.
async fn clean(shared: &Shared) {
    let mut removed = 0;
    loop {
        let step = shared.outbox.cleanup(KEEP_PROCESSED, CLEANUP_STEP);
        match shared.count_store_errors("cleanup", step).await {
            Ok(0) | Err(_) => break,
            Ok(some) => removed += some,
        }
        tokio::time::sleep(CLEANUP_PAUSE).await;
    }
    if removed > 0 {
        tracing::info!(removed, "removed entries that were processed long ago");
    }
}
