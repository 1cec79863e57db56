//! Every statement finds its rows by an index, whatever the table's size: SQLite says how it would.

use std::sync::Arc;

use super::table::*;
use crate::clock::Machine;
use crate::sqlite::{Engine, plan};

#[tokio::test]
async fn qu_05_every_statement_searches_an_index_and_none_sorts_the_table() {
    let engine = Engine::open("sqlite::memory:", Arc::new(Machine)).await.unwrap();
    let by_key = "USING INDEX sqlite_autoindex_syncline_queue_keys_1 (queue_id=? AND key=?)";
    let by_age = "INDEX syncline_queue_keys_arrival (arrival_no=?)";
    let by_rank = "USING INDEX syncline_queue_keys_place (queue_id=? AND place=? AND rank>?)";
    let statements = [
        (FIND, by_key),
        (ENTRY, by_key),
        (DELETE, "USING COVERING INDEX sqlite_autoindex_syncline_queue_keys_1 (queue_id=? AND key=?)"),
        (DETAILS, by_age),
        (AGED, by_age),
        (SUCCEED, by_age),
        (REPLACE, by_age),
        (LIST_RUNNING, by_age),
        (LINE, by_rank),
        (LIST_WAITING, by_rank),
        (OLDEST, "USING COVERING INDEX syncline_queue_keys_place (queue_id=? AND place=? AND rank>?)"),
        (TRIM, "USING INDEX syncline_queue_keys_place (queue_id=? AND place=? AND rank>? AND rank<?)"),
        (LIST_ENDED, "USING INDEX syncline_queue_keys_place (queue_id=? AND place=? AND rank<?)"),
        (ENDED, "USING INDEX syncline_queue_keys_place (queue_id=? AND place=?)"),
        (AGES, "USING INDEX syncline_queue_keys_arrival (arrival_no>? AND arrival_no<?)"),
        (GROUP_LINE, "USING INDEX syncline_queue_keys_group (group_id=? AND rank>?)"),
        (GROUP_AGES, "USING INDEX syncline_queue_keys_group_arrival (group_id=? AND arrival_no>?)"),
        (SET_GROUPS, by_age),
        (GROUPS, "USING INDEX sqlite_autoindex_syncline_queue_groups_1 (queue_id=? AND name>?)"),
        (GROUPS_NAMED, "USING INDEX sqlite_autoindex_syncline_queue_groups_1 (queue_id=? AND name=?)"),
        (GROUPS_NUMBERED, "USING INDEX syncline_queue_groups_id (id=?)"),
        (GROUPS_READY, "USING INDEX syncline_queue_groups_ready (queue_id=? AND ready_at<?)"),
        (GROUP_READY_NEXT, "syncline_queue_groups_ready (queue_id=? AND ready_at>?)"),
        (OLD_RESULTS, by_rank),
        (RETRIES, "USING INDEX syncline_queue_keys_due (queue_id=? AND due>?)"),
        (LIST_RETRYING, "USING INDEX syncline_queue_keys_due (queue_id=? AND (due,rank)>(?,?))"),
    ];
    for (statement, expected) in statements {
        let text = plan(&engine, statement).await;
        assert!(text.contains(expected), "{statement:?}\n{text}");
        let scans =
            ["SCAN syncline_queue_keys", "SCAN k", "SCAN g", "SCAN syncline_queue_groups", "SCAN found"];
        assert!(!scans.iter().any(|scan| text.contains(scan)), "{statement:?}\n{text}");
        // A listing sorts its page; nothing else sorts at all.
        let sorts = text.contains("TEMP B-TREE");
        let sorts_a_page =
            text.contains("SCAN (subquery") || text.contains("CO-ROUTINE") || statement == LIST_RUNNING;
        assert!(!sorts || sorts_a_page, "{statement:?}\n{text}");
    }
}
