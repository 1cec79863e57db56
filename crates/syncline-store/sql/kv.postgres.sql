-- The kv on PostgreSQL. Times to live are counted on the database's clock, which is read inside each statement. Where it only
-- filters, it is read once at the start (a sub-select without a table is evaluated once, which also lets the index be used);
-- where it decides over a row that another transaction may hold, it is read again when the row is ours. So waiting neither
-- shortens a time to live nor keeps an expired key alive.

-- name: PUT
-- key, value, time to live; gives the version
INSERT INTO syncline.kv (key, value, expires_at, version)
VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $3, (random() * 281474976710655)::bigint + 1)
ON CONFLICT (key) DO UPDATE SET value = excluded.value,
    expires_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $3, version = syncline.kv.version + 1
RETURNING version;

-- name: PUT_NEW
-- key, value, time to live; gives the version
INSERT INTO syncline.kv (key, value, expires_at, version)
VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $3, (random() * 281474976710655)::bigint + 1)
ON CONFLICT (key) DO UPDATE SET value = excluded.value,
    expires_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $3, version = syncline.kv.version + 1
WHERE syncline.kv.expires_at <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint
RETURNING version;

-- name: PUT_VALUE
-- key, value: the time to live stays; gives the version
UPDATE syncline.kv SET value = $2, version = version + 1 WHERE key = $1 RETURNING version;

-- name: GET
-- key
SELECT key, value, expires_at - now, version
FROM syncline.kv, (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) AS clock
WHERE key = $1 AND (expires_at IS NULL OR expires_at > now);

-- name: LOCK
-- key: the row, live or not, which nobody else changes until the transaction ends
SELECT value, expires_at - (extract(epoch FROM clock_timestamp()) * 1000)::bigint, version,
    expires_at IS NULL OR expires_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM syncline.kv WHERE key = $1 FOR UPDATE;

-- name: DELETE
-- key
DELETE FROM syncline.kv WHERE key = $1
RETURNING expires_at IS NULL OR expires_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- name: LIST
-- from, to, limit, most bytes, whether values are wanted
-- A row comes while those before it have fewer bytes than are wanted; lengths are known without reading the values.
SELECT key, value, ttl_left_ms, version
FROM (
    SELECT key, CASE WHEN $5 THEN value ELSE '' END AS value, ttl_left_ms, version,
        sum(octet_length(key) + CASE WHEN $5 THEN octet_length(value) ELSE 0 END)
        OVER (ORDER BY key ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM (
        SELECT key, value, version,
            expires_at - (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS ttl_left_ms
        FROM syncline.kv
        WHERE key >= $1 AND key < $2
            AND (expires_at IS NULL OR expires_at > (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint))
        ORDER BY key LIMIT $3
    ) AS live
) AS weighed
WHERE coalesce(before, 0) < $4 ORDER BY key;

-- name: GARBAGE
-- limit: how many are expired, as far as that is worth knowing
SELECT count(*)
FROM (
    SELECT 1 FROM syncline.kv
    WHERE expires_at <= (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint) LIMIT $1
) AS expired;

-- name: SWEEP
-- limit
-- Rows that others are changing at this moment are left to them: they are being renewed or removed.
DELETE FROM syncline.kv WHERE key IN (
    SELECT key FROM syncline.kv
    WHERE expires_at <= (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
);

-- name: NOTIFY
-- channel, notices
SELECT pg_notify($1, notice)::text FROM unnest($2::text[]) AS told (notice);
