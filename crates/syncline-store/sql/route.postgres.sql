-- The table of a route on PostgreSQL: what goes to one receiver, in the shape of sync_outbox, so that its statements serve both.
-- `route_sample` stands for the table and is replaced when the route is opened. Columns have the types that the application chose.

-- name: CREATE
CREATE TABLE IF NOT EXISTS syncline.route_sample AS SELECT id::bigint AS id, entity_type, entity_id, payload, created_at,
    processed_at, attempts, due_at, behind, claim, leased_until, claimed_by, last_error, dead_at
FROM sync_outbox WITH NO DATA;
CREATE UNIQUE INDEX IF NOT EXISTS route_sample_id ON syncline.route_sample (id);
CREATE INDEX IF NOT EXISTS route_sample_ready ON syncline.route_sample (syncline.is_file(entity_type), (id::bigint + 0))
    WHERE processed_at IS NULL AND dead_at IS NULL AND due_at IS NULL AND behind IS NULL;
CREATE INDEX IF NOT EXISTS route_sample_pending ON syncline.route_sample ((id::bigint + 0))
    WHERE processed_at IS NULL AND dead_at IS NULL AND (CASE WHEN attempts < 0 THEN 1 ELSE 0 END) = 0;
CREATE INDEX IF NOT EXISTS route_sample_processed ON syncline.route_sample (processed_at, id)
    WHERE processed_at IS NOT NULL AND (CASE WHEN attempts < 0 THEN 1 ELSE 0 END) = 0;
CREATE INDEX IF NOT EXISTS route_sample_pending_entity ON syncline.route_sample (entity_type, (entity_id::text), (id::bigint + 0))
    WHERE processed_at IS NULL AND dead_at IS NULL AND (CASE WHEN attempts < 0 THEN 2 ELSE 0 END) = 0;
CREATE INDEX IF NOT EXISTS route_sample_due_kind ON syncline.route_sample (syncline.is_file(entity_type), due_at)
    WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS route_sample_behind ON syncline.route_sample (behind) WHERE behind IS NOT NULL;
CREATE INDEX IF NOT EXISTS route_sample_dead_order ON syncline.route_sample ((id::bigint + 0)) WHERE dead_at IS NOT NULL;
ALTER TABLE syncline.route_sample SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- name: EXISTS
SELECT to_regclass('syncline.route_sample') IS NOT NULL;

-- name: NAMES
SELECT c.relname::text FROM pg_class AS c JOIN pg_class AS ours ON ours.relnamespace = c.relnamespace
WHERE ours.oid = to_regclass('syncline.sync_outbox_sender') AND c.relkind = 'r' AND c.relname LIKE 'route\_%' ORDER BY 1;

-- name: COPY
-- ids
INSERT INTO syncline.route_sample (id, entity_type, entity_id, payload, created_at, attempts)
SELECT id::bigint, entity_type, entity_id, payload, created_at, 0 FROM sync_outbox WHERE id = ANY($1)
ON CONFLICT DO NOTHING;
