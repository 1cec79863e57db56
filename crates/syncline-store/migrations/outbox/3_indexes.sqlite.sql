-- Files (entity types that end in `_file`) and the rest are claimed apart.
CREATE INDEX IF NOT EXISTS sync_outbox_ready ON sync_outbox (substr(entity_type, -5) = '_file', id)
    WHERE processed_at IS NULL AND dead_at IS NULL AND due_at IS NULL AND behind IS NULL;
DROP INDEX IF EXISTS sync_outbox_line;
CREATE INDEX IF NOT EXISTS sync_outbox_pending ON sync_outbox (id) WHERE processed_at IS NULL AND dead_at IS NULL;
CREATE INDEX IF NOT EXISTS sync_outbox_pending_entity ON sync_outbox (entity_type, entity_id, id)
    WHERE processed_at IS NULL AND dead_at IS NULL;
CREATE INDEX IF NOT EXISTS sync_outbox_processed_entity ON sync_outbox (entity_type, entity_id, id)
    WHERE processed_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS sync_outbox_due ON sync_outbox (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS sync_outbox_behind ON sync_outbox (behind) WHERE behind IS NOT NULL;
CREATE INDEX IF NOT EXISTS sync_outbox_dead ON sync_outbox (id) WHERE dead_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS sync_outbox_processed ON sync_outbox (processed_at, id) WHERE processed_at IS NOT NULL;

-- SQLite gives the number of a deleted last row again, unless the table says AUTOINCREMENT, and applications make the
-- table as they like. A receiver knows entries by their numbers and would take a new one for an old one. So the highest
-- number that was ever deleted is remembered, and a new row that got one up to it is numbered anew, in the same statement.
CREATE TRIGGER IF NOT EXISTS syncline.sync_outbox_deleted AFTER DELETE ON sync_outbox
    WHEN OLD.id > (SELECT top FROM syncline.sync_outbox_sender)
BEGIN
    UPDATE syncline.sync_outbox_sender SET top = OLD.id;
END;
CREATE TRIGGER IF NOT EXISTS syncline.sync_outbox_inserted AFTER INSERT ON sync_outbox
    WHEN NEW.id <= (SELECT top FROM syncline.sync_outbox_sender)
BEGIN
    UPDATE sync_outbox SET id = max((SELECT top FROM syncline.sync_outbox_sender), (SELECT max(id) FROM sync_outbox)) + 1
    WHERE id = NEW.id;
END;
