-- The contract: an application inserts into sync_outbox in its own transaction. Where it has made the table already, the table is taken
-- over as it is, rows included, and no column is added: SQLite would then refuse an insert without a list of columns.
CREATE TABLE IF NOT EXISTS sync_outbox (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    entity_type  TEXT NOT NULL,
    entity_id    TEXT NOT NULL,
    payload      TEXT NOT NULL,
    created_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    processed_at TEXT
);

-- What we know of each entry, but for its payload, which stays where it is. Times are milliseconds on the store's steady clock, but for
-- dead_at, which is the time of day. Columns of the application's own making have no type here, so that each value stays what it is.
CREATE TABLE IF NOT EXISTS syncline.outbox_entries (
    id INTEGER PRIMARY KEY, entity_type TEXT, entity_id, created_at, processed_at,
    attempts INTEGER NOT NULL DEFAULT 0,
    due_at INTEGER,         -- waiting until then; NULL: in line
    behind INTEGER,         -- waiting for this earlier entry of the same entity
    claim INTEGER,          -- the claim under which it is in flight
    leased_until INTEGER, claimed_by TEXT, last_error TEXT, dead_at INTEGER
);
INSERT OR IGNORE INTO syncline.outbox_entries (id, entity_type, entity_id, created_at, processed_at)
SELECT id, entity_type, entity_id, created_at, processed_at FROM sync_outbox WHERE typeof(id) = 'integer';
-- A row without a number can neither be claimed nor named: it is a dead letter under a number of ours.
INSERT INTO syncline.outbox_entries (id, entity_type, entity_id, created_at, dead_at, last_error)
SELECT (SELECT min(0, coalesce(min(id), 0)) FROM syncline.outbox_entries) - row_number() OVER (), entity_type, entity_id, created_at,
    CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), 'id is no whole number'
FROM sync_outbox WHERE typeof(id) <> 'integer' AND processed_at IS NULL;

-- Files (entity types that end in `_file`) and the rest are claimed apart.
CREATE INDEX IF NOT EXISTS syncline.outbox_entries_ready ON syncline.outbox_entries (substr(entity_type, -5) = '_file', id)
    WHERE processed_at IS NULL AND dead_at IS NULL AND due_at IS NULL AND behind IS NULL;
CREATE INDEX IF NOT EXISTS syncline.outbox_entries_pending ON syncline.outbox_entries (id)
    WHERE processed_at IS NULL AND dead_at IS NULL;
CREATE INDEX IF NOT EXISTS syncline.outbox_entries_pending_entity ON syncline.outbox_entries (entity_type, entity_id, id)
    WHERE processed_at IS NULL AND dead_at IS NULL;
CREATE INDEX IF NOT EXISTS syncline.outbox_entries_processed_entity ON syncline.outbox_entries (entity_type, entity_id, id)
    WHERE processed_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS syncline.outbox_entries_due_kind
    ON syncline.outbox_entries (substr(entity_type, -5) = '_file', due_at) WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS syncline.outbox_entries_behind ON syncline.outbox_entries (behind) WHERE behind IS NOT NULL;
CREATE INDEX IF NOT EXISTS syncline.outbox_entries_dead ON syncline.outbox_entries (id) WHERE dead_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS syncline.outbox_entries_processed ON syncline.outbox_entries (processed_at, id)
    WHERE processed_at IS NOT NULL;

-- What the application does to its table is done here in the same transaction. SQLite gives the number of a deleted last row again,
-- unless the table says AUTOINCREMENT. A receiver knows entries by their numbers and would take a new one for an old one. So the highest
-- number that was ever deleted is remembered, and a new row that got one up to it is numbered anew, in the same statement.
DROP TRIGGER IF EXISTS syncline.sync_outbox_inserted;
CREATE TRIGGER syncline.sync_outbox_inserted AFTER INSERT ON sync_outbox
    WHEN typeof(NEW.id) = 'integer' AND NEW.id > (SELECT top FROM syncline.sync_outbox_sender)
BEGIN
    -- No trigger hears of a row that the application replaces.
    INSERT OR REPLACE INTO syncline.outbox_entries (id, entity_type, entity_id, created_at, processed_at)
    VALUES (NEW.id, NEW.entity_type, NEW.entity_id, NEW.created_at, NEW.processed_at);
END;
DROP TRIGGER IF EXISTS syncline.sync_outbox_renumbered;
CREATE TRIGGER syncline.sync_outbox_renumbered AFTER INSERT ON sync_outbox
    WHEN NEW.id <= (SELECT top FROM syncline.sync_outbox_sender)
BEGIN
    UPDATE sync_outbox SET id = max((SELECT top FROM syncline.sync_outbox_sender), (SELECT max(id) FROM sync_outbox)) + 1
    WHERE id = NEW.id;
    INSERT OR REPLACE INTO syncline.outbox_entries (id, entity_type, entity_id, created_at, processed_at)
    SELECT max(id), NEW.entity_type, NEW.entity_id, NEW.created_at, NEW.processed_at FROM sync_outbox;
END;
DROP TRIGGER IF EXISTS syncline.sync_outbox_numberless;
CREATE TRIGGER syncline.sync_outbox_numberless AFTER INSERT ON sync_outbox
    WHEN typeof(NEW.id) <> 'integer' AND NEW.id > (SELECT top FROM syncline.sync_outbox_sender)
BEGIN
    INSERT INTO syncline.outbox_entries (id, entity_type, entity_id, created_at, dead_at, last_error)
    SELECT min(0, coalesce(min(id), 0)) - 1, NEW.entity_type, NEW.entity_id, NEW.created_at,
        CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), 'id is no whole number' FROM syncline.outbox_entries;
END;
DROP TRIGGER IF EXISTS syncline.sync_outbox_deleted;
CREATE TRIGGER syncline.sync_outbox_deleted AFTER DELETE ON sync_outbox
BEGIN
    UPDATE syncline.sync_outbox_sender SET top = OLD.id WHERE typeof(OLD.id) = 'integer' AND OLD.id > top;
    DELETE FROM syncline.outbox_entries WHERE id = OLD.id;
END;
DROP TRIGGER IF EXISTS syncline.sync_outbox_updated;
CREATE TRIGGER syncline.sync_outbox_updated
    AFTER UPDATE OF id, entity_type, entity_id, created_at, processed_at ON sync_outbox WHEN typeof(NEW.id) = 'integer'
BEGIN
    UPDATE syncline.outbox_entries SET id = NEW.id, entity_type = NEW.entity_type, entity_id = NEW.entity_id,
        created_at = NEW.created_at, processed_at = NEW.processed_at
    WHERE id = OLD.id AND (id, entity_type, entity_id, created_at, processed_at)
        IS NOT (NEW.id, NEW.entity_type, NEW.entity_id, NEW.created_at, NEW.processed_at);
END;
