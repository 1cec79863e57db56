-- The outbox on SQLite. `sync_outbox` stands for our own table of its entries, or for the table of a route, and `app_outbox` for where the
-- payloads are: the application's table, or again that of the route. An application may have made the first six columns as it likes: ids of entities that are blobs are read as
-- the UUIDs they are, and times as text, as seconds or as milliseconds. Milliseconds are told from seconds by their size, also where
-- they are text; a time is read in microseconds since the epoch, NULL where it is none. SQLite's own functions round to milliseconds,
-- so the fraction of a second is read digit by digit: from the 21st character on, up to six.

-- name: SENDER
SELECT sender FROM syncline.sync_outbox_sender;

-- name: SET_SENDER
UPDATE syncline.sync_outbox_sender SET sender = $1 WHERE sender <> $1;

-- name: INSERT
INSERT INTO sync_outbox (entity_type, entity_id, payload) SELECT value ->> 0, value ->> 1, value ->> 2
FROM json_each($1);

-- name: INSERT_AT
INSERT INTO sync_outbox (entity_type, entity_id, payload, created_at) VALUES ($1, $2, $3, $4);

-- name: LAST
SELECT id FROM sync_outbox ORDER BY id DESC LIMIT $1;

-- name: PENDING
SELECT o.id, CAST(o.entity_type AS TEXT) AS entity_type,
    CASE WHEN typeof(o.entity_id) = 'blob' AND length(o.entity_id) = 16
        THEN lower(substr(hex(o.entity_id), 1, 8) || '-' || substr(hex(o.entity_id), 9, 4)
            || '-' || substr(hex(o.entity_id), 13, 4) || '-' || substr(hex(o.entity_id), 17, 4)
            || '-' || substr(hex(o.entity_id), 21))
        ELSE CAST(o.entity_id AS TEXT) END AS entity_id, coalesce(CAST((SELECT p.payload FROM app_outbox AS p WHERE p.id = o.id) AS TEXT),
    'null') AS payload,
    CASE WHEN typeof(o.created_at) = 'integer' OR (typeof(o.created_at) = 'text' AND o.created_at NOT GLOB '*[^0-9]*'
            AND length(o.created_at) BETWEEN 9 AND 14)
        THEN CASE WHEN CAST(o.created_at AS INTEGER) BETWEEN 100000000000 AND 253402207200000 THEN CAST(o.created_at AS INTEGER) * 1000
            ELSE unixepoch(CAST(o.created_at AS INTEGER), 'auto') * 1000000 END
        WHEN typeof(o.created_at) = 'real' THEN CAST(round(unixepoch(o.created_at, 'auto', 'subsec') * 1000) AS INTEGER) * 1000
        WHEN typeof(o.created_at) <> 'text' OR o.created_at NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN NULL
        WHEN substr(o.created_at, 20, 1) = '.' THEN
            unixepoch(substr(o.created_at, 1, 19) || ltrim(substr(o.created_at, 21), '0123456789')) * 1000000
            + CAST(substr(substr(o.created_at, 21, length(substr(o.created_at, 21))
                - length(ltrim(substr(o.created_at, 21), '0123456789'))) || '000000', 1, 6) AS INTEGER)
        ELSE unixepoch(o.created_at) * 1000000 END AS created_us, o.attempts, o.last_error IS NOT NULL AS failed_before
FROM sync_outbox AS o INDEXED BY sync_outbox_pending WHERE o.processed_at IS NULL AND o.dead_at IS NULL
ORDER BY o.id LIMIT $1;

-- name: MARK
UPDATE sync_outbox SET processed_at = coalesce($2, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), due_at = NULL,
    behind = NULL, claim = NULL, leased_until = NULL, dead_at = NULL
WHERE id IN (SELECT value FROM json_each($1)) AND processed_at IS NULL;

-- name: MARK_PAYLOADS
-- ids. The application sees in its own table that they were processed.
UPDATE app_outbox SET processed_at = (SELECT e.processed_at FROM sync_outbox AS e WHERE e.id = app_outbox.id)
WHERE id IN (SELECT value FROM json_each($1)) AND processed_at IS NULL;

-- name: FREE
-- What waited for these need not wait any more
UPDATE sync_outbox INDEXED BY sync_outbox_behind SET behind = NULL
WHERE behind IN (SELECT value FROM json_each($1)) AND behind IS NOT NULL;

-- name: FREE_ORPHANS
-- Those that wait for what is not there or not pending any more, whoever saw to that.
UPDATE sync_outbox SET behind = NULL
WHERE id IN (SELECT w.id FROM sync_outbox AS w INDEXED BY sync_outbox_behind
    WHERE w.behind IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sync_outbox AS b
    WHERE b.id = w.behind AND b.processed_at IS NULL AND b.dead_at IS NULL) LIMIT 1000);

-- name: LOOK
-- files or not, whether those that failed may come back
SELECT EXISTS (SELECT 1 FROM sync_outbox AS o INDEXED BY sync_outbox_ready
    WHERE o.processed_at IS NULL AND o.dead_at IS NULL AND o.due_at IS NULL AND o.behind IS NULL
    AND (substr(o.entity_type, -5) = '_file') = $1 AND (o.claim IS NULL OR o.leased_until <= :now)) OR EXISTS (SELECT
    1 FROM sync_outbox INDEXED BY sync_outbox_due_kind WHERE $2 AND (substr(entity_type, -5) = '_file') = $1
    AND due_at <= :now AND due_at IS NOT NULL) OR EXISTS (SELECT 1 FROM sync_outbox AS o INDEXED BY sync_outbox_ready
    WHERE o.processed_at IS NULL AND o.dead_at IS NULL AND o.due_at IS NULL AND o.behind IS NULL
    AND (substr(o.entity_type, -5) = '_file') IS NULL);

-- name: BRING_BACK
-- files or not, limit. Puts what failed and is due into the line again
UPDATE sync_outbox SET due_at = NULL
WHERE id IN (SELECT id FROM sync_outbox INDEXED BY sync_outbox_due_kind
    WHERE (substr(entity_type, -5) = '_file') = $1 AND due_at <= :now AND due_at IS NOT NULL ORDER BY due_at LIMIT $2);

-- name: LINE
-- files or not, limit, bytes. What is in line with the entry each has to wait for.
-- An entry has to wait if the last pending one before it of its entity is not the one before it in what was found: that
-- is in flight, or waits. All that follow it have to wait too.
WITH line AS MATERIALIZED (SELECT o.id, CAST(o.entity_type AS TEXT) AS entity_type,
    CASE WHEN typeof(o.entity_id) = 'blob' AND length(o.entity_id) = 16
        THEN lower(substr(hex(o.entity_id), 1, 8) || '-' || substr(hex(o.entity_id), 9, 4)
            || '-' || substr(hex(o.entity_id), 13, 4) || '-' || substr(hex(o.entity_id), 17, 4)
            || '-' || substr(hex(o.entity_id), 21))
        ELSE CAST(o.entity_id AS TEXT) END AS entity_id,
    coalesce(CAST((SELECT p.payload FROM app_outbox AS p WHERE p.id = o.id) AS TEXT), 'null') AS payload,
    CASE WHEN typeof(o.created_at) = 'integer' OR (typeof(o.created_at) = 'text' AND o.created_at NOT GLOB '*[^0-9]*'
            AND length(o.created_at) BETWEEN 9 AND 14)
        THEN CASE WHEN CAST(o.created_at AS INTEGER) BETWEEN 100000000000 AND 253402207200000 THEN CAST(o.created_at AS INTEGER) * 1000
            ELSE unixepoch(CAST(o.created_at AS INTEGER), 'auto') * 1000000 END
        WHEN typeof(o.created_at) = 'real' THEN CAST(round(unixepoch(o.created_at, 'auto', 'subsec') * 1000) AS INTEGER) * 1000
        WHEN typeof(o.created_at) <> 'text' OR o.created_at NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN NULL
        WHEN substr(o.created_at, 20, 1) = '.' THEN
            unixepoch(substr(o.created_at, 1, 19) || ltrim(substr(o.created_at, 21), '0123456789')) * 1000000
            + CAST(substr(substr(o.created_at, 21, length(substr(o.created_at, 21))
                - length(ltrim(substr(o.created_at, 21), '0123456789'))) || '000000', 1, 6) AS INTEGER)
        ELSE unixepoch(o.created_at) * 1000000 END AS created_us, o.attempts, o.last_error IS NOT NULL AS failed_before,
    o.entity_id AS raw_id FROM sync_outbox AS o INDEXED BY sync_outbox_ready
    WHERE o.processed_at IS NULL AND o.dead_at IS NULL AND o.due_at IS NULL AND o.behind IS NULL
    AND (substr(o.entity_type, -5) = '_file') = $1 AND (o.claim IS NULL OR o.leased_until <= :now)
    ORDER BY o.id /* or DESC */ LIMIT $2), looked AS (SELECT line.*, (SELECT e.id
    FROM sync_outbox AS e INDEXED BY sync_outbox_pending_entity
    WHERE e.entity_type = line.entity_type AND e.entity_id = line.raw_id AND e.id < line.id
    AND e.processed_at IS NULL AND e.dead_at IS NULL ORDER BY e.id DESC LIMIT 1) AS before_id,
    lag(line.id) OVER (PARTITION BY line.entity_type, line.raw_id ORDER BY line.id) AS mine FROM line)
SELECT id, entity_type, entity_id, payload, created_us, attempts, failed_before, max(CASE WHEN before_id IS NOT mine
    THEN before_id END) OVER (PARTITION BY entity_type, raw_id
    ORDER BY id ROWS UNBOUNDED PRECEDING) AS blocker,
    sum(octet_length(payload)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) <= $3 OR row_number() OVER (ORDER BY id) =
    1 AS fits
FROM looked ORDER BY id;

-- name: TAKE
-- ids, claim, lease, worker
UPDATE sync_outbox SET claim = $2, leased_until = :now + $3, claimed_by = $4
WHERE id IN (SELECT value FROM json_each($1));

-- name: BURY
-- Pairs of an entry and why it can never be sent
UPDATE sync_outbox SET dead_at = :wall, last_error = given.value ->> 1, claim = NULL, leased_until = NULL
FROM json_each($1) AS given WHERE sync_outbox.id = given.value ->> 0;

-- name: BURY_TYPELESS
-- What has no type is neither a file nor a change, and in no line.
UPDATE sync_outbox SET dead_at = :wall, last_error = 'entity_type is NULL', claim = NULL, leased_until = NULL
WHERE id IN (SELECT o.id FROM sync_outbox AS o INDEXED BY sync_outbox_ready
    WHERE o.processed_at IS NULL AND o.dead_at IS NULL AND o.due_at IS NULL AND o.behind IS NULL
    AND (substr(o.entity_type, -5) = '_file') IS NULL LIMIT 1000)
RETURNING id;

-- name: DEFER
-- Pairs of an entry and the one it has to wait for
UPDATE sync_outbox SET behind = given.value ->> 1 FROM json_each($1) AS given WHERE sync_outbox.id = given.value ->> 0;

-- name: NEXT_LOOK
-- files or not, whether those that failed may come back. In how many milliseconds something is due or a lease ends; asked when all
-- there is in line is in flight.
SELECT min(at) - :now
FROM (SELECT min(due_at) AS at FROM sync_outbox INDEXED BY sync_outbox_due_kind
    WHERE $2 AND (substr(entity_type, -5) = '_file') = $1 AND due_at IS NOT NULL UNION ALL
    SELECT min(leased_until) FROM (SELECT leased_until FROM sync_outbox AS o INDEXED BY sync_outbox_ready
    WHERE o.processed_at IS NULL AND o.dead_at IS NULL AND o.due_at IS NULL AND o.behind IS NULL
    AND (substr(o.entity_type, -5) = '_file') = $1 ORDER BY o.id LIMIT 10000));

-- name: SETTLE
-- claim, rows of (id, verdict, delay, reason). A verdict of 4 waits as 1 does, and no attempt is counted.
UPDATE sync_outbox AS o SET processed_at = CASE WHEN given.value ->> 1 = 0
    THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') END, attempts = o.attempts + (given.value ->> 1 IN (1, 2)),
    due_at = :now + (given.value ->> 2), dead_at = CASE WHEN given.value ->> 1 = 2
    THEN :wall END, last_error = coalesce(given.value ->> 3, o.last_error), claim = NULL, leased_until = NULL
FROM json_each($2) AS given
WHERE o.id = given.value ->> 0 AND o.claim = $1 AND o.processed_at IS NULL AND o.dead_at IS NULL RETURNING id;

-- name: COUNT
UPDATE syncline.sync_outbox_sender SET delivered = delivered + $1;

-- name: RENEW
UPDATE sync_outbox SET leased_until = :now + $3
WHERE id IN (SELECT value FROM json_each($2)) AND claim = $1 AND processed_at IS NULL AND dead_at IS NULL RETURNING id;

-- name: STATS
SELECT (SELECT count(*) FROM sync_outbox INDEXED BY sync_outbox_pending
    WHERE processed_at IS NULL AND dead_at IS NULL), (SELECT count(*) FROM (SELECT leased_until
    FROM sync_outbox AS o INDEXED BY sync_outbox_ready WHERE o.processed_at IS NULL AND o.dead_at IS NULL
    AND o.due_at IS NULL AND o.behind IS NULL AND (substr(o.entity_type, -5) = '_file') = 0
    ORDER BY o.id LIMIT 10000) WHERE leased_until > :now) + (SELECT count(*) FROM (SELECT leased_until
    FROM sync_outbox AS o INDEXED BY sync_outbox_ready WHERE o.processed_at IS NULL AND o.dead_at IS NULL
    AND o.due_at IS NULL AND o.behind IS NULL AND (substr(o.entity_type, -5) = '_file') = 1
    ORDER BY o.id LIMIT 10000) WHERE leased_until > :now), (SELECT count(*)
    FROM sync_outbox WHERE due_at IS NOT NULL), (SELECT count(*)
    FROM sync_outbox WHERE behind IS NOT NULL), (SELECT count(*)
    FROM sync_outbox WHERE dead_at IS NOT NULL), (SELECT :wall - (
    CASE WHEN typeof(created_at) = 'integer' OR (typeof(created_at) = 'text' AND created_at NOT GLOB '*[^0-9]*'
            AND length(created_at) BETWEEN 9 AND 14)
        THEN CASE WHEN CAST(created_at AS INTEGER) BETWEEN 100000000000 AND 253402207200000 THEN CAST(created_at AS INTEGER) * 1000
            ELSE unixepoch(CAST(created_at AS INTEGER), 'auto') * 1000000 END
        WHEN typeof(created_at) = 'real' THEN CAST(round(unixepoch(created_at, 'auto', 'subsec') * 1000) AS INTEGER) * 1000
        WHEN typeof(created_at) <> 'text' OR created_at NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN NULL
        WHEN substr(created_at, 20, 1) = '.' THEN
            unixepoch(substr(created_at, 1, 19) || ltrim(substr(created_at, 21), '0123456789')) * 1000000
            + CAST(substr(substr(created_at, 21, length(substr(created_at, 21))
                - length(ltrim(substr(created_at, 21), '0123456789'))) || '000000', 1, 6) AS INTEGER)
        ELSE unixepoch(created_at) * 1000000 END) / 1000
    FROM sync_outbox INDEXED BY sync_outbox_pending WHERE processed_at IS NULL
    AND dead_at IS NULL ORDER BY id LIMIT 1), (SELECT delivered
    FROM syncline.sync_outbox_sender), (SELECT count(*) FROM sync_outbox INDEXED BY sync_outbox_processed
    WHERE processed_at IS NOT NULL AND processed_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-60 seconds'));

-- name: LIST_PENDING
SELECT o.id, CAST(o.entity_type AS TEXT),
    CASE WHEN typeof(o.entity_id) = 'blob' AND length(o.entity_id) = 16
        THEN lower(substr(hex(o.entity_id), 1, 8) || '-' || substr(hex(o.entity_id), 9, 4)
            || '-' || substr(hex(o.entity_id), 13, 4) || '-' || substr(hex(o.entity_id), 17, 4)
            || '-' || substr(hex(o.entity_id), 21))
        ELSE CAST(o.entity_id AS TEXT) END, octet_length(coalesce((SELECT p.payload FROM app_outbox AS p WHERE p.id = o.id), 'null')),
    CASE WHEN typeof(o.created_at) = 'integer' OR (typeof(o.created_at) = 'text' AND o.created_at NOT GLOB '*[^0-9]*'
            AND length(o.created_at) BETWEEN 9 AND 14)
        THEN CASE WHEN CAST(o.created_at AS INTEGER) BETWEEN 100000000000 AND 253402207200000 THEN CAST(o.created_at AS INTEGER) * 1000
            ELSE unixepoch(CAST(o.created_at AS INTEGER), 'auto') * 1000000 END
        WHEN typeof(o.created_at) = 'real' THEN CAST(round(unixepoch(o.created_at, 'auto', 'subsec') * 1000) AS INTEGER) * 1000
        WHEN typeof(o.created_at) <> 'text' OR o.created_at NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN NULL
        WHEN substr(o.created_at, 20, 1) = '.' THEN
            unixepoch(substr(o.created_at, 1, 19) || ltrim(substr(o.created_at, 21), '0123456789')) * 1000000
            + CAST(substr(substr(o.created_at, 21, length(substr(o.created_at, 21))
                - length(ltrim(substr(o.created_at, 21), '0123456789'))) || '000000', 1, 6) AS INTEGER)
        ELSE unixepoch(o.created_at) * 1000000 END,
    o.attempts, o.due_at - :now, o.behind, o.leased_until - :now, o.claimed_by, o.last_error,
    CASE WHEN typeof(o.processed_at) = 'integer' OR (typeof(o.processed_at) = 'text' AND o.processed_at NOT GLOB '*[^0-9]*'
            AND length(o.processed_at) BETWEEN 9 AND 14)
        THEN CASE WHEN CAST(o.processed_at AS INTEGER) BETWEEN 100000000000 AND 253402207200000 THEN CAST(o.processed_at AS INTEGER) * 1000
            ELSE unixepoch(CAST(o.processed_at AS INTEGER), 'auto') * 1000000 END
        WHEN typeof(o.processed_at) = 'real' THEN CAST(round(unixepoch(o.processed_at, 'auto', 'subsec') * 1000) AS INTEGER) * 1000
        WHEN typeof(o.processed_at) <> 'text' OR o.processed_at NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN NULL
        WHEN substr(o.processed_at, 20, 1) = '.' THEN
            unixepoch(substr(o.processed_at, 1, 19) || ltrim(substr(o.processed_at, 21), '0123456789')) * 1000000
            + CAST(substr(substr(o.processed_at, 21, length(substr(o.processed_at, 21))
                - length(ltrim(substr(o.processed_at, 21), '0123456789'))) || '000000', 1, 6) AS INTEGER)
        ELSE unixepoch(o.processed_at) * 1000000 END,
    o.dead_at
FROM sync_outbox AS o INDEXED BY sync_outbox_pending WHERE o.processed_at IS NULL AND o.dead_at IS NULL AND o.id > $1
ORDER BY o.id LIMIT $2;

-- name: LIST_DEAD
SELECT o.id, CAST(o.entity_type AS TEXT),
    CASE WHEN typeof(o.entity_id) = 'blob' AND length(o.entity_id) = 16
        THEN lower(substr(hex(o.entity_id), 1, 8) || '-' || substr(hex(o.entity_id), 9, 4)
            || '-' || substr(hex(o.entity_id), 13, 4) || '-' || substr(hex(o.entity_id), 17, 4)
            || '-' || substr(hex(o.entity_id), 21))
        ELSE CAST(o.entity_id AS TEXT) END, octet_length(coalesce((SELECT p.payload FROM app_outbox AS p WHERE p.id = o.id), 'null')),
    CASE WHEN typeof(o.created_at) = 'integer' OR (typeof(o.created_at) = 'text' AND o.created_at NOT GLOB '*[^0-9]*'
            AND length(o.created_at) BETWEEN 9 AND 14)
        THEN CASE WHEN CAST(o.created_at AS INTEGER) BETWEEN 100000000000 AND 253402207200000 THEN CAST(o.created_at AS INTEGER) * 1000
            ELSE unixepoch(CAST(o.created_at AS INTEGER), 'auto') * 1000000 END
        WHEN typeof(o.created_at) = 'real' THEN CAST(round(unixepoch(o.created_at, 'auto', 'subsec') * 1000) AS INTEGER) * 1000
        WHEN typeof(o.created_at) <> 'text' OR o.created_at NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN NULL
        WHEN substr(o.created_at, 20, 1) = '.' THEN
            unixepoch(substr(o.created_at, 1, 19) || ltrim(substr(o.created_at, 21), '0123456789')) * 1000000
            + CAST(substr(substr(o.created_at, 21, length(substr(o.created_at, 21))
                - length(ltrim(substr(o.created_at, 21), '0123456789'))) || '000000', 1, 6) AS INTEGER)
        ELSE unixepoch(o.created_at) * 1000000 END,
    o.attempts, o.due_at - :now, o.behind, o.leased_until - :now, o.claimed_by, o.last_error,
    CASE WHEN typeof(o.processed_at) = 'integer' OR (typeof(o.processed_at) = 'text' AND o.processed_at NOT GLOB '*[^0-9]*'
            AND length(o.processed_at) BETWEEN 9 AND 14)
        THEN CASE WHEN CAST(o.processed_at AS INTEGER) BETWEEN 100000000000 AND 253402207200000 THEN CAST(o.processed_at AS INTEGER) * 1000
            ELSE unixepoch(CAST(o.processed_at AS INTEGER), 'auto') * 1000000 END
        WHEN typeof(o.processed_at) = 'real' THEN CAST(round(unixepoch(o.processed_at, 'auto', 'subsec') * 1000) AS INTEGER) * 1000
        WHEN typeof(o.processed_at) <> 'text' OR o.processed_at NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN NULL
        WHEN substr(o.processed_at, 20, 1) = '.' THEN
            unixepoch(substr(o.processed_at, 1, 19) || ltrim(substr(o.processed_at, 21), '0123456789')) * 1000000
            + CAST(substr(substr(o.processed_at, 21, length(substr(o.processed_at, 21))
                - length(ltrim(substr(o.processed_at, 21), '0123456789'))) || '000000', 1, 6) AS INTEGER)
        ELSE unixepoch(o.processed_at) * 1000000 END,
    o.dead_at
FROM sync_outbox AS o INDEXED BY sync_outbox_dead WHERE o.dead_at IS NOT NULL AND o.id > $1 ORDER BY o.id LIMIT $2;

-- name: LIST_PROCESSED
SELECT o.id, CAST(o.entity_type AS TEXT),
    CASE WHEN typeof(o.entity_id) = 'blob' AND length(o.entity_id) = 16
        THEN lower(substr(hex(o.entity_id), 1, 8) || '-' || substr(hex(o.entity_id), 9, 4)
            || '-' || substr(hex(o.entity_id), 13, 4) || '-' || substr(hex(o.entity_id), 17, 4)
            || '-' || substr(hex(o.entity_id), 21))
        ELSE CAST(o.entity_id AS TEXT) END, octet_length(coalesce((SELECT p.payload FROM app_outbox AS p WHERE p.id = o.id), 'null')),
    CASE WHEN typeof(o.created_at) = 'integer' OR (typeof(o.created_at) = 'text' AND o.created_at NOT GLOB '*[^0-9]*'
            AND length(o.created_at) BETWEEN 9 AND 14)
        THEN CASE WHEN CAST(o.created_at AS INTEGER) BETWEEN 100000000000 AND 253402207200000 THEN CAST(o.created_at AS INTEGER) * 1000
            ELSE unixepoch(CAST(o.created_at AS INTEGER), 'auto') * 1000000 END
        WHEN typeof(o.created_at) = 'real' THEN CAST(round(unixepoch(o.created_at, 'auto', 'subsec') * 1000) AS INTEGER) * 1000
        WHEN typeof(o.created_at) <> 'text' OR o.created_at NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN NULL
        WHEN substr(o.created_at, 20, 1) = '.' THEN
            unixepoch(substr(o.created_at, 1, 19) || ltrim(substr(o.created_at, 21), '0123456789')) * 1000000
            + CAST(substr(substr(o.created_at, 21, length(substr(o.created_at, 21))
                - length(ltrim(substr(o.created_at, 21), '0123456789'))) || '000000', 1, 6) AS INTEGER)
        ELSE unixepoch(o.created_at) * 1000000 END,
    o.attempts, o.due_at - :now, o.behind, o.leased_until - :now, o.claimed_by, o.last_error,
    CASE WHEN typeof(o.processed_at) = 'integer' OR (typeof(o.processed_at) = 'text' AND o.processed_at NOT GLOB '*[^0-9]*'
            AND length(o.processed_at) BETWEEN 9 AND 14)
        THEN CASE WHEN CAST(o.processed_at AS INTEGER) BETWEEN 100000000000 AND 253402207200000 THEN CAST(o.processed_at AS INTEGER) * 1000
            ELSE unixepoch(CAST(o.processed_at AS INTEGER), 'auto') * 1000000 END
        WHEN typeof(o.processed_at) = 'real' THEN CAST(round(unixepoch(o.processed_at, 'auto', 'subsec') * 1000) AS INTEGER) * 1000
        WHEN typeof(o.processed_at) <> 'text' OR o.processed_at NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN NULL
        WHEN substr(o.processed_at, 20, 1) = '.' THEN
            unixepoch(substr(o.processed_at, 1, 19) || ltrim(substr(o.processed_at, 21), '0123456789')) * 1000000
            + CAST(substr(substr(o.processed_at, 21, length(substr(o.processed_at, 21))
                - length(ltrim(substr(o.processed_at, 21), '0123456789'))) || '000000', 1, 6) AS INTEGER)
        ELSE unixepoch(o.processed_at) * 1000000 END,
    o.dead_at
FROM sync_outbox AS o INDEXED BY sync_outbox_processed WHERE o.processed_at IS NOT NULL
ORDER BY o.processed_at DESC, o.id DESC LIMIT $1;

-- name: LIST_PROCESSED_AFTER
SELECT o.id, CAST(o.entity_type AS TEXT),
    CASE WHEN typeof(o.entity_id) = 'blob' AND length(o.entity_id) = 16
        THEN lower(substr(hex(o.entity_id), 1, 8) || '-' || substr(hex(o.entity_id), 9, 4)
            || '-' || substr(hex(o.entity_id), 13, 4) || '-' || substr(hex(o.entity_id), 17, 4)
            || '-' || substr(hex(o.entity_id), 21))
        ELSE CAST(o.entity_id AS TEXT) END, octet_length(coalesce((SELECT p.payload FROM app_outbox AS p WHERE p.id = o.id), 'null')),
    CASE WHEN typeof(o.created_at) = 'integer' OR (typeof(o.created_at) = 'text' AND o.created_at NOT GLOB '*[^0-9]*'
            AND length(o.created_at) BETWEEN 9 AND 14)
        THEN CASE WHEN CAST(o.created_at AS INTEGER) BETWEEN 100000000000 AND 253402207200000 THEN CAST(o.created_at AS INTEGER) * 1000
            ELSE unixepoch(CAST(o.created_at AS INTEGER), 'auto') * 1000000 END
        WHEN typeof(o.created_at) = 'real' THEN CAST(round(unixepoch(o.created_at, 'auto', 'subsec') * 1000) AS INTEGER) * 1000
        WHEN typeof(o.created_at) <> 'text' OR o.created_at NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN NULL
        WHEN substr(o.created_at, 20, 1) = '.' THEN
            unixepoch(substr(o.created_at, 1, 19) || ltrim(substr(o.created_at, 21), '0123456789')) * 1000000
            + CAST(substr(substr(o.created_at, 21, length(substr(o.created_at, 21))
                - length(ltrim(substr(o.created_at, 21), '0123456789'))) || '000000', 1, 6) AS INTEGER)
        ELSE unixepoch(o.created_at) * 1000000 END,
    o.attempts, o.due_at - :now, o.behind, o.leased_until - :now, o.claimed_by, o.last_error,
    CASE WHEN typeof(o.processed_at) = 'integer' OR (typeof(o.processed_at) = 'text' AND o.processed_at NOT GLOB '*[^0-9]*'
            AND length(o.processed_at) BETWEEN 9 AND 14)
        THEN CASE WHEN CAST(o.processed_at AS INTEGER) BETWEEN 100000000000 AND 253402207200000 THEN CAST(o.processed_at AS INTEGER) * 1000
            ELSE unixepoch(CAST(o.processed_at AS INTEGER), 'auto') * 1000000 END
        WHEN typeof(o.processed_at) = 'real' THEN CAST(round(unixepoch(o.processed_at, 'auto', 'subsec') * 1000) AS INTEGER) * 1000
        WHEN typeof(o.processed_at) <> 'text' OR o.processed_at NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN NULL
        WHEN substr(o.processed_at, 20, 1) = '.' THEN
            unixepoch(substr(o.processed_at, 1, 19) || ltrim(substr(o.processed_at, 21), '0123456789')) * 1000000
            + CAST(substr(substr(o.processed_at, 21, length(substr(o.processed_at, 21))
                - length(ltrim(substr(o.processed_at, 21), '0123456789'))) || '000000', 1, 6) AS INTEGER)
        ELSE unixepoch(o.processed_at) * 1000000 END,
    o.dead_at
FROM sync_outbox AS o INDEXED BY sync_outbox_processed
WHERE o.processed_at IS NOT NULL AND (o.processed_at, o.id) < (SELECT a.processed_at, a.id
    FROM sync_outbox AS a WHERE a.id = $1)
ORDER BY o.processed_at DESC, o.id DESC LIMIT $2;

-- name: DETAIL
SELECT o.id, CAST(o.entity_type AS TEXT),
    CASE WHEN typeof(o.entity_id) = 'blob' AND length(o.entity_id) = 16
        THEN lower(substr(hex(o.entity_id), 1, 8) || '-' || substr(hex(o.entity_id), 9, 4)
            || '-' || substr(hex(o.entity_id), 13, 4) || '-' || substr(hex(o.entity_id), 17, 4)
            || '-' || substr(hex(o.entity_id), 21))
        ELSE CAST(o.entity_id AS TEXT) END, octet_length(coalesce((SELECT p.payload FROM app_outbox AS p WHERE p.id = o.id), 'null')),
    CASE WHEN typeof(o.created_at) = 'integer' OR (typeof(o.created_at) = 'text' AND o.created_at NOT GLOB '*[^0-9]*'
            AND length(o.created_at) BETWEEN 9 AND 14)
        THEN CASE WHEN CAST(o.created_at AS INTEGER) BETWEEN 100000000000 AND 253402207200000 THEN CAST(o.created_at AS INTEGER) * 1000
            ELSE unixepoch(CAST(o.created_at AS INTEGER), 'auto') * 1000000 END
        WHEN typeof(o.created_at) = 'real' THEN CAST(round(unixepoch(o.created_at, 'auto', 'subsec') * 1000) AS INTEGER) * 1000
        WHEN typeof(o.created_at) <> 'text' OR o.created_at NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN NULL
        WHEN substr(o.created_at, 20, 1) = '.' THEN
            unixepoch(substr(o.created_at, 1, 19) || ltrim(substr(o.created_at, 21), '0123456789')) * 1000000
            + CAST(substr(substr(o.created_at, 21, length(substr(o.created_at, 21))
                - length(ltrim(substr(o.created_at, 21), '0123456789'))) || '000000', 1, 6) AS INTEGER)
        ELSE unixepoch(o.created_at) * 1000000 END,
    o.attempts, o.due_at - :now, o.behind, o.leased_until - :now, o.claimed_by, o.last_error,
    CASE WHEN typeof(o.processed_at) = 'integer' OR (typeof(o.processed_at) = 'text' AND o.processed_at NOT GLOB '*[^0-9]*'
            AND length(o.processed_at) BETWEEN 9 AND 14)
        THEN CASE WHEN CAST(o.processed_at AS INTEGER) BETWEEN 100000000000 AND 253402207200000 THEN CAST(o.processed_at AS INTEGER) * 1000
            ELSE unixepoch(CAST(o.processed_at AS INTEGER), 'auto') * 1000000 END
        WHEN typeof(o.processed_at) = 'real' THEN CAST(round(unixepoch(o.processed_at, 'auto', 'subsec') * 1000) AS INTEGER) * 1000
        WHEN typeof(o.processed_at) <> 'text' OR o.processed_at NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN NULL
        WHEN substr(o.processed_at, 20, 1) = '.' THEN
            unixepoch(substr(o.processed_at, 1, 19) || ltrim(substr(o.processed_at, 21), '0123456789')) * 1000000
            + CAST(substr(substr(o.processed_at, 21, length(substr(o.processed_at, 21))
                - length(ltrim(substr(o.processed_at, 21), '0123456789'))) || '000000', 1, 6) AS INTEGER)
        ELSE unixepoch(o.processed_at) * 1000000 END,
    o.dead_at
FROM sync_outbox AS o WHERE o.id = $1;

-- name: PAYLOAD
SELECT coalesce(CAST((SELECT p.payload FROM app_outbox AS p WHERE p.id = o.id) AS TEXT), 'null') FROM sync_outbox AS o WHERE o.id = $1;

-- name: RETRY
UPDATE sync_outbox SET attempts = 0, due_at = NULL, dead_at = NULL
WHERE id IN (SELECT value FROM json_each($1)) AND processed_at IS NULL AND (dead_at IS NOT NULL OR due_at IS NOT NULL);

-- name: RETRY_DEAD
UPDATE sync_outbox SET attempts = 0, due_at = NULL, dead_at = NULL
WHERE id IN (SELECT id FROM sync_outbox INDEXED BY sync_outbox_dead WHERE dead_at IS NOT NULL ORDER BY id LIMIT 1000);

-- name: DISCARD
DELETE FROM sync_outbox WHERE id IN (SELECT value FROM json_each($1)) AND dead_at IS NOT NULL RETURNING id;

-- name: DISCARD_DEAD
DELETE FROM sync_outbox
WHERE id IN (SELECT id FROM sync_outbox INDEXED BY sync_outbox_dead WHERE dead_at IS NOT NULL ORDER BY id LIMIT 1000) RETURNING id;

-- name: OLD
-- A moment as text, the same in milliseconds, limit. The text finds them by the index; the number decides.
SELECT id FROM sync_outbox INDEXED BY sync_outbox_processed
WHERE processed_at IS NOT NULL AND processed_at < $1 AND
    CASE WHEN typeof(processed_at) = 'integer' OR (typeof(processed_at) = 'text' AND processed_at NOT GLOB '*[^0-9]*'
            AND length(processed_at) BETWEEN 9 AND 14)
        THEN CASE WHEN CAST(processed_at AS INTEGER) BETWEEN 100000000000 AND 253402207200000 THEN CAST(processed_at AS INTEGER) * 1000
            ELSE unixepoch(CAST(processed_at AS INTEGER), 'auto') * 1000000 END
        WHEN typeof(processed_at) = 'real' THEN CAST(round(unixepoch(processed_at, 'auto', 'subsec') * 1000) AS INTEGER) * 1000
        WHEN typeof(processed_at) <> 'text' OR processed_at NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN NULL
        WHEN substr(processed_at, 20, 1) = '.' THEN
            unixepoch(substr(processed_at, 1, 19) || ltrim(substr(processed_at, 21), '0123456789')) * 1000000
            + CAST(substr(substr(processed_at, 21, length(substr(processed_at, 21))
                - length(ltrim(substr(processed_at, 21), '0123456789'))) || '000000', 1, 6) AS INTEGER)
        ELSE unixepoch(processed_at) * 1000000 END < $2 * 1000
ORDER BY processed_at, id LIMIT $3;

-- name: REMOVE
DELETE FROM sync_outbox WHERE id IN (SELECT value FROM json_each($1));

-- name: REMOVE_PAYLOADS
DELETE FROM app_outbox WHERE id IN (SELECT value FROM json_each($1));

-- name: REMOVE_RECEIPTS
DELETE FROM syncline.sync_receipts WHERE entry_id IN (SELECT value FROM json_each($1));

-- name: RECEIPT
SELECT entry_id, file_id, file_url, bytes, sha256 FROM syncline.sync_receipts WHERE entry_id = $1;

-- name: RECEIPT_OF
SELECT entry_id, file_id, file_url, bytes, sha256 FROM syncline.sync_receipts WHERE file_id = $1
ORDER BY entry_id DESC LIMIT 1;

-- name: STORE_RECEIPT
INSERT INTO syncline.sync_receipts (entry_id, file_id, file_url, bytes, sha256, stored_at)
VALUES ($1, $2, $3, $4, $5, :wall)
ON CONFLICT (entry_id) DO UPDATE SET file_id = excluded.file_id, file_url = excluded.file_url,
    bytes = excluded.bytes, sha256 = excluded.sha256, stored_at = excluded.stored_at;

-- name: COLUMNS
-- The columns of a table; none if there is no such table
SELECT name FROM pragma_table_info($1);

-- name: SETTINGS_COLUMNS
SELECT name FROM pragma_table_info('system_settings');

-- name: READ_BY_KEY
SELECT CAST(value AS TEXT) FROM system_settings WHERE key = $1;

-- name: READ_BY_NAME
SELECT CAST(value AS TEXT) FROM system_settings WHERE name = $1;

-- name: CREATE_SETTINGS
CREATE TABLE system_settings (
    id INTEGER PRIMARY KEY CHECK (id = 1), sync_interval_sec INTEGER, sync_batch_size INTEGER, sync_enabled INTEGER,
    sync_files_enabled INTEGER
);
INSERT INTO system_settings (id) VALUES (1);
