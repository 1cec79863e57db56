-- PostgreSQL plans from old statistics. It believes an owner (a queue, a job, a space) that it has not counted yet to have
-- one row; then any index that begins with the owner looks as good as any other, and the one it takes may make it read all
-- rows of the owner for each key. It also goes through a whole table in the order of its primary key if it believes that
-- what it looks for comes soon. So each index here has an expression of its own (a sum with nothing), which only the
-- statements that need this index say: no statement has two indexes to choose from.
DROP INDEX queue_keys_place, queue_keys_due;
CREATE INDEX queue_keys_place ON queue_keys ((queue_id + 0), place, rank);
CREATE INDEX queue_keys_due ON queue_keys ((queue_id * 1), due, rank) WHERE due IS NOT NULL;

DROP INDEX schedule_runs_job;
CREATE INDEX schedule_runs_job ON schedule_runs ((job || ''), (id + 0));
-- Runs and skips apart, of one job and of all: a page of runs does not read the skips between them.
CREATE INDEX schedule_runs_job_kind
    ON schedule_runs ((job || ''), (CASE WHEN state = 'skipped' THEN 1 ELSE 0 END), (id * 1));
CREATE INDEX schedule_runs_kind ON schedule_runs ((CASE WHEN state = 'skipped' THEN 1 ELSE 0 END), (id * 1));

DROP INDEX state_entities_number;
CREATE UNIQUE INDEX state_entities_number ON state_entities ((space || ''), number);

DROP INDEX sync_outbox_dead;
CREATE INDEX sync_outbox_dead ON sync_outbox ((id::bigint + 0)) WHERE dead_at IS NOT NULL;

DROP INDEX shelf_books_searching;
CREATE INDEX shelf_books_searching ON shelf_books ((id + 0)) WHERE book IS NULL;
