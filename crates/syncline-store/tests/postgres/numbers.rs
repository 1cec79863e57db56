//! Numbers of entries that an application's table gives twice, or out of order.

use sqlx::{Connection, PgConnection};
use syncline_sim::postgres;
use syncline_store::OutboxStore;
use tokio::task::block_in_place;

use super::{PLAIN, execute};

/// `TRUNCATE ... RESTART IDENTITY` numbered new entries like old ones: the receiver knew the numbers with another content.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_31_numbers_go_on_after_a_truncate_that_restarts_them() {
    for id in ["bigserial PRIMARY KEY", "integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY"] {
        let database = block_in_place(postgres::database);
        let mut application = PgConnection::connect(&database.url).await.unwrap();
        execute(&mut application, &PLAIN.replace("bigserial PRIMARY KEY", id)).await.unwrap();
        let store = OutboxStore::open(&database.url).await.unwrap();
        let insert = "INSERT INTO sync_outbox (entity_type, entity_id, payload) VALUES ('a', 'b', '1')";
        // The highest number may be one that was deleted before, and one that was never committed.
        execute(
            &mut application,
            &format!("BEGIN; {insert}; ROLLBACK; DELETE FROM sync_outbox WHERE id > 50"),
        )
        .await
        .unwrap();
        for round in 0..2 {
            execute(&mut application, "TRUNCATE sync_outbox RESTART IDENTITY").await.unwrap();
            execute(&mut application, insert).await.unwrap();
            let pending = store.outbox().fetch_pending(10).await.unwrap();
            assert_eq!(pending.iter().map(|entry| entry.id).collect::<Vec<_>>(), [102 + round], "{id}");
        }
        store.close().await;
    }
}

/// Connections that take numbers by the block give a later change a lower number; its receiver took it for an old one, and it was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_31_numbers_that_are_taken_by_the_block_are_refused_with_the_mend() {
    let defaults = [
        "bigserial PRIMARY KEY",
        "bigint PRIMARY KEY DEFAULT nextval('numbers')",
        "bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY",
    ];
    for (id, sequence) in defaults.into_iter().zip(["sync_outbox_id_seq", "numbers", "sync_outbox_id_seq"]) {
        let database = block_in_place(postgres::database);
        let mut application = PgConnection::connect(&database.url).await.unwrap();
        execute(&mut application, "CREATE SEQUENCE numbers").await.unwrap();
        execute(&mut application, &PLAIN.replace("bigserial PRIMARY KEY", id)).await.unwrap();
        execute(&mut application, &format!("ALTER SEQUENCE {sequence} CACHE 20")).await.unwrap();
        for refused in
            [OutboxStore::open(&database.url).await.map(drop), OutboxStore::check(&database.url).await]
        {
            let said = refused.unwrap_err().to_string();
            assert!(said.contains(&format!("ALTER SEQUENCE {sequence} CACHE 1")), "{said}");
        }
        execute(&mut application, &format!("ALTER SEQUENCE {sequence} CACHE 1")).await.unwrap();
        OutboxStore::open(&database.url).await.unwrap().close().await;
    }
}
