//! The schedule as it runs: real nodes, real stores, real calls and programs, firing every second.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod arrival;
mod gate;
mod nodes;
mod outage;
mod work;
mod world;
