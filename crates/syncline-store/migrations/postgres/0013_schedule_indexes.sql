-- PostgreSQL plans from old statistics. It believes an owner that it has not counted yet to have one row; then any index
-- that begins with the owner looks as good as any other, and the one it takes may make it read all rows of the owner for
-- each key. So each index here has an expression of its own (a sum with nothing), which only the statements that need this
-- index say: no statement has two indexes to choose from.
DROP INDEX schedule_runs_job;
CREATE INDEX schedule_runs_job ON schedule_runs ((job || ''), (id + 0));
-- Runs and skips apart, of one job and of all: a page of runs does not read the skips between them.
CREATE INDEX schedule_runs_job_kind
    ON schedule_runs ((job || ''), (CASE WHEN state = 'skipped' THEN 1 ELSE 0 END), (id * 1));
CREATE INDEX schedule_runs_kind ON schedule_runs ((CASE WHEN state = 'skipped' THEN 1 ELSE 0 END), (id * 1));
