//! The kv as a part of a node.

use std::sync::Arc;

use async_trait::async_trait;
use syncline_store::{Migrations, parts};

use super::nodes::{self, Presence};
use super::{ReservedKeys, http};
use crate::http::{ConsoleFiles, auth};
use crate::part::{BuildError, Kind, Page, Part, Routes, Setup};

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
        setup.offer(keys);
        let presence = Presence::new(Arc::clone(setup.kv), setup.node);
        setup.offer(presence.clone());
        let (said, taken_back) = (presence.clone(), presence);
        setup.on_sweep("the word that this node is there", move || {
            let said = said.clone();
            async move { said.say().await }
        });
        setup.on_start(move |stop, tracker| {
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
