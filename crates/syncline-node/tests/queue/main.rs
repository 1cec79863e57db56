//! Queues with nodes that really run, against APIs that really listen.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod calls;
mod groups;
mod life;
mod nodes;
mod workers;
mod world;
