-- The table of a route on SQLite: what goes to one receiver, in the shape of sync_outbox, so that its statements serve both.
-- `route_sample` stands for the table and is replaced when the route is opened. Columns of the application's own making have no type
-- here, so that each value stays what it is.

-- name: CREATE
CREATE TABLE IF NOT EXISTS syncline.route_sample (
    id INTEGER PRIMARY KEY, entity_type TEXT NOT NULL, entity_id, payload, created_at, processed_at TEXT,
    attempts INTEGER NOT NULL DEFAULT 0, due_at INTEGER, behind INTEGER, claim INTEGER, leased_until INTEGER,
    claimed_by TEXT, last_error TEXT, dead_at INTEGER
);
CREATE INDEX IF NOT EXISTS syncline.route_sample_ready ON syncline.route_sample (substr(entity_type, -5) = '_file', id)
    WHERE processed_at IS NULL AND dead_at IS NULL AND due_at IS NULL AND behind IS NULL;
CREATE INDEX IF NOT EXISTS syncline.route_sample_pending ON syncline.route_sample (id)
    WHERE processed_at IS NULL AND dead_at IS NULL;
CREATE INDEX IF NOT EXISTS syncline.route_sample_pending_entity ON syncline.route_sample (entity_type, entity_id, id)
    WHERE processed_at IS NULL AND dead_at IS NULL;
CREATE INDEX IF NOT EXISTS syncline.route_sample_due_kind ON syncline.route_sample (substr(entity_type, -5) = '_file', due_at)
    WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS syncline.route_sample_behind ON syncline.route_sample (behind) WHERE behind IS NOT NULL;
CREATE INDEX IF NOT EXISTS syncline.route_sample_dead ON syncline.route_sample (id) WHERE dead_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS syncline.route_sample_processed ON syncline.route_sample (processed_at, id)
    WHERE processed_at IS NOT NULL;

-- name: EXISTS
SELECT count(*) > 0 FROM sqlite_master WHERE name = 'syncline.route_sample';

-- name: NAMES
SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'syncline.route_*' ORDER BY name;

-- name: COPY
-- ids
INSERT INTO syncline.route_sample (id, entity_type, entity_id, payload, created_at)
SELECT id, entity_type, entity_id, payload, created_at FROM app_outbox WHERE id IN (SELECT value FROM json_each($1))
ON CONFLICT DO NOTHING;
