//! What is due, and whether it should run.
//!
//! A [`Cron`] expression names the moments a job fires; a [`Ticker`] turns the time of day into [`Bucket`]s, each
//! due once; [`decide`] and the steps after it give a [`Decision`] with its [`Reason`]; a [`Tally`] turns decisions
//! into money. A cron expression is read in UTC or in a [`Zone`]; buckets are named in UTC. Claiming a bucket in the store, running the job and writing the history
//! are the node's.

mod bucket;
mod cost;
mod cron;
mod gate;
mod reason;
mod ticker;
mod zone;

pub use bucket::{Bucket, InvalidBucket};
pub use cost::{Cost, InvalidCost, Tally};
pub use cron::{CRON_MAX_BYTES, Cron, InvalidCron};
pub use gate::{Audience, Claim, Decision, Facts, Gate, LocalRuns, Trigger, decide};
pub use reason::{Reason, UnknownReason};
pub use ticker::{CATCH_UP_FIRINGS_MAX, CatchUp, Ticker};
pub use zone::{InvalidZone, ZONE_MAX_BYTES, Zone, check_zone_name};
