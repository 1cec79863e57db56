-- Which keys run is said by the queue's pace alone: beginning a run writes no row.
ALTER TABLE queue_keys DROP COLUMN call;
