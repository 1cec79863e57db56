-- The bookshelf: scanned books, what is known of covers, and saved searches with what they found. Books are JSON that
-- the bookshelf reads and writes; times are milliseconds since the epoch.
CREATE TABLE IF NOT EXISTS syncline.shelf_books (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    isbn     text NOT NULL UNIQUE,
    book     text,                               -- NULL while it is being looked for
    added_at bigint NOT NULL
);

CREATE INDEX IF NOT EXISTS shelf_books_searching ON syncline.shelf_books ((id + 0)) WHERE book IS NULL;

-- Covers of all books ever asked about, on the shelf or not, so that none is looked for twice.
CREATE TABLE IF NOT EXISTS syncline.shelf_covers (
    isbn     text NOT NULL PRIMARY KEY,
    cover    text,                               -- compressed; NULL: there is none
    found_at bigint NOT NULL
);

CREATE TABLE IF NOT EXISTS syncline.shelf_searches (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    search     text NOT NULL UNIQUE,
    created_at bigint NOT NULL,
    asked_at   bigint NOT NULL,
    found_at   bigint,                           -- NULL until it was found for the first time
    total      bigint,
    ending     text
);

CREATE TABLE IF NOT EXISTS syncline.shelf_finds (
    search_id bigint NOT NULL REFERENCES syncline.shelf_searches (id) ON DELETE CASCADE,
    position  bigint NOT NULL,
    isbn      text NOT NULL,
    book      text NOT NULL,
    PRIMARY KEY (search_id, position)
);
