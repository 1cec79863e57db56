//! The statements on queues that read the same in both dialects. Those in which many rows go in or out at once do not, and
//! are with their engine.
//!
//! A statement that must use one index names the queue by that index's expression, which is the engine's to say: on
//! PostgreSQL each index has its own, see migration 0010.

/// Stores a header.
pub(crate) const SAVE: &str = "UPDATE syncline.queues SET pace = $2, tail = $3, front = $4, oldest = $5, trimmed = $6, next_due = $7, \
     overtakes = $8, waiting = $9, running = $10, retrying = $11, done = $12, failed = $13, dead = $14, \
     done_total = $15, failed_total = $16, changes = $17 WHERE id = $1";
/// What waits or runs, oldest first.
pub(crate) const AGES: &str = concat!(
    "SELECT ",
    super::row::row_columns!(""),
    " FROM syncline.queue_keys WHERE place = 0 AND arrival_no BETWEEN $1 AND $2 ORDER BY arrival_no LIMIT $3"
);
/// All that is known of a key, and of the calls under way at that moment.
pub(crate) const ENTRY: &str = concat!(
    "SELECT ",
    super::row::entry_columns!(),
    ", (SELECT pace FROM syncline.queues WHERE name = $1) FROM syncline.queue_keys WHERE queue_id = (SELECT id FROM syncline.queues WHERE name = $1) AND key = $2"
);

/// What waits or runs, by rank.
macro_rules! line {
    ($queue:literal) => {
        concat!(
            "SELECT ",
            $crate::queue::row::row_columns!(""),
            " FROM syncline.queue_keys WHERE ",
            $queue,
            " = $1 AND place = 0 AND rank >= $2 ORDER BY rank LIMIT $3"
        )
    };
}
/// Forgets what was asked for while keys ran.
macro_rules! forget_again {
    ($queue:literal) => {
        concat!(
            "UPDATE syncline.queue_keys SET again = false WHERE ",
            $queue,
            " = $1 AND place = 0 AND again"
        )
    };
}
/// What comes back, soonest first.
macro_rules! retries {
    ($queue:literal) => {
        concat!(
            "SELECT ",
            $crate::queue::row::row_columns!(""),
            ", due FROM syncline.queue_keys WHERE ",
            $queue,
            " = $1 AND due > 0 ORDER BY due, rank LIMIT $2"
        )
    };
}
/// What ended in one place, oldest first: queue, limit, place.
macro_rules! ended {
    ($queue:literal) => {
        concat!(
            "SELECT ",
            $crate::queue::row::row_columns!(""),
            " FROM syncline.queue_keys WHERE ",
            $queue,
            " = $1 AND place = $3 ORDER BY rank LIMIT $2"
        )
    };
}
/// Forgets results.
macro_rules! trim {
    ($queue:literal) => {
        concat!(
            "DELETE FROM syncline.queue_keys WHERE ",
            $queue,
            " = $1 AND place IN (2, 3) AND rank BETWEEN $2 AND $3"
        )
    };
}
pub(crate) use {ended, forget_again, line, retries, trim};
