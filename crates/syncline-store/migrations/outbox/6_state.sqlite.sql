-- A table that was taken over before has columns and indexes of ours. What the columns say goes to our own table. They stay, because
-- SQLite would write the whole table anew to drop one, and the application would wait.
UPDATE syncline.outbox_entries AS e SET attempts = o.attempts, due_at = o.due_at, behind = o.behind, claim = o.claim,
    leased_until = o.leased_until, claimed_by = o.claimed_by, last_error = o.last_error, dead_at = o.dead_at
FROM sync_outbox AS o WHERE o.id = e.id AND (o.claimed_by IS NOT NULL OR o.last_error IS NOT NULL OR o.dead_at IS NOT NULL
    OR o.due_at IS NOT NULL OR o.behind IS NOT NULL);
DROP INDEX IF EXISTS sync_outbox_ready;
DROP INDEX IF EXISTS sync_outbox_pending;
DROP INDEX IF EXISTS sync_outbox_pending_entity;
DROP INDEX IF EXISTS sync_outbox_processed_entity;
DROP INDEX IF EXISTS sync_outbox_due_kind;
DROP INDEX IF EXISTS sync_outbox_behind;
DROP INDEX IF EXISTS sync_outbox_dead;
DROP INDEX IF EXISTS sync_outbox_processed;
