-- Shared state, as both engines say it.

-- name: OPEN
-- name, epoch, floor
INSERT INTO syncline.state_spaces (name, epoch, floor) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING;

-- name: COUNT_SPACES
SELECT count(*) FROM syncline.state_spaces;

-- name: SPACE
-- name
SELECT epoch, last, forgotten, floor, floor_number, entities, bytes FROM syncline.state_spaces WHERE name = $1;

-- name: NUMBER
-- name
SELECT last FROM syncline.state_spaces WHERE name = $1;

-- name: KEEP_SPACE
-- name, last, forgotten, floor, floor_number, entities, bytes
UPDATE syncline.state_spaces SET last = $2, forgotten = $3, floor = $4, floor_number = $5, entities = $6, bytes = $7
WHERE name = $1;

-- name: RESET
-- space, floor
DELETE FROM syncline.state_entities WHERE space = $1 AND stamp <= $2;

-- name: MEASURE
-- space, floor: rows and bytes above it
SELECT count(*), CAST(coalesce(sum(bytes), 0) AS bigint) FROM syncline.state_entities WHERE space = $1 AND stamp > $2;

-- name: LIST
-- after, limit
SELECT name, entities, bytes, last FROM syncline.state_spaces WHERE name > $1 ORDER BY name LIMIT $2;

-- name: REMOVE
-- name. Its entities go with it.
DELETE FROM syncline.state_spaces WHERE name = $1;

-- name: FORGET_UNUSED
-- Spaces that were made by being asked for, as earlier versions did.
DELETE FROM syncline.state_spaces WHERE last = 0;

-- name: WEIGH_IDS
-- space, after, limit: the ids of a listing and what their values weigh, removals included: what is looked at is bounded
SELECT id, bytes FROM syncline.state_entities WHERE space = $1 AND id > $2 ORDER BY id LIMIT $3;

-- name: ENTITIES
-- space, after, last of the page, limit
SELECT id, stamp, live, value, number FROM syncline.state_entities WHERE space = $1 AND id > $2 AND id <= $3
ORDER BY id LIMIT $4;
