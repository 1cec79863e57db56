CREATE UNIQUE INDEX IF NOT EXISTS queue_groups_id ON syncline.queue_groups (id);
CREATE INDEX IF NOT EXISTS queue_groups_ready ON syncline.queue_groups ((queue_id + 0), ready_at, turn) WHERE ready_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS queue_keys_group ON syncline.queue_keys ((group_id + 0), rank) WHERE (place + 0) = 0 AND group_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS queue_keys_group_arrival ON syncline.queue_keys ((group_id * 1), arrival_no) WHERE (place + 0) = 0 AND group_id IS NOT NULL;
