-- Keys with an optional time to live. Times are milliseconds on the store's steady clock (see steady_clock).
CREATE TABLE kv (
    key        TEXT NOT NULL PRIMARY KEY,
    value      TEXT NOT NULL,
    expires_at INTEGER                      -- NULL: never
) STRICT;

-- The sweep takes the longest expired first; keys that never expire are not in its way.
CREATE INDEX kv_expires_at ON kv (expires_at) WHERE expires_at IS NOT NULL;

-- Where the steady clock stands: steady = milliseconds since boot + offset_ms. Kept for as long as the machine
-- is up, so that every process on this file and every restart count the same time, whatever the wall clock did.
CREATE TABLE IF NOT EXISTS steady_clock (
    boot_id   TEXT NOT NULL PRIMARY KEY,
    offset_ms INTEGER NOT NULL
) STRICT;
