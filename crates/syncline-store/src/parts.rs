//! The tables of the platform's systems, one part each. Apps and strangers bring their own parts the same way.

use crate::migration::{Former, Migrations, Step};

/// The step whose two files have this name.
macro_rules! step {
    ($version:literal, $name:literal, $file:literal) => {
        Step {
            version: $version,
            name: $name,
            sqlite: include_str!(concat!("../migrations/", $file, ".sqlite.sql")),
            postgres: include_str!(concat!("../migrations/", $file, ".postgres.sql")),
        }
    };
}

/// Tables that were just moved.
const fn moved(versions: &'static [i64], tables: &'static [&'static str]) -> Former {
    Former { versions, tables, columns: &[], functions: &[], done: &[], sqlite: "", postgres: "" }
}

/// Keys with a time to live.
pub static KV: Migrations = Migrations {
    former: Some(moved(&[1], &["kv"])),
    ..Migrations::new(
        "kv",
        &[step!(1, "kv", "kv/1_kv"), step!(2, "versions and spaces of parts", "kv/2_versions")],
    )
};

/// Claims, history and totals of scheduled jobs. A run is claimed together with a lock.
pub static SCHEDULE: Migrations = Migrations {
    needs: &[&LOCK],
    former: Some(moved(&[2, 13], &["schedule_runs", "schedule_totals"])),
    ..Migrations::new(
        "schedule",
        &[step!(1, "schedule", "schedule/1_schedule"), step!(2, "pause and cancel", "schedule/2_control")],
    )
};

/// Keyed work at a shared pace.
pub static QUEUE: Migrations = Migrations {
    former: Some(Former {
        sqlite: "ALTER TABLE syncline.queue_keys RENAME COLUMN since TO arrival_no",
        postgres: "ALTER TABLE syncline.queue_keys RENAME COLUMN since TO arrival_no; \
             ALTER INDEX syncline.queue_keys_since RENAME TO queue_keys_arrival",
        ..moved(&[3, 9, 12], &["queues", "queue_keys"])
    }),
    ..Migrations::new(
        "queue",
        &[
            step!(1, "queue", "queue/1_queue"),
            step!(2, "inputs and control", "queue/2_tasks"),
            step!(3, "groups", "queue/3_groups"),
            step!(4, "indexes of groups", "queue/4_group_indexes"),
        ],
    )
};

/// Leases with a fencing token.
pub static LOCK: Migrations = Migrations {
    former: Some(moved(&[5], &["locks", "lock_floor", "lock_reserve"])),
    ..Migrations::new(
        "lock",
        &[step!(1, "lock", "lock/1_lock"), step!(2, "history of servers", "lock/2_history")],
    )
};

/// Changes on their way to another system: our tables, and what is added to the application's `sync_outbox`.
pub static OUTBOX: Migrations = Migrations {
    // These change the application's table, which step 5 leaves as it is.
    sqlite_upgrades: &[2, 3, 4, 6],
    former: Some(Former {
        functions: &["sync_outbox_announce"],
        done: &[2],
        sqlite: "DROP TRIGGER sync_outbox_deleted; DROP TRIGGER sync_outbox_inserted; \
             ALTER TABLE syncline.sync_receipts RENAME COLUMN recording_id TO file_id",
        postgres: "ALTER TABLE syncline.sync_receipts RENAME COLUMN recording_id TO file_id; \
             ALTER INDEX syncline.sync_receipts_recording RENAME TO sync_receipts_file",
        ..moved(&[6, 8, 10, 15], &["sync_outbox_sender", "sync_receipts"])
    }),
    ..Migrations::new(
        "outbox",
        &[
            step!(1, "sender and receipts", "outbox/1_sender"),
            step!(2, "columns of sync_outbox", "outbox/2_columns"),
            step!(3, "indexes of sync_outbox", "outbox/3_indexes"),
            step!(4, "what is due, by kind", "outbox/4_due"),
            step!(5, "a table of our own on SQLite; TRUNCATE on PostgreSQL", "outbox/5_guest"),
            step!(6, "what was known before", "outbox/6_state"),
        ],
    )
};

/// Entities that came from elsewhere. What is changed here goes out by the outbox.
pub static INBOX: Migrations = Migrations {
    needs: &[&OUTBOX],
    former: Some(Former {
        columns: &["id", "payload", "sender", "entry", "changed_at", "received_at", "place"],
        ..moved(&[11], &["inbox_entries", "inbox_recordings", "inbox_place", "entity_*"])
    }),
    ..Migrations::new("inbox", &[step!(1, "inbox", "inbox/1_inbox")])
};

/// What devices agree on, by space.
pub static STATE: Migrations = Migrations {
    former: Some(moved(&[7, 14], &["state_spaces", "state_entities"])),
    ..Migrations::new("state", &[step!(1, "state", "state/1_state")])
};

/// The audit, keys that were made on a running node, and what was taken back.
pub static ACCESS: Migrations = Migrations::new("access", &[step!(1, "access", "access/1_access")]);

/// All of them.
pub static ALL: &[&Migrations] = &[&KV, &SCHEDULE, &QUEUE, &LOCK, &OUTBOX, &INBOX, &STATE, &ACCESS];

/// The part of this name.
#[must_use]
pub fn named(part: &str) -> Option<&'static Migrations> {
    ALL.iter().copied().find(|known| known.part == part)
}
