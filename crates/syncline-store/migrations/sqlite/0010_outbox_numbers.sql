-- A recording may be queued twice; what was sent of it is found by its id.
CREATE INDEX sync_receipts_recording ON sync_receipts (recording_id);

-- SQLite gives the number of a deleted last row again, unless the table says AUTOINCREMENT, and applications make the
-- table as they like. A receiver knows entries by their numbers and would take a new one for an old one. So the highest
-- number that was ever deleted is remembered, and a new row that got one up to it is numbered anew, in the same statement.
ALTER TABLE sync_outbox_sender ADD COLUMN top INTEGER NOT NULL DEFAULT 0;
-- Of what was deleted before, at least as many numbers were given as entries delivered, and those of receipts.
UPDATE sync_outbox_sender SET top = max(delivered, coalesce((SELECT max(entry_id) FROM sync_receipts), 0))
    WHERE max(delivered, coalesce((SELECT max(entry_id) FROM sync_receipts), 0))
        > coalesce((SELECT max(id) FROM sync_outbox), 0);
CREATE TRIGGER sync_outbox_deleted AFTER DELETE ON sync_outbox WHEN OLD.id > (SELECT top FROM sync_outbox_sender)
BEGIN
    UPDATE sync_outbox_sender SET top = OLD.id;
END;
CREATE TRIGGER sync_outbox_inserted AFTER INSERT ON sync_outbox WHEN NEW.id <= (SELECT top FROM sync_outbox_sender)
BEGIN
    UPDATE sync_outbox SET id = max((SELECT top FROM sync_outbox_sender), (SELECT max(id) FROM sync_outbox)) + 1
    WHERE id = NEW.id;
END;
