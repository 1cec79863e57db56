-- A recording may be queued twice; what was sent of it is found by its id. Numbers of entries are a sequence's here, which
-- never gives one twice.
CREATE INDEX sync_receipts_recording ON sync_receipts (recording_id);
