//! The rules of Syncline as pure state machines.
//!
//! Nothing here reads a clock, draws a random number or touches the outside: time, randomness and the
//! outcomes of I/O are arguments, decisions are return values. The same code runs on a server and, compiled
//! to WASM, in a page, and is driven through simulated days by `tests/`.
//!
//! - [`time`]: the one type for a moment
//! - [`access`]: who may do what: grants that only add
//! - [`kv`]: what a key and a value may be
//! - [`text`]: foreign text on one bounded line
//! - [`retry`]: how long to wait after a failure, and when to give up
//! - [`viewer`]: who is watching: the page's heartbeat, a node's sessions, what nodes tell each other
//! - [`roll_call`]: which nodes answer, and which stand still
//! - [`schedule`]: what is due, and whether it should run (feature `schedule`, on by default)
//! - [`queue`]: keyed work at the pace an outside API allows
//! - [`outbox`]: what was committed here arrives there, once (feature `outbox`, on by default)
//! - [`state`]: entities and settings that every context shows alike
//! - [`lock`]: one holder at a time, by lease

pub mod access;
pub mod kv;
pub mod lock;
#[cfg(feature = "outbox")]
pub mod outbox;
pub mod queue;
pub mod retry;
pub mod roll_call;
#[cfg(feature = "schedule")]
pub mod schedule;
pub mod state;
pub mod text;
pub mod time;
pub mod viewer;

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
