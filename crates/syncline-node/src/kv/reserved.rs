//! Prefixes of keys that parts keep for themselves.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use syncline_store::Error;
use utoipa::ToSchema;

/// A key with its value, as it is answered.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({ "key": "greeting", "value": "hello", "version": 41, "ttlMs": 60_000, "ttl_ms": 60_000 }))]
pub struct Stored {
    pub(super) key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<String>,
    /// Which write it was: the `ETag` without its quotes. Absent for keys that are not in the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<u64>,
    /// How much longer it lives; `null` for ever.
    pub(super) ttl_ms: Option<u64>,
    /// The same, by its former name.
    #[serde(rename = "ttl_ms")]
    #[schema(deprecated)]
    pub(super) former_ttl_ms: Option<u64>,
}

impl Stored {
    /// A key that lives for `ttl_left`, or for ever.
    pub fn new(key: String, value: String, ttl_left: Option<Duration>) -> Stored {
        let whole_ms = |ttl: Duration| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let ttl_ms = ttl_left.map(whole_ms);
        Stored { key, value: Some(value), version: None, ttl_ms, former_ttl_ms: ttl_ms }
    }
}

/// What is shown under a prefix instead of keys of the store.
#[async_trait]
pub trait Keys: Send + Sync {
    /// Up to `limit` of those that begin with `prefix`, behind `after`, and whether there are more.
    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Stored>, bool), Error>;

    /// One of them.
    async fn get(&self, key: &str) -> Result<Option<Stored>, Error>;
}

/// The prefixes that are reserved. Clones are the same.
#[derive(Clone, Default)]
pub struct ReservedKeys(Arc<RwLock<Vec<Reserved>>>);

#[derive(Clone)]
pub(super) struct Reserved {
    pub(super) prefix: &'static str,
    /// Why nobody changes them here, as the end of a sentence.
    pub(super) why: &'static str,
    /// Whether they are not even shown.
    pub(super) hidden: bool,
    pub(super) keys: Option<Arc<dyn Keys>>,
}

impl ReservedKeys {
    /// Keys under `prefix` can be read and not changed.
    pub fn reserve(&self, prefix: &'static str, why: &'static str) {
        self.add(Reserved { prefix, why, hidden: false, keys: None });
    }

    /// Keys under `prefix` can neither be read nor changed.
    pub fn hide(&self, prefix: &'static str, why: &'static str) {
        self.add(Reserved { prefix, why, hidden: true, keys: None });
    }

    /// Under `prefix` these are shown. They are listed under their own prefix and no shorter one.
    pub fn show(&self, prefix: &'static str, why: &'static str, keys: Arc<dyn Keys>) {
        self.add(Reserved { prefix, why, hidden: false, keys: Some(keys) });
    }

    /// What is reserved that covers `key`.
    pub(super) fn covering(&self, key: &str) -> Option<Reserved> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|reserved| key.starts_with(reserved.prefix)).cloned()
    }

    /// Whether `key` is not to be shown.
    pub(super) fn is_hidden(&self, key: &str) -> bool {
        self.covering(key).is_some_and(|reserved| reserved.hidden)
    }

    fn add(&self, reserved: Reserved) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(reserved);
    }
}
