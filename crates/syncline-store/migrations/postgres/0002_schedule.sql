-- What each job did, minute by minute. One row for each (job, bucket): a skip that another node overrules becomes
-- a run in place. Runs by hand have no bucket and so never conflict. Times are milliseconds since the epoch.
CREATE TABLE schedule_runs (
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

CREATE INDEX schedule_runs_job ON schedule_runs (job, id);
CREATE INDEX schedule_runs_running ON schedule_runs (started_at) WHERE state = 'running';

-- Running totals, kept in the transaction that changes schedule_runs and not touched when old rows are trimmed.
CREATE TABLE schedule_totals (
    job            text NOT NULL,
    decision       text NOT NULL CHECK (decision IN ('run', 'skip')),
    reason         text NOT NULL,
    count          bigint NOT NULL,
    failed         bigint NOT NULL,
    abandoned      bigint NOT NULL,
    cost_micro_usd bigint NOT NULL,
    PRIMARY KEY (job, decision, reason)
);
