//! The kv as a part of a node.

use async_trait::async_trait;
use syncline_store::{Migrations, parts};

use super::{ReservedKeys, http};
use crate::http::auth;
use crate::part::{BuildError, Kind, Part, Routes, Setup};

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
        setup.offer(keys);
        Ok(())
    }
}
