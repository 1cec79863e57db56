//! What is said to SQLite about the outbox. An application may have made the first six columns as it likes: ids of
//! entities that are blobs are read as the UUIDs they are, and times as text, as seconds or as milliseconds.

macro_rules! pending {
    ($o:literal) => {
        concat!($o, "processed_at IS NULL AND ", $o, "dead_at IS NULL")
    };
}
macro_rules! in_line {
    ($o:literal) => {
        concat!(pending!($o), " AND ", $o, "due_at IS NULL AND ", $o, "behind IS NULL")
    };
}
/// A time in microseconds since the epoch; NULL where it is none. Milliseconds are told from seconds by their size, also where
/// they are text. SQLite's own functions round to milliseconds, so the fraction of a second is read digit by digit: from the
/// 21st character on, up to six.
macro_rules! microseconds {
    ($c:literal) => {
        concat!(
            "CASE WHEN typeof(",
            $c,
            ") = 'integer' OR (typeof(",
            $c,
            ") = 'text' AND ",
            $c,
            " NOT GLOB '*[^0-9]*' AND length(",
            $c,
            ") BETWEEN 9 AND 14) THEN CASE WHEN CAST(",
            $c,
            " AS INTEGER) BETWEEN 100000000000 AND 253402207200000 THEN CAST(",
            $c,
            " AS INTEGER) * 1000 ELSE unixepoch(CAST(",
            $c,
            " AS INTEGER), 'auto') * 1000000 END \
             WHEN typeof(",
            $c,
            ") = 'real' THEN CAST(round(unixepoch(",
            $c,
            ", 'auto', 'subsec') * 1000) AS INTEGER) * 1000 \
             WHEN typeof(",
            $c,
            ") <> 'text' OR ",
            $c,
            " NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN NULL \
             WHEN substr(",
            $c,
            ", 20, 1) = '.' THEN unixepoch(substr(",
            $c,
            ", 1, 19) || ltrim(substr(",
            $c,
            ", 21), '0123456789')) * 1000000 + CAST(substr(substr(",
            $c,
            ", 21, length(substr(",
            $c,
            ", 21)) - length(ltrim(substr(",
            $c,
            ", 21), '0123456789'))) || '000000', 1, 6) AS INTEGER) \
             ELSE unixepoch(",
            $c,
            ") * 1000000 END"
        )
    };
}
pub(in crate::sqlite) use microseconds;
macro_rules! entity_id {
    () => {
        "CASE WHEN typeof(o.entity_id) = 'blob' AND length(o.entity_id) = 16 THEN lower(substr(hex(o.entity_id), 1, 8) \
         || '-' || substr(hex(o.entity_id), 9, 4) || '-' || substr(hex(o.entity_id), 13, 4) || '-' || \
         substr(hex(o.entity_id), 17, 4) || '-' || substr(hex(o.entity_id), 21)) ELSE CAST(o.entity_id AS TEXT) END"
    };
}
/// The columns of an entry.
macro_rules! entry {
    () => {
        concat!(
            "o.id, CAST(o.entity_type AS TEXT) AS entity_type, ",
            entity_id!(),
            " AS entity_id, coalesce(CAST(o.payload AS TEXT), 'null') AS payload, ",
            microseconds!("o.created_at"),
            " AS created_us, o.attempts"
        )
    };
}

pub(super) const SENDER: &str = "SELECT sender FROM syncline.sync_outbox_sender";
pub(super) const INSERT: &str = "INSERT INTO sync_outbox (entity_type, entity_id, payload) \
     SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each($1)";
pub(in crate::sqlite) const LAST: &str = "SELECT id FROM sync_outbox ORDER BY id DESC LIMIT $1";
pub(super) const PENDING: &str = concat!(
    "SELECT ",
    entry!(),
    " FROM sync_outbox AS o INDEXED BY sync_outbox_pending WHERE ",
    pending!("o."),
    " ORDER BY o.id LIMIT $1"
);
pub(super) const MARK: &str = "UPDATE sync_outbox SET processed_at = coalesce($2, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), \
     due_at = NULL, behind = NULL, claim = NULL, leased_until = NULL, dead_at = NULL \
     WHERE id IN (SELECT value FROM json_each($1)) AND processed_at IS NULL";
/// What waited for these need not wait any more.
pub(super) const FREE: &str = "UPDATE sync_outbox INDEXED BY sync_outbox_behind SET behind = NULL \
     WHERE behind IN (SELECT value FROM json_each($1)) AND behind IS NOT NULL";
/// Those that wait for what is not there or not pending any more, whoever saw to that.
pub(super) const FREE_ORPHANS: &str = concat!(
    "UPDATE sync_outbox SET behind = NULL WHERE id IN (SELECT w.id FROM sync_outbox AS w INDEXED BY sync_outbox_behind \
     WHERE w.behind IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sync_outbox AS b WHERE b.id = w.behind AND ",
    pending!("b."),
    ") LIMIT 1000)"
);
/// files or not, now.
pub(super) const LOOK: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM sync_outbox AS o INDEXED BY sync_outbox_ready WHERE ",
    in_line!("o."),
    " AND (substr(o.entity_type, -5) = '_file') = $1 AND (o.claim IS NULL OR o.leased_until <= $2)) \
     OR EXISTS (SELECT 1 FROM sync_outbox INDEXED BY sync_outbox_due WHERE due_at <= $2 AND due_at IS NOT NULL) \
     OR EXISTS (SELECT 1 FROM sync_outbox AS o INDEXED BY sync_outbox_ready WHERE ",
    in_line!("o."),
    " AND (substr(o.entity_type, -5) = '_file') IS NULL)"
);
pub(super) const BRING_BACK: &str = "UPDATE sync_outbox SET due_at = NULL WHERE id IN (SELECT id FROM sync_outbox \
     INDEXED BY sync_outbox_due WHERE due_at <= $1 AND due_at IS NOT NULL ORDER BY due_at LIMIT 1000)";

/// files or not, limit, now, bytes. What is in line with the entry each has to wait for.
///
/// An entry has to wait if the last pending one before it of its entity is not the one before it in what was found: that
/// is in flight, or waits. All that follow it have to wait too.
pub(super) const LINE: &str = concat!(
    "WITH line AS MATERIALIZED (SELECT ",
    entry!(),
    ", o.entity_id AS raw_id FROM sync_outbox AS o INDEXED BY sync_outbox_ready WHERE ",
    in_line!("o."),
    " AND (substr(o.entity_type, -5) = '_file') = $1 AND (o.claim IS NULL OR o.leased_until <= $3) \
     ORDER BY o.id LIMIT $2), \
     looked AS (SELECT line.*, (SELECT e.id FROM sync_outbox AS e INDEXED BY sync_outbox_pending_entity \
     WHERE e.entity_type = line.entity_type AND e.entity_id = line.raw_id AND e.id < line.id AND ",
    pending!("e."),
    " ORDER BY e.id DESC LIMIT 1) AS before_id, \
     lag(line.id) OVER (PARTITION BY line.entity_type, line.raw_id ORDER BY line.id) AS mine FROM line) \
     SELECT id, entity_type, entity_id, payload, created_us, attempts, \
     max(CASE WHEN before_id IS NOT mine THEN before_id END) \
     OVER (PARTITION BY entity_type, raw_id ORDER BY id ROWS UNBOUNDED PRECEDING) AS blocker, \
     sum(octet_length(payload)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) <= $4 \
     OR row_number() OVER (ORDER BY id) = 1 AS fits FROM looked ORDER BY id"
);
/// ids, claim, end of the lease, worker.
pub(super) const TAKE: &str = "UPDATE sync_outbox SET claim = $2, leased_until = $3, claimed_by = $4 \
     WHERE id IN (SELECT value FROM json_each($1))";
/// Pairs of an entry and why it can never be sent; time of day.
pub(super) const BURY: &str = "UPDATE sync_outbox SET dead_at = $2, last_error = given.value ->> 1, claim = NULL, \
     leased_until = NULL FROM json_each($1) AS given WHERE sync_outbox.id = given.value ->> 0";
/// What has no type is neither a file nor a change, and in no line. Time of day.
pub(super) const BURY_TYPELESS: &str = concat!(
    "UPDATE sync_outbox SET dead_at = $1, last_error = 'entity_type is NULL', claim = NULL, leased_until = NULL \
     WHERE id IN (SELECT o.id FROM sync_outbox AS o INDEXED BY sync_outbox_ready WHERE ",
    in_line!("o."),
    " AND (substr(o.entity_type, -5) = '_file') IS NULL LIMIT 1000) RETURNING id"
);
/// A row without a number can neither be claimed nor named. Time of day.
pub(super) const BURY_NUMBERLESS: &str = concat!(
    "UPDATE sync_outbox SET dead_at = $1, last_error = 'id is no whole number' WHERE typeof(id) <> 'integer' AND ",
    pending!("")
);
/// Pairs of an entry and the one it has to wait for.
pub(super) const DEFER: &str = "UPDATE sync_outbox SET behind = given.value ->> 1 FROM json_each($1) AS given \
     WHERE sync_outbox.id = given.value ->> 0";
/// files or not. When something is due or a lease ends; asked when all there is in line is in flight.
pub(super) const NEXT_LOOK: &str = concat!(
    "SELECT min(at) FROM (SELECT min(due_at) AS at FROM sync_outbox INDEXED BY sync_outbox_due WHERE due_at IS NOT NULL \
     UNION ALL SELECT min(leased_until) FROM (SELECT leased_until FROM sync_outbox AS o INDEXED BY sync_outbox_ready WHERE ",
    in_line!("o."),
    " AND (substr(o.entity_type, -5) = '_file') = $1 ORDER BY o.id LIMIT 10000))"
);

/// claim, rows of (id, verdict, due, reason), time of day.
pub(super) const SETTLE: &str = concat!(
    "UPDATE sync_outbox AS o SET \
     processed_at = CASE WHEN given.value ->> 1 = 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') END, \
     attempts = o.attempts + (given.value ->> 1 IN (1, 2)), due_at = given.value ->> 2, \
     dead_at = CASE WHEN given.value ->> 1 = 2 THEN $3 END, last_error = coalesce(given.value ->> 3, o.last_error), \
     claim = NULL, leased_until = NULL FROM json_each($2) AS given \
     WHERE o.id = given.value ->> 0 AND o.claim = $1 AND ",
    pending!("o."),
    " RETURNING id"
);
pub(super) const COUNT: &str = "UPDATE syncline.sync_outbox_sender SET delivered = delivered + $1";
pub(super) const RENEW: &str = concat!(
    "UPDATE sync_outbox SET leased_until = $3 WHERE id IN (SELECT value FROM json_each($2)) AND claim = $1 AND ",
    pending!(""),
    " RETURNING id"
);

/// now on the steady clock, time of day, a minute ago as text.
pub(super) const STATS: &str = concat!(
    "SELECT (SELECT count(*) FROM sync_outbox INDEXED BY sync_outbox_pending WHERE ",
    pending!(""),
    "), (SELECT count(*) FROM (SELECT leased_until FROM sync_outbox AS o INDEXED BY sync_outbox_ready WHERE ",
    in_line!("o."),
    " AND (substr(o.entity_type, -5) = '_file') = 0 ORDER BY o.id LIMIT 10000) WHERE leased_until > $1) \
     + (SELECT count(*) FROM (SELECT leased_until FROM sync_outbox AS o INDEXED BY sync_outbox_ready WHERE ",
    in_line!("o."),
    " AND (substr(o.entity_type, -5) = '_file') = 1 ORDER BY o.id LIMIT 10000) WHERE leased_until > $1), \
     (SELECT count(*) FROM sync_outbox WHERE due_at IS NOT NULL), \
     (SELECT count(*) FROM sync_outbox WHERE behind IS NOT NULL), \
     (SELECT count(*) FROM sync_outbox WHERE dead_at IS NOT NULL), \
     (SELECT $2 - (",
    microseconds!("created_at"),
    ") / 1000 FROM sync_outbox INDEXED BY sync_outbox_pending WHERE ",
    pending!(""),
    " ORDER BY id LIMIT 1), (SELECT delivered FROM syncline.sync_outbox_sender), \
     (SELECT count(*) FROM sync_outbox INDEXED BY sync_outbox_processed WHERE processed_at IS NOT NULL \
     AND processed_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-60 seconds'))"
);

/// now on the steady clock is always the first parameter.
macro_rules! detail {
    ($rest:literal) => {
        concat!(
            "SELECT o.id, CAST(o.entity_type AS TEXT), ",
            entity_id!(),
            ", octet_length(coalesce(o.payload, 'null')), ",
            microseconds!("o.created_at"),
            ", o.attempts, o.due_at - $1, o.behind, o.leased_until - $1, o.claimed_by, o.last_error, ",
            microseconds!("o.processed_at"),
            ", o.dead_at FROM sync_outbox AS o ",
            $rest
        )
    };
}
pub(super) const LIST_PENDING: &str = detail!(
    "INDEXED BY sync_outbox_pending WHERE o.processed_at IS NULL AND o.dead_at IS NULL AND o.id > $2 ORDER BY o.id LIMIT $3"
);
pub(super) const LIST_DEAD: &str =
    detail!("INDEXED BY sync_outbox_dead WHERE o.dead_at IS NOT NULL AND o.id > $2 ORDER BY o.id LIMIT $3");
pub(super) const LIST_PROCESSED: &str = detail!(
    "INDEXED BY sync_outbox_processed WHERE o.processed_at IS NOT NULL AND ($2 IS NULL OR (o.processed_at, o.id) < \
     (SELECT a.processed_at, a.id FROM sync_outbox AS a WHERE a.id = $2)) ORDER BY o.processed_at DESC, o.id DESC LIMIT $3"
);
pub(super) const DETAIL: &str = detail!("WHERE o.id = $2");
pub(super) const PAYLOAD: &str =
    "SELECT coalesce(CAST(payload AS TEXT), 'null') FROM sync_outbox WHERE id = $1";

pub(super) const RETRY: &str = "UPDATE sync_outbox SET attempts = 0, due_at = NULL, dead_at = NULL \
     WHERE id IN (SELECT value FROM json_each($1)) AND processed_at IS NULL \
     AND (dead_at IS NOT NULL OR due_at IS NOT NULL)";
pub(super) const RETRY_DEAD: &str = "UPDATE sync_outbox SET attempts = 0, due_at = NULL, dead_at = NULL WHERE id IN \
     (SELECT id FROM sync_outbox INDEXED BY sync_outbox_dead WHERE dead_at IS NOT NULL ORDER BY id LIMIT 1000)";
pub(super) const DISCARD: &str =
    "DELETE FROM sync_outbox WHERE id IN (SELECT value FROM json_each($1)) AND dead_at IS NOT NULL";
pub(super) const DISCARD_DEAD: &str = "DELETE FROM sync_outbox WHERE id IN \
     (SELECT id FROM sync_outbox INDEXED BY sync_outbox_dead WHERE dead_at IS NOT NULL ORDER BY id LIMIT 1000)";
/// A moment as text, the same in milliseconds, limit. The text finds them by the index; the number decides.
pub(super) const OLD: &str = concat!(
    "SELECT id FROM sync_outbox INDEXED BY sync_outbox_processed WHERE processed_at IS NOT NULL AND processed_at < $1 AND ",
    microseconds!("processed_at"),
    " < $2 * 1000 ORDER BY processed_at, id LIMIT $3"
);
pub(super) const REMOVE: &str = "DELETE FROM sync_outbox WHERE id IN (SELECT value FROM json_each($1))";
pub(super) const REMOVE_RECEIPTS: &str =
    "DELETE FROM syncline.sync_receipts WHERE entry_id IN (SELECT value FROM json_each($1))";

pub(super) const RECEIPT: &str =
    "SELECT entry_id, file_id, file_url, bytes, sha256 FROM syncline.sync_receipts WHERE entry_id = $1";
pub(super) const RECEIPT_OF: &str = "SELECT entry_id, file_id, file_url, bytes, sha256 FROM syncline.sync_receipts \
     WHERE file_id = $1 ORDER BY entry_id DESC LIMIT 1";
pub(super) const STORE_RECEIPT: &str = "INSERT INTO syncline.sync_receipts \
     (entry_id, file_id, file_url, bytes, sha256, stored_at) VALUES ($1, $2, $3, $4, $5, $6) \
     ON CONFLICT (entry_id) DO UPDATE SET file_id = excluded.file_id, file_url = excluded.file_url, \
     bytes = excluded.bytes, sha256 = excluded.sha256, stored_at = excluded.stored_at";
/// The columns of a table; none if there is no such table.
pub(super) const COLUMNS: &str = "SELECT name FROM pragma_table_info($1)";

pub(super) const SETTINGS_COLUMNS: &str = "SELECT name FROM pragma_table_info('system_settings')";
pub(super) const CREATE_SETTINGS: &str = "CREATE TABLE system_settings (id INTEGER PRIMARY KEY CHECK (id = 1), \
     sync_interval_sec INTEGER, sync_batch_size INTEGER, sync_enabled INTEGER, sync_files_enabled INTEGER); \
     INSERT INTO system_settings (id) VALUES (1)";
/// In the order of the settings' names.
pub(super) const READ_SETTINGS: [&str; 4] = [
    "SELECT CAST(sync_interval_sec AS TEXT) FROM system_settings LIMIT 1",
    "SELECT CAST(sync_batch_size AS TEXT) FROM system_settings LIMIT 1",
    "SELECT CAST(sync_enabled AS TEXT) FROM system_settings LIMIT 1",
    "SELECT CAST(sync_files_enabled AS TEXT) FROM system_settings LIMIT 1",
];
pub(super) const READ_BY_KEY: &str = "SELECT CAST(value AS TEXT) FROM system_settings WHERE key = $1";
pub(super) const READ_BY_NAME: &str = "SELECT CAST(value AS TEXT) FROM system_settings WHERE name = $1";
pub(super) const SET_SETTINGS: [&str; 4] = [
    "UPDATE system_settings SET sync_interval_sec = CAST($1 AS INTEGER)",
    "UPDATE system_settings SET sync_batch_size = CAST($1 AS INTEGER)",
    "UPDATE system_settings SET sync_enabled = ($1 = 'true')",
    "UPDATE system_settings SET sync_files_enabled = ($1 = 'true')",
];
