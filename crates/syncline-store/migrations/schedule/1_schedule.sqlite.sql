-- What each job did, minute by minute. One row for each (job, bucket): a skip that another node overrules becomes
-- a run in place. Runs by hand have no bucket and so never conflict. Times are milliseconds since the epoch.
CREATE TABLE IF NOT EXISTS syncline.schedule_runs (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    job            TEXT NOT NULL,
    bucket         TEXT,
    node           TEXT NOT NULL,
    reason         TEXT NOT NULL,
    state          TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'skipped', 'abandoned')),
    started_at     INTEGER NOT NULL,
    finished_at    INTEGER,
    attempts       INTEGER NOT NULL DEFAULT 0,
    detail         TEXT NOT NULL DEFAULT '',
    cost_micro_usd INTEGER NOT NULL,             -- spent by a run, saved by a skip
    UNIQUE (job, bucket)
) STRICT;

CREATE INDEX IF NOT EXISTS syncline.schedule_runs_job ON syncline.schedule_runs (job, id);
CREATE INDEX IF NOT EXISTS syncline.schedule_runs_running ON syncline.schedule_runs (started_at) WHERE state = 'running';

-- Running totals, kept in the transaction that changes schedule_runs and not touched when old rows are trimmed.
CREATE TABLE IF NOT EXISTS syncline.schedule_totals (
    job            TEXT NOT NULL,
    decision       TEXT NOT NULL CHECK (decision IN ('run', 'skip')),
    reason         TEXT NOT NULL,
    count          INTEGER NOT NULL,
    failed         INTEGER NOT NULL,
    abandoned      INTEGER NOT NULL,
    cost_micro_usd INTEGER NOT NULL,
    PRIMARY KEY (job, decision, reason)
) STRICT;
