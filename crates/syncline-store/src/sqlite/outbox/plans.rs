//! Every statement finds its rows by an index, whatever the table's size: SQLite says how it would.

use std::sync::Arc;

use super::*;
use crate::clock::Machine;

#[tokio::test]
async fn ss_22_every_statement_searches_an_index_and_none_scans_the_table() {
    let engine = Engine::open("sqlite::memory:", Arc::new(Machine)).await.unwrap();
    let statements = [
        (PENDING, "sync_outbox_pending"),
        (MARK, "INTEGER PRIMARY KEY (rowid=?)"),
        (FREE, "sync_outbox_behind (behind=?)"),
        (FREE_ORPHANS, "sync_outbox_behind"),
        (LOOK, "sync_outbox_ready (<expr>=?)"),
        (BRING_BACK, "sync_outbox_due_kind (<expr>=? AND due_at>? AND due_at<?)"),
        (LINE, "sync_outbox_ready (<expr>=?)"),
        (*LINE_NEWEST, "sync_outbox_ready (<expr>=?)"),
        (LINE, "sync_outbox_pending_entity (entity_type=? AND entity_id=? AND id<?)"),
        (TAKE, "INTEGER PRIMARY KEY (rowid=?)"),
        (DEFER, "INTEGER PRIMARY KEY (rowid=?)"),
        (NEXT_LOOK, "sync_outbox_ready (<expr>=?)"),
        (NEXT_LOOK, "sync_outbox_due_kind (<expr>=? AND due_at>?)"),
        (SETTLE, "INTEGER PRIMARY KEY (rowid=?)"),
        (RENEW, "INTEGER PRIMARY KEY (rowid=?)"),
        (LIST_PENDING, "sync_outbox_pending (id>?)"),
        (LIST_DEAD, "sync_outbox_dead (id>?)"),
        (LIST_PROCESSED, "sync_outbox_processed"),
        (LIST_PROCESSED_AFTER, "sync_outbox_processed"),
        (DETAIL, "INTEGER PRIMARY KEY (rowid=?)"),
        (RETRY, "INTEGER PRIMARY KEY (rowid=?)"),
        (DISCARD, "INTEGER PRIMARY KEY (rowid=?)"),
        (OLD, "sync_outbox_processed (processed_at>? AND processed_at<?)"),
        (REMOVE, "INTEGER PRIMARY KEY (rowid=?)"),
        (MARK_PAYLOADS, "SEARCH sync_outbox USING INTEGER PRIMARY KEY (rowid=?)"),
        (REMOVE_PAYLOADS, "SEARCH sync_outbox USING INTEGER PRIMARY KEY (rowid=?)"),
    ];
    for (statement, expected) in statements {
        let named = names::on_outbox_table(statement.into(), "outbox_entries", "sync_outbox");
        let expected = expected.replace("sync_outbox_", "syncline_outbox_entries_");
        let text = crate::sqlite::plan(&engine, named).await;
        assert!(text.contains(&expected), "{statement}\n{text}");
        // What is gone through from its beginning is an index that has only what is looked for.
        let scanned = [
            "SCAN sync_outbox\n",
            "SCAN syncline_outbox_entries\n",
            "SCAN p\n",
            "SCAN o\n",
            "SCAN e\n",
            "SCAN b\n",
            "SCAN w\n",
        ];
        assert!(!scanned.iter().any(|scan| format!("{text}\n").contains(scan)), "{statement}\n{text}");
    }
}
