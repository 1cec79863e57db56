-- Queues on SQLite. The writer runs one change at a time, so a change may look first and write after. Many rows go in as one JSON
-- array, so that a batch is a handful of statements whatever its size. A cross join is SQLite's way of saying which table comes
-- first: what was asked for, then each by its index.

-- name: OPEN
-- name
SELECT id, pace, tail, front, oldest, trimmed, next_due, overtakes, waiting, running, retrying, done, failed,
    dead, done_total, failed_total, changes, carries, held, grouped_since, regroup_at, set_pace, :now AS now_ms
FROM syncline.queues WHERE name = $1;

-- name: PEEK
-- name
SELECT id, pace, tail, front, oldest, trimmed, next_due, overtakes, waiting, running, retrying, done, failed,
    dead, done_total, failed_total, changes, carries, held, grouped_since, regroup_at, set_pace, :now AS now_ms
FROM syncline.queues WHERE name = $1;

-- name: CLOCK
SELECT :now;

-- name: CREATE
-- name, pace, most queues
INSERT INTO syncline.queues (name, pace, tail, front, oldest, trimmed, overtakes, waiting, running, retrying, done, failed,
    dead, done_total, failed_total, changes)
SELECT $1, $2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 WHERE (SELECT count(*) FROM syncline.queues) < $3;

-- name: LINE
-- queue, from, limit: what waits or runs, by rank
SELECT key, place, rank, arrival_no, attempts, priority, again, group_id, group_name
FROM syncline.queue_keys WHERE queue_id = $1 AND place = 0 AND rank >= $2 ORDER BY rank LIMIT $3;

-- name: FORGET_AGAIN
-- queue: forgets what was asked for while keys ran
UPDATE syncline.queue_keys SET again = false WHERE queue_id = $1 AND place = 0 AND again;

-- name: RETRIES
-- queue, limit: what comes back, soonest first
SELECT key, place, rank, arrival_no, attempts, priority, again, group_id, group_name, due
FROM syncline.queue_keys WHERE queue_id = $1 AND due > 0 ORDER BY due, rank LIMIT $2;

-- name: ENDED
-- queue, limit, place: what ended in one place, oldest first
SELECT key, place, rank, arrival_no, attempts, priority, again, group_id, group_name
FROM syncline.queue_keys WHERE queue_id = $1 AND place = $3 ORDER BY rank LIMIT $2;

-- name: TRIM
-- queue, from, to: forgets results
DELETE FROM syncline.queue_keys WHERE queue_id = $1 AND place IN (2, 3) AND rank BETWEEN $2 AND $3;

-- name: LIST_WAITING
-- queue, limit, most bytes, after. A listing is cut where its results together would be too long; the first is always there.
SELECT key, place, rank, arrival_no, attempts, priority, again, group_id, group_name, due, reason, result, changed_at
FROM (
    SELECT *, sum(coalesce(octet_length(result), 0)) OVER (ORDER BY rank ROWS UNBOUNDED PRECEDING) AS bytes,
        row_number() OVER (ORDER BY rank) AS number
    FROM (SELECT * FROM syncline.queue_keys WHERE queue_id = $1 AND place = 0 AND rank > $4 ORDER BY rank LIMIT $2)
)
WHERE bytes <= $3 OR number = 1 ORDER BY rank;

-- name: LIST_RETRYING
-- queue, limit, most bytes, after (due, rank)
SELECT key, place, rank, arrival_no, attempts, priority, again, group_id, group_name, due, reason, result, changed_at
FROM (
    SELECT *, sum(coalesce(octet_length(result), 0)) OVER (ORDER BY due, rank ROWS UNBOUNDED PRECEDING) AS bytes,
        row_number() OVER (ORDER BY due, rank) AS number
    FROM (SELECT * FROM syncline.queue_keys WHERE queue_id = $1 AND due IS NOT NULL AND (due, rank) > ($4, $5) ORDER BY due, rank LIMIT $2)
)
WHERE bytes <= $3 OR number = 1 ORDER BY due, rank;

-- name: LIST_ENDED
-- queue, limit, most bytes, before, place
SELECT key, place, rank, arrival_no, attempts, priority, again, group_id, group_name, due, reason, result, changed_at
FROM (
    SELECT *, sum(coalesce(octet_length(result), 0)) OVER (ORDER BY rank DESC ROWS UNBOUNDED PRECEDING) AS bytes,
        row_number() OVER (ORDER BY rank DESC) AS number
    FROM (SELECT * FROM syncline.queue_keys WHERE queue_id = $1 AND place = $5 AND rank < $4 ORDER BY rank DESC LIMIT $2)
)
WHERE bytes <= $3 OR number = 1 ORDER BY rank DESC;

-- name: FIND
-- queue, keys
SELECT k.key, k.place, k.rank, k.arrival_no, k.attempts, k.priority, k.again, k.group_id, k.group_name
FROM json_each($2) AS asked CROSS JOIN syncline.queue_keys AS k WHERE k.queue_id = $1 AND k.key = asked.value;

-- name: AGED
-- ages
SELECT k.key, k.place, k.rank, k.arrival_no, k.attempts, k.priority, k.again, k.group_id, k.group_name
FROM json_each($1) AS asked CROSS JOIN syncline.queue_keys AS k WHERE k.place = 0 AND k.arrival_no = asked.value;

-- name: PUT
-- queue, now, rows of (key, rank, arrival_no, attempts, priority, again)
INSERT INTO syncline.queue_keys (queue_id, key, place, rank, arrival_no, attempts, priority, again, changed_at)
SELECT $1, value ->> 0, 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, $2 FROM json_each($3) WHERE true
ON CONFLICT (queue_id, key) DO UPDATE SET place = 0, rank = excluded.rank, arrival_no = excluded.arrival_no,
    attempts = excluded.attempts, priority = excluded.priority, again = excluded.again,
    due = NULL, reason = NULL, result = NULL, changed_at = excluded.changed_at;

-- name: SUCCEED
-- now, rows of (arrival_no, rank, result)
UPDATE syncline.queue_keys SET place = 2, rank = done.value ->> 1, attempts = attempts + 1, result = done.value ->> 2,
    changed_at = $1
FROM json_each($2) AS done WHERE place = 0 AND arrival_no = done.value ->> 0 AND NOT again
RETURNING arrival_no, key;

-- name: REPLACE
-- now, rows of (arrival_no, place, rank, new arrival_no, attempts, priority, due, reason, result)
UPDATE syncline.queue_keys SET place = left.value ->> 1, rank = left.value ->> 2, arrival_no = left.value ->> 3,
    attempts = left.value ->> 4, priority = left.value ->> 5, again = 0, due = left.value ->> 6,
    reason = left.value ->> 7, result = left.value ->> 8, changed_at = $1
FROM json_each($2) AS left WHERE place = 0 AND arrival_no = left.value ->> 0;

-- name: SET_DETAILS
-- queue, rows of (key, input, end). An input that is not given leaves the old one. All of these keys are there: as an insertion that
-- always meets a row, the statement goes from what was asked for to each row, which an update would not.
INSERT INTO syncline.queue_keys (queue_id, key, place, rank, arrival_no, attempts, priority, again, changed_at, input, expires_at)
SELECT $1, value ->> 0, 4, 0, 0, 0, 0, 0, 0, value ->> 1, value ->> 2 FROM json_each($2) WHERE true
ON CONFLICT (queue_id, key) DO UPDATE SET input = coalesce(excluded.input, input), expires_at = excluded.expires_at;

-- name: DETAILS
-- ages: what keys in line carry
SELECT k.arrival_no, k.input, k.expires_at
FROM json_each($1) AS asked CROSS JOIN syncline.queue_keys AS k WHERE k.place = 0 AND k.arrival_no = asked.value;

-- name: DELETE
-- queue, keys
DELETE FROM syncline.queue_keys WHERE queue_id = $1 AND key IN (SELECT value FROM json_each($2));

-- name: OLDEST
-- queue, from, limit: the rank up to which results go, and how many of which kind those are
SELECT max(rank), count(*) FILTER (WHERE place = 2), count(*) FILTER (WHERE place = 3)
FROM (
    SELECT place, rank FROM (
        SELECT * FROM (SELECT place, rank FROM syncline.queue_keys
            WHERE queue_id = $1 AND place = 2 AND rank >= $2 ORDER BY rank LIMIT $3)
        UNION ALL
        SELECT * FROM (SELECT place, rank FROM syncline.queue_keys
            WHERE queue_id = $1 AND place = 3 AND rank >= $2 ORDER BY rank LIMIT $3)
    ) ORDER BY rank LIMIT $3
);

-- name: LIST_RUNNING
-- ages
SELECT key, place, rank, arrival_no, attempts, priority, again, group_id, group_name, due, reason, result, changed_at
FROM syncline.queue_keys WHERE place = 0 AND arrival_no IN (SELECT value FROM json_each($1));

-- name: VERSIONS
-- names
SELECT name, changes FROM syncline.queues WHERE name IN (SELECT value FROM json_each($1));

-- name: OLD_RESULTS
-- queue, from, limit, time: the rank up to which results older than that go, and how many of which kind those are
WITH oldest AS MATERIALIZED (
    SELECT place, rank, changed_at FROM (
        SELECT * FROM (SELECT place, rank, changed_at FROM syncline.queue_keys
            WHERE queue_id = $1 AND place = 2 AND rank >= $2 ORDER BY rank LIMIT $3)
        UNION ALL
        SELECT * FROM (SELECT place, rank, changed_at FROM syncline.queue_keys
            WHERE queue_id = $1 AND place = 3 AND rank >= $2 ORDER BY rank LIMIT $3)
    ) ORDER BY rank LIMIT $3
)
SELECT max(rank), count(*) FILTER (WHERE place = 2), count(*) FILTER (WHERE place = 3)
FROM oldest WHERE rank < coalesce((SELECT min(rank) FROM oldest WHERE changed_at > $4), 9223372036854775807);

-- name: PUT_GROUPED
-- queue, now, rows of (key, rank, arrival_no, attempts, priority, again, group, name of the group)
INSERT INTO syncline.queue_keys (queue_id, key, place, rank, arrival_no, attempts, priority, again, group_id, group_name, changed_at)
SELECT $1, value ->> 0, 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, $2
FROM json_each($3) WHERE true
ON CONFLICT (queue_id, key) DO UPDATE SET place = 0, rank = excluded.rank, arrival_no = excluded.arrival_no,
    attempts = excluded.attempts, priority = excluded.priority, again = excluded.again, group_id = excluded.group_id,
    group_name = excluded.group_name, due = NULL, reason = NULL, result = NULL, changed_at = excluded.changed_at;

-- name: SET_GROUPS
-- rows of (age, group): puts keys in line into groups
UPDATE syncline.queue_keys SET group_id = joined.value ->> 1
FROM json_each($1) AS joined WHERE place = 0 AND arrival_no = joined.value ->> 0;

-- name: GROUPS_NAMED
-- queue, names
SELECT g.id, g.name, g.waiting, g.running, g.front, g.oldest, g.overtakes, g.next_at, g.failures, g.ready_at, g.turn, g.held
FROM json_each($2) AS asked CROSS JOIN syncline.queue_groups AS g WHERE g.queue_id = $1 AND g.name = asked.value;

-- name: GROUPS_NUMBERED
-- numbers
SELECT g.id, g.name, g.waiting, g.running, g.front, g.oldest, g.overtakes, g.next_at, g.failures, g.ready_at, g.turn, g.held
FROM json_each($1) AS asked CROSS JOIN syncline.queue_groups AS g WHERE g.id = asked.value;

-- name: GROUPS_READY
-- queue, now, limit: whose turn it is
SELECT g.id, g.name, g.waiting, g.running, g.front, g.oldest, g.overtakes, g.next_at, g.failures, g.ready_at, g.turn, g.held
FROM syncline.queue_groups AS g WHERE g.queue_id = $1 AND g.ready_at <= $2 ORDER BY g.ready_at, g.turn LIMIT $3;

-- name: GROUP_READY_NEXT
-- queue: when the next group may start
SELECT ready_at FROM syncline.queue_groups WHERE queue_id = $1 AND ready_at >= 0 ORDER BY ready_at, turn LIMIT 1;

-- name: GROUP_LINE
-- group, lowest rank, limit: the first in line of a group, by rank. PostgreSQL takes arrays of them.
SELECT key, place, rank, arrival_no, attempts, priority, again, group_id, group_name
FROM syncline.queue_keys WHERE group_id = $1 AND place = 0 AND group_id IS NOT NULL AND rank >= $2 ORDER BY rank LIMIT $3;

-- name: GROUP_AGES
-- group, lowest age, limit: those of a group that have been in line longest. PostgreSQL takes arrays of them.
SELECT key, place, rank, arrival_no, attempts, priority, again, group_id, group_name
FROM syncline.queue_keys WHERE group_id = $1 AND place = 0 AND group_id IS NOT NULL AND arrival_no >= $2 ORDER BY arrival_no LIMIT $3;

-- name: PUT_GROUPS
-- queue, rows of the columns of groups
INSERT INTO syncline.queue_groups (queue_id, id, name, waiting, running, front, oldest, overtakes, next_at, failures, ready_at, turn, held)
SELECT $1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8,
    value ->> 9, value ->> 10, value ->> 11
FROM json_each($2) WHERE true
ON CONFLICT (queue_id, name) DO UPDATE SET id = excluded.id, waiting = excluded.waiting, running = excluded.running,
    front = excluded.front, oldest = excluded.oldest, overtakes = excluded.overtakes, next_at = excluded.next_at,
    failures = excluded.failures, ready_at = excluded.ready_at, turn = excluded.turn, held = excluded.held;

-- name: DELETE_GROUPS
-- numbers
DELETE FROM syncline.queue_groups WHERE id IN (SELECT value FROM json_each($1));
