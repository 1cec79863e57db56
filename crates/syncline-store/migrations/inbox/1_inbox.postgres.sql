-- The receiving side: which entries of which sender are known. Entities have a table for each type, created when the
-- type is configured.
CREATE TABLE IF NOT EXISTS syncline.inbox_entries (
    sender      text COLLATE "C" NOT NULL,
    entry       bigint NOT NULL,
    digest      bigint NOT NULL,                 -- of the whole entry: an id that comes back with another body is refused
    received_at bigint NOT NULL,
    PRIMARY KEY (sender, entry)
);
CREATE INDEX IF NOT EXISTS inbox_entries_received ON syncline.inbox_entries (received_at);

-- The order in which entities of all types changed here.
CREATE SEQUENCE IF NOT EXISTS syncline.inbox_place;
