-- The outbox on PostgreSQL. The columns that an application may have made are cast. A condition on attempts that is always true is there
-- because only one kind of index has it: "attempts < 0 THEN 1" those by order, "THEN 2" those by entity. So the planner must use one of
-- these. "id::bigint + 0" is the id as they have it: in the order of the id alone the server would go through the whole table, if it
-- believes that what it looks for is to be found soon. A time that cannot be said is NULL: a cast that fails would fail a whole claim.

-- name: SENDER
SELECT sender FROM syncline.sync_outbox_sender;

-- name: SET_SENDER
UPDATE syncline.sync_outbox_sender SET sender = $1 WHERE sender <> $1;

-- name: INSERT
INSERT INTO sync_outbox (entity_type, entity_id, payload) SELECT entity_type, entity_id, coalesce(payload, 'null')
FROM json_populate_recordset(NULL::sync_outbox, $1::text::json) RETURNING id::bigint;

-- name: INSERT_AT
INSERT INTO sync_outbox (entity_type, entity_id, payload, created_at)
SELECT entity_type, entity_id, coalesce(payload, 'null'), created_at
FROM json_populate_record(NULL::sync_outbox, $1::text::json) RETURNING id::bigint;

-- name: PENDING
SELECT o.id::bigint AS id, o.entity_type::text AS entity_type, o.entity_id::text AS entity_id,
    coalesce(o.payload::text, 'null') AS payload, CASE WHEN isfinite(o.created_at) AND o.created_at >= '0001-01-02'
    AND o.created_at < '9999-12-30' THEN (extract(epoch FROM o.created_at) * 1000000)::bigint END AS created_us,
    o.attempts::bigint AS attempts, o.last_error IS NOT NULL AS failed_before
FROM sync_outbox AS o
WHERE (CASE WHEN o.attempts < 0 THEN 1 ELSE 0 END) = 0 AND o.processed_at IS NULL AND o.dead_at IS NULL
ORDER BY (o.id::bigint + 0) LIMIT $1;

-- name: MARK
UPDATE sync_outbox SET processed_at = coalesce($2::text::timestamptz, clock_timestamp()), due_at = NULL, behind = NULL,
    claim = NULL, leased_until = NULL, dead_at = NULL
WHERE id = ANY($1) AND processed_at IS NULL;

-- name: FREE
-- What waited for these need not wait any more
UPDATE sync_outbox SET behind = NULL WHERE behind = ANY($1);

-- name: FREE_ORPHANS
-- Those that wait for what is not there or not pending any more, whoever saw to that.
UPDATE sync_outbox SET behind = NULL
WHERE id IN (SELECT w.id FROM sync_outbox AS w WHERE w.behind IS NOT NULL AND NOT EXISTS (SELECT
    FROM sync_outbox AS b WHERE b.id = w.behind AND (CASE WHEN b.processed_at IS NULL
    AND b.dead_at IS NULL THEN 1 ELSE 0 END) = 1) LIMIT 1000 FOR UPDATE SKIP LOCKED);

-- name: BRING_BACK
-- files or not, limit. Puts what failed and is due into the line again
UPDATE sync_outbox SET due_at = NULL
WHERE id IN (SELECT id FROM sync_outbox WHERE syncline.is_file(entity_type) = $1::integer
    AND due_at <= (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED);

-- name: CLAIM
-- files or not, limit, claim, lease, worker, bytes. Gives what was found in line with the entry each has to wait for;.
-- those that have to wait for none, and fit, are claimed
-- An entry has to wait if the last pending one before it of its entity is not the one before it in what was found: that
-- is in flight, waits, or is being claimed by another at this moment. All that follow it have to wait too.
WITH line AS MATERIALIZED (SELECT o.id::bigint AS id, o.entity_type::text AS entity_type,
    o.entity_id::text AS entity_id, coalesce(o.payload::text, 'null') AS payload, CASE WHEN isfinite(o.created_at)
    AND o.created_at >= '0001-01-02' AND o.created_at < '9999-12-30'
    THEN (extract(epoch FROM o.created_at) * 1000000)::bigint END AS created_us, o.attempts::bigint AS attempts,
    o.last_error IS NOT NULL AS failed_before, o.entity_type AS raw_type FROM sync_outbox AS o WHERE o.processed_at IS NULL AND o.dead_at IS NULL
    AND o.due_at IS NULL AND o.behind IS NULL AND syncline.is_file(o.entity_type) = $1::integer
    AND (o.claim IS NULL OR o.leased_until <= (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint))
    ORDER BY (o.id::bigint + 0) /* or DESC */ LIMIT $2 FOR UPDATE SKIP LOCKED), looked AS (SELECT line.*, before.id AS before_id,
    lag(line.id) OVER (PARTITION BY line.raw_type, line.entity_id ORDER BY line.id) AS mine
    FROM line LEFT JOIN LATERAL (SELECT e.id::bigint AS id
    FROM sync_outbox AS e WHERE e.entity_type = line.raw_type AND e.entity_id::text = line.entity_id
    AND (e.id::bigint + 0) < line.id AND (CASE WHEN e.attempts < 0 THEN 2 ELSE 0 END) = 0
    AND e.processed_at IS NULL AND e.dead_at IS NULL ORDER BY e.entity_type DESC, e.entity_id::text DESC,
    (e.id::bigint + 0) DESC LIMIT 1) AS before ON true), judged AS (SELECT id, entity_type, entity_id, payload,
    created_us, attempts, failed_before, max(CASE WHEN before_id IS DISTINCT
    FROM mine THEN before_id END) OVER (PARTITION BY raw_type, entity_id
    ORDER BY id ROWS UNBOUNDED PRECEDING) AS blocker,
    sum(octet_length(payload)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) <= $6 OR row_number() OVER (ORDER BY id) = 1
    AS fits FROM looked), taken AS (UPDATE sync_outbox AS o SET claim = $3,
    leased_until = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $4, claimed_by = $5
    FROM judged AS j WHERE o.id = j.id AND j.blocker IS NULL AND j.fits)
SELECT id, entity_type, entity_id, payload, created_us, attempts, failed_before, blocker, fits FROM judged ORDER BY id;

-- name: BURY
-- ids, and why each can never be sent
UPDATE sync_outbox AS o SET dead_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint, last_error = g.reason,
    claim = NULL, leased_until = NULL
FROM unnest($1::bigint[], $2::text[]) AS g (id, reason) WHERE o.id = g.id;

-- name: DEFER
-- ids, blockers. A blocker that somebody is changing is left for the next time.
WITH given AS (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS g (id, blocker)),
    held AS MATERIALIZED (SELECT b.id::bigint AS id FROM sync_outbox AS b
    WHERE b.id = ANY($2) AND (CASE WHEN b.processed_at IS NULL AND b.dead_at IS NULL THEN 1 ELSE 0 END) = 1
    AND (b.claim IS NOT NULL OR b.due_at IS NOT NULL OR b.behind IS NOT NULL) FOR SHARE SKIP LOCKED)
UPDATE sync_outbox AS o SET behind = g.blocker FROM given AS g JOIN held ON held.id = g.blocker WHERE o.id = g.id;

-- name: NEXT_LOOK
-- files or not, whether those that failed may come back. In how many milliseconds something is due or a lease ends; asked when all
-- there is in line is in flight.
SELECT least((SELECT min(due_at) FROM sync_outbox WHERE $2 AND syncline.is_file(entity_type) = $1::integer
    AND due_at IS NOT NULL), (SELECT min(leased_until)
    FROM (SELECT leased_until FROM sync_outbox WHERE processed_at IS NULL AND dead_at IS NULL AND due_at IS NULL
    AND behind IS NULL AND syncline.is_file(entity_type) = $1::integer
    ORDER BY (id::bigint + 0) LIMIT 10000) AS leases)) - (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- name: DONE
-- claim, ids. What has a claim is pending. Found by their ids alone: a join would go wrong where the server believes that
-- hardly anything is claimed.
WITH settled AS (UPDATE sync_outbox SET processed_at = clock_timestamp(), due_at = NULL, claim = NULL,
    leased_until = NULL WHERE id = ANY($2) AND claim = $1 RETURNING id::bigint AS id),
    counted AS (UPDATE syncline.sync_outbox_sender SET delivered = delivered + (SELECT count(*) FROM settled))
SELECT id FROM settled;

-- name: FAILED
-- claim, ids, delays, reasons, attempts to count, in one order. Without a delay it is dead.
UPDATE sync_outbox SET attempts = attempts + ($5::bigint[])[array_position($2, id::bigint)]::integer,
    due_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + ($3::bigint[])[array_position($2, id::bigint)],
    dead_at = CASE WHEN ($3::bigint[])[array_position($2, id::bigint)] IS NULL
    THEN (extract(epoch FROM clock_timestamp()) * 1000)::bigint END, last_error = ($4::text[])[array_position($2,
    id::bigint)], claim = NULL, leased_until = NULL
WHERE id = ANY($2) AND claim = $1 RETURNING id::bigint;

-- name: GIVEN_BACK
UPDATE sync_outbox SET claim = NULL, leased_until = NULL WHERE id = ANY($2) AND claim = $1 RETURNING id::bigint;

-- name: RENEW
UPDATE sync_outbox SET leased_until = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $3
WHERE id = ANY($2) AND claim = $1 RETURNING id::bigint;

-- name: STATS
SELECT (SELECT count(*) FROM sync_outbox WHERE (CASE WHEN attempts < 0 THEN 1 ELSE 0 END) = 0
    AND processed_at IS NULL AND dead_at IS NULL), (SELECT count(*) FROM (SELECT leased_until
    FROM sync_outbox WHERE processed_at IS NULL AND dead_at IS NULL AND due_at IS NULL AND behind IS NULL
    AND syncline.is_file(entity_type) = 0 ORDER BY (id::bigint + 0) LIMIT 10000) AS changes
    WHERE leased_until > (extract(epoch FROM clock_timestamp()) * 1000)::bigint) + (SELECT count(*)
    FROM (SELECT leased_until FROM sync_outbox WHERE processed_at IS NULL AND dead_at IS NULL AND due_at IS NULL
    AND behind IS NULL AND syncline.is_file(entity_type) = 1 ORDER BY (id::bigint + 0) LIMIT 10000) AS files
    WHERE leased_until > (extract(epoch FROM clock_timestamp()) * 1000)::bigint), (SELECT count(*)
    FROM sync_outbox WHERE due_at IS NOT NULL), (SELECT count(*)
    FROM sync_outbox WHERE behind IS NOT NULL), (SELECT count(*)
    FROM sync_outbox WHERE dead_at IS NOT NULL),
    (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - (CASE WHEN isfinite(created_at)
    AND created_at >= '0001-01-02' AND created_at < '9999-12-30'
    THEN (extract(epoch FROM created_at) * 1000000)::bigint END) / 1000
    FROM sync_outbox WHERE (CASE WHEN attempts < 0 THEN 1 ELSE 0 END) = 0 AND processed_at IS NULL
    AND dead_at IS NULL ORDER BY (id::bigint + 0) LIMIT 1), (SELECT delivered
    FROM syncline.sync_outbox_sender), (SELECT count(*) FROM sync_outbox
    WHERE processed_at > now() - interval '1 minute' AND (CASE WHEN attempts < 0 THEN 1 ELSE 0 END) = 0);

-- name: LIST_PENDING
SELECT o.id::bigint, o.entity_type::text, o.entity_id::text, octet_length(coalesce(o.payload::text, 'null'))::bigint,
    CASE WHEN isfinite(o.created_at) AND o.created_at >= '0001-01-02'
    AND o.created_at < '9999-12-30' THEN (extract(epoch FROM o.created_at) * 1000000)::bigint END, o.attempts::bigint,
    o.due_at - (extract(epoch FROM clock_timestamp()) * 1000)::bigint, o.behind,
    o.leased_until - (extract(epoch FROM clock_timestamp()) * 1000)::bigint, o.claimed_by, o.last_error, CASE
    WHEN isfinite(o.processed_at) AND o.processed_at >= '0001-01-02'
    AND o.processed_at < '9999-12-30' THEN (extract(epoch FROM o.processed_at) * 1000000)::bigint END, o.dead_at
FROM sync_outbox AS o
WHERE (CASE WHEN o.attempts < 0 THEN 1 ELSE 0 END) = 0 AND o.processed_at IS NULL AND o.dead_at IS NULL
    AND (o.id::bigint + 0) > $1
ORDER BY (o.id::bigint + 0) LIMIT $2;

-- name: LIST_DEAD
SELECT o.id::bigint, o.entity_type::text, o.entity_id::text, octet_length(coalesce(o.payload::text, 'null'))::bigint,
    CASE WHEN isfinite(o.created_at) AND o.created_at >= '0001-01-02'
    AND o.created_at < '9999-12-30' THEN (extract(epoch FROM o.created_at) * 1000000)::bigint END, o.attempts::bigint,
    o.due_at - (extract(epoch FROM clock_timestamp()) * 1000)::bigint, o.behind,
    o.leased_until - (extract(epoch FROM clock_timestamp()) * 1000)::bigint, o.claimed_by, o.last_error, CASE
    WHEN isfinite(o.processed_at) AND o.processed_at >= '0001-01-02'
    AND o.processed_at < '9999-12-30' THEN (extract(epoch FROM o.processed_at) * 1000000)::bigint END, o.dead_at
FROM sync_outbox AS o WHERE o.dead_at IS NOT NULL AND (o.id::bigint + 0) > $1 ORDER BY (o.id::bigint + 0) LIMIT $2;

-- name: LIST_PROCESSED
SELECT o.id::bigint, o.entity_type::text, o.entity_id::text, octet_length(coalesce(o.payload::text, 'null'))::bigint,
    CASE WHEN isfinite(o.created_at) AND o.created_at >= '0001-01-02'
    AND o.created_at < '9999-12-30' THEN (extract(epoch FROM o.created_at) * 1000000)::bigint END, o.attempts::bigint,
    o.due_at - (extract(epoch FROM clock_timestamp()) * 1000)::bigint, o.behind,
    o.leased_until - (extract(epoch FROM clock_timestamp()) * 1000)::bigint, o.claimed_by, o.last_error, CASE
    WHEN isfinite(o.processed_at) AND o.processed_at >= '0001-01-02'
    AND o.processed_at < '9999-12-30' THEN (extract(epoch FROM o.processed_at) * 1000000)::bigint END, o.dead_at
FROM sync_outbox AS o WHERE o.processed_at IS NOT NULL AND (CASE WHEN o.attempts < 0 THEN 1 ELSE 0 END) = 0
ORDER BY o.processed_at DESC, o.id DESC LIMIT $1;

-- name: LIST_PROCESSED_AFTER
SELECT o.id::bigint, o.entity_type::text, o.entity_id::text, octet_length(coalesce(o.payload::text, 'null'))::bigint,
    CASE WHEN isfinite(o.created_at) AND o.created_at >= '0001-01-02'
    AND o.created_at < '9999-12-30' THEN (extract(epoch FROM o.created_at) * 1000000)::bigint END, o.attempts::bigint,
    o.due_at - (extract(epoch FROM clock_timestamp()) * 1000)::bigint, o.behind,
    o.leased_until - (extract(epoch FROM clock_timestamp()) * 1000)::bigint, o.claimed_by, o.last_error, CASE
    WHEN isfinite(o.processed_at) AND o.processed_at >= '0001-01-02'
    AND o.processed_at < '9999-12-30' THEN (extract(epoch FROM o.processed_at) * 1000000)::bigint END, o.dead_at
FROM sync_outbox AS o
WHERE o.processed_at IS NOT NULL AND (CASE WHEN o.attempts < 0 THEN 1 ELSE 0 END) = 0
    AND (o.processed_at, o.id) < (SELECT a.processed_at, a.id FROM sync_outbox AS a WHERE a.id = $1)
ORDER BY o.processed_at DESC, o.id DESC LIMIT $2;

-- name: DETAIL
SELECT o.id::bigint, o.entity_type::text, o.entity_id::text, octet_length(coalesce(o.payload::text, 'null'))::bigint,
    CASE WHEN isfinite(o.created_at) AND o.created_at >= '0001-01-02'
    AND o.created_at < '9999-12-30' THEN (extract(epoch FROM o.created_at) * 1000000)::bigint END, o.attempts::bigint,
    o.due_at - (extract(epoch FROM clock_timestamp()) * 1000)::bigint, o.behind,
    o.leased_until - (extract(epoch FROM clock_timestamp()) * 1000)::bigint, o.claimed_by, o.last_error, CASE
    WHEN isfinite(o.processed_at) AND o.processed_at >= '0001-01-02'
    AND o.processed_at < '9999-12-30' THEN (extract(epoch FROM o.processed_at) * 1000000)::bigint END, o.dead_at
FROM sync_outbox AS o WHERE o.id = $1;

-- name: PAYLOAD
SELECT coalesce(payload::text, 'null') FROM sync_outbox WHERE id = $1;

-- name: RETRY
UPDATE sync_outbox SET attempts = 0, due_at = NULL, dead_at = NULL
WHERE id = ANY($1) AND processed_at IS NULL AND (dead_at IS NOT NULL OR due_at IS NOT NULL);

-- name: RETRY_DEAD
UPDATE sync_outbox SET attempts = 0, due_at = NULL, dead_at = NULL
WHERE id IN (SELECT id FROM sync_outbox WHERE dead_at IS NOT NULL
    ORDER BY (id::bigint + 0) LIMIT 1000 FOR UPDATE SKIP LOCKED);

-- name: DISCARD
DELETE FROM sync_outbox WHERE id = ANY($1) AND dead_at IS NOT NULL;

-- name: DISCARD_DEAD
DELETE FROM sync_outbox
WHERE id IN (SELECT id FROM sync_outbox WHERE dead_at IS NOT NULL
    ORDER BY (id::bigint + 0) LIMIT 1000 FOR UPDATE SKIP LOCKED);

-- name: CLEANUP
WITH gone AS (DELETE FROM sync_outbox WHERE id IN (SELECT id
    FROM sync_outbox WHERE processed_at < now() - $1 * interval '1 millisecond'
    AND (CASE WHEN attempts < 0 THEN 1 ELSE 0 END) = 0 ORDER BY processed_at,
    id LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id::bigint AS id), receipts AS (DELETE
    FROM syncline.sync_receipts USING gone WHERE entry_id = gone.id)
SELECT count(*) FROM gone;

-- name: RECEIPT
SELECT entry_id, file_id, file_url, bytes, sha256 FROM syncline.sync_receipts WHERE entry_id = $1;

-- name: RECEIPT_OF
SELECT entry_id, file_id, file_url, bytes, sha256 FROM syncline.sync_receipts WHERE file_id = $1
ORDER BY entry_id DESC LIMIT 1;

-- name: STORE_RECEIPT
INSERT INTO syncline.sync_receipts (entry_id, file_id, file_url, bytes, sha256, stored_at)
VALUES ($1, $2, $3, $4, $5, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
ON CONFLICT (entry_id) DO UPDATE SET file_id = excluded.file_id, file_url = excluded.file_url, bytes = excluded.bytes,
    sha256 = excluded.sha256, stored_at = excluded.stored_at;

-- name: COLUMNS
-- Name and type of each column of a table; none if there is no such table.
SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped;

-- name: SETTINGS_ROWS
SELECT to_jsonb(s)::text FROM system_settings AS s LIMIT 1000;

-- name: HAS_SETTINGS
SELECT to_regclass('system_settings') IS NOT NULL;

-- name: SETTINGS_COLUMNS
SELECT attname::text FROM pg_attribute
WHERE attrelid = to_regclass('system_settings') AND attnum > 0 AND NOT attisdropped;

-- name: CREATE_SETTINGS
-- Beside `sync_outbox`, where the application finds it too.
DO $$ BEGIN EXECUTE format('CREATE TABLE %s.system_settings (id smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    sync_interval_sec bigint, sync_batch_size bigint, sync_enabled boolean, sync_files_enabled boolean)',
    (SELECT relnamespace::regnamespace FROM pg_class WHERE oid = to_regclass('sync_outbox'))); END $$;
INSERT INTO system_settings DEFAULT VALUES;
