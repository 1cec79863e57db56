//! The statements on queues that read the same in both dialects. Those in which many rows go in or out at once do not, and
//! are with their engine.

use super::row::{entry_columns, row_columns};

/// Stores a header.
pub(crate) const SAVE: &str = "UPDATE queues SET pace = $2, tail = $3, front = $4, oldest = $5, trimmed = $6, next_due = $7, \
     overtakes = $8, waiting = $9, running = $10, retrying = $11, done = $12, failed = $13, dead = $14, \
     done_total = $15, failed_total = $16, changes = $17 WHERE id = $1";
/// What waits or runs, by rank.
pub(crate) const LINE: &str = concat!(
    "SELECT ",
    row_columns!(""),
    " FROM queue_keys WHERE queue_id = $1 AND place = 0 AND rank >= $2 ORDER BY rank LIMIT $3"
);
/// What waits or runs, oldest first.
pub(crate) const AGES: &str = concat!(
    "SELECT ",
    row_columns!(""),
    " FROM queue_keys WHERE place = 0 AND since BETWEEN $1 AND $2 ORDER BY since LIMIT $3"
);
/// Forgets what was asked for while keys ran.
pub(crate) const FORGET_AGAIN: &str =
    "UPDATE queue_keys SET again = false WHERE queue_id = $1 AND place = 0 AND again";
/// What comes back, soonest first.
pub(crate) const RETRIES: &str = concat!(
    "SELECT ",
    row_columns!(""),
    ", due FROM queue_keys WHERE queue_id = $1 AND due > 0 ORDER BY due, rank LIMIT $2"
);
/// What was given up, oldest first.
pub(crate) const DEAD: &str = concat!(
    "SELECT ",
    row_columns!(""),
    " FROM queue_keys WHERE queue_id = $1 AND place = 4 ORDER BY rank LIMIT $2"
);
/// Forgets results.
pub(crate) const TRIM: &str =
    "DELETE FROM queue_keys WHERE queue_id = $1 AND place IN (2, 3) AND rank BETWEEN $2 AND $3";
/// All that is known of a key, and of the calls under way at that moment.
pub(crate) const ENTRY: &str = concat!(
    "SELECT ",
    entry_columns!(),
    ", (SELECT pace FROM queues WHERE name = $1) FROM queue_keys WHERE queue_id = (SELECT id FROM queues WHERE name = $1) AND key = $2"
);
