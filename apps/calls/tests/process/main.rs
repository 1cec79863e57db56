//! The programs as processes on a box that takes calls, and on its front end: what is sent, received, kept and deleted,
//! whoever dies.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]
#![allow(clippy::print_stdout, reason = "what was counted is told to whoever reads the run")]

mod both_ways;
mod call_box;
mod frontend;
mod full_disk;
mod node;
mod outbox;
mod outbox_files;
mod outbox_kills;
mod outbox_receipts;
mod outbox_tables;
mod recordings;
