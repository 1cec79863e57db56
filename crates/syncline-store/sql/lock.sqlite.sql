-- Locks on SQLite. Leases are counted on the store's steady clock (:now). A token follows the time of day in microseconds, is above
-- every earlier one of its name, and above the floor that names without a row leave behind.

-- name: GRANT
-- name, lease, holder, time to live, greatest token of the clock
-- Gives the token, or no row where somebody else holds it.
INSERT INTO syncline.locks (name, lease_id, holder, token, granted_at, expires_at)
SELECT $1, $2, $3, max(min(:wall * 1000, $5), 1, floor + 1), :now, :now + $4 FROM syncline.lock_reserve WHERE true
ON CONFLICT (name) DO UPDATE SET
    token = CASE WHEN lease_id = excluded.lease_id AND expires_at > :now THEN token
        ELSE max(token + 1, excluded.token) END,
    granted_at = CASE WHEN lease_id = excluded.lease_id AND expires_at > :now THEN granted_at
        ELSE excluded.granted_at END,
    lease_id = excluded.lease_id, holder = excluded.holder, expires_at = excluded.expires_at
WHERE expires_at <= :now OR lease_id = excluded.lease_id
RETURNING token;

-- name: HOLDER
-- name
SELECT holder FROM syncline.locks WHERE name = $1;

-- name: GRANTED
-- token
-- A grant that is synced with its transaction needs no promise ahead; what was promised reaches as far as it does.
UPDATE syncline.lock_reserve SET token_ceiling = $1 WHERE token_ceiling < $1;

-- name: GRANT_WITHIN
-- name, lease, holder, token, now, expires_at, ceiling. Gives the token, or no row where somebody else holds it or the.
-- ceiling is reached
INSERT INTO syncline.locks (name, lease_id, holder, token, granted_at, expires_at)
SELECT ?1, ?2, ?3, max(?4, floor + 1), ?5, ?6 FROM syncline.lock_reserve WHERE max(?4, floor + 1) <= ?7
ON CONFLICT (name) DO UPDATE SET token = CASE WHEN lease_id = excluded.lease_id
    AND expires_at > ?5 THEN token ELSE max(token + 1, excluded.token) END, granted_at = CASE
    WHEN lease_id = excluded.lease_id AND expires_at > ?5
    THEN granted_at ELSE excluded.granted_at END, lease_id = excluded.lease_id, holder = excluded.holder,
    expires_at = excluded.expires_at
WHERE token < ?7 AND (expires_at <= ?5 OR lease_id = excluded.lease_id) RETURNING token;

-- name: RENEW
UPDATE syncline.locks SET expires_at = ?4 WHERE name = ?1 AND lease_id = ?2 AND expires_at > ?3 RETURNING token;

-- name: RELEASE
UPDATE syncline.locks SET lease_id = NULL, expires_at = ?3 WHERE name = ?1 AND lease_id = ?2 AND expires_at > ?3
RETURNING token;

-- name: LEASE
SELECT lease_id FROM syncline.locks WHERE name = ?1;

-- name: LOOK
-- The lock as it was before its lease is ended
SELECT name, holder, token, ?2 - granted_at, expires_at - ?2 FROM syncline.locks WHERE name = ?1 AND expires_at > ?2;

-- name: HELD_BY_ANOTHER
SELECT name, holder, token, ?2 - granted_at, expires_at - ?2 FROM syncline.locks
WHERE name = ?1 AND expires_at > ?2 AND lease_id IS NOT ?3;

-- name: END
UPDATE syncline.locks SET lease_id = NULL, expires_at = ?2 WHERE name = ?1 AND expires_at > ?2;

-- name: LIST
SELECT name, holder, token, ?3 - granted_at, expires_at - ?3 FROM syncline.locks
WHERE name >= ?1 AND name < ?2 AND expires_at > ?3 ORDER BY name LIMIT ?4;

-- name: TOKEN
-- The token of a lock that is free or is the asker's own: the ceiling stood in the way.
SELECT max(token_ceiling, coalesce((SELECT token FROM syncline.locks WHERE name = ?1), floor))
FROM syncline.lock_reserve;

-- name: RESERVE
UPDATE syncline.lock_reserve SET token_ceiling = max(token_ceiling, ?1), lease_horizon = max(lease_horizon, ?2),
    reserved_at = ?3
RETURNING token_ceiling, lease_horizon;

-- name: FORGETTABLE
SELECT name FROM syncline.locks WHERE expires_at < ?1 LIMIT ?2;

-- name: RESET
UPDATE syncline.lock_reserve SET floor = max(floor, token_ceiling),
    quiet_until = ?1 + max(lease_horizon - reserved_at, 0), lease_horizon = ?1 + max(lease_horizon - reserved_at, 0),
    reserved_at = ?1;

-- name: RAISE_FLOOR
-- Where the tokens of names without a row may not go back below.
UPDATE syncline.lock_reserve SET floor = max(floor, coalesce((SELECT max(token)
    FROM syncline.locks WHERE name IN (SELECT value FROM json_each(?1)) AND expires_at < ?2), 0));

-- name: FORGET
DELETE FROM syncline.locks WHERE name IN (SELECT value FROM json_each(?1)) AND expires_at < ?2;
