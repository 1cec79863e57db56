//! Hearing of what other processes do to a queue.
//!
//! Where the database can call, it does ([`Tables::hear`]); a look at the headers of the queues that somebody watches is
//! the net below that, and the only way where it cannot. The task ends when nobody watches any more or the store is
//! closed, so it keeps nothing open that nobody wants.

use std::collections::HashMap;
use std::time::Duration;

use super::registry::QueueRegistry;
use super::table::Tables;
use crate::Error;

/// How often the headers are looked at where nobody calls.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often they are where the database calls, in case a call was lost.
const LOOK_EVERY_WHILE_HEARING: Duration = Duration::from_secs(5);
/// How long after it was lost the way to be called is tried again.
const HEAR_AGAIN: Duration = Duration::from_secs(5);

/// Starts to follow what is watched, unless somebody does.
pub(crate) fn start<D: Tables>(tables: &D, registry: &QueueRegistry) {
    if registry.begin_following() {
        let (tables, registry) = (tables.clone(), registry.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = look(&tables, &registry) => {}
                () = hear(&tables, &registry) => {}
            }
        });
    }
}

async fn look<D: Tables>(tables: &D, registry: &QueueRegistry) {
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
            Err(error) => tracing::debug!(%error, "the versions of the queues could not be read"),
        }
        tokio::time::sleep(if registry.hears() { LOOK_EVERY_WHILE_HEARING } else { LOOK_EVERY }).await;
    }
}

async fn hear<D: Tables>(tables: &D, registry: &QueueRegistry) {
    loop {
        let Err(error) = tables.hear(registry).await;
        registry.set_hears(false);
        tracing::debug!(%error, "the database does not call; looking instead");
        tokio::time::sleep(HEAR_AGAIN).await;
    }
}
