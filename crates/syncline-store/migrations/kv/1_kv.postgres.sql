-- Keys with an optional time to live. Times are milliseconds since the epoch on the database's own clock.
-- "C" orders keys by their bytes, so that a prefix is one range of the primary key whatever the database's
-- collation is.
CREATE TABLE IF NOT EXISTS syncline.kv (
    key        text COLLATE "C" NOT NULL PRIMARY KEY,
    value      text NOT NULL,
    expires_at bigint                       -- NULL: never
);

-- The sweep takes the longest expired first; keys that never expire are not in its way.
CREATE INDEX IF NOT EXISTS kv_expires_at ON syncline.kv (expires_at) WHERE expires_at IS NOT NULL;
