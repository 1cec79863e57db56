-- The inbox on PostgreSQL. A batch is a statement for its numbers and one for each type in it. Rows are written in the order of
-- their keys, so that batches that overlap wait for each other in one direction.
-- `entity_sample` stands for the table of a type and 'sample' for the type: both are replaced when the inbox is opened.

-- name: CREATE
CREATE TABLE syncline.entity_sample (
    id text COLLATE "C" PRIMARY KEY, payload text NOT NULL,
    removed boolean GENERATED ALWAYS AS (payload = 'null') STORED, sender text COLLATE "C" NOT NULL,
    entry bigint NOT NULL, changed_at bigint NOT NULL, received_at bigint NOT NULL, place bigint NOT NULL
);

-- name: CREATE_INDEX
CREATE INDEX entity_sample_place ON syncline.entity_sample (place) WHERE NOT removed;

-- name: NUMBER
-- sender, numbers, digests. Gives the numbers that are new.
INSERT INTO syncline.inbox_entries (sender, entry, digest, received_at)
SELECT $1, n.entry, n.digest, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM unnest($2::bigint[], $3::bigint[]) AS n (entry, digest)
ON CONFLICT (sender, entry) DO NOTHING RETURNING entry;

-- name: DIGESTS
-- sender, numbers
SELECT e.entry, e.digest
FROM unnest($2::bigint[]) AS n (entry),
    LATERAL (SELECT * FROM syncline.inbox_entries AS i WHERE i.sender = $1 AND i.entry = n.entry OFFSET 0) AS e;

-- name: FORGET
-- age, limit
DELETE FROM syncline.inbox_entries AS i
USING (
    SELECT sender, entry FROM syncline.inbox_entries
    WHERE received_at < (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint) - $1
    ORDER BY received_at LIMIT $2 FOR UPDATE SKIP LOCKED
) AS old
WHERE i.sender = old.sender AND i.entry = old.entry;

-- name: WRITE
-- sender, ids, payloads, numbers, changed. Gives the ids that were written.
-- Our own last change of an entity, delivered or not, is newer than what arrives if it was made later. The conditions on attempts
-- are always true: only the indexes by entity have them, so that the planner must use one of those.
INSERT INTO syncline.entity_sample AS t (id, payload, sender, entry, changed_at, received_at, place)
SELECT n.id, n.payload, $1, n.entry, n.changed_at, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    nextval('syncline.inbox_place')
FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS n (id, payload, entry, changed_at),
    (SELECT sender FROM syncline.sync_outbox_sender) AS us
WHERE (n.changed_at, $1 COLLATE "C") > (coalesce(greatest(
        (SELECT CASE WHEN isfinite(o.created_at) AND o.created_at >= '0001-01-02' AND o.created_at < '9999-12-30'
                THEN (extract(epoch FROM o.created_at) * 1000000)::bigint END
            FROM sync_outbox AS o
            WHERE o.entity_type = 'sample' AND o.entity_id::text = n.id AND o.processed_at IS NULL AND o.dead_at IS NULL
                AND (CASE WHEN o.attempts < 0 THEN 2 ELSE 0 END) = 0
            ORDER BY o.entity_type DESC, o.entity_id::text DESC, (o.id::bigint + 0) DESC LIMIT 1),
        (SELECT CASE WHEN isfinite(o.created_at) AND o.created_at >= '0001-01-02' AND o.created_at < '9999-12-30'
                THEN (extract(epoch FROM o.created_at) * 1000000)::bigint END
            FROM sync_outbox AS o
            WHERE o.entity_type = 'sample' AND o.entity_id::text = n.id AND o.processed_at IS NOT NULL
                AND (CASE WHEN o.attempts < 0 THEN 2 ELSE 0 END) = 0
            ORDER BY o.entity_type DESC, o.entity_id::text DESC, (o.id::bigint + 0) DESC LIMIT 1)
    ), n.changed_at - 1), us.sender COLLATE "C") OR $1 = us.sender
ON CONFLICT (id) DO UPDATE SET payload = excluded.payload, sender = excluded.sender, entry = excluded.entry,
    changed_at = excluded.changed_at, received_at = excluded.received_at, place = excluded.place
WHERE CASE WHEN excluded.sender <> t.sender THEN (excluded.changed_at, excluded.sender) > (t.changed_at, t.sender)
    WHEN excluded.sender <> '' THEN excluded.entry > t.entry
    ELSE excluded.changed_at > t.changed_at
        OR (excluded.changed_at = t.changed_at AND excluded.payload <> t.payload) END
RETURNING id;

-- name: SAME
-- sender, ids, changed. Gives those that are there just so.
SELECT t.id
FROM unnest($2::text[], $3::bigint[]) AS n (id, changed_at),
    LATERAL (SELECT * FROM syncline.entity_sample AS e WHERE e.id = n.id OFFSET 0) AS t
WHERE t.changed_at = n.changed_at AND t.sender = $1;

-- name: SEEN
-- id
-- Nobody changes it from here on; of two that add it at once neither was expected.
SELECT changed_at FROM syncline.entity_sample WHERE id = $1 AND NOT removed FOR UPDATE;

-- name: PUT
-- id, payload. Newer than what was here or is on its way. Who holds the row has the last word and the last number.
INSERT INTO syncline.entity_sample AS t (id, payload, sender, entry, changed_at, received_at, place)
SELECT n.id, $2, us.sender, 0, greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, greatest(
        (SELECT CASE WHEN isfinite(o.created_at) AND o.created_at >= '0001-01-02' AND o.created_at < '9999-12-30'
                THEN (extract(epoch FROM o.created_at) * 1000000)::bigint END
            FROM sync_outbox AS o
            WHERE o.entity_type = 'sample' AND o.entity_id::text = n.id AND o.processed_at IS NULL AND o.dead_at IS NULL
                AND (CASE WHEN o.attempts < 0 THEN 2 ELSE 0 END) = 0
            ORDER BY o.entity_type DESC, o.entity_id::text DESC, (o.id::bigint + 0) DESC LIMIT 1),
        (SELECT CASE WHEN isfinite(o.created_at) AND o.created_at >= '0001-01-02' AND o.created_at < '9999-12-30'
                THEN (extract(epoch FROM o.created_at) * 1000000)::bigint END
            FROM sync_outbox AS o
            WHERE o.entity_type = 'sample' AND o.entity_id::text = n.id AND o.processed_at IS NOT NULL
                AND (CASE WHEN o.attempts < 0 THEN 2 ELSE 0 END) = 0
            ORDER BY o.entity_type DESC, o.entity_id::text DESC, (o.id::bigint + 0) DESC LIMIT 1)
    ) + 1), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, nextval('syncline.inbox_place')
FROM (SELECT $1::text AS id) AS n, syncline.sync_outbox_sender AS us
ON CONFLICT (id) DO UPDATE SET payload = excluded.payload, sender = excluded.sender,
    changed_at = greatest(excluded.changed_at, t.changed_at + 1), received_at = excluded.received_at, place = excluded.place
RETURNING id, payload, sender, changed_at, received_at, place;

-- name: SET_ENTRY
-- id, number of its entry in the outbox
UPDATE syncline.entity_sample SET entry = $2 WHERE id = $1;

-- name: ENTITY
-- id
SELECT id, payload, sender, changed_at, received_at, place FROM syncline.entity_sample WHERE id = $1 AND NOT removed;

-- name: LIST
-- after, limit, most bytes; the first is always there
SELECT id, payload, sender, changed_at, received_at, place
FROM (
    SELECT *, sum(octet_length(payload)) OVER (ORDER BY place DESC) AS bytes, row_number() OVER (ORDER BY place DESC) AS number
    FROM (
        SELECT * FROM syncline.entity_sample WHERE place < $1 AND NOT removed ORDER BY place DESC LIMIT $2
    ) AS page
) AS weighed
WHERE bytes <= $3 OR number = 1 ORDER BY place DESC;
