//! The system `state` as a part of a node.

use std::sync::Arc;

use async_trait::async_trait;
use syncline_core::state::Space;
use syncline_store::{Migrations, parts};

use super::{EVENT, News, States, http};
use crate::http::{ConsoleFiles, Error};
use crate::node::SWEEP_LIMIT;
use crate::part::{BuildError, First, Kind, Page, Part, Routes, Setup, Topic};

/// Entities that devices share, by space.
#[derive(Debug, Default)]
pub struct StatePart;

#[async_trait]
impl Part for StatePart {
    fn name(&self) -> &'static str {
        "state"
    }

    fn about(&self) -> &'static str {
        "Entities that devices share, by space"
    }

    fn kind(&self) -> Kind {
        Kind::System
    }

    fn migrations(&self) -> Vec<&'static Migrations> {
        vec![&parts::STATE]
    }

    fn routes(&self) -> Routes {
        http::routes()
    }

    async fn build(&self, setup: &mut Setup<'_>) -> Result<(), BuildError> {
        let states = Arc::new(States::new(setup.store.states(), setup.events.clone(), setup.registry));
        let running = Arc::clone(&states);
        setup.on_start(move |halt, tracker| {
            let halt = halt.clone();
            tracker.spawn(async move { running.run(halt).await });
        });
        let swept = Arc::clone(&states);
        setup.on_sweep("old removals in shared state", move || {
            let states = Arc::clone(&swept);
            async move { states.forget(SWEEP_LIMIT).await }
        });
        let topic = Topic::beginning(EVENT, InitialCursor(Arc::clone(&states))).about("space");
        setup.topic(topic.readable_by("state", "read"));
        setup.offer(states);
        setup.page("state", Page::new::<ConsoleFiles>("/state", "state.html").in_menu("State"));
        setup.page("state", Page::new::<ConsoleFiles>("/state/entities", "state-entities.html"));
        setup.page("state", Page::new::<ConsoleFiles>("/state/try", "state-try.html"));
        setup.page("state", Page::new::<ConsoleFiles>("/state/frame", "state-frame.html").in_frames());
        Ok(())
    }
}

/// Tells a listener of one space how far the space was before its stream began: news since then is heard.
struct InitialCursor(Arc<States>);

#[async_trait]
impl First for InitialCursor {
    async fn first(&self, about: Option<&str>) -> Result<Option<String>, Error> {
        let Some(space) = about else { return Ok(None) };
        let space = Space::new(space)?;
        let number = self.0.number(&space).await?;
        Ok(serde_json::to_string(&News { space: space.as_str(), number }).ok())
    }
}
