-- Who did what to which thing. Times are milliseconds since the epoch on the database's own clock.
CREATE TABLE IF NOT EXISTS syncline.access_audit (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      bigint NOT NULL,
    node    text NOT NULL,
    kind    text NOT NULL CHECK (kind IN ('owner', 'key', 'person', 'nobody')),
    name    text NOT NULL,                      -- of the key or of the issuer
    subject text,
    system  text NOT NULL,
    verb    text NOT NULL,
    thing   text NOT NULL,
    action  text NOT NULL,                      -- the operation, as in DELETE /api/keys/{name}
    address text,
    origin  text,
    outcome text NOT NULL CHECK (outcome IN ('begun', 'done', 'failed', 'refused')),
    code    text NOT NULL,                      -- why it failed or was refused
    count   bigint NOT NULL                     -- how many refusals alike the row stands for
);

CREATE INDEX IF NOT EXISTS access_audit_at ON syncline.access_audit (at);

-- Keys that were made on a running node. The key itself is nowhere.
CREATE TABLE IF NOT EXISTS syncline.access_keys (
    name       text NOT NULL PRIMARY KEY,
    hash       text NOT NULL UNIQUE,
    may        text NOT NULL,                   -- JSON
    public     boolean NOT NULL,
    origins    text NOT NULL,                   -- JSON
    created_at bigint NOT NULL,
    created_by text NOT NULL
);

-- When each key was last shown, those of the file too.
CREATE TABLE IF NOT EXISTS syncline.access_key_uses (
    name      text NOT NULL PRIMARY KEY,
    used_at   bigint NOT NULL,
    used_from text
);

-- What was taken back: a token by its id, a subject's tokens by their time, a key by its hash.
CREATE TABLE IF NOT EXISTS syncline.access_revocations (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind          text NOT NULL CHECK (kind IN ('token', 'subject', 'key')),
    scope         text NOT NULL,                -- the issuer, or the name of the key
    value         text NOT NULL,
    issued_before bigint NOT NULL,
    made_at       bigint NOT NULL,
    made_by       text NOT NULL,
    ends_at       bigint,                       -- NULL: never
    UNIQUE (kind, scope, value)
);

CREATE INDEX IF NOT EXISTS access_revocations_ends_at ON syncline.access_revocations (ends_at);

-- One row, counted up with every change of keys and revocations: nodes look at it alone.
CREATE TABLE IF NOT EXISTS syncline.access_version (
    only_row bigint NOT NULL PRIMARY KEY CHECK (only_row = 1),
    version  bigint NOT NULL
);

INSERT INTO syncline.access_version (only_row, version) VALUES (1, 0) ON CONFLICT DO NOTHING;
