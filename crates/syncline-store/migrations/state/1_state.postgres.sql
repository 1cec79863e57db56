-- Shared state: what devices agree on, by space. A change is news or it is not; news gets the next number of its space, and a
-- device asks for all after the number it has seen. Stamps are texts in the order of the stamps they stand for.
CREATE TABLE IF NOT EXISTS syncline.state_spaces (
    name         text COLLATE "C" NOT NULL PRIMARY KEY,
    epoch        text NOT NULL,                -- tells this log from another one of the same name
    last         bigint NOT NULL DEFAULT 0,    -- the number of the last news
    forgotten    bigint NOT NULL DEFAULT 0,    -- removals up to this number have been forgotten
    floor        text COLLATE "C" NOT NULL,    -- the last reset: everything added up to it is gone
    floor_number bigint NOT NULL DEFAULT 0,
    entities     bigint NOT NULL DEFAULT 0,    -- rows and bytes below
    bytes        bigint NOT NULL DEFAULT 0
);

CREATE TABLE IF NOT EXISTS syncline.state_entities (
    space  text COLLATE "C" NOT NULL REFERENCES syncline.state_spaces (name) ON DELETE CASCADE,
    id     text COLLATE "C" NOT NULL,
    stamp  text COLLATE "C" NOT NULL,          -- when it was added or removed
    live   boolean NOT NULL,                   -- false: removed
    value  text,                               -- JSON with its own stamp
    bytes  bigint NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (space, id)
);

-- Each index pins its statements: it has an expression of its own (a sum with nothing), which only the statements that
-- need this index say. PostgreSQL plans from old statistics and would otherwise choose an index that makes it read all rows
-- of one owner.
CREATE UNIQUE INDEX IF NOT EXISTS state_entities_number ON syncline.state_entities ((space || ''), number);
CREATE INDEX IF NOT EXISTS state_entities_removed ON syncline.state_entities (stamp) WHERE NOT live;
