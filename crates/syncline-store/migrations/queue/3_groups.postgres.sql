-- Groups of keys within a queue, and a pace that was set while the queue runs. A column with a constant default is added without
-- writing a row.
ALTER TABLE syncline.queues ADD COLUMN IF NOT EXISTS grouped_since bigint NOT NULL DEFAULT 0; -- groups have this number or a higher one; 0: there are none
ALTER TABLE syncline.queues ADD COLUMN IF NOT EXISTS regroup_at bigint;                       -- keys in line from this rank on may be in no group yet
ALTER TABLE syncline.queues ADD COLUMN IF NOT EXISTS set_pace text;                           -- JSON: what counts instead of the configuration
ALTER TABLE syncline.queue_keys ADD COLUMN IF NOT EXISTS group_id bigint;                     -- of a key in line, where the queue has groups
ALTER TABLE syncline.queue_keys ADD COLUMN IF NOT EXISTS group_name text COLLATE "C";         -- what it was given, wherever it is

-- One row for each group that has keys in line or calls under way, rests, or is held. One that is ready has the time from which on it
-- may start, so that the first of this index is the next.
CREATE TABLE IF NOT EXISTS syncline.queue_groups (
    id        bigint NOT NULL,
    waiting   bigint NOT NULL,
    running   bigint NOT NULL,             -- calls under way, also those of keys that are gone
    front     bigint NOT NULL,             -- no waiting key has a lower rank
    oldest    bigint NOT NULL,             -- no waiting key has a lower age
    overtakes bigint NOT NULL,             -- starts in a row that overtook an older key
    next_at   bigint NOT NULL,             -- no call starts before
    failures  bigint NOT NULL,             -- calls in a row that were not answered
    ready_at  bigint,                      -- when it may start
    turn      bigint NOT NULL,             -- order among those that are ready at the same time
    queue_id  integer NOT NULL,
    held      boolean NOT NULL,            -- nothing starts until somebody resumes it
    name      text COLLATE "C" NOT NULL,
    PRIMARY KEY (queue_id, name)
) WITH (fillfactor = 50);
