-- Who did what to which thing. Times are milliseconds since the epoch.
CREATE TABLE IF NOT EXISTS syncline.access_audit (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    node    TEXT NOT NULL,
    kind    TEXT NOT NULL CHECK (kind IN ('owner', 'key', 'person', 'nobody')),
    name    TEXT NOT NULL,                      -- of the key or of the issuer
    subject TEXT,
    system  TEXT NOT NULL,
    verb    TEXT NOT NULL,
    thing   TEXT NOT NULL,
    action  TEXT NOT NULL,                      -- the operation, as in DELETE /api/keys/{name}
    address TEXT,
    origin  TEXT,
    outcome TEXT NOT NULL CHECK (outcome IN ('begun', 'done', 'failed', 'refused')),
    code    TEXT NOT NULL,                      -- why it failed or was refused
    count   INTEGER NOT NULL                    -- how many refusals alike the row stands for
) STRICT;

CREATE INDEX IF NOT EXISTS syncline.access_audit_at ON syncline.access_audit (at);

-- Keys that were made on a running node. The key itself is nowhere.
CREATE TABLE IF NOT EXISTS syncline.access_keys (
    name       TEXT NOT NULL PRIMARY KEY,
    hash       TEXT NOT NULL UNIQUE,
    may        TEXT NOT NULL,                   -- JSON
    public     INTEGER NOT NULL,
    origins    TEXT NOT NULL,                   -- JSON
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL
) STRICT;

-- When each key was last shown, those of the file too.
CREATE TABLE IF NOT EXISTS syncline.access_key_uses (
    name      TEXT NOT NULL PRIMARY KEY,
    used_at   INTEGER NOT NULL,
    used_from TEXT
) STRICT;

-- What was taken back: a token by its id, a subject's tokens by their time, a key by its hash.
CREATE TABLE IF NOT EXISTS syncline.access_revocations (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    kind          TEXT NOT NULL CHECK (kind IN ('token', 'subject', 'key')),
    scope         TEXT NOT NULL,                -- the issuer, or the name of the key
    value         TEXT NOT NULL,
    issued_before INTEGER NOT NULL,
    made_at       INTEGER NOT NULL,
    made_by       TEXT NOT NULL,
    ends_at       INTEGER,                      -- NULL: never
    UNIQUE (kind, scope, value)
) STRICT;

CREATE INDEX IF NOT EXISTS syncline.access_revocations_ends_at ON syncline.access_revocations (ends_at);

-- One row, counted up with every change of keys and revocations: nodes look at it alone.
CREATE TABLE IF NOT EXISTS syncline.access_version (
    only_row INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    version  INTEGER NOT NULL
) STRICT;

INSERT INTO syncline.access_version (only_row, version) VALUES (1, 0) ON CONFLICT DO NOTHING;
