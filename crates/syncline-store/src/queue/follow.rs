//! Following what other processes do to a queue.
//!
//! Where the database can notify, it does ([`QueueNotices`](super::table::QueueNotices)). Polling the headers of the queues that somebody watches is
//! the net below that, and the only way where it cannot. Queues in which nothing happens are polled once a minute while
//! announcements are heard, and where another process would have to write to a file for something to happen. The task ends when
//! nobody watches any more or the store is closed, so it keeps nothing open that nobody wants.

use std::collections::HashMap;
use std::time::Duration;

use super::registry::QueueRegistry;
use super::table::Tables;
use crate::Error;
use crate::minute::next_minute;

/// How often the headers are polled where nothing is notified.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often they are where the database notifies and something happens, in case a notification was lost.
const LOOK_EVERY_WHILE_LISTENING: Duration = Duration::from_secs(5);

/// Starts to follow what is watched, unless somebody does.
pub(crate) fn start(tables: &Tables, registry: &QueueRegistry) {
    if registry.begin_following() {
        let (tables, registry) = (tables.clone(), registry.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = look(&tables, &registry) => {}
                () = tables.notices().listen(&registry) => {}
            }
        });
    }
}

async fn look(tables: &Tables, registry: &QueueRegistry) {
    let mut known: HashMap<String, i64> = HashMap::new();
    while let Some(watched) = registry.watched_or_stop() {
        let mut news = false;
        match tables.versions(watched).await {
            Ok(versions) => {
                for (queue, version) in versions {
                    // The first look counts as news: who watches may have missed what came before it.
                    if known.insert(queue.clone(), version) != Some(version) {
                        registry.changed(&queue);
                        news = true;
                    }
                }
            }
            Err(Error::Closed { .. }) => return registry.stop_following(),
            Err(error) => {
                tracing::debug!(%error, "the versions of the watched queues could not be read; it is tried again");
                news = true;
            }
        }
        tokio::select! {
            () = next_minute() => {}
            () = until_due(tables, registry, news) => {}
        }
    }
}

/// Ends when it is time to look again before the minute is over.
async fn until_due(tables: &Tables, registry: &QueueRegistry, news: bool) {
    let mut waited = Duration::ZERO;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        waited += LOOK_EVERY;
        let due = match registry.is_listening() {
            // What is announced reaches the watchers by itself.
            true => news && waited >= LOOK_EVERY_WHILE_LISTENING,
            false => tables.notices().may_have_changed(),
        };
        if due || !registry.is_watched() {
            return;
        }
    }
}
