-- The schedule on SQLite. The writer runs one change at a time: what was looked at stays as it is until the change ends.

-- name: LOCK_RUN
-- id
SELECT id, job, bucket, node, reason, state, started_at, finished_at, attempts, detail, cost_micro_usd
FROM syncline.schedule_runs WHERE id = $1;

-- name: LOCK_BUCKET
-- job, bucket
SELECT id, job, bucket, node, reason, state, started_at, finished_at, attempts, detail, cost_micro_usd
FROM syncline.schedule_runs WHERE job = $1 AND bucket = $2;

-- name: LOCK_RUNNING
-- begun at the latest, limit
SELECT id, job, bucket, node, reason, state, started_at, finished_at, attempts, detail, cost_micro_usd
FROM syncline.schedule_runs WHERE state = 'running' AND started_at <= $1 ORDER BY started_at, id LIMIT $2;

-- name: HISTORY_OF_JOB
-- before, limit, job
SELECT id, job, bucket, node, reason, state, started_at, finished_at, attempts, detail, cost_micro_usd
FROM syncline.schedule_runs WHERE id < $1 AND job = $3 ORDER BY id DESC LIMIT $2;

-- name: HISTORY_OF_KIND
-- before, limit, runs (0) or skips (1)
SELECT id, job, bucket, node, reason, state, started_at, finished_at, attempts, detail, cost_micro_usd
FROM syncline.schedule_runs WHERE id < $1 AND (state = 'skipped') = $3 ORDER BY id DESC LIMIT $2;

-- name: HISTORY_OF_JOB_AND_KIND
-- before, limit, runs (0) or skips (1), job
SELECT id, job, bucket, node, reason, state, started_at, finished_at, attempts, detail, cost_micro_usd
FROM syncline.schedule_runs WHERE id < $1 AND (state = 'skipped') = $3 AND job = $4 ORDER BY id DESC LIMIT $2;

-- name: NTH_NEWEST
-- The id of the job's row that has $2 newer ones.
SELECT id FROM syncline.schedule_runs WHERE job = $1 ORDER BY id DESC LIMIT 1 OFFSET $2;

-- name: TRIM
-- Removes rows of $1 that are at most $2, or at most $3 and begun before $4; $5 rows at most.
DELETE FROM syncline.schedule_runs WHERE id IN (
    SELECT id FROM syncline.schedule_runs
    WHERE job = $1 AND state <> 'running' AND (id <= $2 OR (id <= $3 AND started_at < $4)) ORDER BY id LIMIT $5
);
