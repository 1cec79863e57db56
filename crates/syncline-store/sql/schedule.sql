-- The schedule, as both engines say it. Moments are arguments, read from the engine's clock in the same transaction.

-- name: INSERT
-- job, bucket, node, reason, state, started_at, finished_at, cost. No row comes back when the bucket is taken.
INSERT INTO syncline.schedule_runs (job, bucket, node, reason, state, started_at, finished_at, cost_micro_usd)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (job, bucket) DO NOTHING RETURNING id;

-- name: UPGRADE
-- Turns the skip $1 into a run: node, reason, started_at, cost.
UPDATE syncline.schedule_runs SET node = $2, reason = $3, state = 'running', started_at = $4, finished_at = NULL,
    attempts = 0, detail = '', cost_micro_usd = $5
WHERE id = $1;

-- name: FINISH
-- Ends the run $1: reason, state, finished_at, attempts, detail, cost.
UPDATE syncline.schedule_runs SET reason = $2, state = $3, finished_at = $4, attempts = $5, detail = $6,
    cost_micro_usd = $7
WHERE id = $1;

-- name: ABANDON
-- Gives the run $1 up at $2, if it still runs.
UPDATE syncline.schedule_runs SET state = 'abandoned', finished_at = $2 WHERE id = $1 AND state = 'running';

-- name: ADD
-- Adds to the totals: job, decision, reason, count, failed, abandoned, cost.
INSERT INTO syncline.schedule_totals (job, decision, reason, count, failed, abandoned, cost_micro_usd)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (job, decision, reason) DO UPDATE SET
    count = syncline.schedule_totals.count + excluded.count,
    failed = syncline.schedule_totals.failed + excluded.failed,
    abandoned = syncline.schedule_totals.abandoned + excluded.abandoned,
    cost_micro_usd = syncline.schedule_totals.cost_micro_usd + excluded.cost_micro_usd;

-- name: BY_ID
SELECT id, job, bucket, node, reason, state, started_at, finished_at, attempts, detail, cost_micro_usd
FROM syncline.schedule_runs WHERE id = $1;

-- name: RUNNING
-- job or NULL, limit
SELECT id, job, bucket, node, reason, state, started_at, finished_at, attempts, detail, cost_micro_usd
FROM syncline.schedule_runs WHERE state = 'running' AND ($1 IS NULL OR job = $1) ORDER BY started_at, id LIMIT $2;

-- name: HISTORY
-- before, limit
SELECT id, job, bucket, node, reason, state, started_at, finished_at, attempts, detail, cost_micro_usd
FROM syncline.schedule_runs WHERE id < $1 ORDER BY id DESC LIMIT $2;

-- name: TOTALS
SELECT decision, reason, count, failed, abandoned, cost_micro_usd FROM syncline.schedule_totals;

-- name: TOTALS_OF_JOB
-- job
SELECT decision, reason, count, failed, abandoned, cost_micro_usd FROM syncline.schedule_totals WHERE job = $1;

-- name: JOB
-- job
SELECT paused_at, cancel_run FROM syncline.schedule_jobs WHERE job = $1;

-- name: PAUSE
-- job, now. One that is paused stays paused since then.
INSERT INTO syncline.schedule_jobs (job, paused_at) VALUES ($1, $2)
ON CONFLICT (job) DO UPDATE SET paused_at = coalesce(syncline.schedule_jobs.paused_at, excluded.paused_at);

-- name: RESUME
-- job
UPDATE syncline.schedule_jobs SET paused_at = NULL WHERE job = $1;

-- name: CANCEL
-- job, run
INSERT INTO syncline.schedule_jobs (job, cancel_run) VALUES ($1, $2)
ON CONFLICT (job) DO UPDATE SET cancel_run = excluded.cancel_run;

-- name: LAST_BUCKET
-- job. In the order of the index that serves it: the largest of a job with many runs is one row away.
SELECT bucket FROM syncline.schedule_runs WHERE job = $1 AND bucket IS NOT NULL ORDER BY job DESC, bucket DESC LIMIT 1;
