-- The contract: an application inserts into the first six columns of sync_outbox in its own transaction and knows no others.
-- Where it has made the table already, the table is taken over as it is, rows included.
CREATE TABLE IF NOT EXISTS sync_outbox (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    entity_type  TEXT NOT NULL,
    entity_id    TEXT NOT NULL,
    payload      TEXT NOT NULL,
    created_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    processed_at TEXT
);

-- What is changed in the application's table: eight columns are added here, eight indexes and two triggers by the next step.
-- Times are milliseconds on the store's steady clock, but for dead_at, which is the time of day.
ALTER TABLE sync_outbox ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sync_outbox ADD COLUMN due_at INTEGER;        -- waiting until then; NULL: in line
ALTER TABLE sync_outbox ADD COLUMN behind INTEGER;        -- waiting for this earlier entry of the same entity
ALTER TABLE sync_outbox ADD COLUMN claim INTEGER;         -- the claim under which it is in flight
ALTER TABLE sync_outbox ADD COLUMN leased_until INTEGER;
ALTER TABLE sync_outbox ADD COLUMN claimed_by TEXT;
ALTER TABLE sync_outbox ADD COLUMN last_error TEXT;
ALTER TABLE sync_outbox ADD COLUMN dead_at INTEGER;
