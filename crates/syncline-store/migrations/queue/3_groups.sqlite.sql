-- Groups of keys within a queue, and a pace that was set while the queue runs.
ALTER TABLE syncline.queues ADD COLUMN grouped_since INTEGER NOT NULL DEFAULT 0; -- groups have this number or a higher one; 0: there are none
ALTER TABLE syncline.queues ADD COLUMN regroup_at INTEGER;                       -- keys in line from this rank on may be in no group yet
ALTER TABLE syncline.queues ADD COLUMN set_pace TEXT;                            -- JSON: what counts instead of the configuration
ALTER TABLE syncline.queue_keys ADD COLUMN group_id INTEGER;                     -- of a key in line, where the queue has groups
ALTER TABLE syncline.queue_keys ADD COLUMN group_name TEXT;                      -- what it was given, wherever it is

-- One row for each group that has keys in line or calls under way, rests, or is held. One that is ready has the time from which on it
-- may start, so that the first of this index is the next.
CREATE TABLE IF NOT EXISTS syncline.queue_groups (
    queue_id  INTEGER NOT NULL,
    name      TEXT NOT NULL,
    id        INTEGER NOT NULL,
    waiting   INTEGER NOT NULL,
    running   INTEGER NOT NULL,            -- calls under way, also those of keys that are gone
    front     INTEGER NOT NULL,            -- no waiting key has a lower rank
    oldest    INTEGER NOT NULL,            -- no waiting key has a lower age
    overtakes INTEGER NOT NULL,            -- starts in a row that overtook an older key
    next_at   INTEGER NOT NULL,            -- no call starts before
    failures  INTEGER NOT NULL,            -- calls in a row that were not answered
    ready_at  INTEGER,                     -- when it may start
    turn      INTEGER NOT NULL,            -- order among those that are ready at the same time
    held      INTEGER NOT NULL,            -- nothing starts until somebody resumes it
    UNIQUE (queue_id, name)
) STRICT;
