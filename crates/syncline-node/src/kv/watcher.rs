//! Tells listeners of `/api/events` which keys have changed, on whatever node: `kv.put`, `kv.deleted`, and `kv.missed` where changes
//! may not have been heard. Values are not in the events; whoever may read a key reads it.

use std::sync::Arc;

use serde::Serialize;
use syncline_core::kv::Version;
use syncline_store::kv::{KeyNews, Kv};
use tokio_util::sync::CancellationToken;

use super::ReservedKeys;
use crate::events::Bus;

/// The topic, and what its events begin with.
pub(super) const TOPIC: &str = "kv";
/// By which listeners ask for the keys of some prefixes alone.
pub(super) const PREFIX_PARAMETER: &str = "prefix";

/// A key that has changed.
#[derive(Serialize)]
struct Changed<'a> {
    key: &'a str,
    /// What it was written as.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<Version>,
}

/// Keys may have changed.
#[derive(Serialize)]
struct Missed {}

/// Publishes what the store tells of, until halted.
pub(super) async fn run(kv: Arc<dyn Kv>, reserved: ReservedKeys, events: Bus, halt: CancellationToken) {
    let Some(mut watch) = kv.watch() else { return };
    while let Some(Some(news)) = halt.run_until_cancelled(watch.next()).await {
        match &news {
            KeyNews::Put { key, .. } | KeyNews::Deleted { key } if reserved.is_hidden(key) => {}
            KeyNews::Put { key, version } => {
                events.publish_here_in("kv.put", key, &Changed { key, version: Some(*version) });
            }
            KeyNews::Deleted { key } => {
                events.publish_here_in("kv.deleted", key, &Changed { key, version: None });
            }
            KeyNews::Missed => events.publish_here("kv.missed", &Missed {}),
        }
    }
}
