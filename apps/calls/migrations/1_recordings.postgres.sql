-- Recordings of calls that arrived. Databases from before apps had their own tables have this one by the same name.
CREATE TABLE IF NOT EXISTS syncline.inbox_recordings (
    call_log_id  text COLLATE "C" PRIMARY KEY,
    recording_id text NOT NULL,
    bytes        bigint NOT NULL,
    sha256       text NOT NULL,
    location     text NOT NULL,
    meta         text NOT NULL,
    received_at  bigint NOT NULL
);
CREATE INDEX IF NOT EXISTS inbox_recordings_received ON syncline.inbox_recordings (received_at, call_log_id);
