//! Work that parts bring for jobs: `run = "word"` in the file, one implementation in the part.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;

use super::Firing;

/// What a job of one kind does.
#[async_trait]
pub trait JobWork: Send + Sync {
    /// Does it: one line about what came of it, or why it failed. It is tried again as often as the job says.
    async fn run(&self, firing: &Firing) -> Result<String, String>;

    /// The hash of what the result will depend on. A run whose hash is that of the last success is skipped.
    fn input_hash(&self, firing: &Firing) -> Option<String> {
        let _ = firing;
        None
    }
}

/// The kinds of jobs that parts do, by their words. Clones are the same.
#[derive(Clone, Default)]
pub struct JobKinds(Arc<RwLock<HashMap<&'static str, Arc<dyn JobWork>>>>);

impl JobKinds {
    /// Adds a kind. The part also tells its word with [`super::JobKind`] while the configuration is read.
    pub fn add(&self, word: &'static str, work: Arc<dyn JobWork>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(word, work);
    }

    pub(crate) fn find(&self, word: &str) -> Option<Arc<dyn JobWork>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(word).cloned()
    }
}
