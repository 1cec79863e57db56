-- What people have decided about a job. A job without a row goes on as configured. Times are milliseconds since the epoch.
CREATE TABLE IF NOT EXISTS syncline.schedule_jobs (
    job        text NOT NULL PRIMARY KEY,
    paused_at  bigint,                     -- NULL: not paused
    cancel_run bigint                      -- the run that is to end
);
