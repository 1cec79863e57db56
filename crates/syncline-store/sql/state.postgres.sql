-- Shared state on PostgreSQL. A batch holds its space's row, so that numbers are given in the order of commits. Pages go by the
-- numbers of a space, and by the one index that has them ("space || ''").

-- name: LOCK
-- name
SELECT epoch, last, forgotten, floor, floor_number, entities, bytes FROM syncline.state_spaces WHERE name = $1 FOR UPDATE;

-- name: KNOWN
-- space, ids
-- From each id to its row: with a list, the server may read the whole space and look for its rows in the list.
SELECT found.id, found.stamp, found.live, found.value, found.number
FROM (SELECT DISTINCT id FROM unnest($2::text[]) AS given (id)) AS asked,
    LATERAL (SELECT * FROM syncline.state_entities AS e WHERE e.space = $1 AND e.id = asked.id OFFSET 0) AS found;

-- name: WRITE
-- space, rows as JSON
INSERT INTO syncline.state_entities (space, id, stamp, live, value, bytes, number)
SELECT $1, given.* FROM json_to_recordset($2::text::json)
    AS given (id text, stamp text, live boolean, value text, bytes bigint, number bigint)
ON CONFLICT (space, id) DO UPDATE SET stamp = excluded.stamp, live = excluded.live, value = excluded.value,
    bytes = excluded.bytes, number = excluded.number;

-- name: WEIGH
-- space, after, last, limit: the numbers of a page and what their values weigh
SELECT number, bytes FROM syncline.state_entities WHERE (space || '') = $1 AND number > $2 AND number <= $3
ORDER BY number LIMIT $4;

-- name: PAGE
-- space, after, last of the page
SELECT id, stamp, live, value FROM syncline.state_entities WHERE (space || '') = $1 AND number > $2 AND number <= $3
ORDER BY number;

-- name: REMOVED
-- stamp, limit: the oldest removals of all spaces
SELECT space, number FROM syncline.state_entities WHERE NOT live AND stamp >= $1 AND stamp < $2 ORDER BY stamp LIMIT $3;

-- name: OLDEST_REMOVED
-- space, limit: the oldest removals of one
SELECT number FROM syncline.state_entities WHERE (space || '') = $1 AND NOT live ORDER BY number LIMIT $2;

-- name: FORGET_ALL
-- space, numbers
-- A number that was given anew since is another change and stays.
DELETE FROM syncline.state_entities WHERE (space || '') = $1 AND number = ANY($2) AND NOT live RETURNING number, bytes;

-- name: NOTIFY
-- channel, notices
SELECT pg_notify($1, notice)::text FROM unnest($2::text[]) AS told (notice);
