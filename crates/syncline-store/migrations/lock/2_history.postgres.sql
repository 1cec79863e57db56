-- Where grants stand in the history of the servers. A standby that is promoted begins a new timeline, and so does a restored backup;
-- what was granted last before that may be gone where nobody had to confirm it. Times are milliseconds.
ALTER TABLE syncline.lock_floor
    ADD COLUMN IF NOT EXISTS history     text NOT NULL DEFAULT '',       -- what lock_history() says; '' before the first grant
    ADD COLUMN IF NOT EXISTS longest_ttl bigint NOT NULL DEFAULT 60000,  -- no lease is longer
    ADD COLUMN IF NOT EXISTS longest_at  bigint NOT NULL DEFAULT 0,      -- when that was said
    ADD COLUMN IF NOT EXISTS quiet_until bigint NOT NULL DEFAULT 0;      -- nobody is granted anything before

-- The timeline, and whether a commit waits until a standby has it: '00000001' or '00000001 confirmed'. Nothing where the server does
-- not tell its timeline. Volatile, as what it calls: so the server puts its body in place of the call.
DO $$
BEGIN
    PERFORM pg_walfile_name(pg_current_wal_lsn());
    EXECUTE $make$ CREATE OR REPLACE FUNCTION syncline.lock_history() RETURNS text LANGUAGE sql AS $body$
        SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8) || CASE WHEN current_setting('synchronous_standby_names') <> ''
            AND current_setting('synchronous_commit') NOT IN ('off', 'local') THEN ' confirmed' ELSE '' END $body$ $make$;
EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
    EXECUTE $make$ CREATE OR REPLACE FUNCTION syncline.lock_history() RETURNS text LANGUAGE sql AS $body$
        SELECT ''::text $body$ $make$;
END $$;
