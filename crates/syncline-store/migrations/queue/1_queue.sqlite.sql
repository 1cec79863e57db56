-- One row for each queue: what its keys share. Times are milliseconds on the store's steady clock.
CREATE TABLE IF NOT EXISTS syncline.queues (
    id           INTEGER PRIMARY KEY,
    name         TEXT NOT NULL UNIQUE,
    pace         TEXT NOT NULL,             -- who calls the API and when the next may
    tail         INTEGER NOT NULL,          -- the next rank and age behind all others
    front        INTEGER NOT NULL,          -- no waiting key has a lower rank
    oldest       INTEGER NOT NULL,          -- no waiting key has a lower age
    trimmed      INTEGER NOT NULL,          -- no result has a lower rank
    next_due     INTEGER,                   -- no retry is due before
    overtakes    INTEGER NOT NULL,          -- starts in a row that overtook an older key
    waiting      INTEGER NOT NULL,
    running      INTEGER NOT NULL,
    retrying     INTEGER NOT NULL,
    done         INTEGER NOT NULL,
    failed       INTEGER NOT NULL,
    dead         INTEGER NOT NULL,
    done_total   INTEGER NOT NULL,
    failed_total INTEGER NOT NULL,
    changes      INTEGER NOT NULL           -- grows with every change that others want to hear of
) STRICT;

-- One row for each key, wherever it is. The queue's pace says which keys run: beginning a run writes no row.
CREATE TABLE IF NOT EXISTS syncline.queue_keys (
    queue_id   INTEGER NOT NULL,
    key        TEXT NOT NULL,
    place      INTEGER NOT NULL CHECK (place BETWEEN 0 AND 4), -- line, retrying, done, failed, dead
    rank       INTEGER NOT NULL,            -- order within the place, lowest first
    arrival_no INTEGER NOT NULL,            -- order of arrival while in line; no two rows share one, of whatever queue
    attempts   INTEGER NOT NULL,
    priority   INTEGER NOT NULL,
    again      INTEGER NOT NULL,            -- one more run was asked for while it runs
    due        INTEGER,                     -- when a retry comes back; of those alone
    changed_at INTEGER NOT NULL,
    reason     TEXT,
    result     TEXT,
    UNIQUE (queue_id, key)
) STRICT;

CREATE INDEX IF NOT EXISTS syncline.queue_keys_place ON syncline.queue_keys (queue_id, place, rank);
CREATE UNIQUE INDEX IF NOT EXISTS syncline.queue_keys_arrival ON syncline.queue_keys (arrival_no) WHERE place = 0;
CREATE INDEX IF NOT EXISTS syncline.queue_keys_due ON syncline.queue_keys (queue_id, due, rank) WHERE due IS NOT NULL;
