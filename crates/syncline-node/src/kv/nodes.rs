//! `GET /api/nodes`: which nodes share this database, and how each is.
//!
//! Every node says once a minute that it is there, in a key that lives a little longer, and takes it back when it stops. So a node that
//! was killed or stands still is listed with the time since its last word, and leaves the list by itself. An idle database is written to
//! in the minute's moment that it is asked in anyway.
//!
//! While somebody asks for the list, the node that is asked calls the others (a notification of PostgreSQL, which changes nothing), and
//! each answers with its word. Who does not answer stands still; the rules are core's [`RollCall`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::State;
use serde::{Deserialize, Serialize};
use syncline_core::kv::{Key, LIST_MAX};
use syncline_core::roll_call::RollCall;
use syncline_store::kv::{Asked, Kv};
use syncline_store::{Error as StoreError, Store, Topic};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use crate::http::Error;
use crate::{Context, NodeId, clock};

/// Before a node's name.
pub(super) const PREFIX: &str = "node-presence:";

/// How long a node is listed after its last word.
const LISTED_FOR: Duration = Duration::from_secs(150);

/// How long a node rests after it has answered: what others ask meanwhile has one answer.
const ANSWER_EVERY: Duration = Duration::from_secs(1);

/// How often a node that hears nothing looks whether it does again. It asks nobody for that.
const HEARING_EVERY: Duration = Duration::from_secs(5);

/// How long the store may take for a call or an answer.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

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
    /// Whether it hears calls; nodes of before did not.
    #[serde(default)]
    hears: bool,
}

/// The word of this node.
#[derive(Clone)]
pub(super) struct Presence(Arc<Inner>);

struct Inner {
    kv: Arc<dyn Kv>,
    key: Option<Key>,
    name: String,
    started: Instant,
    store_ms: AtomicU64,
    hears: AtomicBool,
    calls: Mutex<RollCall>,
    looked: Notify,
}

impl Presence {
    pub(super) fn new(kv: Arc<dyn Kv>, node: &NodeId) -> Presence {
        let key = Key::new(format!("{PREFIX}{node}")).ok();
        let name = node.name().to_owned();
        Presence(Arc::new(Inner {
            kv,
            key,
            name,
            started: Instant::now(),
            store_ms: AtomicU64::default(),
            hears: AtomicBool::default(),
            calls: Mutex::default(),
            looked: Notify::new(),
        }))
    }

    /// Says that this node is there.
    pub(super) async fn say(&self) -> Result<(), StoreError> {
        let Inner { kv, key, name, started, store_ms, hears, .. } = &*self.0;
        let Some(key) = key else { return Ok(()) };
        let word = Word {
            name: name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: whole_ms(started.elapsed()),
            store_ms: store_ms.load(Ordering::Relaxed),
            hears: hears.load(Ordering::Relaxed),
        };
        let asked = Instant::now();
        let text = serde_json::to_string(&word).expect("numbers and text have a JSON");
        kv.put(key, &text, Some(LISTED_FOR)).await?;
        store_ms.store(whole_ms(asked.elapsed()), Ordering::Relaxed);
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
            store_ms: self.0.store_ms.load(Ordering::Relaxed),
            stands_still: false,
        }
    }

    /// Calls the others while somebody looks, until the node stops.
    pub(super) async fn keep_calling(&self, store: Store, stop: CancellationToken) {
        loop {
            let wait = self.calls().next(clock::now());
            let turn = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => self.0.looked.notified().await,
                }
            };
            if stop.run_until_cancelled(turn).await.is_none() {
                return;
            }
            if wait.is_some() && stop.run_until_cancelled(self.call(&store)).await.is_none() {
                return;
            }
        }
    }

    async fn call(&self, store: &Store) {
        let at = clock::now();
        match tokio::time::timeout(STORE_TIMEOUT, store.announce(Topic::Nodes)).await {
            Ok(Ok(())) => self.calls().called(at),
            // Nobody was called, so nobody is to blame.
            _ => tokio::time::sleep(ANSWER_EVERY).await,
        }
    }

    /// Answers the calls of others, until the node stops.
    pub(super) async fn keep_answering(&self, store: Store, stop: CancellationToken) {
        let mut news = store.news(Topic::Nodes);
        let answering = async {
            loop {
                news.heard(HEARING_EVERY).await;
                // Where nothing is heard the minute's word is all there is.
                let hears = news.is_listening();
                let heard_before = self.0.hears.swap(hears, Ordering::Relaxed);
                if hears || heard_before {
                    match tokio::time::timeout(STORE_TIMEOUT, self.say()).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => {
                            tracing::debug!(%error, "a call of another node could not be answered");
                        }
                        Err(_) => tracing::debug!("a call of another node could not be answered in time"),
                    }
                }
                tokio::time::sleep(ANSWER_EVERY).await;
            }
        };
        stop.run_until_cancelled(answering).await;
    }

    fn look(&self) {
        self.calls().look(clock::now());
        self.0.looked.notify_one();
    }

    fn calls(&self) -> MutexGuard<'_, RollCall> {
        self.0.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A node.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({ "node": "db-2", "version": "0.1.0", "self": false, "silentMs": 12_000, "uptimeMs": 86_400_000, "storeMs": 2, "standsStill": false }))]
pub(crate) struct NodeView {
    node: String,
    version: String,
    /// Whether it is the one that answers.
    #[serde(rename = "self")]
    this: bool,
    /// How long ago it last said that it is there. It does so once a minute, and when it is called.
    silent_ms: u64,
    /// How long it has been up.
    uptime_ms: u64,
    /// How long the store took to take its last word.
    store_ms: u64,
    /// Whether it stands still: it has not answered the last call, or has said nothing for 90 s. On PostgreSQL nodes are called every
    /// two seconds while somebody asks for this list, so the second answer knows.
    stands_still: bool,
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
    presence.look();
    let asked = Asked { prefix: PREFIX, after: None, limit: LIST_MAX, values: true };
    let page = context.count_store_errors(presence.0.kv.page(asked).await)?;
    let others = page.entries.into_iter().filter_map(|entry| {
        let node = entry.key.as_str().strip_prefix(PREFIX).filter(|node| *node != this)?.to_owned();
        let Word { name, version, uptime_ms, store_ms, hears } = serde_json::from_str(&entry.value).ok()?;
        let node = if name.is_empty() { node } else { name };
        let silent = LISTED_FOR.saturating_sub(entry.ttl_left.unwrap_or(LISTED_FOR));
        let silent_ms = whole_ms(silent);
        let uptime_ms = uptime_ms.saturating_add(silent_ms);
        let stands_still = presence.calls().stands_still(clock::now(), silent, hears);
        Some(NodeView { node, version, this: false, silent_ms, uptime_ms, store_ms, stands_still })
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
