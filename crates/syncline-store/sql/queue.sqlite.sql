-- Queues on SQLite. The writer runs one change at a time, so a change may look first and write after. Many rows go in as one JSON
-- array, so that a batch is a handful of statements whatever its size. A cross join is SQLite's way of saying which table comes
-- first: what was asked for, then each by its index.

-- name: OPEN
-- name
SELECT id, pace, tail, front, oldest, trimmed, next_due, overtakes, waiting, running, retrying, done, failed,
    dead, done_total, failed_total, changes, carries, held, :now AS now_ms
FROM syncline.queues WHERE name = $1;

-- name: PEEK
-- name
SELECT id, pace, tail, front, oldest, trimmed, next_due, overtakes, waiting, running, retrying, done, failed,
    dead, done_total, failed_total, changes, carries, held, :now AS now_ms
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
SELECT key, place, rank, arrival_no, attempts, priority, again
FROM syncline.queue_keys WHERE queue_id = $1 AND place = 0 AND rank >= $2 ORDER BY rank LIMIT $3;

-- name: FORGET_AGAIN
-- queue: forgets what was asked for while keys ran
UPDATE syncline.queue_keys SET again = false WHERE queue_id = $1 AND place = 0 AND again;

-- name: RETRIES
-- queue, limit: what comes back, soonest first
SELECT key, place, rank, arrival_no, attempts, priority, again, due
FROM syncline.queue_keys WHERE queue_id = $1 AND due > 0 ORDER BY due, rank LIMIT $2;

-- name: ENDED
-- queue, limit, place: what ended in one place, oldest first
SELECT key, place, rank, arrival_no, attempts, priority, again
FROM syncline.queue_keys WHERE queue_id = $1 AND place = $3 ORDER BY rank LIMIT $2;

-- name: TRIM
-- queue, from, to: forgets results
DELETE FROM syncline.queue_keys WHERE queue_id = $1 AND place IN (2, 3) AND rank BETWEEN $2 AND $3;

-- name: LIST_WAITING
-- queue, limit, most bytes, after. A listing is cut where its results together would be too long; the first is always there.
SELECT key, place, rank, arrival_no, attempts, priority, again, due, reason, result, changed_at
FROM (
    SELECT *, sum(coalesce(octet_length(result), 0)) OVER (ORDER BY rank ROWS UNBOUNDED PRECEDING) AS bytes,
        row_number() OVER (ORDER BY rank) AS number
    FROM (SELECT * FROM syncline.queue_keys WHERE queue_id = $1 AND place = 0 AND rank > $4 ORDER BY rank LIMIT $2)
)
WHERE bytes <= $3 OR number = 1 ORDER BY rank;

-- name: LIST_RETRYING
-- queue, limit, most bytes, after (due, rank)
SELECT key, place, rank, arrival_no, attempts, priority, again, due, reason, result, changed_at
FROM (
    SELECT *, sum(coalesce(octet_length(result), 0)) OVER (ORDER BY due, rank ROWS UNBOUNDED PRECEDING) AS bytes,
        row_number() OVER (ORDER BY due, rank) AS number
    FROM (SELECT * FROM syncline.queue_keys WHERE queue_id = $1 AND due IS NOT NULL AND (due, rank) > ($4, $5) ORDER BY due, rank LIMIT $2)
)
WHERE bytes <= $3 OR number = 1 ORDER BY due, rank;

-- name: LIST_ENDED
-- queue, limit, most bytes, before, place
SELECT key, place, rank, arrival_no, attempts, priority, again, due, reason, result, changed_at
FROM (
    SELECT *, sum(coalesce(octet_length(result), 0)) OVER (ORDER BY rank DESC ROWS UNBOUNDED PRECEDING) AS bytes,
        row_number() OVER (ORDER BY rank DESC) AS number
    FROM (SELECT * FROM syncline.queue_keys WHERE queue_id = $1 AND place = $5 AND rank < $4 ORDER BY rank DESC LIMIT $2)
)
WHERE bytes <= $3 OR number = 1 ORDER BY rank DESC;

-- name: FIND
-- queue, keys
SELECT k.key, k.place, k.rank, k.arrival_no, k.attempts, k.priority, k.again
FROM json_each($2) AS asked CROSS JOIN syncline.queue_keys AS k WHERE k.queue_id = $1 AND k.key = asked.value;

-- name: AGED
-- ages
SELECT k.key, k.place, k.rank, k.arrival_no, k.attempts, k.priority, k.again
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
SELECT key, place, rank, arrival_no, attempts, priority, again, due, reason, result, changed_at
FROM syncline.queue_keys WHERE place = 0 AND arrival_no IN (SELECT value FROM json_each($1));

-- name: VERSIONS
-- names
SELECT name, changes FROM syncline.queues WHERE name IN (SELECT value FROM json_each($1));
