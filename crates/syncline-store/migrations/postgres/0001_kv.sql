-- Keys with an optional time to live. Times are milliseconds since the epoch on the database's own clock.
-- "C" orders keys by their bytes, so that a prefix is one range of the primary key whatever the database's
-- collation is.
CREATE TABLE kv (
    key        text COLLATE "C" NOT NULL PRIMARY KEY,
    value      text NOT NULL,
    expires_at bigint                       -- NULL: never
);

-- The sweep takes the longest expired first; keys that never expire are not in its way.
CREATE INDEX kv_expires_at ON kv (expires_at) WHERE expires_at IS NOT NULL;
