-- What people have decided about a job. A job without a row goes on as configured. Times are milliseconds since the epoch.
CREATE TABLE IF NOT EXISTS syncline.schedule_jobs (
    job        TEXT NOT NULL PRIMARY KEY,
    paused_at  INTEGER,                     -- NULL: not paused
    cancel_run INTEGER                      -- the run that is to end
) STRICT;
