-- PostgreSQL plans from old statistics. It believes an owner that it has not counted yet to have one row; then any index
-- that begins with the owner looks as good as any other, and the one it takes may make it read all rows of the owner for
-- each key. So each index here has an expression of its own (a sum with nothing), which only the statements that need this
-- index say: no statement has two indexes to choose from.
DROP INDEX queue_keys_place, queue_keys_due;
CREATE INDEX queue_keys_place ON queue_keys ((queue_id + 0), place, rank);
CREATE INDEX queue_keys_due ON queue_keys ((queue_id * 1), due, rank) WHERE due IS NOT NULL;
