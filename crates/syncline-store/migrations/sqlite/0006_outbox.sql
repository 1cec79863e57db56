-- Changes on their way to another system. The first six columns are the contract: an application inserts them in its own
-- transaction and knows no others. A table that has just these is taken over as it is, rows included.
CREATE TABLE IF NOT EXISTS sync_outbox (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    entity_type  TEXT NOT NULL,
    entity_id    TEXT NOT NULL,
    payload      TEXT NOT NULL,
    created_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    processed_at TEXT
);

-- Ours. Times are milliseconds on the store's steady clock, but for dead_at, which is the time of day.
ALTER TABLE sync_outbox ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sync_outbox ADD COLUMN due_at INTEGER;        -- waiting until then; NULL: in line
ALTER TABLE sync_outbox ADD COLUMN behind INTEGER;        -- waiting for this earlier entry of the same entity
ALTER TABLE sync_outbox ADD COLUMN claim INTEGER;         -- the claim under which it is in flight
ALTER TABLE sync_outbox ADD COLUMN leased_until INTEGER;
ALTER TABLE sync_outbox ADD COLUMN claimed_by TEXT;
ALTER TABLE sync_outbox ADD COLUMN last_error TEXT;
ALTER TABLE sync_outbox ADD COLUMN dead_at INTEGER;

CREATE INDEX sync_outbox_line ON sync_outbox (entity_type = 'recording_file', id)
    WHERE processed_at IS NULL AND dead_at IS NULL AND due_at IS NULL AND behind IS NULL;
CREATE INDEX sync_outbox_pending ON sync_outbox (id) WHERE processed_at IS NULL AND dead_at IS NULL;
CREATE INDEX sync_outbox_pending_entity ON sync_outbox (entity_type, entity_id, id)
    WHERE processed_at IS NULL AND dead_at IS NULL;
CREATE INDEX sync_outbox_processed_entity ON sync_outbox (entity_type, entity_id, id)
    WHERE processed_at IS NOT NULL;
CREATE INDEX sync_outbox_due ON sync_outbox (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX sync_outbox_behind ON sync_outbox (behind) WHERE behind IS NOT NULL;
CREATE INDEX sync_outbox_dead ON sync_outbox (id) WHERE dead_at IS NOT NULL;
CREATE INDEX sync_outbox_processed ON sync_outbox (processed_at, id) WHERE processed_at IS NOT NULL;

-- Who sends, for those who receive: given once, kept for ever. And how much was sent.
CREATE TABLE sync_outbox_sender (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    sender    TEXT NOT NULL,
    delivered INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO sync_outbox_sender (one, sender) VALUES (1, lower(hex(randomblob(16))));

-- What the receiver said it has of a file. Written before the file is removed here.
CREATE TABLE sync_receipts (
    entry_id     INTEGER PRIMARY KEY,
    recording_id TEXT NOT NULL,
    file_url     TEXT NOT NULL,
    bytes        INTEGER NOT NULL,
    sha256       TEXT NOT NULL,
    stored_at    INTEGER NOT NULL
) STRICT;
