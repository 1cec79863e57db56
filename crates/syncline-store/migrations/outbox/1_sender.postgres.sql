-- Who sends, for those who receive: given once, kept for ever. And how much was sent.
CREATE TABLE IF NOT EXISTS syncline.sync_outbox_sender (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    sender    text NOT NULL,
    delivered bigint NOT NULL DEFAULT 0
);
INSERT INTO syncline.sync_outbox_sender (sender) VALUES (gen_random_uuid()::text) ON CONFLICT DO NOTHING;

-- What the receiver said it has of a file. Written before the file is removed here. A file may be queued twice; what was
-- sent of it is found by its id.
CREATE TABLE IF NOT EXISTS syncline.sync_receipts (
    entry_id  bigint PRIMARY KEY,
    file_id   text NOT NULL,
    file_url  text NOT NULL,
    bytes     bigint NOT NULL,
    sha256    text NOT NULL,
    stored_at bigint NOT NULL
);
CREATE INDEX IF NOT EXISTS sync_receipts_file ON syncline.sync_receipts (file_id);

-- An entity type that ends in `_file` stands for a file. 1: it does. As a number, because PostgreSQL turns a comparison with
-- false around and then does not find the index again. For text PostgreSQL replaces the call by its body; an ENUM's labels
-- it takes for changeable, so that only a function that says otherwise can be indexed.
CREATE OR REPLACE FUNCTION syncline.is_file(entity_type anyelement) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$ SELECT CASE WHEN right(entity_type::text, 5) = '_file' THEN 1 ELSE 0 END $$;

-- Until when a worker sleeps, in milliseconds since the epoch; 0 while one is awake. A sequence, because a transaction sees what
-- it is now, whatever its isolation. Only the functions below use it, as their owner.
CREATE SEQUENCE IF NOT EXISTS syncline.sync_outbox_asleep MINVALUE 0 START WITH 0;

-- What a worker says of itself, and what was said before.
CREATE OR REPLACE FUNCTION syncline.sync_outbox_sleep(until_ms bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog AS
    $$ DECLARE said_before bigint := coalesce(pg_sequence_last_value('syncline.sync_outbox_asleep'), 0);
    BEGIN PERFORM setval('syncline.sync_outbox_asleep', until_ms); RETURN said_before; END $$;

-- Wakes a worker that sleeps: one call for each statement, whatever the number of its rows. While one is awake nothing is announced:
-- PostgreSQL lets transactions that announce something commit one after the other.
CREATE OR REPLACE FUNCTION syncline.sync_outbox_announce() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog AS
    $$ BEGIN
        IF pg_sequence_last_value('syncline.sync_outbox_asleep') > extract(epoch FROM clock_timestamp()) * 1000 THEN
            PERFORM pg_notify('syncline.sync_outbox', '');
        END IF;
        RETURN NULL;
    END $$;
