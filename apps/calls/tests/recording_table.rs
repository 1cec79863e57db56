//! The rows of recordings: one suite, run on SQLite and on PostgreSQL.

#![cfg(test)]

use syncline_calls::recording::table::{LIST_MAX, MIGRATIONS, Recording, RecordingTable, TEXT_MAX_BYTES};
use syncline_core::outbox::Moment;
use syncline_store::{Options, Store};

async fn open(url: &str) -> RecordingTable {
    RecordingTable::new(&Store::open_with(url, &Options::of(&[&MIGRATIONS])).await.unwrap())
}

#[tokio::test]
async fn ss_09_recordings_are_kept_and_listed_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("calls.db").display());
    ss_09_recordings_are_kept_and_listed(open(&url).await).await;
}

#[tokio::test]
async fn ss_09_recordings_are_kept_and_listed_on_postgres() {
    let database = tokio::task::spawn_blocking(syncline_sim::postgres::database).await.unwrap();
    ss_09_recordings_are_kept_and_listed(open(&database.url).await).await;
}

async fn ss_09_recordings_are_kept_and_listed(table: RecordingTable) {
    let recording = |n: i64| Recording {
        call_log_id: format!("c{n}"),
        recording_id: format!("r{n}"),
        bytes: 44,
        sha256: format!("{n:064x}"),
        location: format!("recordings/c{n}/mixed.wav"),
        meta: "{}".to_owned(),
        received_at: Moment::from_us(n * 1_000_000),
    };
    for n in 1..=3 {
        table.put(&recording(n)).await.unwrap();
    }
    assert_eq!(table.of_call("c2").await.unwrap(), Some(recording(2)));
    assert_eq!(table.of_call("c9").await.unwrap(), None);
    assert_eq!(table.list(None, 2).await.unwrap(), [recording(3), recording(2)]);
    assert_eq!(table.list(Some("c2"), 2).await.unwrap(), [recording(1)]);
    assert_eq!(table.list(Some("c9"), 2).await.unwrap(), [], "after one that nobody knows");
    table.put(&Recording { received_at: Moment::from_us(9_000_000), ..recording(1) }).await.unwrap();
    assert_eq!(table.of_call("c1").await.unwrap(), Some(recording(1)), "the same one again changes nothing");
    let other = Recording { sha256: "f".repeat(64), ..recording(2) };
    table.put(&other).await.unwrap();
    assert_eq!(table.of_call("c2").await.unwrap(), Some(other));
    let long = Recording { meta: "x".repeat(TEXT_MAX_BYTES + 1), ..recording(4) };
    assert!(table.put(&long).await.is_err() && table.of_call("c4").await.unwrap().is_none());
    assert!(table.list(None, LIST_MAX + 1).await.is_err());
}
