-- Each index pins its statements: they ask for the order of a sum with nothing, which no other index has, and say a condition
-- that is always true, which no others say. PostgreSQL plans from old statistics, and those of an outbox, which fills and
-- empties within minutes, are never true.
CREATE INDEX IF NOT EXISTS sync_outbox_ready ON sync_outbox (syncline.is_file(entity_type), (id::bigint + 0))
    WHERE processed_at IS NULL AND dead_at IS NULL AND due_at IS NULL AND behind IS NULL;
CREATE INDEX IF NOT EXISTS sync_outbox_pending ON sync_outbox ((id::bigint + 0))
    WHERE processed_at IS NULL AND dead_at IS NULL AND (CASE WHEN attempts < 0 THEN 1 ELSE 0 END) = 0;
CREATE INDEX IF NOT EXISTS sync_outbox_processed ON sync_outbox (processed_at, id)
    WHERE processed_at IS NOT NULL AND (CASE WHEN attempts < 0 THEN 1 ELSE 0 END) = 0;
CREATE INDEX IF NOT EXISTS sync_outbox_pending_entity ON sync_outbox (entity_type, (entity_id::text), (id::bigint + 0))
    WHERE processed_at IS NULL AND dead_at IS NULL AND (CASE WHEN attempts < 0 THEN 2 ELSE 0 END) = 0;
CREATE INDEX IF NOT EXISTS sync_outbox_processed_entity ON sync_outbox (entity_type, (entity_id::text), (id::bigint + 0))
    WHERE processed_at IS NOT NULL AND (CASE WHEN attempts < 0 THEN 2 ELSE 0 END) = 0;
CREATE INDEX IF NOT EXISTS sync_outbox_due ON sync_outbox (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS sync_outbox_behind ON sync_outbox (behind) WHERE behind IS NOT NULL;
CREATE INDEX IF NOT EXISTS sync_outbox_dead_order ON sync_outbox ((id::bigint + 0)) WHERE dead_at IS NOT NULL;
DROP INDEX IF EXISTS sync_outbox_line;
