-- Queues, as both engines say them.

-- name: SAVE
-- id, then the columns of the header
UPDATE syncline.queues SET pace = $2, tail = $3, front = $4, oldest = $5, trimmed = $6, next_due = $7, overtakes = $8,
    waiting = $9, running = $10, retrying = $11, done = $12, failed = $13, dead = $14, done_total = $15,
    failed_total = $16, changes = $17, carries = $18, held = $19
WHERE id = $1;

-- name: AGES
-- from, to, limit: what waits or runs, oldest first
SELECT key, place, rank, arrival_no, attempts, priority, again
FROM syncline.queue_keys WHERE place = 0 AND arrival_no BETWEEN $1 AND $2 ORDER BY arrival_no LIMIT $3;

-- name: ENTRY
-- queue, key: all that is known of a key, and of the calls under way at that moment
SELECT key, place, rank, arrival_no, attempts, priority, again, due, reason, result, changed_at,
    (SELECT pace FROM syncline.queues WHERE name = $1), input
FROM syncline.queue_keys WHERE queue_id = (SELECT id FROM syncline.queues WHERE name = $1) AND key = $2;

-- name: NAMES
SELECT name FROM syncline.queues ORDER BY name;
