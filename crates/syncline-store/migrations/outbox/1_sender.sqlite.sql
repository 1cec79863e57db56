-- Who sends, for those who receive: given once, kept for ever. And how much was sent. `top` is the highest number that an
-- entry had which was deleted since.
CREATE TABLE IF NOT EXISTS syncline.sync_outbox_sender (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    sender    TEXT NOT NULL,
    delivered INTEGER NOT NULL DEFAULT 0,
    top       INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO syncline.sync_outbox_sender (one, sender) VALUES (1, lower(hex(randomblob(16)))) ON CONFLICT DO NOTHING;

-- What the receiver said it has of a file. Written before the file is removed here. A file may be queued twice; what was
-- sent of it is found by its id.
CREATE TABLE IF NOT EXISTS syncline.sync_receipts (
    entry_id  INTEGER PRIMARY KEY,
    file_id   TEXT NOT NULL,
    file_url  TEXT NOT NULL,
    bytes     INTEGER NOT NULL,
    sha256    TEXT NOT NULL,
    stored_at INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS syncline.sync_receipts_file ON syncline.sync_receipts (file_id);
