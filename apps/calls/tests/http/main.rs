//! Calls and their recordings on a node: kinds of entities, and recordings received, kept, listed and played.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod form;
mod kinds;
mod listing;
mod recordings;
mod s3;
mod slow_listeners;
mod world;
