//! Changes on their way to another system.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use syncline_core::outbox::{Moment, Verdict};
use syncline_store::outbox::{
    Claimed, ENTRIES_MAX, Kind, List, NewEntry, Outbox, Receipt, ReceiptUpdate, Settings, State, Wanted,
    Which, enqueue_in, enqueue_in_postgres,
};
use syncline_store::{Backend, Error};

use super::fixture::{Fixture, until};

pub(crate) const LEASE: Duration = Duration::from_secs(60);

pub(crate) fn entry(entity_type: &str, entity_id: &str, payload: &str) -> NewEntry {
    NewEntry {
        entity_type: entity_type.to_owned(),
        entity_id: entity_id.to_owned(),
        payload: payload.to_owned(),
    }
}

fn calls(ids: &[&str]) -> Vec<NewEntry> {
    ids.iter().map(|id| entry("order", id, "{}")).collect()
}

async fn claim(outbox: &dyn Outbox, limit: usize) -> Claimed {
    outbox.claim("w", Kind::Change, limit, LEASE).await.unwrap()
}

fn ids(claimed: &Claimed) -> Vec<i64> {
    claimed.entries.iter().map(|entry| entry.id).collect()
}

async fn settle(outbox: &dyn Outbox, claimed: &Claimed, verdict: Verdict) {
    let verdicts: Vec<_> = ids(claimed).into_iter().map(|id| (id, verdict.clone())).collect();
    assert_eq!(outbox.settle(claimed.claim, &verdicts).await.unwrap().len(), verdicts.len());
}

fn retry(after_ms: u64) -> Verdict {
    Verdict::Retry { after: Duration::from_millis(after_ms), reason: "500: ouch".to_owned() }
}

/// Those that had failed came back all at once, before everything that was new: their numbers were lower.
pub(crate) async fn ss_32_as_many_of_those_that_failed_come_back_as_are_asked_for(fixture: &Fixture) {
    let outbox = fixture.store.outbox();
    let old = outbox.enqueue(&calls(&["a", "b", "c", "d", "e"])).await.unwrap();
    let claimed = claim(&*outbox, 10).await;
    assert!(claimed.entries.iter().all(|entry| !entry.failed_before));
    let postpone = Verdict::Postpone { after: Duration::ZERO, reason: "500: ouch".to_owned() };
    settle(&*outbox, &claimed, postpone).await;
    let stats = outbox.stats().await.unwrap();
    assert_eq!((stats.pending, stats.retrying), (5, 5));
    let (detail, _) = outbox.entry(old[0]).await.unwrap().unwrap();
    assert_eq!(
        (detail.attempts, detail.last_error.as_deref()),
        (0, Some("500: ouch")),
        "no attempt is counted"
    );

    let new = outbox.enqueue(&calls(&["f", "g"])).await.unwrap();
    let take = async |retries: usize| {
        let wanted = Wanted { kind: Kind::Change, limit: 10, retries, newest_first: false, lease: LEASE };
        outbox.claim_with("w", wanted).await.unwrap()
    };
    let fresh = take(0).await;
    assert_eq!(ids(&fresh), new, "what has failed is left where it is");
    assert_eq!(take(0).await.look_in.filter(Duration::is_zero), None, "and is no reason to look again");
    let mut back = Vec::new();
    for _ in 0..4 {
        let claimed = take(3).await;
        assert!(claimed.entries.iter().all(|entry| entry.failed_before) && claimed.entries.len() <= 3);
        back.extend(ids(&claimed));
        if back.len() == 5 {
            break;
        }
    }
    back.sort_unstable();
    assert_eq!(back, old);
    // Files bring no changes back.
    let file = outbox.enqueue(&[entry("scan_file", "s", "{}")]).await.unwrap();
    assert_eq!(ids(&outbox.claim("w", Kind::File, 10, LEASE).await.unwrap()), file);
}

pub(crate) async fn ss_32_the_newest_entries_can_be_claimed_first_and_each_entity_keeps_its_order(
    fixture: &Fixture,
) {
    let outbox = fixture.store.outbox();
    let given = outbox.enqueue(&calls(&["a", "b", "c", "a", "d", "d"])).await.unwrap();
    let newest = async |limit: usize| {
        let wanted = Wanted { kind: Kind::Change, limit, retries: 0, newest_first: true, lease: LEASE };
        outbox.claim_with("w", wanted).await.unwrap()
    };
    // Both of the last entity, in their order; the later one of "a" waits for the earlier one.
    assert_eq!(ids(&newest(3).await), [given[4], given[5]]);
    let first = outbox.claim("w", Kind::Change, 1, LEASE).await.unwrap();
    assert_eq!(ids(&first), [given[0]]);
    assert_eq!(ids(&newest(10).await), [given[1], given[2]], "what has to wait is left");
    outbox.settle(first.claim, &[(given[0], Verdict::Done)]).await.unwrap();
    assert_eq!(ids(&newest(10).await), [given[3]]);
    assert!(newest(10).await.entries.is_empty());
}

pub(crate) async fn ss_37_an_outbox_can_be_given_another_name(fixture: &Fixture) {
    let outbox = fixture.store.outbox();
    let before = outbox.sender().await.unwrap();
    let after = syncline_core::outbox::SenderId::new("box-7").unwrap();
    assert_ne!(before, after);
    outbox.set_sender(&after).await.unwrap();
    assert_eq!(outbox.sender().await.unwrap(), after);
}

pub(crate) async fn ss_02_entries_are_fetched_oldest_first_and_marked(fixture: &Fixture) {
    let outbox = fixture.store.outbox();
    let given = [entry("order", "c 1", r#"{"n":1,"text":"呼"}"#), entry("invoice_file", "r", "null")];
    let ids = outbox.enqueue(&given).await.unwrap();
    let more = outbox.enqueue(&calls(&["c2"])).await.unwrap();
    assert!(ids[0] < ids[1] && ids[1] < more[0]);
    let pending = outbox.fetch_pending(10).await.unwrap();
    assert_eq!(pending.iter().map(|entry| entry.id).collect::<Vec<_>>(), [ids[0], ids[1], more[0]]);
    let first: serde_json::Value = serde_json::from_str(&pending[0].payload).unwrap();
    assert_eq!(first, serde_json::json!({ "n": 1, "text": "呼" }));
    assert_eq!((pending[0].entity_type.as_str(), pending[0].entity_id.as_str()), ("order", "c 1"));
    assert_eq!(pending[1].payload, "null");
    let age_us = pending[0].created_at.as_us();
    assert!(age_us > 1_700_000_000_000_000, "{age_us}");
    assert_eq!(outbox.fetch_pending(1).await.unwrap().len(), 1);

    let at = "2026-02-07T10:20:30.123Z".parse::<Moment>().unwrap();
    assert_eq!(outbox.mark_processed(&ids, Some(at)).await.unwrap(), 2);
    assert_eq!(outbox.mark_processed(&ids, None).await.unwrap(), 0, "marked once");
    assert_eq!(outbox.fetch_pending(10).await.unwrap()[0].id, more[0]);
    let (detail, _) = outbox.entry(ids[0]).await.unwrap().unwrap();
    assert_eq!((detail.state, detail.ended_at), (State::Processed, Some(at)));
    assert_eq!(outbox.sender().await.unwrap(), fixture.another().await.outbox().sender().await.unwrap());
}

pub(crate) async fn ss_01_an_entry_is_committed_with_the_callers_rows_or_not_at_all(fixture: &Fixture) {
    fixture.execute("CREATE TABLE orders (id text PRIMARY KEY)").await;
    let outbox = fixture.store.outbox();
    for (id, commits) in [("kept", true), ("undone", false)] {
        let given = entry("order", id, "{}");
        match fixture.store.backend() {
            Backend::Sqlite => {
                let mut connection = fixture.sqlite_connection();
                let transaction = connection.transaction().unwrap();
                transaction.execute("INSERT INTO orders VALUES (?1)", [id]).unwrap();
                enqueue_in(&transaction, &given).unwrap();
                if commits {
                    transaction.commit().unwrap();
                } else {
                    transaction.rollback().unwrap();
                }
            }
            Backend::Postgres => {
                let mut connection = fixture.postgres_connection().await;
                let mut transaction = sqlx::Connection::begin(&mut connection).await.unwrap();
                let row = sqlx::query("INSERT INTO orders VALUES ($1)").bind(id);
                row.execute(&mut *transaction).await.unwrap();
                enqueue_in_postgres(&mut transaction, &given).await.unwrap();
                if commits {
                    transaction.commit().await.unwrap();
                } else {
                    transaction.rollback().await.unwrap();
                }
            }
        }
    }
    let pending = outbox.fetch_pending(10).await.unwrap();
    assert_eq!(pending.iter().map(|entry| entry.entity_id.as_str()).collect::<Vec<_>>(), ["kept"]);
    assert_eq!(fixture.rows("orders").await, 1);
}

pub(crate) async fn ss_22_an_entry_is_in_flight_once_whoever_claims(fixture: &Fixture) {
    let given: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let outbox = fixture.store.outbox();
    outbox.enqueue(&calls(&given)).await.unwrap();
    let stores = [fixture.another().await, fixture.another().await];
    let claims = join_all((0..40).map(|n| {
        let outbox = stores[n % 2].outbox();
        async move { claim(&*outbox, 10).await }
    }));
    let claimed: Vec<i64> = claims.await.iter().flat_map(ids).collect();
    let distinct: BTreeSet<i64> = claimed.iter().copied().collect();
    assert_eq!(distinct.len(), claimed.len(), "an entry was claimed twice");
    // Claims that ran into each other may have left some.
    let rest = claim(&*outbox, 200).await;
    assert_eq!(claimed.len() + rest.entries.len(), 200);
    assert_eq!(outbox.stats().await.unwrap().in_flight, 200);
    assert!(claim(&*outbox, 10).await.entries.is_empty());
}

pub(crate) async fn ss_22_entries_of_an_entity_go_in_order_and_hold_nobody_up(fixture: &Fixture) {
    let outbox = fixture.store.outbox();
    let given = outbox.enqueue(&calls(&["a", "b", "a", "a", "c"])).await.unwrap();
    let first = claim(&*outbox, 1).await;
    assert_eq!(ids(&first), [given[0]]);
    // The other two of `a` have to wait; those of others do not.
    let second = claim(&*outbox, 10).await;
    assert_eq!(ids(&second), [given[1], given[4]]);
    assert!(claim(&*outbox, 10).await.entries.is_empty());
    assert_eq!(outbox.stats().await.unwrap().behind, 2);
    // It fails: they wait on, however much comes after them.
    settle(&*outbox, &first, retry(3_600_000)).await;
    let last = outbox.enqueue(&calls(&["a"])).await.unwrap();
    let third = claim(&*outbox, 10).await;
    assert!(third.entries.is_empty(), "{third:?}");
    assert!(third.look_in.unwrap() > Duration::from_secs(30));
    // It is tried again and arrives: the others follow in order.
    assert_eq!(outbox.retry(&Which::Ids(vec![given[0]])).await.unwrap(), 1);
    let again = claim(&*outbox, 1).await;
    assert_eq!(ids(&again), [given[0]]);
    assert_eq!(again.entries[0].attempts, 0);
    settle(&*outbox, &again, Verdict::Done).await;
    let rest = claim(&*outbox, 10).await;
    assert_eq!(ids(&rest), given[2..4]);
    let stats = outbox.stats().await.unwrap();
    assert_eq!((stats.pending, stats.in_flight, stats.behind, stats.delivered), (5, 4, 1, 1));
    settle(&*outbox, &rest, Verdict::Done).await;
    assert_eq!(ids(&claim(&*outbox, 10).await), last);
}

pub(crate) async fn ss_22_a_long_row_of_one_entity_is_passed_by_and_comes_back_in_order(fixture: &Fixture) {
    let outbox = fixture.store.outbox();
    let many = vec!["a"; 300];
    let given = outbox.enqueue(&calls(&many)).await.unwrap();
    let other = outbox.enqueue(&calls(&["b"])).await.unwrap();
    let mut under_way = claim(&*outbox, 20).await;
    assert_eq!(ids(&under_way), given[..20]);
    let mut next = claim(&*outbox, 20).await;
    while next.entries.is_empty() && next.look_in == Some(Duration::ZERO) {
        next = claim(&*outbox, 20).await;
    }
    assert_eq!(ids(&next), other);
    let mut arrived = Vec::new();
    while !under_way.entries.is_empty() {
        arrived.extend(ids(&under_way));
        settle(&*outbox, &under_way, Verdict::Done).await;
        under_way = claim(&*outbox, 20).await;
    }
    assert_eq!(arrived, given);
}

pub(crate) async fn ss_22_a_dead_workers_claims_come_back_and_its_late_word_is_not_heard(fixture: &Fixture) {
    let outbox = fixture.store.outbox();
    let given = outbox.enqueue(&calls(&["a", "b"])).await.unwrap();
    let lease = Duration::from_millis(40);
    let lost = outbox.claim("dies", Kind::Change, 10, lease).await.unwrap();
    assert_eq!(ids(&lost), given);
    let mut again = lost.clone();
    // Their leases end a moment apart: a look in between would find one of them.
    tokio::time::sleep(2 * lease).await;
    until("the lease has ended", async || {
        again = claim(&*outbox, 10).await;
        !again.entries.is_empty()
    })
    .await;
    assert_eq!(ids(&again), given);
    assert_ne!(again.claim, lost.claim);
    let late = given.iter().map(|id| (*id, Verdict::Done)).collect::<Vec<_>>();
    assert_eq!(outbox.settle(lost.claim, &late).await.unwrap(), Vec::<i64>::new());
    assert!(outbox.renew(lost.claim, &given, LEASE).await.unwrap().is_empty());
    assert_eq!(outbox.renew(again.claim, &given, LEASE).await.unwrap(), given);
    settle(&*outbox, &again, Verdict::GiveBack).await;
    let stats = outbox.stats().await.unwrap();
    assert_eq!((stats.pending, stats.in_flight), (2, 0));
    assert_eq!(ids(&claim(&*outbox, 10).await), given);
}

pub(crate) async fn ss_23_failures_wait_then_die_and_can_be_revived_or_discarded(fixture: &Fixture) {
    let outbox = fixture.store.outbox();
    let given = outbox.enqueue(&calls(&["a", "b", "c", "a"])).await.unwrap();
    let claimed = claim(&*outbox, 3).await;
    let dead = Verdict::Dead { reason: "422: unknown type\0".to_owned() };
    let verdicts = [(given[0], dead.clone()), (given[1], retry(1)), (given[2], dead)];
    assert_eq!(outbox.settle(claimed.claim, &verdicts).await.unwrap().len(), 3);
    // A dead entry is no obstacle for those after it.
    let mut next = claim(&*outbox, 1).await;
    until("the retry is due", async || {
        if next.entries.is_empty() || next.entries[0].id == given[3] {
            settle(&*outbox, &next, Verdict::GiveBack).await;
            next = claim(&*outbox, 1).await;
        }
        next.entries.first().is_some_and(|entry| entry.id == given[1])
    })
    .await;
    assert_eq!(next.entries[0].attempts, 1);
    settle(&*outbox, &next, Verdict::Done).await;
    let listed = outbox.list(List::Dead, None, 10).await.unwrap();
    assert_eq!(listed.iter().map(|detail| detail.id).collect::<Vec<_>>(), [given[0], given[2]]);
    assert_eq!(listed[0].last_error.as_deref(), Some("422: unknown type\u{fffd}"));
    assert_eq!(outbox.list(List::Dead, Some(given[0]), 10).await.unwrap().len(), 1);
    assert_eq!(outbox.discard(&Which::Ids(vec![given[2], given[3]])).await.unwrap(), 1, "only dead ones");
    assert_eq!(outbox.retry(&Which::AllDead).await.unwrap(), 1);
    let rest = claim(&*outbox, 10).await;
    assert_eq!(ids(&rest), [given[0], given[3]]);
    settle(&*outbox, &rest, Verdict::Done).await;
    let processed = outbox.list(List::Processed, None, 2).await.unwrap();
    assert_eq!(processed.len(), 2);
    let older = outbox.list(List::Processed, Some(processed[1].id), 10).await.unwrap();
    assert_eq!(older.iter().map(|detail| detail.id).collect::<Vec<_>>(), [given[1]]);
    assert_eq!(outbox.stats().await.unwrap().delivered, 3);
}

pub(crate) async fn ss_23_only_processed_entries_are_cleaned_up_and_in_steps(fixture: &Fixture) {
    let outbox = fixture.store.outbox();
    let given = outbox.enqueue(&calls(&["a", "b", "c", "d", "e"])).await.unwrap();
    let long_ago = Some("2020-01-01T00:00:00Z".parse().unwrap());
    outbox.mark_processed(&given[..3], long_ago).await.unwrap();
    outbox.mark_processed(&given[3..4], None).await.unwrap();
    let month = Duration::from_secs(30 * 86_400);
    assert_eq!(outbox.cleanup(month, 2).await.unwrap(), 2);
    assert_eq!(outbox.cleanup(month, 2).await.unwrap(), 1);
    assert_eq!(outbox.cleanup(month, 2).await.unwrap(), 0);
    assert_eq!(fixture.rows("sync_outbox").await, 2);
    assert_eq!(outbox.fetch_pending(10).await.unwrap()[0].id, given[4]);
}

pub(crate) async fn ss_20_a_commit_elsewhere_is_heard(fixture: &Fixture) {
    let outbox = fixture.store.outbox();
    let mut wakes = outbox.wakes();
    for n in 0..5 {
        // Whatever is on its way from before must have arrived, else it is what is heard.
        tokio::time::sleep(Duration::from_millis(20)).await;
        wakes.mark_unchanged();
        fixture
            .execute("INSERT INTO sync_outbox (entity_type, entity_id, payload) VALUES ('order', 'x', '{}')")
            .await;
        tokio::time::timeout(Duration::from_secs(30), wakes.changed()).await.expect("heard").unwrap();
        until("it is there", async || outbox.fetch_pending(10).await.unwrap().len() == n + 1).await;
    }
}

pub(crate) async fn ss_07_a_receipt_is_kept_and_the_applications_row_says_uploaded(fixture: &Fixture) {
    let outbox = fixture.store.outbox();
    let given =
        outbox.enqueue(&[entry("invoice_file", "r1", "{}"), entry("order", "c1", "{}")]).await.unwrap();
    let receipt = Receipt {
        entry: given[0],
        file_id: "r1".to_owned(),
        file_url: "https://front.example/storage/invoices/c1/invoice.pdf".to_owned(),
        bytes: 1 << 40,
        sha256: "ab".repeat(32),
    };
    let update = |column: &str| ReceiptUpdate {
        table: "invoices".to_owned(),
        id_column: "id".to_owned(),
        set: vec![
            (column.to_owned(), "uploaded".into()),
            ("s3_url".to_owned(), receipt.file_url.as_str().into()),
        ],
    };
    // Where there is no such table, nothing is changed.
    outbox.store_receipt(&receipt, Some(&update("upload_status"))).await.unwrap();
    assert_eq!(outbox.receipt(given[0]).await.unwrap(), Some(receipt.clone()));
    assert_eq!(outbox.receipt(given[1]).await.unwrap(), None);
    fixture.execute("CREATE TABLE invoices (id text PRIMARY KEY, upload_status text, s3_url text)").await;
    fixture.execute("INSERT INTO invoices VALUES ('r1', 'pending', NULL), ('r2', 'pending', NULL)").await;
    outbox.store_receipt(&receipt, Some(&update("upload_status"))).await.unwrap();
    let uploaded =
        "invoices WHERE id = 'r1' AND upload_status = 'uploaded' AND s3_url LIKE '%/c1/invoice.pdf'";
    assert_eq!(fixture.rows(uploaded).await, 1);
    assert_eq!(fixture.rows("invoices WHERE upload_status = 'pending'").await, 1);
    // A column that is not there fails this receipt, and keeps nothing of it.
    let second = Receipt { entry: given[1], ..receipt.clone() };
    let wrong = outbox.store_receipt(&second, Some(&update("state"))).await.unwrap_err();
    assert!(wrong.to_string().contains("invoices.state"), "{wrong}");
    let unsafe_name = outbox.store_receipt(&second, Some(&update("a\" = 1; --"))).await.unwrap_err();
    assert!(matches!(unsafe_name, Error::Invalid { .. }), "{unsafe_name}");
    assert_eq!(outbox.receipt(given[1]).await.unwrap(), None);
    // Files and changes are claimed apart.
    let files = outbox.claim("w", Kind::File, 10, LEASE).await.unwrap();
    assert_eq!(ids(&files), given[..1]);
    assert_eq!(ids(&claim(&*outbox, 10).await), given[1..]);
}

pub(crate) async fn ss_25_settings_are_read_from_columns_or_keys(fixture: &Fixture) {
    let outbox = fixture.store.outbox();
    assert_eq!(outbox.settings().await.unwrap(), Settings::default());
    let set =
        Settings { interval: Some(Duration::from_secs(7)), enabled: Some(false), ..Settings::default() };
    outbox.set_settings(&set).await.unwrap();
    assert_eq!(outbox.settings().await.unwrap(), set);
    outbox.set_settings(&Settings { batch_size: Some(250), ..Settings::default() }).await.unwrap();
    assert_eq!(outbox.settings().await.unwrap(), Settings { batch_size: Some(250), ..set });
    fixture.execute("DROP TABLE system_settings").await;
    fixture.execute("CREATE TABLE system_settings (key text PRIMARY KEY, value text)").await;
    fixture.execute("INSERT INTO system_settings VALUES ('sync_interval_sec', '60'), ('other', 'x')").await;
    let interval = Some(Duration::from_secs(60));
    assert_eq!(outbox.settings().await.unwrap(), Settings { interval, ..Settings::default() });
    let refused = outbox.set_settings(&set).await.unwrap_err();
    assert!(matches!(refused, Error::Invalid { field: "system_settings", .. }), "{refused}");
}

pub(crate) async fn ss_29_what_breaks_a_bound_of_the_outbox_is_refused(fixture: &Fixture) {
    let outbox = fixture.store.outbox();
    let long = "x".repeat(2_000_000);
    for bad in [
        entry("Call Log", "a", "{}"),
        entry("order", "", "{}"),
        entry("order", "a", "{"),
        entry("order", "a", &format!("\"{long}\"")),
    ] {
        assert!(matches!(outbox.enqueue(&[bad]).await.unwrap_err(), Error::Invalid { .. }));
    }
    assert!(outbox.enqueue(&vec![entry("order", "a", "{}"); ENTRIES_MAX + 1]).await.is_err());
    assert!(outbox.claim("", Kind::Change, 1, LEASE).await.is_err());
    assert!(outbox.claim("w", Kind::Change, 0, LEASE).await.is_err());
    assert!(outbox.claim("w", Kind::Change, 1, Duration::ZERO).await.is_err());
    assert!(outbox.fetch_pending(ENTRIES_MAX + 1).await.is_err());
    assert_eq!(fixture.rows("sync_outbox").await, 0);
    // Large payloads are cut into claims; a single one is always taken.
    let large = format!("\"{}\"", "x".repeat(1_000_000));
    outbox
        .enqueue(&(0..12).map(|n| entry("order", &n.to_string(), &large)).collect::<Vec<_>>())
        .await
        .unwrap();
    let claimed = claim(&*outbox, 100).await;
    assert_eq!((claimed.entries.len(), claimed.look_in), (8, Some(Duration::ZERO)));
    assert_eq!(claim(&*outbox, 100).await.entries.len(), 4);
}

pub(crate) async fn ss_01_a_plain_table_is_taken_over_with_its_rows(fixture: &Fixture) {
    let (url, _home) = fixture.fresh_url().await;
    let plain = match fixture.store.backend() {
        // As others make it: a UUID, a time without zone, an integer for the id.
        Backend::Postgres => {
            "CREATE TABLE sync_outbox (id serial PRIMARY KEY, entity_type varchar(50) NOT NULL, entity_id uuid NOT NULL, \
             payload json, created_at timestamp DEFAULT now(), processed_at timestamp); \
             INSERT INTO sync_outbox (entity_type, entity_id, payload, created_at, processed_at) VALUES \
             ('order', '018c0000-0000-7000-8000-000000000001', '{\"n\": 1}', '2026-01-01 00:00:00.5', NULL), \
             ('order', '018c0000-0000-7000-8000-000000000002', '{\"n\": 2}', '2026-01-01 00:00:01', now()), \
             ('order', '018c0000-0000-7000-8000-000000000001', '{\"n\": 3}', '2026-01-01 00:00:02', NULL)"
        }
        Backend::Sqlite => {
            "CREATE TABLE sync_outbox (id INTEGER PRIMARY KEY, entity_type TEXT, entity_id BLOB, payload TEXT, \
             created_at DATETIME DEFAULT CURRENT_TIMESTAMP, processed_at DATETIME); \
             INSERT INTO sync_outbox (entity_type, entity_id, payload, created_at, processed_at) VALUES \
             ('order', x'018c0000000070008000000000000001', '{\"n\": 1}', '2026-01-01 00:00:00.500+00:00', NULL), \
             ('order', x'018c0000000070008000000000000002', '{\"n\": 2}', 1767225601, CURRENT_TIMESTAMP), \
             ('order', x'018c0000000070008000000000000001', '{\"n\": 3}', 1767225602000, NULL)"
        }
    };
    fixture.execute_at(&url, plain).await;
    let outbox = syncline_store::Store::open(&url).await.unwrap().outbox();
    let pending = outbox.fetch_pending(10).await.unwrap();
    assert_eq!(pending.iter().map(|entry| entry.id).collect::<Vec<_>>(), [1, 3]);
    let shown = (pending[0].entity_id.as_str(), pending[0].created_at.to_string());
    assert_eq!(shown, ("018c0000-0000-7000-8000-000000000001", "2026-01-01T00:00:00.5Z".to_owned()));
    assert_eq!(pending[1].created_at.to_string(), "2026-01-01T00:00:02Z");
    let first = claim(&*outbox, 1).await;
    assert_eq!(ids(&first), [1]);
    assert!(claim(&*outbox, 10).await.entries.is_empty(), "the third is of the same entity");
    settle(&*outbox, &first, Verdict::Done).await;
    let second = claim(&*outbox, 10).await;
    assert_eq!(ids(&second), [3]);
    settle(&*outbox, &second, Verdict::Done).await;
    assert_eq!(outbox.stats().await.unwrap().pending, 0);
    if fixture.store.backend() == Backend::Postgres {
        // What is inserted becomes what the column is.
        let id = "018c0000-0000-7000-8000-000000000009";
        outbox.enqueue(&[entry("order", id, "{}")]).await.unwrap();
        assert_eq!(outbox.fetch_pending(1).await.unwrap()[0].entity_id, id);
    }
}
