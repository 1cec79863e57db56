//! `GET /api/nodes`: which nodes share this database, and how each is.
//!
//! Every node says once a minute that it is there, in a key that lives a little longer, and takes it back when it stops. So a node that
//! was killed or stands still is listed with the time since its last word, and leaves the list by itself. An idle database is written to
//! in the minute's moment that it is asked in anyway.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use serde::{Deserialize, Serialize};
use syncline_core::kv::{Key, LIST_MAX};
use syncline_store::Error as StoreError;
use syncline_store::kv::{Asked, Kv};
use utoipa::ToSchema;

use crate::http::Error;
use crate::{Context, NodeId, clock};

/// Before a node's name.
pub(super) const PREFIX: &str = "node-presence:";

/// How long a node is listed after its last word.
const LISTED_FOR: Duration = Duration::from_secs(150);

/// What a node says of itself.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Word {
    /// What people call it; nodes of before had no other name than their id.
    #[serde(default)]
    name: String,
    version: String,
    /// How long it had been up.
    uptime_ms: u64,
    /// How long the store took for its last word.
    store_ms: u64,
}

/// The word of this node.
#[derive(Clone)]
pub(super) struct Presence(Arc<Inner>);

struct Inner {
    kv: Arc<dyn Kv>,
    key: Option<Key>,
    name: String,
    started: Instant,
    store_ms: std::sync::atomic::AtomicU64,
}

impl Presence {
    pub(super) fn new(kv: Arc<dyn Kv>, node: &NodeId) -> Presence {
        let key = Key::new(format!("{PREFIX}{node}")).ok();
        let name = node.name().to_owned();
        Presence(Arc::new(Inner { kv, key, name, started: Instant::now(), store_ms: 0.into() }))
    }

    /// Says that this node is there.
    pub(super) async fn say(&self) -> Result<(), StoreError> {
        let Inner { kv, key, name, started, store_ms } = &*self.0;
        let Some(key) = key else { return Ok(()) };
        let word = Word {
            name: name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: whole_ms(started.elapsed()),
            store_ms: store_ms.load(std::sync::atomic::Ordering::Relaxed),
        };
        let asked = Instant::now();
        let text = serde_json::to_string(&word).expect("numbers and text have a JSON");
        kv.put(key, &text, Some(LISTED_FOR)).await?;
        store_ms.store(whole_ms(asked.elapsed()), std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    /// Takes it back: who stops on purpose is not missed.
    pub(super) async fn take_back(&self) {
        if let Some(key) = &self.0.key {
            // It expires by itself where that fails.
            drop(self.0.kv.delete(key).await);
        }
    }

    fn view(&self) -> NodeView {
        NodeView {
            node: self.0.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            this: true,
            silent_ms: 0,
            uptime_ms: whole_ms(self.0.started.elapsed()),
            store_ms: self.0.store_ms.load(std::sync::atomic::Ordering::Relaxed),
        }
    }
}

/// A node.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({ "node": "db-2", "version": "0.1.0", "self": false, "silentMs": 12_000, "uptimeMs": 86_400_000, "storeMs": 2 }))]
pub(crate) struct NodeView {
    node: String,
    version: String,
    /// Whether it is the one that answers.
    #[serde(rename = "self")]
    this: bool,
    /// How long ago it last said that it is there. It does so once a minute.
    silent_ms: u64,
    /// How long it has been up.
    uptime_ms: u64,
    /// How long the store took to take its last word.
    store_ms: u64,
}

/// Every node.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodeList {
    nodes: Vec<NodeView>,
    /// The time of day here, in milliseconds since 1970.
    now: u64,
}

/// Lists the nodes that share this database. One that was stopped is not in it; one that was killed is, for 150 s.
#[utoipa::path(get, path = "/api/nodes", tag = "health", responses((status = 200, body = NodeList)))]
pub(crate) async fn list(
    State(context): State<Arc<Context>>,
    crate::part::Service(presence): crate::part::Service<Presence>,
) -> Result<axum::Json<NodeList>, Error> {
    let this = context.node.as_str();
    let asked = Asked { prefix: PREFIX, after: None, limit: LIST_MAX, values: true };
    let page = context.count_store_errors(presence.0.kv.page(asked).await)?;
    let others = page.entries.into_iter().filter_map(|entry| {
        let node = entry.key.as_str().strip_prefix(PREFIX).filter(|node| *node != this)?.to_owned();
        let Word { name, version, uptime_ms, store_ms } = serde_json::from_str(&entry.value).ok()?;
        let node = if name.is_empty() { node } else { name };
        let silent = LISTED_FOR.saturating_sub(entry.ttl_left.unwrap_or(LISTED_FOR));
        let silent_ms = whole_ms(silent);
        let uptime_ms = uptime_ms.saturating_add(silent_ms);
        Some(NodeView { node, version, this: false, silent_ms, uptime_ms, store_ms })
    });
    let mut nodes = vec![presence.view()];
    for other in others {
        // A node that was killed and started again under its name is the one that spoke last.
        match nodes.iter_mut().find(|known| known.node == other.node) {
            Some(known) if known.silent_ms > other.silent_ms => *known = other,
            Some(_) => {}
            None => nodes.push(other),
        }
    }
    Ok(axum::Json(NodeList { nodes, now: clock::wall().as_ms() }))
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
