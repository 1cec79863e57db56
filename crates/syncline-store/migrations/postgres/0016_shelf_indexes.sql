-- PostgreSQL plans from old statistics. It believes an owner that it has not counted yet to have one row; then any index
-- that begins with the owner looks as good as any other, and the one it takes may make it read all rows of the owner for
-- each key. So each index here has an expression of its own (a sum with nothing), which only the statements that need this
-- index say: no statement has two indexes to choose from.
DROP INDEX shelf_books_searching;
CREATE INDEX shelf_books_searching ON shelf_books ((id + 0)) WHERE book IS NULL;
