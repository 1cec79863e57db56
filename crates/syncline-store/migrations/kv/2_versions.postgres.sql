-- Which write of a key it was: grows with every write, and begins at a random number with every new row.
ALTER TABLE syncline.kv ADD COLUMN IF NOT EXISTS version bigint NOT NULL DEFAULT 1;

-- Keys of parts have a space of their own: they begin with a control character, which no key of a user has.
UPDATE syncline.kv SET key = chr(1) || 'node' || chr(1) || key
WHERE (key >= 'viewers:' AND key < 'viewers;') OR (key >= 'job-input:' AND key < 'job-input;')
    OR (key >= 'node-session:' AND key < 'node-session;') OR (key >= 'node-presence:' AND key < 'node-presence;');
