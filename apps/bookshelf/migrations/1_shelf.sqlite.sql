-- The bookshelf: scanned books, what is known of covers, and saved searches with what they found. Books are JSON that
-- the bookshelf reads and writes; times are milliseconds since the epoch.
CREATE TABLE IF NOT EXISTS syncline.shelf_books (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    isbn     TEXT NOT NULL UNIQUE,
    book     TEXT,                               -- NULL while it is being looked for
    added_at INTEGER NOT NULL
) STRICT;

CREATE INDEX IF NOT EXISTS syncline.shelf_books_searching ON syncline.shelf_books (id) WHERE book IS NULL;

-- Covers of all books ever asked about, on the shelf or not, so that none is looked for twice.
CREATE TABLE IF NOT EXISTS syncline.shelf_covers (
    isbn     TEXT NOT NULL PRIMARY KEY,
    cover    TEXT,                               -- compressed; NULL: there is none
    found_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS syncline.shelf_searches (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    search     TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    asked_at   INTEGER NOT NULL,
    found_at   INTEGER,                          -- NULL until it was found for the first time
    total      INTEGER,
    ending     TEXT
) STRICT;

CREATE TABLE IF NOT EXISTS syncline.shelf_finds (
    search_id INTEGER NOT NULL REFERENCES syncline.shelf_searches (id) ON DELETE CASCADE,
    position  INTEGER NOT NULL,
    isbn      TEXT NOT NULL,
    book      TEXT NOT NULL,
    PRIMARY KEY (search_id, position)
) STRICT, WITHOUT ROWID;
