//! What is said to SQLite about the outbox: `sql/outbox.sqlite.sql`.

use std::sync::LazyLock;

use crate::database::statements_of;
use crate::outbox::row;

statements_of!("outbox.sqlite":
    SENDER, SET_SENDER, INSERT, INSERT_AT, LAST, PENDING, MARK, MARK_PAYLOADS, FREE, FREE_ORPHANS, LOOK, BRING_BACK, LINE, TAKE,
    BURY, BURY_TYPELESS, DEFER, NEXT_LOOK, SETTLE, COUNT, RENEW, STATS, LIST_PENDING,
    LIST_DEAD, LIST_PROCESSED, LIST_PROCESSED_AFTER, DETAIL, PAYLOAD, RETRY, RETRY_DEAD, DISCARD,
    DISCARD_DEAD, OLD, REMOVE, REMOVE_PAYLOADS, REMOVE_RECEIPTS, RECEIPT, RECEIPT_OF, STORE_RECEIPT, COLUMNS,
    SETTINGS_COLUMNS, READ_BY_KEY, READ_BY_NAME, CREATE_SETTINGS,
);

/// [`LINE`] from the other end.
pub(crate) static LINE_NEWEST: LazyLock<&str> = LazyLock::new(|| row::from_the_newest(LINE));

/// In the order of the settings' names.
pub(crate) const READ_SETTINGS: [&str; 4] = [
    "SELECT CAST(sync_interval_sec AS TEXT) FROM system_settings LIMIT 1",
    "SELECT CAST(sync_batch_size AS TEXT) FROM system_settings LIMIT 1",
    "SELECT CAST(sync_enabled AS TEXT) FROM system_settings LIMIT 1",
    "SELECT CAST(sync_files_enabled AS TEXT) FROM system_settings LIMIT 1",
];
pub(crate) const SET_SETTINGS: [&str; 4] = [
    "UPDATE system_settings SET sync_interval_sec = CAST($1 AS INTEGER)",
    "UPDATE system_settings SET sync_batch_size = CAST($1 AS INTEGER)",
    "UPDATE system_settings SET sync_enabled = ($1 = 'true')",
    "UPDATE system_settings SET sync_files_enabled = ($1 = 'true')",
];
