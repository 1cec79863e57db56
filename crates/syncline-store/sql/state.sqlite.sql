-- Shared state on SQLite. The writer runs one change at a time, so that a batch may look first and write after.

-- name: LOCK
-- name
SELECT epoch, last, forgotten, floor, floor_number, entities, bytes FROM syncline.state_spaces WHERE name = $1;

-- name: KNOWN
-- space, ids
SELECT e.id, e.stamp, e.live, e.value, e.number FROM json_each($2) AS asked CROSS JOIN syncline.state_entities AS e
WHERE e.space = $1 AND e.id = asked.value;

-- name: WRITE
-- space, rows as JSON
INSERT INTO syncline.state_entities (space, id, stamp, live, value, bytes, number)
SELECT $1, value ->> 'id', value ->> 'stamp', value ->> 'live', value ->> 'value', value ->> 'bytes', value ->> 'number'
FROM json_each($2) WHERE true
ON CONFLICT (space, id) DO UPDATE SET stamp = excluded.stamp, live = excluded.live, value = excluded.value,
    bytes = excluded.bytes, number = excluded.number;

-- name: WEIGH
-- space, after, last, limit: the numbers of a page and what their values weigh
SELECT number, bytes FROM syncline.state_entities WHERE space = $1 AND number > $2 AND number <= $3
ORDER BY number LIMIT $4;

-- name: PAGE
-- space, after, last of the page
SELECT id, stamp, live, value FROM syncline.state_entities WHERE space = $1 AND number > $2 AND number <= $3
ORDER BY number;

-- name: REMOVED
-- stamp, limit: the oldest removals of all spaces
SELECT space, number FROM syncline.state_entities WHERE live = 0 AND stamp >= $1 AND stamp < $2 ORDER BY stamp LIMIT $3;

-- name: OLDEST_REMOVED
-- space, limit: the oldest removals of one
SELECT number FROM syncline.state_entities WHERE space = $1 AND live = 0 ORDER BY number LIMIT $2;

-- name: FORGET_ALL
-- space, numbers
DELETE FROM syncline.state_entities WHERE space = $1 AND number IN (SELECT value FROM json_each($2)) AND live = 0
RETURNING number, bytes;
