//! The HTTP API without a socket: every rule of the door and every route, through the same router that serves.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod access;
mod audit;
mod auth;
mod console;
mod cors;
mod door;
mod effects;
mod entities;
mod events;
mod guard;
mod ingest;
mod keys;
mod kv;
mod listings;
mod locks;
mod pages;
mod queues;
mod quotas;
mod random_grants;
mod rooms;
mod routes;
mod sessions;
mod state;
mod state_entities;
mod tenants;
mod texts_postgres;
mod viewer;
mod world;
