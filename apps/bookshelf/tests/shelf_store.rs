//! Scanned books, covers and saved searches: one suite, run on SQLite and on PostgreSQL.

#![cfg(test)]

use futures::future::join_all;
use sqlx::{Connection, PgConnection};
use syncline_bookshelf::shelf_store::{
    ADD_MAX, BOOK_MAX_BYTES, Cover, Found, LIST_MAX, MIGRATIONS, ShelfStore,
};
use syncline_store::{Backend, Error, Options, Store};

/// A store with the bookshelf's tables alone, in a database of its own.
struct Fixture {
    store: Store,
    url: String,
    /// Dropped last: the database goes with it.
    _home: Box<dyn Send + Sync>,
}

impl Fixture {
    async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("shelf.db").display());
        Self { store: open(&url).await, url, _home: Box::new(folder) }
    }

    async fn postgres() -> Self {
        let database = tokio::task::spawn_blocking(syncline_sim::postgres::database).await.unwrap();
        let url = database.url.clone();
        Self { store: open(&url).await, url, _home: Box::new(database) }
    }

    fn shelf(&self) -> ShelfStore {
        ShelfStore::new(&self.store)
    }

    async fn finds_kept(&self) -> i64 {
        match self.store.backend() {
            Backend::Sqlite => {
                let connection =
                    rusqlite::Connection::open(self.url.strip_prefix("sqlite:").unwrap()).unwrap();
                let count = "SELECT count(*) FROM syncline_shelf_finds";
                connection.query_row(count, [], |row| row.get(0)).unwrap()
            }
            Backend::Postgres => {
                let mut connection = PgConnection::connect(&self.url).await.unwrap();
                let count = "SELECT count(*) FROM syncline.shelf_finds";
                sqlx::query_scalar(count).fetch_one(&mut connection).await.unwrap()
            }
        }
    }
}

async fn open(url: &str) -> Store {
    Store::open_with(url, &Options::of(&[&MIGRATIONS])).await.unwrap()
}

macro_rules! on_both_engines {
    ($($case:ident,)*) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::$case(&super::Fixture::sqlite().await).await;
                }
            )*
        }

        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::$case(&super::Fixture::postgres().await).await;
                }
            )*
        }
    };
}

on_both_engines! {
    bk_01_a_scanned_book_is_there_once_whoever_scans_it,
    bk_07_books_are_listed_newest_first_and_survive_a_restart,
    bk_01_what_is_found_of_a_removed_book_does_not_bring_it_back,
    bk_05_a_cover_is_unknown_then_there_or_none_and_outlives_its_book,
    bk_02_the_finds_of_a_search_are_replaced_all_at_once,
    bk_02_a_search_is_saved_once_and_can_be_changed,
    bk_04_what_breaks_a_bound_of_the_shelf_is_refused,
}

fn isbns(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("978{number:010}")).collect()
}

fn found(isbns: &[String]) -> Found {
    let books = isbns.iter().map(|isbn| (isbn.clone(), format!("{{\"isbn\":\"{isbn}\"}}"))).collect();
    Found { books, total: Some(isbns.len() as u64), ending: "complete".to_owned() }
}

async fn bk_01_a_scanned_book_is_there_once_whoever_scans_it(fixture: &Fixture) {
    let shelf = fixture.shelf();
    let scans = isbns(0..20);
    let added = join_all((0..8).map(|_| shelf.add(&scans))).await;
    for (place, isbn) in scans.iter().enumerate() {
        let times = added.iter().filter(|added| added.as_ref().unwrap()[place]).count();
        assert_eq!(times, 1, "{isbn}");
    }
    let twice = [isbns(30..31), isbns(30..31)].concat();
    assert_eq!(shelf.add(&twice).await.unwrap(), [true, false]);
    assert_eq!(shelf.count().await.unwrap(), 21);
}

async fn bk_07_books_are_listed_newest_first_and_survive_a_restart(fixture: &Fixture) {
    let shelf = fixture.shelf();
    shelf.add(&isbns(0..5)).await.unwrap();
    shelf.found("9780000000003", "{\"title\":\"三\"}").await.unwrap().unwrap();
    let again = ShelfStore::new(&open(&fixture.url).await);
    let first = again.books(None, 2).await.unwrap();
    assert_eq!(
        first.iter().map(|book| book.isbn.as_str()).collect::<Vec<_>>(),
        isbns(3..5).iter().rev().map(String::as_str).collect::<Vec<_>>()
    );
    assert_eq!(first[1].book.as_deref(), Some("{\"title\":\"三\"}"));
    let rest = again.books(Some(first[1].id), 10).await.unwrap();
    assert_eq!(
        rest.iter().map(|book| book.isbn.as_str()).collect::<Vec<_>>(),
        ["9780000000002", "9780000000001", "9780000000000"]
    );
    let (mut searching, mut after) = (Vec::new(), 0);
    while let Some((id, isbn)) = again.searching(after, 1).await.unwrap().pop() {
        searching.push(isbn);
        after = id;
    }
    assert_eq!(searching, ["9780000000000", "9780000000001", "9780000000002", "9780000000004"]);
}

async fn bk_01_what_is_found_of_a_removed_book_does_not_bring_it_back(fixture: &Fixture) {
    let shelf = fixture.shelf();
    let isbn = isbns(1..2);
    shelf.add(&isbn).await.unwrap();
    assert!(shelf.remove(&isbn[0]).await.unwrap());
    assert!(!shelf.remove(&isbn[0]).await.unwrap());
    assert_eq!(shelf.found(&isbn[0], "{}").await.unwrap(), None);
    assert_eq!(shelf.set_cover(&isbn[0], None).await.unwrap(), None);
    assert_eq!((shelf.book(&isbn[0]).await.unwrap(), shelf.count().await.unwrap()), (None, 0));
}

async fn bk_05_a_cover_is_unknown_then_there_or_none_and_outlives_its_book(fixture: &Fixture) {
    let shelf = fixture.shelf();
    let isbns = isbns(0..2);
    shelf.add(&isbns).await.unwrap();
    assert_eq!(shelf.book(&isbns[0]).await.unwrap().unwrap().cover, Cover::Unknown);
    let told = shelf.set_cover(&isbns[0], Some("[\"n\"]")).await.unwrap().unwrap();
    assert_eq!(told.cover, Cover::At("[\"n\"]".to_owned()));
    assert_eq!(shelf.set_cover(&isbns[1], None).await.unwrap().unwrap().cover, Cover::None);
    shelf.remove(&isbns[0]).await.unwrap();
    shelf.add(&isbns[..1]).await.unwrap();
    assert_eq!(shelf.book(&isbns[0]).await.unwrap().unwrap().cover, Cover::At("[\"n\"]".to_owned()));
}

async fn bk_02_the_finds_of_a_search_are_replaced_all_at_once(fixture: &Fixture) {
    let shelf = fixture.shelf();
    assert_eq!(shelf.collect("{\"title\":\"港\"}", &found(&isbns(0..1))).await.unwrap(), None);
    let saved = shelf.save_search("{\"title\":\"港\"}").await.unwrap();
    assert_eq!((saved.finds, saved.found_at, saved.total), (0, None, None));
    let collected = shelf.collect(&saved.search, &found(&isbns(0..1_500))).await.unwrap().unwrap();
    assert_eq!((collected.id, collected.finds, collected.total), (saved.id, 1_500, Some(1_500)));
    assert!(collected.found_at >= Some(collected.asked_at));
    shelf.set_cover("9780000000001", Some("[\"n\"]")).await.unwrap();
    let part = shelf.finds(saved.id, 1, 2).await.unwrap();
    assert_eq!(
        part.iter().map(|find| (find.position, find.isbn.as_str())).collect::<Vec<_>>(),
        [(1, "9780000000001"), (2, "9780000000002")]
    );
    assert_eq!(
        (part[0].cover.clone(), part[1].cover.clone()),
        (Cover::At("[\"n\"]".to_owned()), Cover::Unknown)
    );

    let refreshed = shelf.collect(&saved.search, &found(&isbns(3..5))).await.unwrap().unwrap();
    assert_eq!((refreshed.finds, shelf.finds(saved.id, 0, LIST_MAX).await.unwrap().len()), (2, 2));
    let others = [found(&isbns(0..40)), found(&isbns(40..90))];
    let collected = join_all(others.iter().map(|other| shelf.collect(&saved.search, other))).await;
    assert!(collected.into_iter().all(|collected| collected.unwrap().is_some()));
    assert!([40, 50].contains(&shelf.search(saved.id).await.unwrap().unwrap().finds));
    assert!(shelf.remove_search(saved.id).await.unwrap() && !shelf.remove_search(saved.id).await.unwrap());
    assert_eq!(fixture.finds_kept().await, 0);
}

async fn bk_02_a_search_is_saved_once_and_can_be_changed(fixture: &Fixture) {
    let shelf = fixture.shelf();
    let (one, other) = (shelf.save_search("a").await.unwrap(), shelf.save_search("b").await.unwrap());
    assert_eq!(shelf.save_search("a").await.unwrap().id, one.id);
    assert!(matches!(shelf.change_search(other.id, "a").await, Err(Error::Invalid { field: "search", .. })));
    let changed = shelf.change_search(other.id, "c").await.unwrap().unwrap();
    assert_eq!((changed.id, changed.search.as_str()), (other.id, "c"));
    assert_eq!(shelf.change_search(i64::MAX, "d").await.unwrap(), None);
    let texts: Vec<String> = shelf.searches().await.unwrap().into_iter().map(|saved| saved.search).collect();
    assert_eq!(texts, ["a", "c"]);
}

async fn bk_04_what_breaks_a_bound_of_the_shelf_is_refused(fixture: &Fixture) {
    let shelf = fixture.shelf();
    let refused = |error: Error| assert!(matches!(error, Error::Invalid { .. }), "{error}");
    refused(shelf.add(&isbns(0..ADD_MAX + 1)).await.unwrap_err());
    refused(shelf.add(&[String::new()]).await.unwrap_err());
    refused(shelf.found("9780000000000", &"x".repeat(BOOK_MAX_BYTES + 1)).await.unwrap_err());
    refused(shelf.set_cover("9780000000000", Some("a\0b")).await.unwrap_err());
    refused(shelf.books(None, LIST_MAX + 1).await.unwrap_err());
    refused(shelf.save_search("").await.unwrap_err());
    assert_eq!(shelf.count().await.unwrap(), 0);
}
