-- Recordings of calls that arrived. Databases from before apps had their own tables have this one by the same name.
CREATE TABLE IF NOT EXISTS syncline.inbox_recordings (
    call_log_id  TEXT NOT NULL PRIMARY KEY,
    recording_id TEXT NOT NULL,
    bytes        INTEGER NOT NULL,
    sha256       TEXT NOT NULL,
    location     TEXT NOT NULL,
    meta         TEXT NOT NULL,
    received_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS syncline.inbox_recordings_received ON syncline.inbox_recordings (received_at, call_log_id);
