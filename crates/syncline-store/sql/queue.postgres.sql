-- Queues on PostgreSQL. Queue statements pin their index: PostgreSQL plans from old statistics and would scan a queue it thinks is
-- short. A statement names the queue by the expression of the one index it needs ("queue_id + 0", "queue_id * 1"), and sub-selects
-- that must not be flattened (OFFSET 0) make the server go from what was asked for to each row.

-- name: OPEN
-- name. Nobody else changes this queue until the transaction ends; the clock is read when it is ours.
WITH header AS MATERIALIZED (SELECT * FROM syncline.queues WHERE name = $1 FOR NO KEY UPDATE)
SELECT id, pace, tail, front, oldest, trimmed, next_due, overtakes, waiting, running, retrying, done, failed,
    dead, done_total, failed_total, changes, carries, held, grouped_since, regroup_at, set_pace,
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
FROM header;

-- name: PEEK
-- name
SELECT id, pace, tail, front, oldest, trimmed, next_due, overtakes, waiting, running, retrying, done, failed,
    dead, done_total, failed_total, changes, carries, held, grouped_since, regroup_at, set_pace,
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
SELECT key, place, rank, arrival_no, attempts, priority, again, group_id, group_name
FROM syncline.queue_keys WHERE (queue_id + 0) = $1 AND place = 0 AND rank >= $2 ORDER BY rank LIMIT $3;

-- name: FORGET_AGAIN
-- queue: forgets what was asked for while keys ran
UPDATE syncline.queue_keys SET again = false WHERE (queue_id + 0) = $1 AND place = 0 AND again;

-- name: RETRIES
-- queue, limit: what comes back, soonest first
SELECT key, place, rank, arrival_no, attempts, priority, again, group_id, group_name, due
FROM syncline.queue_keys WHERE (queue_id * 1) = $1 AND due > 0 ORDER BY due, rank LIMIT $2;

-- name: ENDED
-- queue, limit, place: what ended in one place, oldest first
SELECT key, place, rank, arrival_no, attempts, priority, again, group_id, group_name
FROM syncline.queue_keys WHERE (queue_id + 0) = $1 AND place = $3 ORDER BY rank LIMIT $2;

-- name: TRIM
-- queue, from, to: forgets results
DELETE FROM syncline.queue_keys WHERE (queue_id + 0) = $1 AND place IN (2, 3) AND rank BETWEEN $2 AND $3;

-- name: LIST_WAITING
-- queue, limit, most bytes, after. A listing is cut where its results together would be too long; the first is always there.
SELECT key, place, rank, arrival_no, attempts, priority, again, group_id, group_name, due, reason, result, changed_at
FROM (
    SELECT *, sum(coalesce(octet_length(result), 0)) OVER (ORDER BY rank ROWS UNBOUNDED PRECEDING) AS bytes,
        row_number() OVER (ORDER BY rank) AS number
    FROM (SELECT * FROM syncline.queue_keys WHERE (queue_id + 0) = $1 AND place = 0 AND rank > $4 ORDER BY rank LIMIT $2) AS page
) AS weighed
WHERE bytes <= $3 OR number = 1 ORDER BY rank;

-- name: LIST_RETRYING
-- queue, limit, most bytes, after (due, rank)
SELECT key, place, rank, arrival_no, attempts, priority, again, group_id, group_name, due, reason, result, changed_at
FROM (
    SELECT *, sum(coalesce(octet_length(result), 0)) OVER (ORDER BY due, rank ROWS UNBOUNDED PRECEDING) AS bytes,
        row_number() OVER (ORDER BY due, rank) AS number
    FROM (SELECT * FROM syncline.queue_keys WHERE (queue_id * 1) = $1 AND due IS NOT NULL AND (due, rank) > ($4, $5) ORDER BY due, rank LIMIT $2) AS page
) AS weighed
WHERE bytes <= $3 OR number = 1 ORDER BY due, rank;

-- name: LIST_ENDED
-- queue, limit, most bytes, before, place
SELECT key, place, rank, arrival_no, attempts, priority, again, group_id, group_name, due, reason, result, changed_at
FROM (
    SELECT *, sum(coalesce(octet_length(result), 0)) OVER (ORDER BY rank DESC ROWS UNBOUNDED PRECEDING) AS bytes,
        row_number() OVER (ORDER BY rank DESC) AS number
    FROM (SELECT * FROM syncline.queue_keys WHERE (queue_id + 0) = $1 AND place = $5 AND rank < $4 ORDER BY rank DESC LIMIT $2) AS page
) AS weighed
WHERE bytes <= $3 OR number = 1 ORDER BY rank DESC;

-- name: FIND
-- queue, keys
SELECT found.key, found.place, found.rank, found.arrival_no, found.attempts, found.priority, found.again, found.group_id, found.group_name
FROM unnest($2::text[]) AS asked (key),
    LATERAL (SELECT * FROM syncline.queue_keys AS k WHERE k.queue_id = $1 AND k.key = asked.key OFFSET 0) AS found;

-- name: AGED
-- ages
SELECT found.key, found.place, found.rank, found.arrival_no, found.attempts, found.priority, found.again, found.group_id, found.group_name
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
SELECT key, place, rank, arrival_no, attempts, priority, again, group_id, group_name, due, reason, result, changed_at
FROM unnest($1::bigint[]) AS asked (age),
    LATERAL (SELECT * FROM syncline.queue_keys AS k WHERE k.place = 0 AND k.arrival_no = asked.age OFFSET 0) AS found;

-- name: VERSIONS
-- names
SELECT name, changes FROM syncline.queues WHERE name = ANY($1);

-- name: ANNOUNCE
-- queue. As whoever announces a change afterwards does, but by nobody in particular: our own workers hear it, too.
SELECT pg_notify('syncline.queue', ' ' || $1);

-- name: OLD_RESULTS
-- queue, from, limit, time: the rank up to which results older than that go, and how many of which kind those are
WITH oldest AS MATERIALIZED (
    SELECT place, rank, changed_at FROM (
        (SELECT place, rank, changed_at FROM syncline.queue_keys
            WHERE (queue_id + 0) = $1 AND place = 2 AND rank >= $2 ORDER BY rank LIMIT $3)
        UNION ALL
        (SELECT place, rank, changed_at FROM syncline.queue_keys
            WHERE (queue_id + 0) = $1 AND place = 3 AND rank >= $2 ORDER BY rank LIMIT $3)
    ) AS both_kinds ORDER BY rank LIMIT $3
)
SELECT max(rank), count(*) FILTER (WHERE place = 2), count(*) FILTER (WHERE place = 3)
FROM oldest WHERE rank < coalesce((SELECT min(rank) FROM oldest WHERE changed_at > $4), 9223372036854775807);

-- name: PUT_GROUPED
-- queue, now, keys, ranks, arrival_nos, attempts, priorities, agains, groups, names of groups
INSERT INTO syncline.queue_keys (queue_id, key, place, rank, arrival_no, attempts, priority, again, group_id, group_name, changed_at)
SELECT $1, key, 0, rank, arrival_no, attempts, priority, again, group_id, group_name, $2
FROM unnest($3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::boolean[], $8::boolean[], $9::bigint[], $10::text[])
    AS new (key, rank, arrival_no, attempts, priority, again, group_id, group_name)
ON CONFLICT (queue_id, key) DO UPDATE SET place = 0, rank = excluded.rank, arrival_no = excluded.arrival_no,
    attempts = excluded.attempts, priority = excluded.priority, again = excluded.again, group_id = excluded.group_id,
    group_name = excluded.group_name, due = NULL, reason = NULL, result = NULL, changed_at = excluded.changed_at;

-- name: SET_GROUPS
-- ages, groups: puts keys in line into groups
UPDATE syncline.queue_keys SET group_id = joined.group_id
FROM unnest($1::bigint[], $2::bigint[]) AS joined (arrival_no, group_id),
    LATERAL (SELECT k.ctid AS at FROM syncline.queue_keys AS k WHERE k.place = 0 AND k.arrival_no = joined.arrival_no OFFSET 0) AS found
WHERE syncline.queue_keys.ctid = found.at;

-- name: GROUPS_NAMED
-- queue, names
SELECT found.id, found.name, found.waiting, found.running, found.front, found.oldest, found.overtakes, found.next_at, found.failures, found.ready_at, found.turn, found.held
FROM unnest($2::text[]) AS asked (name),
    LATERAL (SELECT * FROM syncline.queue_groups AS g WHERE g.queue_id = $1 AND g.name = asked.name OFFSET 0) AS found;

-- name: GROUPS_NUMBERED
-- numbers
SELECT found.id, found.name, found.waiting, found.running, found.front, found.oldest, found.overtakes, found.next_at, found.failures, found.ready_at, found.turn, found.held
FROM unnest($1::bigint[]) AS asked (id),
    LATERAL (SELECT * FROM syncline.queue_groups AS g WHERE g.id = asked.id OFFSET 0) AS found;

-- name: GROUPS_READY
-- queue, now, limit: whose turn it is
SELECT g.id, g.name, g.waiting, g.running, g.front, g.oldest, g.overtakes, g.next_at, g.failures, g.ready_at, g.turn, g.held
FROM syncline.queue_groups AS g WHERE (g.queue_id + 0) = $1 AND g.ready_at <= $2 ORDER BY g.ready_at, g.turn LIMIT $3;

-- name: GROUP_READY_NEXT
-- queue: when the next group may start
SELECT ready_at FROM syncline.queue_groups WHERE (queue_id + 0) = $1 AND ready_at >= 0 ORDER BY ready_at, turn LIMIT 1;

-- name: GROUP_LINE
-- groups, lowest ranks, limits: the first in line of each group, by rank
SELECT found.key, found.place, found.rank, found.arrival_no, found.attempts, found.priority, found.again, found.group_id, found.group_name
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS asked (id, front, most),
    LATERAL (SELECT * FROM syncline.queue_keys AS k
        WHERE (k.group_id + 0) = asked.id AND (k.place + 0) = 0 AND k.group_id IS NOT NULL AND k.rank >= asked.front
        ORDER BY k.rank LIMIT asked.most) AS found;

-- name: GROUP_AGES
-- groups, lowest ages, limits: those of each group that have been in line longest
SELECT found.key, found.place, found.rank, found.arrival_no, found.attempts, found.priority, found.again, found.group_id, found.group_name
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS asked (id, oldest, most),
    LATERAL (SELECT * FROM syncline.queue_keys AS k
        WHERE (k.group_id * 1) = asked.id AND (k.place + 0) = 0 AND k.group_id IS NOT NULL AND k.arrival_no >= asked.oldest
        ORDER BY k.arrival_no LIMIT asked.most) AS found;

-- name: PUT_GROUPS
-- queue, numbers, names, then the columns of groups
INSERT INTO syncline.queue_groups (queue_id, id, name, waiting, running, front, oldest, overtakes, next_at, failures, ready_at, turn, held)
SELECT $1, id, name, waiting, running, front, oldest, overtakes, next_at, failures, ready_at, turn, held
FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[],
        $11::bigint[], $12::bigint[], $13::boolean[])
    AS new (id, name, waiting, running, front, oldest, overtakes, next_at, failures, ready_at, turn, held)
ON CONFLICT (queue_id, name) DO UPDATE SET id = excluded.id, waiting = excluded.waiting, running = excluded.running,
    front = excluded.front, oldest = excluded.oldest, overtakes = excluded.overtakes, next_at = excluded.next_at,
    failures = excluded.failures, ready_at = excluded.ready_at, turn = excluded.turn, held = excluded.held;

-- name: DELETE_GROUPS
-- numbers
DELETE FROM syncline.queue_groups USING unnest($1::bigint[]) AS asked (id),
    LATERAL (SELECT g.ctid AS at FROM syncline.queue_groups AS g WHERE g.id = asked.id OFFSET 0) AS found
WHERE syncline.queue_groups.ctid = found.at;
