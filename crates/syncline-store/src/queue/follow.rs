//! Following what other processes do to a queue.
//!
//! Where the database can notify, it does ([`QueueNotices`](super::table::QueueNotices)). Polling the headers of the queues that somebody watches is
//! the net below that, and the only way where it cannot. The task ends when nobody watches any more or the store is
//! closed, so it keeps nothing open that nobody wants.

use std::collections::HashMap;
use std::time::Duration;

use super::registry::QueueRegistry;
use super::table::Tables;
use crate::Error;

/// How often the headers are polled where nothing is notified.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often they are where the database notifies, in case a notification was lost.
const LOOK_EVERY_WHILE_LISTENING: Duration = Duration::from_secs(5);
/// How long after the listening connection was lost it is opened again.
const LISTEN_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Starts to follow what is watched, unless somebody does.
pub(crate) fn start(tables: &Tables, registry: &QueueRegistry) {
    if registry.begin_following() {
        let (tables, registry) = (tables.clone(), registry.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = look(&tables, &registry) => {}
                () = listen(&tables, &registry) => {}
            }
        });
    }
}

async fn look(tables: &Tables, registry: &QueueRegistry) {
    let mut known: HashMap<String, i64> = HashMap::new();
    while let Some(watched) = registry.watched_or_stop() {
        match tables.versions(watched).await {
            Ok(versions) => {
                for (queue, version) in versions {
                    // The first look counts as news: who watches may have missed what came before it.
                    if known.insert(queue.clone(), version) != Some(version) {
                        registry.changed(&queue);
                    }
                }
            }
            Err(Error::Closed { .. }) => return registry.stop_following(),
            Err(error) => {
                tracing::debug!(%error, "the versions of the watched queues could not be read; it is tried again");
            }
        }
        tokio::time::sleep(if registry.is_listening() { LOOK_EVERY_WHILE_LISTENING } else { LOOK_EVERY })
            .await;
    }
}

async fn listen(tables: &Tables, registry: &QueueRegistry) {
    loop {
        let Err(error) = tables.notices().listen(registry).await;
        registry.set_listening(false);
        tracing::debug!(%error, "the listening connection for queues failed; changes are polled until it is opened again");
        tokio::time::sleep(LISTEN_AGAIN_AFTER).await;
    }
}
