//! The cover cache at its limit: what one more cover costs.

use anyhow::Result;
use bench_figures::turns::{Contender, measure};
use serde_json::Value;

use crate::peer;

const INSERTS: usize = 200_000;
/// The slow one gets fewer: each of its inserts takes milliseconds.
const STRINGIFY_INSERTS: usize = 200;

/// Inserts a second into a cache of 2 MiB that is full.
pub(crate) fn inserts(rounds: usize) -> Result<Value> {
    let script = |name: &'static str, inserts: usize| {
        move || peer::rate(&peer::script("covers.mjs", &[name, &inserts.to_string()])?)
    };
    let contenders = vec![
        Contender::new("Syncline, npm package in Node.js", script("syncline", INSERTS)),
        Contender::new("lru-cache 11.5.3, weighing the stored text", script("lru-cache", INSERTS)),
        Contender::new("lru-cache 11.5.3, adding up lengths", script("lru-cache-lengths", INSERTS)),
        Contender::new("serialise the whole, drop the first", script("stringify", STRINGIFY_INSERTS)),
    ];
    measure("Covers into a full cache of 2 MiB", "inserts per second", rounds, contenders)
}
