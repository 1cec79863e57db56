-- What a key carries besides itself, and whether somebody holds the queue.
ALTER TABLE syncline.queues ADD COLUMN carries INTEGER NOT NULL DEFAULT 0; -- a key was ever given an input or an end
ALTER TABLE syncline.queues ADD COLUMN held INTEGER NOT NULL DEFAULT 0;    -- nothing starts until somebody resumes it
ALTER TABLE syncline.queue_keys ADD COLUMN input TEXT;                     -- JSON for whoever does the work
ALTER TABLE syncline.queue_keys ADD COLUMN expires_at INTEGER;             -- not started any more from then on
