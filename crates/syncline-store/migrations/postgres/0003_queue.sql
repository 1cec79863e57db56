-- One row for each queue: what its keys share. Every change of a queue locks it first, so that whoever holds it may look
-- and then write. Times are milliseconds since the epoch on the database's own clock.
CREATE TABLE queues (
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

-- One row for each key, wherever it is. A key in line with a call is running: beginning a run changes no indexed column,
-- and room is left on each page for the changed row, so that no index is written then.
CREATE TABLE queue_keys (
    rank       bigint NOT NULL,             -- order within the place, lowest first
    since      bigint NOT NULL,             -- order by age while in line; no two rows share one, of whatever queue
    call       bigint,                      -- the call under way, while it runs
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

CREATE INDEX queue_keys_place ON queue_keys (queue_id, place, rank);
CREATE UNIQUE INDEX queue_keys_since ON queue_keys (since) WHERE place = 0;
CREATE INDEX queue_keys_due ON queue_keys (queue_id, due, rank) WHERE due IS NOT NULL;
