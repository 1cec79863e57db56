-- Those that failed come back apart by kind, so that files do not bring changes back.
CREATE INDEX IF NOT EXISTS sync_outbox_due_kind ON sync_outbox (substr(entity_type, -5) = '_file', due_at) WHERE due_at IS NOT NULL;
DROP INDEX IF EXISTS sync_outbox_due;
