-- Queues, as both engines say them.

-- name: SAVE
-- id, then the columns of the header
UPDATE syncline.queues SET pace = $2, tail = $3, front = $4, oldest = $5, trimmed = $6, next_due = $7, overtakes = $8,
    waiting = $9, running = $10, retrying = $11, done = $12, failed = $13, dead = $14, done_total = $15,
    failed_total = $16, changes = $17, carries = $18, held = $19, grouped_since = $20, regroup_at = $21, set_pace = $22
WHERE id = $1;

-- name: AGES
-- from, to, limit: what waits or runs, oldest first
SELECT key, place, rank, arrival_no, attempts, priority, again, group_id, group_name
FROM syncline.queue_keys WHERE place = 0 AND arrival_no BETWEEN $1 AND $2 ORDER BY arrival_no LIMIT $3;

-- name: ENTRY
-- queue, key: all that is known of a key, and of the calls under way at that moment
SELECT key, place, rank, arrival_no, attempts, priority, again, group_id, group_name, due, reason, result, changed_at,
    (SELECT pace FROM syncline.queues WHERE name = $1), input
FROM syncline.queue_keys WHERE queue_id = (SELECT id FROM syncline.queues WHERE name = $1) AND key = $2;

-- name: NAMES
SELECT name FROM syncline.queues ORDER BY name;

-- name: GROUPS
-- queue, from, limit: groups by name
SELECT id, name, waiting, running, front, oldest, overtakes, next_at, failures, ready_at, turn, held
FROM syncline.queue_groups WHERE queue_id = $1 AND name >= $2 ORDER BY name LIMIT $3;

-- name: GROUPS_ANEW
-- queue, time: the clock was set, so each group waits until then
UPDATE syncline.queue_groups SET next_at = $2, ready_at = CASE WHEN ready_at IS NULL THEN NULL ELSE $2 END WHERE queue_id = $1;

-- name: GROUPS_PACED
-- queue, calls at once, time: another pace counts, so those with room are ready, and those without are not. One whose API fails is probed on.
UPDATE syncline.queue_groups
SET ready_at = CASE WHEN running >= $2 THEN NULL WHEN ready_at IS NOT NULL THEN ready_at WHEN next_at > $3 THEN next_at ELSE $3 END
WHERE queue_id = $1 AND waiting > 0 AND failures = 0 AND NOT held;

-- name: GROUPS_HELD
-- queue: the names of those that somebody holds
SELECT name FROM syncline.queue_groups WHERE queue_id = $1 AND held;

-- name: FORGET_GROUPS
-- queue
DELETE FROM syncline.queue_groups WHERE queue_id = $1;
