//! Shared state: batches, pages, and what is told.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use sqlx::AssertSqlSafe;
use syncline_core::state::names::{DELTA_MAX, HORIZON, VALUE_MAX_BYTES};
use syncline_core::state::{Change, Entry, Kept, Space, Stamp, Start, Stored, Value};
use syncline_core::time::Timestamp;
use syncline_store::state::{
    Asked, BATCH_MAX, Batch, Listed, NEW_EPOCH, Page, Pushed, SPACE_ENTITIES_MAX, SpaceChanged, States,
};
use syncline_store::{Backend, Store};

use super::fixture::Fixture;

fn space() -> Space {
    Space::new("list").unwrap()
}

fn stamp(ms: u64) -> Stamp {
    Stamp::ZERO.after(Timestamp::from_ms(ms))
}

fn now_ms() -> u64 {
    u64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}

fn put(id: &str, text: &str, ms: u64) -> Change {
    let stored =
        Stored { value: Value::read(text).unwrap(), stamp: Some(stamp(ms)), added: None, version: 1 };
    let entry = Entry { stamp: stamp(ms), live: true };
    Change::Entity { id: id.to_owned(), kept: Kept { entry, stored: Some(stored) } }
}

fn gone(id: &str, ms: u64) -> Change {
    let entry = Entry { stamp: stamp(ms), live: false };
    Change::Entity { id: id.to_owned(), kept: Kept { entry, stored: None } }
}

/// A device that has everything up to where the log is.
async fn up_to_date(states: &dyn States) -> Asked {
    let (mut asked, mut more) = (Asked::default(), true);
    while more {
        let page = states.pull(&space(), &asked).await.unwrap();
        more = page.more;
        asked = Asked { after: page.cursor, epoch: Some(page.epoch), paging: more };
    }
    asked
}

async fn push(store: &Store, changes: Vec<Change>) -> Pushed {
    let states = store.states();
    let asked = up_to_date(&*states).await;
    states.push(&space(), Batch { after: asked.after, epoch: asked.epoch.unwrap(), changes }).await.unwrap()
}

async fn everything(store: &Store) -> Page {
    store.states().pull(&space(), &Asked::default()).await.unwrap()
}

fn taken(pushed: &Pushed) -> (u64, u64, u64) {
    let Pushed::Taken { from, cursor, ahead, .. } = pushed else { panic!("{pushed:?}") };
    (*from, *cursor, *ahead)
}

pub(crate) async fn st_23_what_one_device_sends_another_gets_and_the_same_again_is_no_news(
    fixture: &Fixture,
) {
    let store = &fixture.store;
    let first = everything(store).await;
    assert_eq!((first.start, first.cursor, first.more, first.changes.len()), (Start::Unknown, 0, false, 0));
    let now = now_ms();
    let changes = vec![put("a", "{\"n\":1}", now), put("é\"日", "{\"t\":\"x\\u0000\"}", now + 1)];
    assert_eq!(taken(&push(store, changes.clone()).await), (0, 2, 0));
    assert_eq!(taken(&push(store, changes.clone()).await), (2, 2, 0), "no news");
    let again = fixture.another().await;
    assert_eq!(first.epoch, NEW_EPOCH);
    let first = everything(store).await;
    let asked = Asked { after: 0, epoch: Some(first.epoch.clone()), paging: false };
    let page = again.states().pull(&space(), &asked).await.unwrap();
    assert_eq!((page.start, page.cursor, &page.changes), (Start::After(0), 2, &changes));
    assert!(page.now.as_ms().abs_diff(now) < 60_000);
    let asked = Asked { after: 1, ..asked };
    assert_eq!(again.states().pull(&space(), &asked).await.unwrap().changes, changes[1..]);
    assert_eq!(again.states().number(&space()).await.unwrap(), 2);
    let other = Space::new("other").unwrap();
    assert_eq!(again.states().number(&other).await.unwrap(), 0);
    assert_ne!(again.states().pull(&other, &Asked::default()).await.unwrap().epoch, first.epoch);
    // Numbers of another log, or beyond this one, say nothing here.
    for (after, epoch) in [(1, "else"), (99, first.epoch.as_str())] {
        let asked = Asked { after, epoch: Some(epoch.to_owned()), paging: false };
        assert_eq!(store.states().pull(&space(), &asked).await.unwrap().start, Start::Unknown);
        let batch = Batch { after, epoch: epoch.to_owned(), changes: changes.clone() };
        assert_eq!(store.states().push(&space(), batch).await.unwrap(), Pushed::Reload);
    }
}

pub(crate) async fn st_23_the_later_change_counts_and_clocks_ahead_do_not_win_for_ever(fixture: &Fixture) {
    let (store, now) = (&fixture.store, now_ms());
    push(store, vec![put("a", "{\"n\":1}", now - 500), put("b", "{\"n\":1}", now - 500)]).await;
    assert_eq!(taken(&push(store, vec![put("a", "{\"n\":0}", now - 900)]).await), (2, 2, 0));
    push(store, vec![gone("b", now - 400)]).await;
    // An edit of what is gone, however late, is kept in case it is added again, and shows nothing.
    let Change::Entity { id, mut kept } = put("b", "{\"n\":2}", now - 500) else { panic!() };
    let stored = kept.stored.as_mut().unwrap();
    (stored.stamp, stored.added) = (Some(stamp(now)), stored.stamp);
    assert_eq!(taken(&push(store, vec![Change::Entity { id, kept }]).await), (3, 4, 0));
    // From ten years ahead: taken as it is, but it does not win for ever.
    let year = 365 * 24 * 3_600_000;
    assert_eq!(taken(&push(store, vec![put("a", "{\"n\":66}", now + 10 * year)]).await), (4, 5, 1));
    let Change::Entity { id, mut kept } = put("a", "{\"n\":2}", now) else { panic!() };
    kept.stored.as_mut().unwrap().stamp = Some(Stamp::of(1, Timestamp::from_ms(now + 1)));
    assert_eq!(taken(&push(store, vec![Change::Entity { id, kept }]).await), (5, 6, 0));
    // A device that should have known better is told; one that had not asked yet is not.
    let asked = up_to_date(&*store.states()).await;
    for (after, expected) in [(asked.after, true), (1, false)] {
        let changes = vec![put("a", "{\"n\":0}", now - 900)];
        let batch = Batch { after, epoch: asked.epoch.clone().unwrap(), changes };
        let pushed = store.states().push(&space(), batch).await.unwrap();
        assert!(matches!(pushed, Pushed::Taken { lost, .. } if lost == expected), "{pushed:?}");
    }
    let changes = everything(store).await.changes;
    let text =
        |change: &Change| if let Change::Entity { kept, .. } = change { kept.stored.clone() } else { None };
    assert_eq!(changes.iter().map(Change::id).collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!(text(&changes[0]), None);
    assert_eq!(text(&changes[1]).unwrap().value.text(), "{\"n\":2}");
}

pub(crate) async fn st_23_a_reset_takes_everything_before_it(fixture: &Fixture) {
    let (store, now) = (&fixture.store, now_ms());
    push(store, (0..20).map(|n| put(&format!("id{n}"), "{}", now)).collect()).await;
    let batch =
        vec![Change::Reset(stamp(now + 10)), put("id3", "{\"n\":1}", now + 20), put("late", "{}", now + 5)];
    assert_eq!(taken(&push(store, batch).await), (20, 22, 0));
    let page = everything(store).await;
    assert_eq!(page.changes.len(), 2);
    assert_eq!((&page.changes[0], page.changes[1].id()), (&Change::Reset(stamp(now + 10)), "id3"));
    assert_eq!(taken(&push(store, vec![Change::Reset(stamp(now + 9))]).await), (22, 22, 0));
    assert_eq!(fixture.rows("syncline.state_entities").await, 1);
}

pub(crate) async fn st_23_pages_hold_everything_however_much_it_is(fixture: &Fixture) {
    let (store, now) = (&fixture.store, now_ms());
    let large = format!("{{\"t\":\"{}\"}}", "x".repeat(VALUE_MAX_BYTES - 100));
    push(store, (0..5).map(|n| put(&format!("large{n}"), &large, now)).collect()).await;
    for chunk in 0..3 {
        push(store, (0..DELTA_MAX).map(|n| put(&format!("id{chunk}-{n}"), "{}", now)).collect()).await;
    }
    let (mut asked, mut seen, mut pages) = (Asked::default(), BTreeSet::new(), 0);
    loop {
        let page = store.states().pull(&space(), &asked).await.unwrap();
        let bytes: usize = page.changes.iter().map(|change| change.id().len()).sum();
        assert!(page.changes.len() <= DELTA_MAX + 1 && bytes < VALUE_MAX_BYTES);
        for change in &page.changes {
            assert!(seen.insert(change.id().to_owned()), "{} came twice", change.id());
        }
        pages += 1;
        if !page.more {
            break;
        }
        asked = Asked { after: page.cursor, epoch: Some(page.epoch), paging: true };
    }
    assert_eq!(seen.len(), 5 + 3 * DELTA_MAX);
    assert!(pages > 4, "{pages}");
}

pub(crate) async fn st_23_a_device_that_missed_forgotten_removals_has_to_ask_first(fixture: &Fixture) {
    let (store, now) = (&fixture.store, now_ms());
    let long_ago = now - u64::try_from(HORIZON.as_millis()).unwrap() - 60_000;
    push(store, vec![put("a", "{}", long_ago - 1), put("b", "{}", long_ago - 1)]).await;
    let away = up_to_date(&*store.states()).await;
    // The same in a later era, which begins when somebody's clock was wrong.
    let later = |id: &str, ms| {
        let entry = Entry { stamp: Stamp::of(3, Timestamp::from_ms(ms)), live: false };
        Change::Entity { id: id.to_owned(), kept: Kept { entry, stored: None } }
    };
    push(store, vec![gone("a", long_ago), gone("c", now), later("d", long_ago), later("e", now)]).await;
    let states = store.states();
    assert_eq!(states.forget(100).await.unwrap(), 2);
    assert_eq!(states.forget(100).await.unwrap(), 0);
    let page = states.pull(&space(), &away).await.unwrap();
    assert_eq!(page.start, Start::Whole);
    assert_eq!(page.changes.iter().map(Change::id).collect::<Vec<_>>(), ["b", "c", "e"]);
    let batch =
        Batch { after: away.after, epoch: away.epoch.clone().unwrap(), changes: vec![put("a", "{}", now)] };
    assert_eq!(states.push(&space(), batch).await.unwrap(), Pushed::Reload);
    // In the middle of being given everything it is not sent back to the beginning.
    let paging = Asked { paging: true, ..away };
    assert!(matches!(states.pull(&space(), &paging).await.unwrap().start, Start::After(_)));
}

pub(crate) async fn st_23_numbers_are_seen_in_order_whoever_writes(fixture: &Fixture) {
    let (store, other, now) = (&fixture.store, fixture.another().await, now_ms());
    push(store, vec![put("first", "{}", now)]).await;
    let epoch = everything(store).await.epoch;
    let writers = (0..8).map(|writer| {
        let states = if writer % 2 == 0 { store.states() } else { other.states() };
        let epoch = epoch.clone();
        async move {
            for n in 0..10 {
                let changes = vec![
                    put(&format!("w{writer}-{n}"), "{}", now + n),
                    put("shared", &format!("{{\"n\":{writer}}}"), now + n),
                ];
                let batch = Batch { after: 0, epoch: epoch.clone(), changes };
                taken(&states.push(&space(), batch).await.unwrap());
            }
        }
    });
    let reader = async {
        let states = store.states();
        let (mut asked, mut seen) =
            (Asked { epoch: Some(epoch.clone()), ..Asked::default() }, BTreeSet::new());
        while seen.len() < 82 {
            let page = states.pull(&space(), &asked).await.unwrap();
            seen.extend(page.changes.iter().map(|change| change.id().to_owned()));
            assert!(page.cursor >= asked.after);
            asked.after = page.cursor;
        }
    };
    let read = tokio::time::timeout(Duration::from_secs(60), reader);
    let (read, _) = tokio::join!(read, join_all(writers));
    read.expect("a reader that asks after what it has seen misses nothing");
}

pub(crate) async fn st_23_news_is_heard_here_and_elsewhere(fixture: &Fixture) {
    let other = fixture.another().await;
    let (mut here, mut there) = (fixture.store.states().listen(), other.states().listen());
    push(&fixture.store, vec![put("a", "{}", now_ms())]).await;
    assert_eq!(here.recv().await.unwrap(), SpaceChanged { space: "list".to_owned(), number: 1 });
    push(&fixture.store, vec![]).await;
    assert!(here.try_recv().is_err(), "no news is not told");
    // Other nodes hear it where the database can tell them: not from a file, and not through a pooler.
    if fixture.tells_others() {
        let mut n = 1;
        loop {
            // The listener may not have been there yet.
            n += 1;
            push(&fixture.store, vec![put("a", &format!("{{\"n\":{n}}}"), now_ms() + n)]).await;
            let heard = tokio::time::timeout(Duration::from_millis(500), there.recv()).await;
            if heard.is_ok_and(|heard| heard.unwrap().space == "list") {
                break;
            }
            assert!(n < 100, "never heard");
        }
    }
}

pub(crate) async fn st_23_what_breaks_a_bound_of_a_space_is_refused(fixture: &Fixture) {
    let (store, now) = (&fixture.store, now_ms());
    let states = store.states();
    let epoch = everything(store).await.epoch;
    let changes: Vec<Change> = (0..=BATCH_MAX).map(|n| put(&format!("id{n}"), "{}", now)).collect();
    let refused = states.push(&space(), Batch { after: 0, epoch: epoch.clone(), changes }).await;
    assert!(matches!(refused, Err(syncline_store::Error::Invalid { field: "changes", .. })));
    push(store, vec![put("a", "{}", now)]).await;
    fixture.execute("UPDATE syncline.state_spaces SET entities = 200000").await;
    let room = push(store, vec![Change::Reset(stamp(now - 1)), put("b", "{}", now)]).await;
    assert_eq!(taken(&room), (1, 3, 0), "what there really is, is counted after a reset");
    fixture.execute("UPDATE syncline.state_spaces SET entities = 200000").await;
    assert_eq!(push(store, vec![put("c", "{}", now)]).await, Pushed::Full);
    assert_eq!(everything(store).await.cursor, 3);
    assert!(states.forget(syncline_store::state::FORGET_MAX + 1).await.is_err());
}

/// Asking used to make a space: any page could use up all of them, and none could be removed.
pub(crate) async fn st_23_asking_makes_no_space_and_what_was_made_can_be_removed(fixture: &Fixture) {
    let store = &fixture.store;
    let states = store.states();
    for _ in 0..2 {
        let page = everything(store).await;
        assert_eq!((page.epoch.as_str(), page.cursor, page.start), (NEW_EPOCH, 0, Start::Unknown));
    }
    let asked = Asked { after: 0, epoch: Some(NEW_EPOCH.to_owned()), paging: false };
    assert_eq!(states.pull(&space(), &asked).await.unwrap().start, Start::After(0), "nothing is news");
    let nothing = Batch { after: 0, epoch: NEW_EPOCH.to_owned(), changes: vec![] };
    assert_eq!(taken(&states.push(&space(), nothing).await.unwrap()), (0, 0, 0));
    assert_eq!(fixture.rows("syncline.state_spaces").await, 0);
    // Of many devices that find nothing one is first, and the others ask again.
    let batch = |n| Batch {
        after: 0,
        epoch: NEW_EPOCH.to_owned(),
        changes: vec![put(&format!("id{n}"), "{}", now_ms())],
    };
    let pushed = join_all((0..8).map(|n| {
        let states = &states;
        async move { states.push(&space(), batch(n)).await.unwrap() }
    }))
    .await;
    let first = pushed.iter().filter(|pushed| matches!(pushed, Pushed::Taken { .. })).count();
    assert_eq!(first, 1, "{pushed:?}");
    assert!(pushed.iter().all(|pushed| matches!(pushed, Pushed::Taken { .. } | Pushed::Reload)));
    let listed = states.list("", 10).await.unwrap();
    let [Listed { name, entities: 1, number: 1, .. }] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!(name, "list");
    assert!(states.list("list", 10).await.unwrap().is_empty());
    let epoch = everything(store).await.epoch;
    assert!(states.remove(&space()).await.unwrap());
    assert!(!states.remove(&space()).await.unwrap());
    assert_eq!(
        (fixture.rows("syncline.state_spaces").await, fixture.rows("syncline.state_entities").await),
        (0, 0)
    );
    // A device of the old log is not believed, even when the new one has got further.
    push(store, (0..5).map(|n| put(&format!("id{n}"), "{}", now_ms())).collect()).await;
    let old = Asked { after: 1, epoch: Some(epoch), paging: false };
    assert_eq!(states.pull(&space(), &old).await.unwrap().start, Start::Unknown);
}

/// Puts removals into the space until it is full.
async fn crowd_with_removals(fixture: &Fixture, ms: u64) {
    let numbers = match fixture.store.backend() {
        Backend::Sqlite => {
            "WITH RECURSIVE series (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM series WHERE n < 200000) SELECT"
        }
        Backend::Postgres => "WITH series AS (SELECT generate_series(2, 200000) AS n) SELECT",
    };
    let live = if fixture.store.backend() == Backend::Sqlite { "0" } else { "false" };
    let sql = format!(
        "INSERT INTO syncline.state_entities (space, id, stamp, live, value, bytes, number) {numbers} \
         'list', 'gone' || n, '{}', {live}, NULL, 8, n FROM series; \
         UPDATE syncline.state_spaces SET last = 200000, entities = 200000",
        stamp(ms).text()
    );
    let sql = fixture.named(&sql);
    assert_eq!(SPACE_ENTITIES_MAX, 200_000);
    match fixture.store.backend() {
        Backend::Sqlite => {
            fixture.sqlite_connection().execute_batch(&sql).unwrap();
        }
        Backend::Postgres => {
            let mut connection = fixture.postgres_connection().await;
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        }
    }
}

/// Removals of things that never were used to fill a space for good: a removal is a row as well, and removing could not help.
pub(crate) async fn st_23_removals_give_way_to_what_is_there(fixture: &Fixture) {
    let (store, now) = (&fixture.store, now_ms());
    push(store, vec![put("first", "{}", now - 1_000)]).await;
    let behind = up_to_date(&*store.states()).await;
    // As if 200,000 had been removed, without sending them all.
    crowd_with_removals(fixture, now - 500).await;
    let states = store.states();
    // A device that has everything, without reading it all.
    let send = async |changes: Vec<Change>| {
        let (after, epoch) = (states.number(&space()).await.unwrap(), behind.epoch.clone().unwrap());
        states.push(&space(), Batch { after, epoch, changes }).await.unwrap()
    };
    let pushed = send(vec![put("second", "{}", now), gone("first", now)]).await;
    assert_eq!(taken(&pushed), (200_000, 200_002, 0));
    let never_there = (0..DELTA_MAX).map(|n| gone(&format!("never{n}"), now)).collect();
    assert!(matches!(send(never_there).await, Pushed::Taken { .. }));
    assert!(matches!(send(vec![put("third", "{}", now + 1)]).await, Pushed::Taken { .. }));
    // A device that has not heard of the forgotten ones is given everything.
    let page = states.pull(&space(), &behind).await.unwrap();
    assert_eq!(page.start, Start::Whole);
    assert!(states.list("", 1).await.unwrap()[0].entities <= SPACE_ENTITIES_MAX.unsigned_abs());
}
