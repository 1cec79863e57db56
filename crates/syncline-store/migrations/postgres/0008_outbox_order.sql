-- The server takes whichever index it believes to be small, and goes through all of it; what it believes is what the table
-- was like some time ago. In an outbox, which fills and empties within minutes, that is never true. So each index can be
-- used by its own statements alone: those ask for the order of a sum with nothing, which no other index has, and say a
-- condition that is always true, which no others say.
DROP INDEX sync_outbox_line, sync_outbox_pending, sync_outbox_pending_entity, sync_outbox_processed_entity,
    sync_outbox_processed;
CREATE INDEX sync_outbox_line
    ON sync_outbox ((CASE WHEN entity_type = 'recording_file' THEN 1 ELSE 0 END), (id::bigint + 0))
    WHERE processed_at IS NULL AND dead_at IS NULL AND due_at IS NULL AND behind IS NULL;
CREATE INDEX sync_outbox_pending ON sync_outbox ((id::bigint + 0))
    WHERE processed_at IS NULL AND dead_at IS NULL AND (CASE WHEN attempts < 0 THEN 1 ELSE 0 END) = 0;
CREATE INDEX sync_outbox_processed ON sync_outbox (processed_at, id)
    WHERE processed_at IS NOT NULL AND (CASE WHEN attempts < 0 THEN 1 ELSE 0 END) = 0;
CREATE INDEX sync_outbox_pending_entity ON sync_outbox (entity_type, (entity_id::text), (id::bigint + 0))
    WHERE processed_at IS NULL AND dead_at IS NULL AND (CASE WHEN attempts < 0 THEN 2 ELSE 0 END) = 0;
CREATE INDEX sync_outbox_processed_entity ON sync_outbox (entity_type, (entity_id::text), (id::bigint + 0))
    WHERE processed_at IS NOT NULL AND (CASE WHEN attempts < 0 THEN 2 ELSE 0 END) = 0;
