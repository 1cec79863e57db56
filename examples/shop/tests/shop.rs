//! An application that uses two systems in its own database, by the crates alone.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use example_shop::{Shop, place_order};
use sqlx::{Connection, SqliteConnection};

#[tokio::test]
async fn hs_12_an_application_enqueues_in_its_own_transaction_and_works_under_a_lock() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    let shop = Shop::open(&url).await.unwrap();
    let mut database = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("CREATE TABLE orders (id text PRIMARY KEY, item text NOT NULL)")
        .execute(&mut database)
        .await
        .unwrap();

    let mut transaction = database.begin().await.unwrap();
    place_order(&mut transaction, "o-1", "a \"lamp\"").await.unwrap();
    transaction.rollback().await.unwrap();
    assert_eq!(shop.waiting().await.unwrap(), 0, "what was not committed is not sent");

    let mut transaction = database.begin().await.unwrap();
    place_order(&mut transaction, "o-1", "a \"lamp\"").await.unwrap();
    transaction.commit().await.unwrap();
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
