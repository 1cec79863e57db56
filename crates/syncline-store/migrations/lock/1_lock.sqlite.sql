-- One row for each lock that is held or was held lately. Free is whatever has expired; a release ends the lease at
-- once and forgets its id. Times are milliseconds on the store's steady clock (see syncline.steady_clock).
CREATE TABLE IF NOT EXISTS syncline.locks (
    name       TEXT NOT NULL PRIMARY KEY,
    lease_id   TEXT,                        -- NULL: released
    holder     TEXT NOT NULL,
    token      INTEGER NOT NULL,            -- grows with every grant
    granted_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What is promised durably ahead of grants, which are not synced one by one: no token above token_ceiling has been
-- granted, and no lease ends after lease_horizon, as it was said at reserved_at. With another boot everything granted
-- before counts as lost: tokens go on above the ceiling (floor), and nothing is granted before quiet_until.
CREATE TABLE IF NOT EXISTS syncline.lock_reserve (
    one           INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    floor         INTEGER NOT NULL,         -- tokens of names that have no row are at most this
    token_ceiling INTEGER NOT NULL,
    lease_horizon INTEGER NOT NULL,
    reserved_at   INTEGER NOT NULL,
    quiet_until   INTEGER NOT NULL
) STRICT;

INSERT INTO syncline.lock_reserve VALUES (1, 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING;
