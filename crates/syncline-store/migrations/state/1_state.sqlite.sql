-- Shared state: what devices agree on, by space. A change is news or it is not; news gets the next number of its space, and a
-- device asks for all after the number it has seen. Stamps are texts in the order of the stamps they stand for.
CREATE TABLE IF NOT EXISTS syncline.state_spaces (
    name         TEXT NOT NULL PRIMARY KEY,
    epoch        TEXT NOT NULL,                -- tells this log from another one of the same name
    last         INTEGER NOT NULL DEFAULT 0,   -- the number of the last news
    forgotten    INTEGER NOT NULL DEFAULT 0,   -- removals up to this number have been forgotten
    floor        TEXT NOT NULL,                -- the last reset: everything added up to it is gone
    floor_number INTEGER NOT NULL DEFAULT 0,
    entities     INTEGER NOT NULL DEFAULT 0,   -- rows and bytes below
    bytes        INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS syncline.state_entities (
    space  TEXT NOT NULL REFERENCES syncline.state_spaces (name) ON DELETE CASCADE,
    id     TEXT NOT NULL,
    stamp  TEXT NOT NULL,                      -- when it was added or removed
    live   INTEGER NOT NULL,                   -- 0: removed
    value  TEXT,                               -- JSON with its own stamp
    bytes  INTEGER NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (space, id)
) STRICT;

CREATE UNIQUE INDEX IF NOT EXISTS syncline.state_entities_number ON syncline.state_entities (space, number);
CREATE INDEX IF NOT EXISTS syncline.state_entities_removed ON syncline.state_entities (stamp) WHERE live = 0;
