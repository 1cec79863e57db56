-- One row for each lock that is held or was held lately. Free is whatever has expired; a release ends the lease at
-- once and forgets its id. Times are milliseconds since the epoch on the database's own clock. Rows change often and
-- no index covers what changes: room in the page keeps the changes there.
CREATE TABLE IF NOT EXISTS syncline.locks (
    name         text COLLATE "C" NOT NULL PRIMARY KEY,
    lease_id     text,                      -- NULL: released
    holder       text NOT NULL,
    token        bigint NOT NULL,           -- grows with every grant
    granted_at   bigint NOT NULL,
    expires_at   bigint NOT NULL,
    wanted_until bigint NOT NULL DEFAULT 0  -- until then somebody waits, and a release is announced
) WITH (fillfactor = 50);

-- Tokens of names that have no row any more are at most `token`. Rows go only when the floor has been above them for
-- a while, so that no grant under way still reads a lower one: `settled` is the floor before it was raised last.
CREATE TABLE IF NOT EXISTS syncline.lock_floor (
    one       boolean NOT NULL PRIMARY KEY DEFAULT true CHECK (one),
    token     bigint NOT NULL,
    settled   bigint NOT NULL,
    raised_at bigint NOT NULL
);

INSERT INTO syncline.lock_floor (token, settled, raised_at) VALUES (0, 0, 0) ON CONFLICT DO NOTHING;
