-- The inbox on SQLite. A batch is a statement for its numbers and one for each type in it; many rows go in as one JSON array.
-- `entity_sample` stands for the table of a type and 'sample' for the type: both are replaced when the inbox is opened.

-- name: CREATE
CREATE TABLE IF NOT EXISTS syncline.entity_sample (
    id TEXT NOT NULL PRIMARY KEY, payload TEXT NOT NULL, sender TEXT NOT NULL, entry INTEGER NOT NULL,
    changed_at INTEGER NOT NULL, received_at INTEGER NOT NULL, place INTEGER NOT NULL
) STRICT;

-- name: CREATE_INDEX
CREATE INDEX IF NOT EXISTS syncline.entity_sample_place ON syncline.entity_sample (place);

-- name: NUMBER
-- sender, pairs of number and digest. Gives the numbers that are new.
INSERT INTO syncline.inbox_entries (sender, entry, digest, received_at)
SELECT $1, value ->> 0, value ->> 1, :wall FROM json_each($2) WHERE true
ON CONFLICT (sender, entry) DO NOTHING RETURNING entry;

-- name: DIGESTS
-- sender, numbers
SELECT i.entry, i.digest FROM json_each($2) AS asked CROSS JOIN syncline.inbox_entries AS i
WHERE i.sender = $1 AND i.entry = asked.value;

-- name: FORGET
-- age, limit
DELETE FROM syncline.inbox_entries WHERE (sender, entry) IN (
    SELECT sender, entry FROM syncline.inbox_entries INDEXED BY syncline.inbox_entries_received
    WHERE received_at < :wall - $1 ORDER BY received_at LIMIT $2
);

-- name: WRITE
-- sender, rows. Gives the ids that were written.
-- Our own last change of an entity, delivered or not, is newer than what arrives if it was made later. A time is read as
-- syncline_core::outbox::Moment, whatever the application made of its column: text, seconds or milliseconds.
INSERT INTO syncline.entity_sample (id, payload, sender, entry, changed_at, received_at, place)
SELECT n.value ->> 0, n.value ->> 1, $1, n.value ->> 2, n.value ->> 3, :wall * 1000,
    (SELECT coalesce(max(place), 0) + 1 FROM syncline.entity_sample) + n.key
FROM json_each($2) AS n, (SELECT sender FROM syncline.sync_outbox_sender) AS us
WHERE $1 = us.sender OR (n.value ->> 3, $1) > ((
    SELECT coalesce(max(
        CASE WHEN typeof(c) = 'integer' OR (typeof(c) = 'text' AND c NOT GLOB '*[^0-9]*' AND length(c) BETWEEN 9 AND 14)
            THEN CASE WHEN CAST(c AS INTEGER) BETWEEN 100000000000 AND 253402207200000 THEN CAST(c AS INTEGER) * 1000
                ELSE unixepoch(CAST(c AS INTEGER), 'auto') * 1000000 END
        WHEN typeof(c) = 'real' THEN CAST(round(unixepoch(c, 'auto', 'subsec') * 1000) AS INTEGER) * 1000
        WHEN typeof(c) <> 'text' OR c NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN NULL
        WHEN substr(c, 20, 1) = '.' THEN unixepoch(substr(c, 1, 19) || ltrim(substr(c, 21), '0123456789')) * 1000000
            + CAST(substr(substr(c, 21, length(substr(c, 21)) - length(ltrim(substr(c, 21), '0123456789'))) || '000000', 1, 6)
                AS INTEGER)
        ELSE unixepoch(c) * 1000000 END), -1)
    FROM (
        SELECT * FROM (SELECT o.created_at AS c FROM syncline.outbox_entries AS o INDEXED BY syncline.outbox_entries_pending_entity
            WHERE o.entity_type = 'sample' AND o.entity_id = n.value ->> 0 AND o.processed_at IS NULL AND o.dead_at IS NULL
            ORDER BY o.id DESC LIMIT 1)
        UNION ALL
        SELECT * FROM (SELECT o.created_at AS c FROM syncline.outbox_entries AS o INDEXED BY syncline.outbox_entries_processed_entity
            WHERE o.entity_type = 'sample' AND o.entity_id = n.value ->> 0 AND o.processed_at IS NOT NULL
            ORDER BY o.id DESC LIMIT 1)
    )), us.sender)
ON CONFLICT (id) DO UPDATE SET payload = excluded.payload, sender = excluded.sender, entry = excluded.entry,
    changed_at = excluded.changed_at, received_at = excluded.received_at, place = excluded.place
WHERE CASE WHEN excluded.sender <> sender THEN (excluded.changed_at, excluded.sender) > (changed_at, sender)
    WHEN excluded.sender <> '' THEN excluded.entry > entry
    ELSE excluded.changed_at > changed_at
        OR (excluded.changed_at = changed_at AND excluded.payload <> payload) END
RETURNING id;

-- name: SAME
-- sender, pairs of id and time. Gives those that are there just so.
SELECT t.id FROM json_each($2) AS n CROSS JOIN syncline.entity_sample AS t
WHERE t.id = n.value ->> 0 AND t.changed_at = n.value ->> 1 AND t.sender = $1;

-- name: SEEN
-- id
SELECT changed_at FROM syncline.entity_sample WHERE id = $1 AND payload <> 'null';

-- name: PUT
-- id, payload. Newer than what was here or is on its way; in whole milliseconds, which is what the outbox keeps here.
INSERT INTO syncline.entity_sample (id, payload, sender, entry, changed_at, received_at, place)
SELECT $1, $2, us.sender, 0, max(:wall, (
    SELECT coalesce(max(
        CASE WHEN typeof(c) = 'integer' OR (typeof(c) = 'text' AND c NOT GLOB '*[^0-9]*' AND length(c) BETWEEN 9 AND 14)
            THEN CASE WHEN CAST(c AS INTEGER) BETWEEN 100000000000 AND 253402207200000 THEN CAST(c AS INTEGER) * 1000
                ELSE unixepoch(CAST(c AS INTEGER), 'auto') * 1000000 END
        WHEN typeof(c) = 'real' THEN CAST(round(unixepoch(c, 'auto', 'subsec') * 1000) AS INTEGER) * 1000
        WHEN typeof(c) <> 'text' OR c NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN NULL
        WHEN substr(c, 20, 1) = '.' THEN unixepoch(substr(c, 1, 19) || ltrim(substr(c, 21), '0123456789')) * 1000000
            + CAST(substr(substr(c, 21, length(substr(c, 21)) - length(ltrim(substr(c, 21), '0123456789'))) || '000000', 1, 6)
                AS INTEGER)
        ELSE unixepoch(c) * 1000000 END), -1)
    FROM (
        SELECT * FROM (SELECT o.created_at AS c FROM syncline.outbox_entries AS o INDEXED BY syncline.outbox_entries_pending_entity
            WHERE o.entity_type = 'sample' AND o.entity_id = $1 AND o.processed_at IS NULL AND o.dead_at IS NULL
            ORDER BY o.id DESC LIMIT 1)
        UNION ALL
        SELECT * FROM (SELECT o.created_at AS c FROM syncline.outbox_entries AS o INDEXED BY syncline.outbox_entries_processed_entity
            WHERE o.entity_type = 'sample' AND o.entity_id = $1 AND o.processed_at IS NOT NULL
            ORDER BY o.id DESC LIMIT 1)
    )) / 1000 + 1) * 1000, :wall * 1000, (SELECT coalesce(max(place), 0) + 1 FROM syncline.entity_sample)
FROM syncline.sync_outbox_sender AS us WHERE true
ON CONFLICT (id) DO UPDATE SET payload = excluded.payload, sender = excluded.sender,
    changed_at = max(excluded.changed_at, (changed_at / 1000 + 1) * 1000), received_at = excluded.received_at,
    place = excluded.place
RETURNING id, payload, sender, changed_at, received_at, place;

-- name: SET_ENTRY
-- id, number of its entry in the outbox
UPDATE syncline.entity_sample SET entry = $2 WHERE id = $1;

-- name: ENTITY
-- id
SELECT id, payload, sender, changed_at, received_at, place FROM syncline.entity_sample WHERE id = $1 AND payload <> 'null';

-- name: LIST
-- after, limit, most bytes; the first is always there
SELECT id, payload, sender, changed_at, received_at, place
FROM (
    SELECT *, sum(octet_length(payload)) OVER (ORDER BY place DESC) AS bytes, row_number() OVER (ORDER BY place DESC) AS number
    FROM (
        SELECT * FROM syncline.entity_sample WHERE place < $1 AND payload <> 'null' ORDER BY place DESC LIMIT $2
    )
)
WHERE bytes <= $3 OR number = 1 ORDER BY place DESC;
