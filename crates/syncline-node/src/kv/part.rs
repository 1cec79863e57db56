//! The kv as a part of a node.

use std::sync::Arc;

use async_trait::async_trait;
use syncline_store::{Backend, Migrations, parts};

use super::nodes::{self, Presence};
use super::{NODE_SPACE, ReservedKeys, http, watcher};
use crate::http::{ConsoleFiles, auth};
use crate::part::{BuildError, Kind, Page, Part, Routes, Setup, Topic};

/// Keys with a time to live.
#[derive(Debug, Default)]
pub struct KvPart;

#[async_trait]
impl Part for KvPart {
    fn name(&self) -> &'static str {
        "kv"
    }

    fn about(&self) -> &'static str {
        "Keys with a time to live"
    }

    fn kind(&self) -> Kind {
        Kind::System
    }

    fn migrations(&self) -> Vec<&'static Migrations> {
        vec![&parts::KV]
    }

    fn routes(&self) -> Routes {
        http::routes()
    }

    async fn build(&self, setup: &mut Setup<'_>) -> Result<(), BuildError> {
        let keys = ReservedKeys::default();
        keys.hide(auth::KEPT_PREFIX, "they are about who is signed in: /api/session changes them");
        keys.hide(nodes::PREFIX, "they are about which nodes there are: /api/nodes lists them");
        setup.offer(keys.clone());
        let presence = Presence::new(setup.store.kv_space(NODE_SPACE)?, setup.node);
        setup.offer(presence.clone());
        let (kv, events) = (Arc::clone(setup.kv), setup.events.clone());
        let topic = Topic::new(watcher::TOPIC).readable_by("kv", "read");
        setup.topic(topic.about_prefixes(watcher::PREFIX_PARAMETER));
        let (said, calling, store) = (presence.clone(), presence.clone(), setup.store.clone());
        let taken_back = presence;
        setup.on_sweep("the word that this node is there", move || {
            let said = said.clone();
            async move { said.say().await }
        });
        setup.on_start(move |stop, tracker| {
            tracker.spawn(watcher::run(kv, keys, events, stop.clone()));
            // On SQLite nobody can be called: other processes see what is written, and a question writes nothing.
            if store.backend() == Backend::Postgres {
                let (answering, here, halt) = (calling.clone(), store.clone(), stop.clone());
                tracker.spawn(async move { answering.keep_answering(here, halt).await });
                let (here, halt) = (store.clone(), stop.clone());
                tracker.spawn(async move { calling.keep_calling(here, halt).await });
            }
            let stop = stop.clone();
            tracker.spawn(async move {
                stop.cancelled().await;
                taken_back.take_back().await;
            });
        });
        setup.page("kv", Page::new::<ConsoleFiles>("/nodes", "nodes.html").in_menu_last("Nodes"));
        setup.page("kv", Page::new::<ConsoleFiles>("/kv", "kv.html").in_menu_last("KV"));
        Ok(())
    }
}
