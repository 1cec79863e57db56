//! The system `queue` as a part of a node.

use std::fmt;

use async_trait::async_trait;
use syncline_store::{Migrations, parts};

use super::{Queue, Queues, config, http};
use crate::Context;
use crate::config::Settings;
use crate::http::ConsoleFiles;
use crate::part::{BuildError, Kind, Page, Part, Routes, Setup, Topic};

/// Keyed work at the pace of an outside API.
#[derive(Debug, Default)]
pub struct QueuePart {
    declared: Vec<Queue>,
}

#[async_trait]
impl Part for QueuePart {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn about(&self) -> &'static str {
        "Keyed work at the pace of an outside API"
    }

    fn kind(&self) -> Kind {
        Kind::System
    }

    fn configure(&mut self, settings: &mut Settings<'_>) {
        self.declared = config::read(settings);
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.declared.iter().try_for_each(|queue| config::print(f, queue))
    }

    fn secrets(&self) -> Vec<String> {
        config::secrets(&self.declared)
    }

    fn migrations(&self) -> Vec<&'static Migrations> {
        vec![&parts::QUEUE]
    }

    fn routes(&self) -> Routes {
        http::routes()
    }

    fn verbs(&self) -> &'static [(&'static str, &'static [&'static str])] {
        &[("queue", &["urge"])]
    }

    fn reload(&self, running: &Context) -> Vec<String> {
        running.find::<Queues>().map(|queues| queues.reload(&self.declared)).unwrap_or_default()
    }

    fn reloaded(&self) -> Option<(&'static str, &'static [&'static str])> {
        Some(("queues", &config::RELOADED))
    }

    async fn build(&self, setup: &mut Setup<'_>) -> Result<(), BuildError> {
        let queues = Queues::new(setup.store.queues(), &self.declared, setup.events, setup.registry);
        let started = queues.clone();
        setup.on_start(move |halt, tracker| started.start(halt, tracker));
        setup.offer(queues);
        setup.topic(Topic::new("queue").readable_by("queue", "read"));
        setup.page("queue", Page::new::<ConsoleFiles>("/queue", "queue.html").in_menu("Queue"));
        setup.page("queue", Page::new::<ConsoleFiles>("/queue/keys", "queue-keys.html"));
        setup.page("queue", Page::new::<ConsoleFiles>("/queue/groups", "queue-groups.html"));
        Ok(())
    }
}
