-- One row for each queue: what its keys share. Every change of a queue locks it first, so that whoever holds it may look
-- and then write. Times are milliseconds since the epoch on the database's own clock.
CREATE TABLE IF NOT EXISTS syncline.queues (
    id           integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text COLLATE "C" NOT NULL UNIQUE,
    pace         text NOT NULL,             -- who calls the API and when the next may
    tail         bigint NOT NULL,           -- the next rank and age behind all others
    front        bigint NOT NULL,           -- no waiting key has a lower rank
    oldest       bigint NOT NULL,           -- no waiting key has a lower age
    trimmed      bigint NOT NULL,           -- no result has a lower rank
    next_due     bigint,                    -- no retry is due before
    overtakes    bigint NOT NULL,           -- starts in a row that overtook an older key
    waiting      bigint NOT NULL,
    running      bigint NOT NULL,
    retrying     bigint NOT NULL,
    done         bigint NOT NULL,
    failed       bigint NOT NULL,
    dead         bigint NOT NULL,
    done_total   bigint NOT NULL,
    failed_total bigint NOT NULL,
    changes      bigint NOT NULL            -- grows with every change that others want to hear of
) WITH (fillfactor = 50);

-- One row for each key, wherever it is. The queue's pace says which keys run: beginning a run writes no row. Room is left on
-- each page for changed rows, so that a change of no indexed column writes no index.
CREATE TABLE IF NOT EXISTS syncline.queue_keys (
    rank       bigint NOT NULL,             -- order within the place, lowest first
    arrival_no bigint NOT NULL,             -- order of arrival while in line; no two rows share one, of whatever queue
    due        bigint,                      -- when a retry comes back; of those alone
    changed_at bigint NOT NULL,
    queue_id   integer NOT NULL,
    attempts   integer NOT NULL,
    place      smallint NOT NULL CHECK (place BETWEEN 0 AND 4), -- line, retrying, done, failed, dead
    priority   boolean NOT NULL,
    again      boolean NOT NULL,            -- one more run was asked for while it runs
    key        text COLLATE "C" NOT NULL,
    reason     text,
    result     text,
    PRIMARY KEY (queue_id, key)
) WITH (fillfactor = 70);

-- Each index pins its statements: it has an expression of its own (a sum with nothing), which only the statements that
-- need this index say. PostgreSQL plans from old statistics and would otherwise choose an index that makes it read all rows
-- of one owner.
CREATE INDEX IF NOT EXISTS queue_keys_place ON syncline.queue_keys ((queue_id + 0), place, rank);
CREATE UNIQUE INDEX IF NOT EXISTS queue_keys_arrival ON syncline.queue_keys (arrival_no) WHERE place = 0;
CREATE INDEX IF NOT EXISTS queue_keys_due ON syncline.queue_keys ((queue_id * 1), due, rank) WHERE due IS NOT NULL;
