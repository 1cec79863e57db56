//! Opening, closing and the schema.

use futures::future::join_all;
use syncline_store::{Backend, Error, Options, Store, parts};

use super::fixture::{Fixture, key};

pub(crate) async fn an_open_store_answers_and_names_itself(fixture: &Fixture) {
    fixture.store.ping().await.unwrap();
    let backend = fixture.store.backend();
    assert!(fixture.store.name().starts_with(backend.as_str()), "{}", fixture.store.name());
    assert_eq!(format!("{:?}", fixture.store), format!("Store({:?})", fixture.store.name()));
    assert_eq!(fixture.store.stats().is_some(), backend == Backend::Sqlite);
}

/// A store without the tables of the kv counted as ready whatever became of its disk.
pub(crate) async fn a_trial_write_needs_no_tables_of_a_part_and_leaves_nothing(fixture: &Fixture) {
    let (url, _home) = fixture.fresh_url().await;
    let store = Store::open_with(&url, &Options::of(&[&parts::LOCK])).await.unwrap();
    let before = store.stats();
    store.try_write().await.unwrap();
    store.try_write().await.unwrap();
    if let (Some(before), Some(after)) = (before, store.stats()) {
        assert_eq!(after.commits - before.commits, 2, "each was committed");
    }
    store.close().await;
    assert_eq!(store.try_write().await.unwrap_err(), Error::Closed { store: store.name().to_owned() });
}

pub(crate) async fn what_was_stored_is_there_after_reopening(fixture: &Fixture) {
    fixture.store.kv().put(&key("kept"), "value", None).await.unwrap();
    fixture.store.close().await;
    let again = fixture.another().await;
    assert_eq!(again.kv().get(&key("kept")).await.unwrap().unwrap().value, "value");
}

pub(crate) async fn a_closed_store_refuses_everything(fixture: &Fixture) {
    let (kv, schedule) = (fixture.store.kv(), fixture.store.schedule());
    fixture.store.close().await;
    fixture.store.close().await;
    let closed = Error::Closed { store: fixture.store.name().to_owned() };
    assert_eq!(kv.put(&key("k"), "v", None).await.unwrap_err(), closed);
    assert_eq!(kv.get(&key("k")).await.unwrap_err(), closed);
    assert_eq!(schedule.totals(None).await.unwrap_err(), closed);
    assert_eq!(fixture.store.ping().await.unwrap_err(), closed);
    assert!(!closed.retryable());
}

pub(crate) async fn eight_opens_of_an_empty_database_at_once_all_succeed(fixture: &Fixture) {
    let (url, _home) = fixture.fresh_url().await;
    let opened = join_all((0..8).map(|_| {
        let url = url.clone();
        tokio::spawn(async move { Store::open(&url).await })
    }))
    .await;
    for (n, store) in opened.into_iter().enumerate() {
        let store = store.unwrap().unwrap();
        store.kv().put(&key(&format!("opened:{n}")), "", None).await.unwrap();
        assert_eq!(store.kv().list("opened:", 10).await.unwrap().len(), n + 1);
    }
}

pub(crate) async fn a_database_newer_than_the_program_is_refused_untouched(fixture: &Fixture) {
    fixture
        .execute("INSERT INTO syncline.migrations (part, version, name, applied_at) VALUES ('lock', 999, 'later', 0)")
        .await;
    let before = fixture.rows("syncline.migrations").await;
    let refused = Store::open(&fixture.url).await.unwrap_err();
    let (store, part) = (fixture.store.name().to_owned(), "lock".to_owned());
    assert_eq!(refused, Error::Newer { store, part, found: 999, known: 2 });
    assert!(refused.hint().is_some() && !refused.retryable());
    assert_eq!(fixture.rows("syncline.migrations").await, before);
    let without_locks = Store::open_with(&fixture.url, &Options::of(&[&parts::KV])).await.unwrap();
    without_locks.close().await;
}
