-- Locks on PostgreSQL. Leases are counted on the database's clock, which is read anew wherever it decides over a row.

-- name: GRANT
-- name, lease, holder, time to live, greatest token of the clock
-- Gives the token, or no row where somebody else holds it, or where the floor has to be looked at first. Who sees that at once writes nothing: even a row that is only locked has
-- to reach the disk.
INSERT INTO syncline.locks (name, lease_id, holder, token, granted_at, expires_at)
SELECT $1, $2, $3,
    greatest(least((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $5), token + 1),
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $4
FROM syncline.lock_floor
WHERE history = syncline.lock_history() AND longest_ttl >= $4
    AND quiet_until <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    AND NOT EXISTS (
    SELECT 1 FROM syncline.locks
    WHERE name = $1 AND lease_id <> $2 AND expires_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint
)
ON CONFLICT (name) DO UPDATE SET
    token = CASE WHEN syncline.locks.lease_id = excluded.lease_id
            AND syncline.locks.expires_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint
        THEN syncline.locks.token ELSE greatest(syncline.locks.token + 1, excluded.token) END,
    granted_at = CASE WHEN syncline.locks.lease_id = excluded.lease_id THEN syncline.locks.granted_at
        ELSE (extract(epoch FROM clock_timestamp()) * 1000)::bigint END,
    lease_id = excluded.lease_id, holder = excluded.holder,
    expires_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $4
WHERE syncline.locks.expires_at <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    OR syncline.locks.lease_id = excluded.lease_id
RETURNING token;

-- name: HOLDER
-- name
SELECT holder FROM syncline.locks WHERE name = $1;

-- name: WANT
-- name, how long a mark lasts, longest lease. Says that somebody waits, unless that was said a moment ago, and reads.
-- the lock. The longest lease there is bounds what the row may claim.
WITH marked AS (UPDATE syncline.locks SET wanted_until = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2,
    expires_at = least(expires_at, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $3)
    WHERE name = $1 AND (wanted_until < (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2 / 2 OR
    greatest(wanted_until - $2, expires_at - $3) > (extract(epoch FROM clock_timestamp()) * 1000)::bigint) RETURNING
    name, holder, token, granted_at, expires_at), seen AS (SELECT * FROM marked UNION ALL
    SELECT name, holder, token, granted_at, expires_at FROM syncline.locks
    WHERE name = $1 AND NOT EXISTS (SELECT 1 FROM marked))
SELECT name, holder, token, (extract(epoch FROM clock_timestamp()) * 1000)::bigint - granted_at,
    expires_at - (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM seen;

-- name: LOOK
SELECT name, holder, token, (extract(epoch FROM clock_timestamp()) * 1000)::bigint - granted_at,
    expires_at - (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM syncline.locks WHERE name = $1 AND expires_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- name: RENEW
-- name, lease, time to live. On another history than the last grant's, nobody knows what else was granted.
UPDATE syncline.locks SET expires_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $3
WHERE name = $1 AND lease_id = $2 AND expires_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    AND EXISTS (SELECT FROM syncline.lock_floor WHERE history = syncline.lock_history() AND longest_ttl >= $3)
RETURNING token;

-- name: RELEASE
-- name, lease, channel, who tells
WITH freed AS (UPDATE syncline.locks SET lease_id = NULL,
    expires_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    WHERE name = $1 AND lease_id = $2 AND expires_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint RETURNING
    name, token, wanted_until > expires_at AS wanted)
SELECT token, CASE WHEN wanted THEN pg_notify($3, $4 || name)::text END FROM freed;

-- name: FORCE
-- name, channel, who tells. The row is locked before it is read, so that what is returned is what is ended.
WITH held AS (SELECT name, holder, token, (extract(epoch FROM clock_timestamp()) * 1000)::bigint - granted_at AS age,
    expires_at - (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS left_ms
    FROM syncline.locks WHERE name = $1 AND expires_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint FOR
    UPDATE), freed AS (UPDATE syncline.locks SET lease_id = NULL,
    expires_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM held WHERE syncline.locks.name = held.name RETURNING syncline.locks.name)
SELECT held.name, held.holder, held.token, held.age, held.left_ms, pg_notify($2, $3 || held.name)::text
FROM held JOIN freed ON freed.name = held.name;

-- name: LEASE
SELECT lease_id FROM syncline.locks WHERE name = $1;

-- name: LIST
SELECT name, holder, token, (extract(epoch FROM clock_timestamp()) * 1000)::bigint - granted_at,
    expires_at - (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM syncline.locks
WHERE name >= $1 AND name < $2 AND expires_at > (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
ORDER BY name LIMIT $3;

-- name: FORGET
-- limit, age. Rows that others are changing at this moment are in use.
DELETE FROM syncline.locks
WHERE name IN (SELECT name FROM syncline.locks WHERE token <= (SELECT settled
    FROM syncline.lock_floor) AND expires_at < (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint) - $2
    LIMIT $1 FOR UPDATE SKIP LOCKED);

-- name: RAISE_FLOOR
-- Lifts the floor above what may be forgotten the next time
UPDATE syncline.lock_floor SET settled = token, raised_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
    token = greatest(token, coalesce((SELECT max(syncline.locks.token) FROM syncline.locks), 0))
WHERE raised_at <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1;

-- name: FLOOR
-- Nobody else settles it until the transaction ends.
SELECT history, syncline.lock_history(), longest_ttl, longest_at, quiet_until,
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM syncline.lock_floor FOR UPDATE;

-- name: KEEP_FLOOR
-- history, longest lease, when it was said
UPDATE syncline.lock_floor SET history = $1, longest_ttl = $2, longest_at = $3;

-- name: LAST_END
SELECT coalesce(max(expires_at), 0), coalesce(max(token), 0) FROM syncline.locks;

-- name: END_ALL
-- now
UPDATE syncline.locks SET lease_id = NULL, expires_at = $1 WHERE expires_at > $1;

-- name: GO_ABOVE
-- token, until when nobody is granted anything
UPDATE syncline.lock_floor SET token = greatest(token, $1), quiet_until = greatest(quiet_until, $2);
