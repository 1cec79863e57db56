-- Queues on PostgreSQL. Queue statements pin their index: PostgreSQL plans from old statistics and would scan a queue it thinks is
-- short. A statement names the queue by the expression of the one index it needs ("queue_id + 0", "queue_id * 1"), and sub-selects
-- that must not be flattened (OFFSET 0) make the server go from what was asked for to each row.

-- name: OPEN
-- name. Nobody else changes this queue until the transaction ends; the clock is read when it is ours.
WITH header AS MATERIALIZED (SELECT * FROM syncline.queues WHERE name = $1 FOR NO KEY UPDATE)
SELECT id, pace, tail, front, oldest, trimmed, next_due, overtakes, waiting, running, retrying, done, failed,
    dead, done_total, failed_total, changes, carries, held,
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
FROM header;

-- name: PEEK
-- name
SELECT id, pace, tail, front, oldest, trimmed, next_due, overtakes, waiting, running, retrying, done, failed,
    dead, done_total, failed_total, changes, carries, held,
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
FROM syncline.queues WHERE name = $1;

-- name: CLOCK
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- name: CREATE
-- name, pace, most queues
INSERT INTO syncline.queues (name, pace, tail, front, oldest, trimmed, overtakes, waiting, running, retrying, done, failed,
    dead, done_total, failed_total, changes)
SELECT $1, $2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 WHERE (SELECT count(*) FROM syncline.queues) < $3
ON CONFLICT (name) DO NOTHING;

-- name: LINE
-- queue, from, limit: what waits or runs, by rank
SELECT key, place, rank, arrival_no, attempts, priority, again
FROM syncline.queue_keys WHERE (queue_id + 0) = $1 AND place = 0 AND rank >= $2 ORDER BY rank LIMIT $3;

-- name: FORGET_AGAIN
-- queue: forgets what was asked for while keys ran
UPDATE syncline.queue_keys SET again = false WHERE (queue_id + 0) = $1 AND place = 0 AND again;

-- name: RETRIES
-- queue, limit: what comes back, soonest first
SELECT key, place, rank, arrival_no, attempts, priority, again, due
FROM syncline.queue_keys WHERE (queue_id * 1) = $1 AND due > 0 ORDER BY due, rank LIMIT $2;

-- name: ENDED
-- queue, limit, place: what ended in one place, oldest first
SELECT key, place, rank, arrival_no, attempts, priority, again
FROM syncline.queue_keys WHERE (queue_id + 0) = $1 AND place = $3 ORDER BY rank LIMIT $2;

-- name: TRIM
-- queue, from, to: forgets results
DELETE FROM syncline.queue_keys WHERE (queue_id + 0) = $1 AND place IN (2, 3) AND rank BETWEEN $2 AND $3;

-- name: LIST_WAITING
-- queue, limit, most bytes, after. A listing is cut where its results together would be too long; the first is always there.
SELECT key, place, rank, arrival_no, attempts, priority, again, due, reason, result, changed_at
FROM (
    SELECT *, sum(coalesce(octet_length(result), 0)) OVER (ORDER BY rank ROWS UNBOUNDED PRECEDING) AS bytes,
        row_number() OVER (ORDER BY rank) AS number
    FROM (SELECT * FROM syncline.queue_keys WHERE (queue_id + 0) = $1 AND place = 0 AND rank > $4 ORDER BY rank LIMIT $2) AS page
) AS weighed
WHERE bytes <= $3 OR number = 1 ORDER BY rank;

-- name: LIST_RETRYING
-- queue, limit, most bytes, after (due, rank)
SELECT key, place, rank, arrival_no, attempts, priority, again, due, reason, result, changed_at
FROM (
    SELECT *, sum(coalesce(octet_length(result), 0)) OVER (ORDER BY due, rank ROWS UNBOUNDED PRECEDING) AS bytes,
        row_number() OVER (ORDER BY due, rank) AS number
    FROM (SELECT * FROM syncline.queue_keys WHERE (queue_id * 1) = $1 AND due IS NOT NULL AND (due, rank) > ($4, $5) ORDER BY due, rank LIMIT $2) AS page
) AS weighed
WHERE bytes <= $3 OR number = 1 ORDER BY due, rank;

-- name: LIST_ENDED
-- queue, limit, most bytes, before, place
SELECT key, place, rank, arrival_no, attempts, priority, again, due, reason, result, changed_at
FROM (
    SELECT *, sum(coalesce(octet_length(result), 0)) OVER (ORDER BY rank DESC ROWS UNBOUNDED PRECEDING) AS bytes,
        row_number() OVER (ORDER BY rank DESC) AS number
    FROM (SELECT * FROM syncline.queue_keys WHERE (queue_id + 0) = $1 AND place = $5 AND rank < $4 ORDER BY rank DESC LIMIT $2) AS page
) AS weighed
WHERE bytes <= $3 OR number = 1 ORDER BY rank DESC;

-- name: FIND
-- queue, keys
SELECT found.key, found.place, found.rank, found.arrival_no, found.attempts, found.priority, found.again
FROM unnest($2::text[]) AS asked (key),
    LATERAL (SELECT * FROM syncline.queue_keys AS k WHERE k.queue_id = $1 AND k.key = asked.key OFFSET 0) AS found;

-- name: AGED
-- ages
SELECT found.key, found.place, found.rank, found.arrival_no, found.attempts, found.priority, found.again
FROM unnest($1::bigint[]) AS asked (arrival_no),
    LATERAL (SELECT * FROM syncline.queue_keys AS k WHERE k.place = 0 AND k.arrival_no = asked.arrival_no OFFSET 0) AS found;

-- name: PUT
-- queue, now, keys, ranks, arrival_nos, attempts, priorities, agains
INSERT INTO syncline.queue_keys (queue_id, key, place, rank, arrival_no, attempts, priority, again, changed_at)
SELECT $1, key, 0, rank, arrival_no, attempts, priority, again, $2
FROM unnest($3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::boolean[], $8::boolean[])
    AS new (key, rank, arrival_no, attempts, priority, again)
ON CONFLICT (queue_id, key) DO UPDATE SET place = 0, rank = excluded.rank, arrival_no = excluded.arrival_no,
    attempts = excluded.attempts, priority = excluded.priority, again = excluded.again,
    due = NULL, reason = NULL, result = NULL, changed_at = excluded.changed_at;

-- name: SUCCEED
-- now, arrival_nos, ranks, results
UPDATE syncline.queue_keys SET place = 2, rank = done.rank, attempts = attempts + 1, result = done.result, changed_at = $1
FROM unnest($2::bigint[], $3::bigint[], $4::text[]) AS done (arrival_no, rank, result),
    LATERAL (SELECT k.ctid AS at FROM syncline.queue_keys AS k
        WHERE k.place = 0 AND k.arrival_no = done.arrival_no AND NOT k.again OFFSET 0) AS found
WHERE syncline.queue_keys.ctid = found.at
RETURNING syncline.queue_keys.arrival_no, syncline.queue_keys.key;

-- name: REPLACE
-- now, arrival_nos, places, ranks, new arrival_nos, attempts, priorities, dues, reasons, results
UPDATE syncline.queue_keys SET place = gone.place, rank = gone.rank, arrival_no = gone.age, attempts = gone.attempts,
    priority = gone.priority, again = false, due = gone.due, reason = gone.reason, result = gone.result, changed_at = $1
FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::boolean[], $8::bigint[], $9::text[],
        $10::text[]) AS gone (arrival_no, place, rank, age, attempts, priority, due, reason, result),
    LATERAL (SELECT k.ctid AS at FROM syncline.queue_keys AS k
        WHERE k.place = 0 AND k.arrival_no = gone.arrival_no OFFSET 0) AS found
WHERE syncline.queue_keys.ctid = found.at;

-- name: SET_DETAILS
-- queue, keys, inputs, ends. An input that is not given leaves the old one.
UPDATE syncline.queue_keys SET input = coalesce(task.input, syncline.queue_keys.input), expires_at = task.expires_at
FROM unnest($2::text[], $3::text[], $4::bigint[]) AS task (key, input, expires_at),
    LATERAL (SELECT k.ctid AS at FROM syncline.queue_keys AS k WHERE k.queue_id = $1 AND k.key = task.key OFFSET 0) AS found
WHERE syncline.queue_keys.ctid = found.at;

-- name: DETAILS
-- ages: what keys in line carry
SELECT found.arrival_no, found.input, found.expires_at
FROM unnest($1::bigint[]) AS asked (arrival_no),
    LATERAL (SELECT * FROM syncline.queue_keys AS k WHERE k.place = 0 AND k.arrival_no = asked.arrival_no OFFSET 0) AS found;

-- name: DELETE
-- queue, keys
DELETE FROM syncline.queue_keys USING unnest($2::text[]) AS asked (key),
    LATERAL (SELECT k.ctid AS at FROM syncline.queue_keys AS k WHERE k.queue_id = $1 AND k.key = asked.key OFFSET 0) AS found
WHERE syncline.queue_keys.ctid = found.at;

-- name: OLDEST
-- queue, from, limit: the rank up to which results go, and how many of which kind those are
SELECT max(rank), count(*) FILTER (WHERE place = 2), count(*) FILTER (WHERE place = 3)
FROM (
    SELECT place, rank FROM (
        (SELECT place, rank FROM syncline.queue_keys
            WHERE (queue_id + 0) = $1 AND place = 2 AND rank >= $2 ORDER BY rank LIMIT $3)
        UNION ALL
        (SELECT place, rank FROM syncline.queue_keys
            WHERE (queue_id + 0) = $1 AND place = 3 AND rank >= $2 ORDER BY rank LIMIT $3)
    ) AS both_kinds ORDER BY rank LIMIT $3
) AS oldest;

-- name: LIST_RUNNING
-- ages
SELECT key, place, rank, arrival_no, attempts, priority, again, due, reason, result, changed_at
FROM unnest($1::bigint[]) AS asked (age),
    LATERAL (SELECT * FROM syncline.queue_keys AS k WHERE k.place = 0 AND k.arrival_no = asked.age OFFSET 0) AS found;

-- name: VERSIONS
-- names
SELECT name, changes FROM syncline.queues WHERE name = ANY($1);

-- name: ANNOUNCE
-- queue. As whoever announces a change afterwards does, but by nobody in particular: our own workers hear it, too.
SELECT pg_notify('syncline.queue', ' ' || $1);
