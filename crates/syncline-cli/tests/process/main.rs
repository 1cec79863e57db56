//! The real programs as real processes: started, asked, stopped, killed.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]
#![allow(clippy::print_stdout, reason = "what was counted is told to whoever reads the run")]

mod access;
mod backup;
mod clients;
mod command_line;
mod commands;
mod configuration;
mod deploy;
mod full_disk;
mod guide;
mod idle;
mod ingest;
mod life;
mod lock;
mod migrate;
mod mint;
mod nodes;
mod parts;
mod poison;
mod queue;
mod routes;
mod schedule;
mod secrets;
mod serversync;
mod shop;
mod slow;
mod top;
mod worker;
