-- Shared state: what devices agree on, by space. A change is news or it is not; news gets the next number of its space, and a
-- device asks for all after the number it has seen. Stamps are texts in the order of the stamps they stand for.
CREATE TABLE state_spaces (
    name         text COLLATE "C" NOT NULL PRIMARY KEY,
    epoch        text NOT NULL,                -- tells this log from another one of the same name
    last         bigint NOT NULL DEFAULT 0,    -- the number of the last news
    forgotten    bigint NOT NULL DEFAULT 0,    -- removals up to this number have been forgotten
    floor        text COLLATE "C" NOT NULL,    -- the last reset: everything added up to it is gone
    floor_number bigint NOT NULL DEFAULT 0,
    entities     bigint NOT NULL DEFAULT 0,    -- rows and bytes below
    bytes        bigint NOT NULL DEFAULT 0
);

CREATE TABLE state_entities (
    space  text COLLATE "C" NOT NULL REFERENCES state_spaces (name) ON DELETE CASCADE,
    id     text COLLATE "C" NOT NULL,
    stamp  text COLLATE "C" NOT NULL,          -- when it was added or removed
    live   boolean NOT NULL,                   -- false: removed
    value  text,                               -- JSON with its own stamp
    bytes  bigint NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (space, id)
);

CREATE UNIQUE INDEX state_entities_number ON state_entities (space, number);
CREATE INDEX state_entities_removed ON state_entities (stamp) WHERE NOT live;
