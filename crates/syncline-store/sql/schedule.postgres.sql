-- The schedule on PostgreSQL. Rows are locked before they are judged. Each statement finds its rows by one index and cannot use
-- another: an index has an expression of its own ("job || ''", "id + 0", "id * 1"), and the statements that need it say the same.

-- name: LOCK_RUN
-- id
SELECT id, job, bucket, node, reason, state, started_at, finished_at, attempts, detail, cost_micro_usd
FROM syncline.schedule_runs WHERE id = $1 FOR UPDATE;

-- name: LOCK_BUCKET
-- job, bucket
SELECT id, job, bucket, node, reason, state, started_at, finished_at, attempts, detail, cost_micro_usd
FROM syncline.schedule_runs WHERE job = $1 AND bucket = $2 FOR UPDATE;

-- name: LOCK_RUNNING
-- begun at the latest, limit
-- A row that is locked is just now being finished by a node that is very much alive.
SELECT id, job, bucket, node, reason, state, started_at, finished_at, attempts, detail, cost_micro_usd
FROM syncline.schedule_runs WHERE state = 'running' AND started_at <= $1 ORDER BY started_at, id LIMIT $2
FOR UPDATE SKIP LOCKED;

-- name: HISTORY_OF_JOB
-- before, limit, job
SELECT id, job, bucket, node, reason, state, started_at, finished_at, attempts, detail, cost_micro_usd
FROM syncline.schedule_runs WHERE (job || '') = $3 AND (id + 0) < $1 ORDER BY (id + 0) DESC LIMIT $2;

-- name: HISTORY_OF_KIND
-- before, limit, runs (0) or skips (1)
SELECT id, job, bucket, node, reason, state, started_at, finished_at, attempts, detail, cost_micro_usd
FROM syncline.schedule_runs
WHERE (CASE WHEN state = 'skipped' THEN 1 ELSE 0 END) = $3::integer AND (id * 1) < $1
ORDER BY (id * 1) DESC LIMIT $2;

-- name: HISTORY_OF_JOB_AND_KIND
-- before, limit, runs (0) or skips (1), job
SELECT id, job, bucket, node, reason, state, started_at, finished_at, attempts, detail, cost_micro_usd
FROM syncline.schedule_runs
WHERE (job || '') = $4 AND (CASE WHEN state = 'skipped' THEN 1 ELSE 0 END) = $3::integer AND (id * 1) < $1
ORDER BY (id * 1) DESC LIMIT $2;

-- name: NTH_NEWEST
-- The id of the job's row that has $2 newer ones.
SELECT id FROM syncline.schedule_runs WHERE (job || '') = $1 ORDER BY (id + 0) DESC LIMIT 1 OFFSET $2;

-- name: TRIM
-- Removes rows of $1 that are at most $2, or at most $3 and begun before $4; $5 rows at most.
-- Of the oldest rows no more are looked at than may be removed.
DELETE FROM syncline.schedule_runs WHERE id IN (
    SELECT id FROM (
        SELECT id, started_at FROM syncline.schedule_runs
        WHERE (job || '') = $1 AND (id + 0) <= greatest($2, $3) AND state <> 'running' ORDER BY (id + 0) LIMIT $5
    ) AS oldest
    WHERE id <= $2 OR (id <= $3 AND started_at < $4)
);
