-- TRUNCATE ... RESTART IDENTITY begins to count from 1 again, and a receiver knows these numbers with another content. So the highest
-- number is remembered before, and the sequence goes on behind it afterwards.
ALTER TABLE syncline.sync_outbox_sender ADD COLUMN IF NOT EXISTS top bigint NOT NULL DEFAULT 0;

CREATE OR REPLACE FUNCTION syncline.sync_outbox_truncate() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog AS
    $$ DECLARE
        numbers regclass := pg_get_serial_sequence(format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME), 'id');
        highest bigint;
    BEGIN
        IF TG_WHEN = 'BEFORE' THEN
            EXECUTE format('SELECT max(id)::bigint FROM %I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME) INTO highest;
            UPDATE syncline.sync_outbox_sender
            SET top = greatest(top, highest, CASE WHEN numbers IS NOT NULL THEN pg_sequence_last_value(numbers) END);
        ELSIF numbers IS NOT NULL THEN
            SELECT top INTO highest FROM syncline.sync_outbox_sender;
            IF highest > coalesce(pg_sequence_last_value(numbers), 0) THEN
                PERFORM setval(numbers, highest);
            END IF;
        END IF;
        RETURN NULL;
    END $$;

DROP TRIGGER IF EXISTS sync_outbox_before_truncate ON sync_outbox;
CREATE TRIGGER sync_outbox_before_truncate BEFORE TRUNCATE ON sync_outbox
    FOR EACH STATEMENT EXECUTE FUNCTION syncline.sync_outbox_truncate();
DROP TRIGGER IF EXISTS sync_outbox_after_truncate ON sync_outbox;
CREATE TRIGGER sync_outbox_after_truncate AFTER TRUNCATE ON sync_outbox
    FOR EACH STATEMENT EXECUTE FUNCTION syncline.sync_outbox_truncate();
