//! Outboxes with several receivers: each has a table of its own, which behaves as the outbox does. On both databases.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use std::sync::Arc;
use std::time::Duration;

use syncline_core::outbox::Verdict;
use syncline_sim::postgres;
use syncline_store::OutboxStore;
use syncline_store::outbox::{HandOver, Kind, List, NewEntry, Outbox, Which};
use tokio::task::block_in_place;

const LEASE: Duration = Duration::from_secs(60);

async fn on_each_database(test: impl AsyncFn(&OutboxStore)) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}?mode=rwc", folder.path().join("shop.db").display());
    let database = block_in_place(postgres::database);
    for url in [url.as_str(), database.url.as_str()] {
        let store = OutboxStore::open(url).await.unwrap();
        test(&store).await;
        store.close().await;
    }
}

fn order(id: &str) -> NewEntry {
    NewEntry { entity_type: "order".to_owned(), entity_id: id.to_owned(), payload: "{}".to_owned() }
}

async fn claim(outbox: &Arc<dyn Outbox>) -> (syncline_store::outbox::ClaimId, Vec<i64>) {
    let claimed = outbox.claim("w", Kind::Change, 100, LEASE).await.unwrap();
    (claimed.claim, claimed.entries.iter().map(|entry| entry.id).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_35_each_route_has_its_own_progress_its_own_order_and_its_own_dead_letters() {
    on_each_database(async |store| {
        let outbox = store.outbox();
        assert!(store.route("a").await.unwrap().is_none());
        let (a, b) = (store.open_route("a").await.unwrap(), store.open_route("b").await.unwrap());
        store.open_route("a").await.unwrap();
        let ids = outbox.enqueue(&["x", "y", "x"].map(order)).await.unwrap();
        let (held, claimed) = claim(&outbox).await;
        assert_eq!(claimed, ids);
        let to = HandOver {
            routes: vec![("a".to_owned(), vec![ids[0], ids[1], ids[2]]), ("b".to_owned(), vec![ids[1]])],
            unwanted: Vec::new(),
        };
        assert_eq!(outbox.hand_over(held, &to).await.unwrap().len(), 3);
        // A claim that is no longer held hands nothing over.
        assert_eq!(outbox.hand_over(held, &to).await.unwrap(), Vec::<i64>::new());
        assert_eq!(outbox.stats().await.unwrap().pending, 0);
        assert_eq!((a.stats().await.unwrap().pending, b.stats().await.unwrap().pending), (3, 1));

        let (of_b, claimed) = claim(&b).await;
        assert_eq!(claimed, [ids[1]]);
        b.settle(of_b, &[(ids[1], Verdict::Dead { reason: "no".to_owned() })]).await.unwrap();
        let (of_a, claimed) = claim(&a).await;
        assert_eq!(claimed, ids, "what died for one receiver did not die for the other");
        let retry = Verdict::Retry { after: Duration::from_secs(60), reason: "500".to_owned() };
        let verdicts = [(ids[0], retry), (ids[1], Verdict::Done), (ids[2], Verdict::GiveBack)];
        a.settle(of_a, &verdicts).await.unwrap();
        assert_eq!(claim(&a).await.1, Vec::<i64>::new(), "a later change waits behind the one that failed");
        let stats = a.stats().await.unwrap();
        assert_eq!((stats.pending, stats.retrying, stats.behind, stats.dead), (2, 1, 1, 0));
        assert_eq!(a.retry(&Which::Ids(vec![ids[0]])).await.unwrap(), 1);
        assert_eq!(claim(&a).await.1[0], ids[0]);
        let dead = b.list(List::Dead, None, 10).await.unwrap();
        assert_eq!((dead.len(), dead[0].id, dead[0].entity_id.as_str()), (1, ids[1], "y"));
        assert_eq!(b.entry(ids[1]).await.unwrap().unwrap().1, "{}");
        assert_eq!(b.discard(&Which::AllDead).await.unwrap(), 1);
        assert_eq!(a.cleanup(Duration::ZERO, 10).await.unwrap(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_35_an_entry_that_no_route_wants_is_a_dead_letter_and_a_name_is_checked() {
    on_each_database(async |store| {
        let outbox = store.outbox();
        for wrong in ["", "A", "a-b", "a b", "1a", &"a".repeat(25)] {
            assert!(store.open_route(wrong).await.is_err(), "{wrong}");
        }
        let ids = outbox.enqueue(&[order("x")]).await.unwrap();
        let (held, _) = claim(&outbox).await;
        let to = HandOver { routes: Vec::new(), unwanted: vec![(ids[0], "nobody takes it".to_owned())] };
        outbox.hand_over(held, &to).await.unwrap();
        let dead = outbox.list(List::Dead, None, 10).await.unwrap();
        assert_eq!(dead[0].last_error.as_deref(), Some("nobody takes it"));
    })
    .await;
}
