-- What a key carries besides itself, and whether somebody holds the queue. A column with a constant default is added without
-- writing a row.
ALTER TABLE syncline.queues ADD COLUMN IF NOT EXISTS carries boolean NOT NULL DEFAULT false; -- a key was ever given an input or an end
ALTER TABLE syncline.queues ADD COLUMN IF NOT EXISTS held boolean NOT NULL DEFAULT false;    -- nothing starts until somebody resumes it
ALTER TABLE syncline.queue_keys ADD COLUMN IF NOT EXISTS input text;                         -- JSON for whoever does the work
ALTER TABLE syncline.queue_keys ADD COLUMN IF NOT EXISTS expires_at bigint;                  -- not started any more from then on
