//! The system `lock` as a part of a node.

use std::sync::Arc;

use async_trait::async_trait;
use syncline_store::{Migrations, parts};

use super::{Locks, http};
use crate::http::ConsoleFiles;
use crate::kv::{Keys, ReservedKeys, Stored};
use crate::node::SWEEP_LIMIT;
use crate::part::{BuildError, Kind, Page, Part, Routes, Setup, Topic};

/// Keys of this prefix are locks of the schedule.
const KEY_PREFIX: &str = "genlock:";

/// Leases with a fencing token.
#[derive(Debug, Default)]
pub struct LockPart;

#[async_trait]
impl Part for LockPart {
    fn name(&self) -> &'static str {
        "lock"
    }

    fn about(&self) -> &'static str {
        "Leases with a fencing token"
    }

    fn kind(&self) -> Kind {
        Kind::System
    }

    fn migrations(&self) -> Vec<&'static Migrations> {
        vec![&parts::LOCK]
    }

    fn routes(&self) -> Routes {
        http::routes()
    }

    fn verbs(&self) -> &'static [(&'static str, &'static [&'static str])] {
        &[("lock", &["force"])]
    }

    async fn build(&self, setup: &mut Setup<'_>) -> Result<(), BuildError> {
        let locks = Arc::new(Locks::new(setup.store.locks(), setup.events.clone(), setup.registry));
        if let Some(keys) = setup.find::<ReservedKeys>() {
            keys.show(
                KEY_PREFIX,
                "they are locks: /api/locks changes them",
                Arc::new(LockKeys(Arc::clone(&locks))),
            );
        }
        let swept = Arc::clone(&locks);
        setup.on_sweep("expired lock rows", move || {
            let locks = Arc::clone(&swept);
            async move { locks.sweep(SWEEP_LIMIT).await.map(drop) }
        });
        setup.offer(locks);
        setup.topic(Topic::new("lock").readable_by("lock", "see"));
        setup.page("lock", Page::new::<ConsoleFiles>("/lock", "lock.html").in_menu("Lock"));
        setup.page("lock", Page::new::<ConsoleFiles>("/project", "project.html"));
        Ok(())
    }
}

/// Held locks as keys, for those who look for them where they used to be.
struct LockKeys(Arc<Locks>);

#[async_trait]
impl Keys for LockKeys {
    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Stored>, bool), syncline_store::Error> {
        let held = self.0.list(prefix, after, limit).await?;
        let more = held.len() == limit;
        Ok((held.into_iter().map(stored).collect(), more))
    }

    async fn get(&self, key: &str) -> Result<Option<Stored>, syncline_store::Error> {
        let held = self.0.list(key, None, 1).await?;
        Ok(held.into_iter().find(|held| held.name == key).map(stored))
    }
}

fn stored(held: syncline_store::lock::Holding) -> Stored {
    Stored::new(held.name, held.holder, Some(held.left))
}
