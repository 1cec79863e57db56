//! The system `viewer` as a part of a node: heartbeats, and the schedule that depends on them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use syncline_core::viewer::{REPORT_PREFIX, SessionId};
use syncline_store::{Migrations, parts};

use super::{Settings, Viewers, http};
use crate::clock;
use crate::config;
use crate::http::{ConsoleFiles, Error};
use crate::kv::{Keys, NODE_SPACE, ReservedKeys, Stored};
use crate::part::{BuildError, First, Kind, Page, Part, Routes, Setup, Topic};
use crate::schedule::{self, Job, JobKinds, Scheduler, SchedulerDeps};

/// Keys of this prefix are sessions of this node.
const KEY_PREFIX: &str = "viewer:";

/// Who is watching, and the jobs that depend on it.
#[derive(Debug, Default)]
pub struct ViewerPart {
    settings: Arc<Settings>,
    jobs: Vec<Job>,
}

#[async_trait]
impl Part for ViewerPart {
    fn name(&self) -> &'static str {
        "viewer"
    }

    fn about(&self) -> &'static str {
        "Who is watching, and the jobs that depend on it"
    }

    fn kind(&self) -> Kind {
        Kind::System
    }

    fn configure(&mut self, settings: &mut config::Settings<'_>) {
        let section = settings.section("viewer");
        // Where it was set before it was the node's own.
        if section.boolean("trust_forwarded_for") == Some(true) {
            settings.tell(config::TrustForwardedFor);
        }
        self.settings = Arc::new(Settings::read(&section));
        self.jobs = schedule::config::read(settings);
    }

    fn print_keys(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.jobs.is_empty() { writeln!(f, "jobs = []") } else { Ok(()) }
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.print(f)?;
        self.jobs.iter().try_for_each(|job| schedule::config::print(f, job))
    }

    fn secrets(&self) -> Vec<String> {
        schedule::config::secrets(&self.jobs)
    }

    fn migrations(&self) -> Vec<&'static Migrations> {
        vec![&parts::KV, &parts::SCHEDULE]
    }

    fn routes(&self) -> Routes {
        http::routes(&self.settings).and(schedule::routes())
    }

    async fn build(&self, setup: &mut Setup<'_>) -> Result<(), BuildError> {
        let (kv, events) = (setup.store.kv_space(NODE_SPACE)?, setup.events.clone());
        let clock = Arc::new(clock::now);
        let viewers = Viewers::new(&self.settings, setup.node.clone(), kv, events, clock, setup.registry);
        let viewers = Arc::new(viewers.announcing_in(setup.store));
        let kinds = JobKinds::default();
        let deps = SchedulerDeps {
            node: setup.node.to_string(),
            viewers: Arc::clone(&viewers),
            store: setup.store.schedule(),
            kv: setup.store.kv_space(NODE_SPACE)?,
            kinds: kinds.clone(),
            events: setup.events.clone(),
            metrics: setup.registry.clone(),
        };
        let scheduler = Scheduler::new(&self.jobs, &deps);
        if let Some(keys) = setup.find::<ReservedKeys>() {
            let sessions = Arc::new(SessionKeys(Arc::clone(&viewers)));
            keys.show(KEY_PREFIX, "they are heartbeats: POST /api/viewer makes and removes them", sessions);
            keys.hide(REPORT_PREFIX, "nodes told each other of their viewers there");
            keys.hide(schedule::INPUT_PREFIX, "they said what a job has seen already");
        }
        let (running, started) = (Arc::clone(&viewers), scheduler.clone());
        setup.on_start(move |halt, tracker| {
            let until = halt.clone();
            tracker.spawn(async move { running.run(until).await });
            started.start(halt, tracker);
        });
        let measured = Arc::clone(&viewers);
        setup.on_scrape(move || measured.measure());
        setup.topic(Topic::beginning("viewer", Now(Arc::clone(&viewers))).readable_by("viewer", "count"));
        setup.topic(Topic::new("room").readable_by("viewer", "count").about("room"));
        setup.topic(Topic::new("people").readable_by("viewer", "see").about("room"));
        setup.topic(Topic::new("job").readable_by("job", "read"));
        setup.offer(Arc::clone(&self.settings));
        setup.offer(viewers);
        setup.offer(scheduler);
        setup.offer(kinds);
        setup.page("viewer", Page::new::<ConsoleFiles>("/viewer", "viewer.html").in_menu("Viewer"));
        setup.page("viewer", Page::new::<ConsoleFiles>("/viewer/rooms", "rooms.html"));
        Ok(())
    }
}

/// Tells a new listener how many watch now.
struct Now(Arc<Viewers>);

#[async_trait]
impl First for Now {
    async fn first(&self, _: Option<&str>) -> Result<Option<String>, Error> {
        Ok(serde_json::to_string(&self.0.snapshot()).ok())
    }
}

/// The sessions of this node as keys. They live in memory and are listed in no order.
struct SessionKeys(Arc<Viewers>);

#[async_trait]
impl Keys for SessionKeys {
    async fn list(
        &self,
        prefix: &str,
        _: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Stored>, bool), syncline_store::Error> {
        let prefix = prefix.strip_prefix(KEY_PREFIX).unwrap_or_default();
        let sessions = self.0.sessions(prefix, limit);
        Ok((sessions.into_iter().map(|(id, left)| heartbeat(&id, left)).collect(), false))
    }

    async fn get(&self, key: &str) -> Result<Option<Stored>, syncline_store::Error> {
        let id = key.strip_prefix(KEY_PREFIX).and_then(|id| SessionId::new(id).ok());
        Ok(id.and_then(|id| Some(heartbeat(&id, self.0.ttl_left(&id)?))))
    }
}

fn heartbeat(id: &SessionId, left: Duration) -> Stored {
    Stored::new(format!("{KEY_PREFIX}{id}"), "1".to_owned(), Some(left))
}
