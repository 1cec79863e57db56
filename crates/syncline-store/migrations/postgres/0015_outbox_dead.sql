-- The dead letters in the order of their numbers, by an index that no other statement can take.
-- On a table of the application's the index was made before, without holding the application up.
CREATE INDEX IF NOT EXISTS sync_outbox_dead_order ON sync_outbox ((id::bigint + 0)) WHERE dead_at IS NOT NULL;
DROP INDEX IF EXISTS sync_outbox_dead;
