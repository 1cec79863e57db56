-- The kv on SQLite. Times to live are counted on the store's steady clock (:now), which is read when the change's turn has come:
-- a wait for the writer does not eat into them.

-- name: PUT
-- key, value, time to live; gives the version
INSERT INTO syncline.kv (key, value, expires_at, version) VALUES ($1, $2, :now + $3, (random() & 281474976710655) + 1)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at,
    version = syncline.kv.version + 1
RETURNING version;

-- name: PUT_NEW
-- key, value, time to live; gives the version
INSERT INTO syncline.kv (key, value, expires_at, version) VALUES ($1, $2, :now + $3, (random() & 281474976710655) + 1)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at,
    version = syncline.kv.version + 1
WHERE syncline.kv.expires_at <= :now
RETURNING version;

-- name: PUT_VALUE
-- key, value: the time to live stays; gives the version
UPDATE syncline.kv SET value = $2, version = version + 1 WHERE key = $1 RETURNING version;

-- name: GET
-- key
SELECT key, value, expires_at - :now, version FROM syncline.kv
WHERE key = $1 AND (expires_at IS NULL OR expires_at > :now);

-- name: LOCK
-- key: the row, live or not
SELECT value, expires_at - :now, version, expires_at IS NULL OR expires_at > :now FROM syncline.kv WHERE key = $1;

-- name: DELETE
-- key
DELETE FROM syncline.kv WHERE key = $1 RETURNING expires_at IS NULL OR expires_at > :now;

-- name: LIST
-- from, to, limit, most bytes, whether values are wanted
-- A row comes while those before it have fewer bytes than are wanted. Lengths are known without reading the values, and the
-- values of the rows that come are read by their keys.
SELECT k.key, CASE WHEN $5 THEN k.value ELSE '' END, k.expires_at - :now, k.version
FROM (
    SELECT key, sum(octet_length(key) + CASE WHEN $5 THEN bytes ELSE 0 END)
        OVER (ORDER BY key ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM (
        SELECT key, octet_length(value) AS bytes FROM syncline.kv
        WHERE key >= $1 AND key < $2 AND (expires_at IS NULL OR expires_at > :now) ORDER BY key LIMIT $3
    )
) AS weighed CROSS JOIN syncline.kv AS k
WHERE k.key = weighed.key AND coalesce(weighed.before, 0) < $4 ORDER BY weighed.key;

-- name: GARBAGE
-- limit: how many are expired, as far as that is worth knowing
SELECT count(*) FROM (SELECT 1 FROM syncline.kv WHERE expires_at <= :now LIMIT $1);

-- name: SWEEP
-- limit
DELETE FROM syncline.kv WHERE rowid IN
    (SELECT rowid FROM syncline.kv WHERE expires_at <= :now ORDER BY expires_at LIMIT $1);
