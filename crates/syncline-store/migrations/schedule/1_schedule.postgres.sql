-- What each job did, minute by minute. One row for each (job, bucket): a skip that another node overrules becomes
-- a run in place. Runs by hand have no bucket and so never conflict. Times are milliseconds since the epoch.
CREATE TABLE IF NOT EXISTS syncline.schedule_runs (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job            text NOT NULL,
    bucket         text,
    node           text NOT NULL,
    reason         text NOT NULL,
    state          text NOT NULL CHECK (state IN ('running', 'done', 'failed', 'skipped', 'abandoned')),
    started_at     bigint NOT NULL,
    finished_at    bigint,
    attempts       bigint NOT NULL DEFAULT 0,
    detail         text NOT NULL DEFAULT '',
    cost_micro_usd bigint NOT NULL,             -- spent by a run, saved by a skip
    UNIQUE (job, bucket)
);

-- Each index pins its statements: it has an expression of its own (a sum with nothing), which only the statements that
-- need this index say. PostgreSQL plans from old statistics and would otherwise choose an index that makes it read all rows
-- of one owner.
CREATE INDEX IF NOT EXISTS schedule_runs_job ON syncline.schedule_runs ((job || ''), (id + 0));
-- Runs and skips apart, of one job and of all: a page of runs does not read the skips between them.
CREATE INDEX IF NOT EXISTS schedule_runs_job_kind
    ON syncline.schedule_runs ((job || ''), (CASE WHEN state = 'skipped' THEN 1 ELSE 0 END), (id * 1));
CREATE INDEX IF NOT EXISTS schedule_runs_kind
    ON syncline.schedule_runs ((CASE WHEN state = 'skipped' THEN 1 ELSE 0 END), (id * 1));
CREATE INDEX IF NOT EXISTS schedule_runs_running ON syncline.schedule_runs (started_at) WHERE state = 'running';

-- Running totals, kept in the transaction that changes schedule_runs and not touched when old rows are trimmed.
CREATE TABLE IF NOT EXISTS syncline.schedule_totals (
    job            text NOT NULL,
    decision       text NOT NULL CHECK (decision IN ('run', 'skip')),
    reason         text NOT NULL,
    count          bigint NOT NULL,
    failed         bigint NOT NULL,
    abandoned      bigint NOT NULL,
    cost_micro_usd bigint NOT NULL,
    PRIMARY KEY (job, decision, reason)
);
