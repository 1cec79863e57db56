-- The contract: an application inserts into the first six columns of sync_outbox in its own transaction and knows no others.
-- Where it has made the table already, the table is taken over as it is, rows included; the types of its id, entity_id and
-- payload may differ, so statements cast them.
-- Where there is none, it is made in the first schema of the search path that is not ours.
DO $$
DECLARE
    home text := (SELECT name FROM unnest(current_schemas(false)) WITH ORDINALITY AS path (name, place)
        WHERE name || '.' <> 'syncline.' ORDER BY place LIMIT 1);
BEGIN
    IF to_regclass('sync_outbox') IS NULL THEN
        EXECUTE format('CREATE TABLE %I.sync_outbox (
            id           bigserial PRIMARY KEY,
            entity_type  text NOT NULL,
            entity_id    text NOT NULL,
            payload      jsonb NOT NULL,
            created_at   timestamptz NOT NULL DEFAULT now(),
            processed_at timestamptz
        )', coalesce(home, 'public'));
    END IF;
END $$;

-- What is changed in the application's table: eight columns, a trigger and two settings of its storage are added here, eight
-- indexes by the next step. Times are milliseconds since the epoch on the database's clock.
ALTER TABLE sync_outbox
    ADD COLUMN IF NOT EXISTS attempts     integer NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS due_at       bigint,              -- waiting until then; NULL: in line
    ADD COLUMN IF NOT EXISTS behind       bigint,              -- waiting for this earlier entry of the same entity
    ADD COLUMN IF NOT EXISTS claim        bigint,              -- the claim under which it is in flight
    ADD COLUMN IF NOT EXISTS leased_until bigint,
    ADD COLUMN IF NOT EXISTS claimed_by   text,
    ADD COLUMN IF NOT EXISTS last_error   text,
    ADD COLUMN IF NOT EXISTS dead_at      bigint;

-- A claim changes no indexed column, and room is left on each page for the changed row, so that it writes no index.
ALTER TABLE sync_outbox SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

DROP TRIGGER IF EXISTS sync_outbox_announce ON sync_outbox;
CREATE TRIGGER sync_outbox_announce AFTER INSERT ON sync_outbox
    FOR EACH STATEMENT EXECUTE FUNCTION syncline.sync_outbox_announce();
