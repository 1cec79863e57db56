-- The receiving side: which entries of which sender are known. Entities have a table for each type, created when the
-- type is configured.
CREATE TABLE IF NOT EXISTS syncline.inbox_entries (
    sender      TEXT NOT NULL,
    entry       INTEGER NOT NULL,
    digest      INTEGER NOT NULL,                -- of the whole entry: an id that comes back with another body is refused
    received_at INTEGER NOT NULL,
    PRIMARY KEY (sender, entry)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS syncline.inbox_entries_received ON syncline.inbox_entries (received_at);
