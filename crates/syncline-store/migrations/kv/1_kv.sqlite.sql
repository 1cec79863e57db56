-- Keys with an optional time to live. Times are milliseconds on the store's steady clock (see syncline.steady_clock).
CREATE TABLE IF NOT EXISTS syncline.kv (
    key        TEXT NOT NULL PRIMARY KEY,
    value      TEXT NOT NULL,
    expires_at INTEGER                      -- NULL: never
) STRICT;

-- The sweep takes the longest expired first; keys that never expire are not in its way.
CREATE INDEX IF NOT EXISTS syncline.kv_expires_at ON syncline.kv (expires_at) WHERE expires_at IS NOT NULL;
