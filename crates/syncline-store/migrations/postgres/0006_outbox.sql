-- Changes on their way to another system. The first six columns are the contract: an application inserts them in its own
-- transaction and knows no others. A table that has just these is taken over as it is, rows included; the types of its id,
-- entity_id and payload may differ, so statements cast them.
CREATE TABLE IF NOT EXISTS sync_outbox (
    id           bigserial PRIMARY KEY,
    entity_type  text NOT NULL,
    entity_id    text NOT NULL,
    payload      jsonb NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    processed_at timestamptz
);

-- Ours. Times are milliseconds since the epoch on the database's clock.
ALTER TABLE sync_outbox
    ADD COLUMN attempts     integer NOT NULL DEFAULT 0,
    ADD COLUMN due_at       bigint,              -- waiting until then; NULL: in line
    ADD COLUMN behind       bigint,              -- waiting for this earlier entry of the same entity
    ADD COLUMN claim        bigint,              -- the claim under which it is in flight
    ADD COLUMN leased_until bigint,
    ADD COLUMN claimed_by   text,
    ADD COLUMN last_error   text,
    ADD COLUMN dead_at      bigint;

-- A claim changes no indexed column, and room is left on each page for the changed row, so that it writes no index.
ALTER TABLE sync_outbox SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- Files and the rest are claimed apart. As a number, because a comparison with false would be turned around and then not
-- be found again.
CREATE INDEX sync_outbox_line ON sync_outbox ((CASE WHEN entity_type = 'recording_file' THEN 1 ELSE 0 END), id)
    WHERE processed_at IS NULL AND dead_at IS NULL AND due_at IS NULL AND behind IS NULL;
-- Every row of this index is in its first part; it is there so that only those find the index who ask for it by name.
CREATE INDEX sync_outbox_pending ON sync_outbox ((CASE WHEN attempts < 0 THEN 1 ELSE 0 END), id) WHERE processed_at IS NULL AND dead_at IS NULL;
CREATE INDEX sync_outbox_pending_entity ON sync_outbox (entity_type, (entity_id::text), id)
    WHERE processed_at IS NULL AND dead_at IS NULL;
CREATE INDEX sync_outbox_processed_entity ON sync_outbox (entity_type, (entity_id::text), id)
    WHERE processed_at IS NOT NULL;
CREATE INDEX sync_outbox_due ON sync_outbox (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX sync_outbox_behind ON sync_outbox (behind) WHERE behind IS NOT NULL;
CREATE INDEX sync_outbox_dead ON sync_outbox (id) WHERE dead_at IS NOT NULL;
CREATE INDEX sync_outbox_processed ON sync_outbox (processed_at, id) WHERE processed_at IS NOT NULL;

-- One call for each statement, whatever the number of its rows.
CREATE FUNCTION sync_outbox_announce() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_notify('sync_outbox', ''); RETURN NULL; END $$;
CREATE TRIGGER sync_outbox_announce AFTER INSERT ON sync_outbox
    FOR EACH STATEMENT EXECUTE FUNCTION sync_outbox_announce();

-- Who sends, for those who receive: given once, kept for ever. And how much was sent.
CREATE TABLE sync_outbox_sender (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    sender    text NOT NULL,
    delivered bigint NOT NULL DEFAULT 0
);
INSERT INTO sync_outbox_sender (sender) VALUES (gen_random_uuid()::text);

-- What the receiver said it has of a file. Written before the file is removed here.
CREATE TABLE sync_receipts (
    entry_id     bigint PRIMARY KEY,
    recording_id text NOT NULL,
    file_url     text NOT NULL,
    bytes        bigint NOT NULL,
    sha256       text NOT NULL,
    stored_at    bigint NOT NULL
);
