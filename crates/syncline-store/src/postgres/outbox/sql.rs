//! What is said to PostgreSQL about the outbox: `sql/outbox.postgres.sql`.

use std::sync::LazyLock;

use crate::database::statements_of;
use crate::outbox::row;

statements_of!("outbox.postgres":
    SENDER, SET_SENDER, INSERT, INSERT_AT, PENDING, MARK, FREE, FREE_ORPHANS, BRING_BACK, CLAIM, BURY, DEFER,
    NEXT_LOOK, DONE, FAILED, GIVEN_BACK, RENEW, STATS, LIST_PENDING, LIST_DEAD, LIST_PROCESSED,
    LIST_PROCESSED_AFTER, DETAIL, PAYLOAD, RETRY, RETRY_DEAD, DISCARD, DISCARD_DEAD, CLEANUP, RECEIPT,
    RECEIPT_OF, STORE_RECEIPT, COLUMNS, SETTINGS_ROWS, HAS_SETTINGS, SETTINGS_COLUMNS, CREATE_SETTINGS,
);

/// [`CLAIM`] from the other end.
pub(crate) static CLAIM_NEWEST: LazyLock<&str> = LazyLock::new(|| row::from_the_newest(CLAIM));

/// In the order of the settings' names.
pub(crate) const SET_SETTINGS: [&str; 4] = [
    "UPDATE system_settings SET sync_interval_sec = $1::text::bigint",
    "UPDATE system_settings SET sync_batch_size = $1::text::bigint",
    "UPDATE system_settings SET sync_enabled = $1::text::boolean",
    "UPDATE system_settings SET sync_files_enabled = $1::text::boolean",
];
