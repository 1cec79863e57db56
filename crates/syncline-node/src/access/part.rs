//! The system `access` as a part of a node: keys, revocations and the audit, shared by all nodes of a store.
//!
//! Without it a node still knows the owner, the keys and the issuers of its file. It records nothing then, and what was given is
//! taken back by changing the file.

use async_trait::async_trait;
use syncline_store::access::audit::STEP_MAX;
use syncline_store::{Migrations, Topic as StoreTopic, parts};

use super::audit::{AuditLog, TOPIC};
use super::follow::AccessControl;
use super::http;
use crate::http::ConsoleFiles;
use crate::part::{BuildError, Kind, Page, Part, Routes, Setup, Topic};

/// Keys, revocations and the audit.
#[derive(Debug, Default)]
pub struct AccessPart;

#[async_trait]
impl Part for AccessPart {
    fn name(&self) -> &'static str {
        "access"
    }

    fn about(&self) -> &'static str {
        "Keys, revocations and the audit"
    }

    fn kind(&self) -> Kind {
        Kind::System
    }

    fn migrations(&self) -> Vec<&'static Migrations> {
        vec![&parts::ACCESS]
    }

    fn routes(&self) -> Routes {
        http::routes()
    }

    async fn build(&self, setup: &mut Setup<'_>) -> Result<(), BuildError> {
        let store = setup.store.access();
        let audit = AuditLog::new(store.clone(), setup.node, setup.events.clone(), setup.registry);
        // Before the first look: what changes after it is news.
        let news = setup.store.news(StoreTopic::Access);
        let control = AccessControl::new(store.clone(), setup.credentials.clone());
        // A node that does not know what was taken back must not let anybody in.
        control.look().await?;
        let (writing, following) = (audit.clone(), control.clone());
        setup.on_start(move |halt, workers| {
            workers.spawn(writing.write_refusals(halt.clone()));
            workers.spawn(following.follow(news, halt.clone()));
        });
        setup.on_sweep("old rows of the audit", move || {
            let store = store.clone();
            async move {
                store.forget_revocations().await?;
                store.prune(STEP_MAX).await.map(drop)
            }
        });
        setup.page("access", Page::new::<ConsoleFiles>("/access", "access.html").in_menu_last("Access"));
        setup.page("access", Page::new::<ConsoleFiles>("/audit", "audit.html").in_menu_last("Audit"));
        setup.offer(audit);
        setup.offer(control);
        setup.topic(Topic::new(TOPIC).readable_by("audit", "read"));
        Ok(())
    }
}
