//! An application that uses two systems in its own database, by the crates alone.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use example_shop::{Shop, place_order};
use rusqlite::Connection;

#[tokio::test]
async fn hs_12_an_application_enqueues_in_its_own_transaction_and_works_under_a_lock() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let url = format!("sqlite:{}", file.display());
    let shop = Shop::open(&url).await.unwrap();
    let mut database = Connection::open(&file).unwrap();
    database.execute_batch("CREATE TABLE orders (id text PRIMARY KEY, item text NOT NULL)").unwrap();

    let transaction = database.transaction().unwrap();
    place_order(&transaction, "o-1", "a \"lamp\"").unwrap();
    transaction.rollback().unwrap();
    assert_eq!(shop.waiting().await.unwrap(), 0, "what was not committed is not sent");

    let transaction = database.transaction().unwrap();
    place_order(&transaction, "o-1", "a \"lamp\"").unwrap();
    transaction.commit().unwrap();
    assert_eq!(shop.waiting().await.unwrap(), 1);

    let other = Shop::open(&url).await.unwrap();
    let first = shop
        .bill("first", async |token| {
            let refused = other.bill("second", async |_| Ok(())).await.unwrap_err();
            assert_eq!(refused.to_string(), "first is billing already");
            Ok(token)
        })
        .await
        .unwrap();
    let later = other.bill("second", async |token| Ok(token)).await.unwrap();
    assert!(later > first, "{later:?} after {first:?}");
    other.close().await;
    shop.close().await;
}
