//! Queues and the bookshelf with nodes that really run, against APIs that really listen.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod api;
mod calls;
mod life;
mod nodes;
mod shelf;
mod world;
