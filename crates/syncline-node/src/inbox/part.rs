//! The system `outbox` as a part of a node: the receiving side, and the node's own entries on their way elsewhere. What
//! carries entries is a program of its own (`outbox`).

use std::fmt;

use async_trait::async_trait;
use syncline_store::{Migrations, parts};

use super::{Entities, EntityKind, FileType, config, http};
use crate::config::Settings;
use crate::http::ConsoleFiles;
use crate::part::{BuildError, Kind, Page, Part, Routes, Setup, Topic};

/// Changes and files on their way from one system to another.
#[derive(Debug, Default)]
pub struct OutboxPart {
    kinds: Vec<EntityKind>,
    files: Vec<FileType>,
}

#[async_trait]
impl Part for OutboxPart {
    fn name(&self) -> &'static str {
        "outbox"
    }

    fn about(&self) -> &'static str {
        "Changes and files on their way from one system to another"
    }

    fn kind(&self) -> Kind {
        Kind::System
    }

    fn configure(&mut self, settings: &mut Settings<'_>) {
        self.kinds = config::read(settings);
        self.files = settings.told().copied().collect();
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kinds.iter().try_for_each(|kind| config::print(f, kind))
    }

    fn migrations(&self) -> Vec<&'static Migrations> {
        vec![&parts::INBOX, &parts::OUTBOX]
    }

    fn routes(&self) -> Routes {
        http::routes()
    }

    async fn build(&self, setup: &mut Setup<'_>) -> Result<(), BuildError> {
        let entities = Entities::new(&self.kinds, &self.files, setup.store, setup.events, setup.registry);
        entities.prepare().await?;
        let started = entities.clone();
        setup.on_start(move |halt, tracker| started.start(halt, tracker));
        let swept = entities.clone();
        setup.on_sweep("numbers of old inbox entries", move || {
            let entities = swept.clone();
            async move { entities.sweep().await.map(drop) }
        });
        setup.offer(entities);
        setup.topic(Topic::new("entity").readable_by("entity", "read"));
        setup.topic(Topic::new("outbox").readable_by("outbox", "read"));
        setup.page("outbox", Page::new::<ConsoleFiles>("/outbox", "outbox.html").in_menu("Outbox"));
        setup.page("outbox", Page::new::<ConsoleFiles>("/outbox/entries", "outbox-entries.html"));
        setup.page("outbox", Page::new::<ConsoleFiles>("/outbox/inbox", "inbox.html"));
        Ok(())
    }
}
