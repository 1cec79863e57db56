//! The real programs as real processes: started, asked, stopped, killed.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]
#![allow(clippy::print_stdout, reason = "what was counted is told to whoever reads the run")]

mod access;
mod both_ways;
mod commands;
mod configuration;
mod deploy;
mod frontend;
mod full_disk;
mod ingest;
mod life;
mod lock;
mod migrate;
mod mint;
mod nodes;
mod outbox;
mod outbox_files;
mod outbox_kills;
mod outbox_receipts;
mod outbox_tables;
mod parts;
mod program;
mod queue;
mod recordings;
mod schedule;
mod secrets;
mod sending;
mod serversync;
mod shelf;
mod slow;
mod upstreams;
