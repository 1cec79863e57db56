//! What is said to PostgreSQL about the outbox. The columns that an application may have made are cast.

use super::super::now_ms;

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
/// The same as a value: as a condition it would make the server go through an index of all that is pending.
macro_rules! is_pending {
    ($o:literal) => {
        concat!("(CASE WHEN ", pending!($o), " THEN 1 ELSE 0 END) = 1")
    };
}
/// A condition that is always true and that only the indexes `sync_outbox_pending` and `sync_outbox_processed` have, so that the
/// planner must use one of them.
macro_rules! force_index_by_order {
    ($o:literal) => {
        concat!("(CASE WHEN ", $o, "attempts < 0 THEN 1 ELSE 0 END) = 0")
    };
}
/// The same for `sync_outbox_pending_entity` and `sync_outbox_processed_entity`.
macro_rules! force_index_by_entity {
    ($o:literal) => {
        concat!("(CASE WHEN ", $o, "attempts < 0 THEN 2 ELSE 0 END) = 0")
    };
}
pub(in crate::postgres) use force_index_by_entity;
/// The id as those indexes have it. In the order of the id alone the server would go through the whole table, if it
/// believes that what it looks for is to be found soon.
macro_rules! number {
    ($o:literal) => {
        concat!("(", $o, "id::bigint + 0)")
    };
}
pub(in crate::postgres) use number;
/// A time in microseconds since the epoch; NULL where it is none that can be said. A cast that fails would fail a whole claim.
macro_rules! microseconds {
    ($column:literal) => {
        concat!(
            "CASE WHEN isfinite(",
            $column,
            ") AND ",
            $column,
            " >= '0001-01-02' AND ",
            $column,
            " < '9999-12-30' THEN (extract(epoch FROM ",
            $column,
            ") * 1000000)::bigint END"
        )
    };
}
pub(in crate::postgres) use microseconds;
/// The columns of an entry.
macro_rules! entry {
    () => {
        concat!(
            "o.id::bigint AS id, o.entity_type::text AS entity_type, o.entity_id::text AS entity_id, \
             coalesce(o.payload::text, 'null') AS payload, ",
            microseconds!("o.created_at"),
            " AS created_us, o.attempts::bigint AS attempts"
        )
    };
}

pub(super) const SENDER: &str = "SELECT sender FROM syncline.sync_outbox_sender";
pub(super) const INSERT: &str = "INSERT INTO sync_outbox (entity_type, entity_id, payload) \
     SELECT entity_type, entity_id, coalesce(payload, 'null') FROM json_populate_recordset(NULL::sync_outbox, $1::text::json) \
     RETURNING id::bigint";
pub(super) const PENDING: &str = concat!(
    "SELECT ",
    entry!(),
    " FROM sync_outbox AS o WHERE ",
    force_index_by_order!("o."),
    " AND ",
    pending!("o."),
    " ORDER BY ",
    number!("o."),
    " LIMIT $1"
);
pub(super) const MARK: &str = "UPDATE sync_outbox SET processed_at = coalesce($2::text::timestamptz, clock_timestamp()), \
     due_at = NULL, behind = NULL, claim = NULL, leased_until = NULL, dead_at = NULL \
     WHERE id = ANY($1) AND processed_at IS NULL";
/// What waited for these need not wait any more.
pub(super) const FREE: &str = "UPDATE sync_outbox SET behind = NULL WHERE behind = ANY($1)";
/// Those that wait for what is not there or not pending any more, whoever saw to that.
pub(super) const FREE_ORPHANS: &str = concat!(
    "UPDATE sync_outbox SET behind = NULL WHERE id IN (SELECT w.id FROM sync_outbox AS w WHERE w.behind IS NOT NULL \
     AND NOT EXISTS (SELECT FROM sync_outbox AS b WHERE b.id = w.behind AND ",
    is_pending!("b."),
    ") LIMIT 1000 FOR UPDATE SKIP LOCKED)"
);
/// Puts what is due into the line again.
pub(super) const BRING_BACK: &str = concat!(
    "UPDATE sync_outbox SET due_at = NULL WHERE id IN (SELECT id FROM sync_outbox WHERE due_at <= (SELECT ",
    now_ms!(),
    ") ORDER BY due_at LIMIT 1000 FOR UPDATE SKIP LOCKED)"
);

/// files or not, limit, claim, lease, worker, bytes. Gives what was found in line with the entry each has to wait for;
/// those that have to wait for none, and fit, are claimed.
///
/// An entry has to wait if the last pending one before it of its entity is not the one before it in what was found: that
/// is in flight, waits, or is being claimed by another at this moment. All that follow it have to wait too.
pub(super) const CLAIM: &str = concat!(
    "WITH line AS MATERIALIZED (SELECT ",
    entry!(),
    ", o.entity_type AS raw_type FROM sync_outbox AS o WHERE ",
    in_line!("o."),
    " AND syncline.is_file(o.entity_type) = $1 AND (o.claim IS NULL OR o.leased_until <= (SELECT ",
    now_ms!(),
    ")) ORDER BY ",
    number!("o."),
    " LIMIT $2 FOR UPDATE SKIP LOCKED), \
     looked AS (SELECT line.*, before.id AS before_id, \
     lag(line.id) OVER (PARTITION BY line.raw_type, line.entity_id ORDER BY line.id) AS mine \
     FROM line LEFT JOIN LATERAL (SELECT e.id::bigint AS id FROM sync_outbox AS e \
     WHERE e.entity_type = line.raw_type AND e.entity_id::text = line.entity_id AND ",
    number!("e."),
    " < line.id AND ",
    force_index_by_entity!("e."),
    " AND ",
    pending!("e."),
    " ORDER BY e.entity_type DESC, e.entity_id::text DESC, ",
    number!("e."),
    " DESC LIMIT 1) AS before ON true), \
     judged AS (SELECT id, entity_type, entity_id, payload, created_us, attempts, \
     max(CASE WHEN before_id IS DISTINCT FROM mine THEN before_id END) \
     OVER (PARTITION BY raw_type, entity_id ORDER BY id ROWS UNBOUNDED PRECEDING) AS blocker, \
     sum(octet_length(payload)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) <= $6 \
     OR row_number() OVER (ORDER BY id) = 1 AS fits FROM looked), \
     taken AS (UPDATE sync_outbox AS o SET claim = $3, leased_until = ",
    now_ms!(),
    " + $4, claimed_by = $5 FROM judged AS j WHERE o.id = j.id AND j.blocker IS NULL AND j.fits) \
     SELECT id, entity_type, entity_id, payload, created_us, attempts, blocker, fits FROM judged ORDER BY id"
);
/// ids, and why each can never be sent.
pub(super) const BURY: &str = concat!(
    "UPDATE sync_outbox AS o SET dead_at = ",
    now_ms!(),
    ", last_error = g.reason, claim = NULL, leased_until = NULL \
     FROM unnest($1::bigint[], $2::text[]) AS g (id, reason) WHERE o.id = g.id"
);
/// ids, blockers. A blocker that somebody is changing is left for the next time.
pub(super) const DEFER: &str = concat!(
    "WITH given AS (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS g (id, blocker)), \
     held AS MATERIALIZED (SELECT b.id::bigint AS id FROM sync_outbox AS b WHERE b.id = ANY($2) AND ",
    is_pending!("b."),
    " AND (b.claim IS NOT NULL OR b.due_at IS NOT NULL OR b.behind IS NOT NULL) FOR SHARE SKIP LOCKED) \
     UPDATE sync_outbox AS o SET behind = g.blocker FROM given AS g JOIN held ON held.id = g.blocker WHERE o.id = g.id"
);
/// files or not. In how many milliseconds something is due or a lease ends; asked when all there is in line is in flight.
pub(super) const NEXT_LOOK: &str = concat!(
    "SELECT least((SELECT min(due_at) FROM sync_outbox WHERE due_at IS NOT NULL), \
     (SELECT min(leased_until) FROM (SELECT leased_until FROM sync_outbox WHERE ",
    in_line!(""),
    " AND syncline.is_file(entity_type) = $1 ORDER BY ",
    number!(""),
    " LIMIT 10000) AS leases)) - ",
    now_ms!()
);

/// claim, ids. What has a claim is pending. Found by their ids alone: a join would go wrong where the server believes that
/// hardly anything is claimed.
pub(super) const DONE: &str = "WITH settled AS (UPDATE sync_outbox SET processed_at = clock_timestamp(), due_at = NULL, \
     claim = NULL, leased_until = NULL WHERE id = ANY($2) AND claim = $1 RETURNING id::bigint AS id), \
     counted AS (UPDATE syncline.sync_outbox_sender SET delivered = delivered + (SELECT count(*) FROM settled)) \
     SELECT id FROM settled";
/// claim, ids, delays, reasons, in one order. Without a delay it is dead.
pub(super) const FAILED: &str = concat!(
    "UPDATE sync_outbox SET attempts = attempts + 1, due_at = ",
    now_ms!(),
    " + ($3::bigint[])[array_position($2, id::bigint)], \
     dead_at = CASE WHEN ($3::bigint[])[array_position($2, id::bigint)] IS NULL THEN ",
    now_ms!(),
    " END, last_error = ($4::text[])[array_position($2, id::bigint)], claim = NULL, leased_until = NULL \
     WHERE id = ANY($2) AND claim = $1 RETURNING id::bigint"
);
pub(super) const GIVEN_BACK: &str = "UPDATE sync_outbox SET claim = NULL, leased_until = NULL \
     WHERE id = ANY($2) AND claim = $1 RETURNING id::bigint";
pub(super) const RENEW: &str = concat!(
    "UPDATE sync_outbox SET leased_until = ",
    now_ms!(),
    " + $3 WHERE id = ANY($2) AND claim = $1 RETURNING id::bigint"
);

pub(super) const STATS: &str = concat!(
    "SELECT (SELECT count(*) FROM sync_outbox WHERE ",
    force_index_by_order!(""),
    " AND ",
    pending!(""),
    "), (SELECT count(*) FROM (SELECT leased_until FROM sync_outbox WHERE ",
    in_line!(""),
    " AND syncline.is_file(entity_type) = 0 ORDER BY ",
    number!(""),
    " LIMIT 10000) AS changes WHERE leased_until > ",
    now_ms!(),
    ") + (SELECT count(*) FROM (SELECT leased_until FROM sync_outbox WHERE ",
    in_line!(""),
    " AND syncline.is_file(entity_type) = 1 ORDER BY ",
    number!(""),
    " LIMIT 10000) AS files WHERE leased_until > ",
    now_ms!(),
    "), (SELECT count(*) FROM sync_outbox WHERE due_at IS NOT NULL), \
     (SELECT count(*) FROM sync_outbox WHERE behind IS NOT NULL), \
     (SELECT count(*) FROM sync_outbox WHERE dead_at IS NOT NULL), \
     (SELECT ",
    now_ms!(),
    " - (",
    microseconds!("created_at"),
    ") / 1000 FROM sync_outbox WHERE ",
    force_index_by_order!(""),
    " AND ",
    pending!(""),
    " ORDER BY ",
    number!(""),
    " LIMIT 1), (SELECT delivered FROM syncline.sync_outbox_sender), \
     (SELECT count(*) FROM sync_outbox WHERE processed_at > now() - interval '1 minute' AND ",
    force_index_by_order!(""),
    ")"
);

macro_rules! detail {
    ($($rest:expr),+) => {
        concat!(
            "SELECT o.id::bigint, o.entity_type::text, o.entity_id::text, \
             octet_length(coalesce(o.payload::text, 'null'))::bigint, ",
            microseconds!("o.created_at"),
            ", o.attempts::bigint, o.due_at - ",
            now_ms!(),
            ", o.behind, o.leased_until - ",
            now_ms!(),
            ", o.claimed_by, o.last_error, ",
            microseconds!("o.processed_at"),
            ", o.dead_at",
            $($rest),+
        )
    };
}
pub(super) const LIST_PENDING: &str = detail!(
    " FROM sync_outbox AS o WHERE ",
    force_index_by_order!("o."),
    " AND ",
    pending!("o."),
    " AND ",
    number!("o."),
    " > $1 ORDER BY ",
    number!("o."),
    " LIMIT $2"
);
pub(super) const LIST_DEAD: &str = detail!(
    " FROM sync_outbox AS o WHERE o.dead_at IS NOT NULL AND ",
    number!("o."),
    " > $1 ORDER BY ",
    number!("o."),
    " LIMIT $2"
);
pub(super) const LIST_PROCESSED: &str = detail!(
    " FROM sync_outbox AS o WHERE o.processed_at IS NOT NULL AND ",
    force_index_by_order!("o."),
    " ORDER BY o.processed_at DESC, o.id DESC LIMIT $1"
);
pub(super) const LIST_PROCESSED_AFTER: &str = detail!(
    " FROM sync_outbox AS o WHERE o.processed_at IS NOT NULL AND ",
    force_index_by_order!("o."),
    " AND (o.processed_at, o.id) < \
     (SELECT a.processed_at, a.id FROM sync_outbox AS a WHERE a.id = $1) ORDER BY o.processed_at DESC, o.id DESC LIMIT $2"
);
pub(super) const DETAIL: &str = detail!(" FROM sync_outbox AS o WHERE o.id = $1");
pub(super) const PAYLOAD: &str = "SELECT coalesce(payload::text, 'null') FROM sync_outbox WHERE id = $1";

pub(super) const RETRY: &str = "UPDATE sync_outbox SET attempts = 0, due_at = NULL, dead_at = NULL \
     WHERE id = ANY($1) AND processed_at IS NULL AND (dead_at IS NOT NULL OR due_at IS NOT NULL)";
/// The first that are dead. Whoever asks for dead ones by the order of their ids alone may be led through the whole table.
macro_rules! first_dead {
    () => {
        concat!(
            "(SELECT id FROM sync_outbox WHERE dead_at IS NOT NULL ORDER BY ",
            number!(""),
            " LIMIT 1000 FOR UPDATE SKIP LOCKED)"
        )
    };
}
pub(super) const RETRY_DEAD: &str =
    concat!("UPDATE sync_outbox SET attempts = 0, due_at = NULL, dead_at = NULL WHERE id IN ", first_dead!());
pub(super) const DISCARD: &str = "DELETE FROM sync_outbox WHERE id = ANY($1) AND dead_at IS NOT NULL";
pub(super) const DISCARD_DEAD: &str = concat!("DELETE FROM sync_outbox WHERE id IN ", first_dead!());
pub(super) const CLEANUP: &str = concat!(
    "WITH gone AS (DELETE FROM sync_outbox WHERE id IN (SELECT id FROM sync_outbox \
     WHERE processed_at < now() - $1 * interval '1 millisecond' AND ",
    force_index_by_order!(""),
    " ORDER BY processed_at, id LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id::bigint AS id), \
     receipts AS (DELETE FROM syncline.sync_receipts USING gone WHERE entry_id = gone.id) SELECT count(*) FROM gone"
);

pub(super) const RECEIPT: &str =
    "SELECT entry_id, file_id, file_url, bytes, sha256 FROM syncline.sync_receipts WHERE entry_id = $1";
pub(super) const RECEIPT_OF: &str = "SELECT entry_id, file_id, file_url, bytes, sha256 FROM syncline.sync_receipts \
     WHERE file_id = $1 ORDER BY entry_id DESC LIMIT 1";
pub(super) const STORE_RECEIPT: &str = concat!(
    "INSERT INTO syncline.sync_receipts (entry_id, file_id, file_url, bytes, sha256, stored_at) VALUES ($1, $2, $3, $4, $5, ",
    now_ms!(),
    ") ON CONFLICT (entry_id) DO UPDATE SET file_id = excluded.file_id, file_url = excluded.file_url, \
     bytes = excluded.bytes, sha256 = excluded.sha256, stored_at = excluded.stored_at"
);
/// Name and type of each column of a table; none if there is no such table.
pub(super) const COLUMNS: &str = "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute \
     WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped";

pub(super) const SETTINGS_ROWS: &str = "SELECT to_jsonb(s)::text FROM system_settings AS s LIMIT 1000";
pub(super) const HAS_SETTINGS: &str = "SELECT to_regclass('system_settings') IS NOT NULL";
/// Beside `sync_outbox`, where the application finds it too.
pub(super) const CREATE_SETTINGS: &str = "DO $$ BEGIN EXECUTE format('CREATE TABLE %s.system_settings (id smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1), \
     sync_interval_sec bigint, sync_batch_size bigint, sync_enabled boolean, sync_files_enabled boolean)', \
     (SELECT relnamespace::regnamespace FROM pg_class WHERE oid = to_regclass('sync_outbox'))); END $$; \
     INSERT INTO system_settings DEFAULT VALUES";
pub(super) const HAS_SETTING: &str = "SELECT EXISTS (SELECT FROM pg_attribute \
     WHERE attrelid = to_regclass('system_settings') AND attname = $1 AND NOT attisdropped)";
/// In the order of the settings' names.
pub(super) const SET_SETTINGS: [&str; 4] = [
    "UPDATE system_settings SET sync_interval_sec = $1::text::bigint",
    "UPDATE system_settings SET sync_batch_size = $1::text::bigint",
    "UPDATE system_settings SET sync_enabled = $1::text::boolean",
    "UPDATE system_settings SET sync_files_enabled = $1::text::boolean",
];
