//! How other processes hear of changed queues on PostgreSQL.

mod notifier;

use async_trait::async_trait;

pub(super) use self::notifier::Notifier;
use super::Engine;
use crate::queue::registry::QueueRegistry;
use crate::queue::table::QueueNotices;

/// The notices of one engine.
#[derive(Debug)]
pub(crate) struct PostgresQueueNotices {
    engine: Engine,
}

impl PostgresQueueNotices {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }
}

#[async_trait]
impl QueueNotices for PostgresQueueNotices {
    async fn listen(&self, registry: &QueueRegistry) {
        self.engine.notifier.listen(&self.engine, registry).await;
        std::future::pending::<()>().await;
    }

    fn may_have_changed(&self) -> bool {
        true
    }

    fn announce(&self, queue: &str) {
        self.engine.notifier.announce(&self.engine, queue);
    }
}
