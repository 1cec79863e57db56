//! Single entities of shared state, as servers read and write them.

use futures::future::join_all;
use syncline_core::state::{Change, Entry, Kept, ServerWrite, Space, Stamp, Stored, Value};
use syncline_core::time::Timestamp;
use syncline_store::state::{Asked, Batch, Condition, Entity, NEW_EPOCH, Pushed, States, Wrote};

use super::fixture::Fixture;

fn space() -> Space {
    Space::new("cart").unwrap()
}

fn put(text: &str) -> ServerWrite {
    ServerWrite::Put { value: Value::read(text).unwrap(), schema: None }
}

async fn write(states: &dyn States, id: &str, write: ServerWrite, condition: Condition) -> Wrote {
    states.write(&space(), id, write, condition).await.unwrap()
}

fn stored(wrote: Wrote) -> Entity {
    let Wrote::Stored(entity) = wrote else { panic!("{wrote:?}") };
    entity
}

pub(crate) async fn cn_21_a_server_writes_reads_and_removes_and_devices_hear_of_it(fixture: &Fixture) {
    let (states, other) = (fixture.store.states(), fixture.another().await);
    let mut heard = states.listen();
    assert_eq!(states.entity(&space(), "a").await.unwrap(), None);
    assert_eq!(write(&*states, "a", ServerWrite::Remove, Condition::None).await, Wrote::Absent);
    assert_eq!(states.number(&space()).await.unwrap(), 0, "nothing was made");

    let first = stored(write(&*states, "a", put("{\"n\":1.10e2}"), Condition::None).await);
    assert_eq!((first.value.as_str(), first.schema, first.version.number), ("{\"n\":1.10e2}", 1, 1));
    let told = heard.recv().await.unwrap();
    assert_eq!((told.space.as_str(), told.number), ("cart", 1));
    assert_eq!(other.states().entity(&space(), "a").await.unwrap(), Some(first.clone()));

    // A device whose clock is years ahead has the last word, until the server writes again.
    let page = states.pull(&space(), &Asked::default()).await.unwrap();
    let ahead = Stamp::ZERO.after(Timestamp::from_ms(page.now.as_ms() + 10 * 365 * 24 * 3_600_000));
    let Change::Entity { id, mut kept } = page.changes[0].clone() else { panic!() };
    let added = kept.entry.stamp;
    kept.stored = Some(Stored {
        value: Value::read("{\"n\":2}").unwrap(),
        stamp: Some(ahead),
        added: Some(added),
        version: 3,
    });
    let batch = Batch { after: page.cursor, epoch: page.epoch, changes: vec![Change::Entity { id, kept }] };
    assert!(matches!(states.push(&space(), batch).await.unwrap(), Pushed::Taken { cursor: 2, .. }));
    let devices = states.entity(&space(), "a").await.unwrap().unwrap();
    assert_eq!((devices.value.as_str(), devices.schema), ("{\"n\":2}", 3));
    let again = stored(write(&*states, "a", put("{\"n\":3}"), Condition::None).await);
    assert_eq!((again.value.as_str(), again.schema, again.version.number), ("{\"n\":3}", 3, 3));
    assert!(again.changed_at < devices.changed_at, "the time of day counts again");

    assert_eq!(write(&*states, "a", ServerWrite::Remove, Condition::None).await, Wrote::Removed);
    assert_eq!(states.entity(&space(), "a").await.unwrap(), None);
    let page = states.pull(&space(), &Asked::default()).await.unwrap();
    let [Change::Entity { kept: Kept { entry: Entry { live, .. }, .. }, .. }] = &page.changes[..] else {
        panic!("{page:?}")
    };
    assert!(!live, "devices hear of the removal");
    let back = stored(write(&*states, "a", put("{\"n\":4}"), Condition::None).await);
    assert_eq!((back.value.as_str(), back.version.number), ("{\"n\":4}", 5));
}

pub(crate) async fn cn_21_of_two_writers_with_one_condition_one_is_refused(fixture: &Fixture) {
    let states = fixture.store.states();
    let seen = stored(write(&*states, "a", put("{}"), Condition::Absent).await);
    assert_eq!(write(&*states, "a", put("{}"), Condition::Absent).await, Wrote::Changed);
    let same = Condition::Matches(Some(vec![seen.version.clone()]));
    let writers = (0..8).map(|n| {
        let (states, same) = (fixture.store.states(), same.clone());
        async move { write(&*states, "a", put(&format!("{{\"n\":{n}}}")), same).await }
    });
    let wrote = join_all(writers).await;
    assert_eq!(wrote.iter().filter(|wrote| matches!(wrote, Wrote::Stored(_))).count(), 1, "{wrote:?}");
    assert_eq!(wrote.iter().filter(|wrote| **wrote == Wrote::Changed).count(), 7);
    assert_eq!(write(&*states, "a", ServerWrite::Remove, same.clone()).await, Wrote::Changed);
    assert_eq!(write(&*states, "b", put("{}"), Condition::Matches(None)).await, Wrote::Changed);
    assert_eq!(write(&*states, "a", ServerWrite::Remove, Condition::Matches(None)).await, Wrote::Removed);

    // A space that was removed and made anew counts from one again; versions of before fit nothing.
    states.remove(&space()).await.unwrap();
    let anew = stored(write(&*states, "a", put("{}"), Condition::None).await);
    assert_eq!(anew.version.number, seen.version.number);
    assert_eq!(write(&*states, "a", put("{}"), same).await, Wrote::Changed);
}

pub(crate) async fn cn_21_a_listing_leads_through_what_is_there_however_much_was_removed(fixture: &Fixture) {
    let states = fixture.store.states();
    let text = format!("{{\"t\":\"{}\"}}", "x".repeat(100_000));
    for n in 0..40 {
        write(&*states, &format!("id {n:02}"), put(&text), Condition::None).await;
    }
    for n in (0..40).filter(|n| n % 4 != 0) {
        write(&*states, &format!("id {n:02}"), ServerWrite::Remove, Condition::None).await;
    }
    for limit in [1, 3, 7, 1_000] {
        let (mut found, mut after, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let page = states.entities(&space(), &after, limit).await.unwrap();
            let bytes: usize = page.entities.iter().map(|entity| entity.value.len()).sum();
            assert!(bytes < 1_000_000 && page.entities.len() <= limit, "{bytes}");
            pages += 1;
            found.extend(page.entities.into_iter().map(|entity| entity.id));
            let Some(next) = page.next else { break };
            after = next;
        }
        let expected: Vec<String> = (0..40).step_by(4).map(|n| format!("id {n:02}")).collect();
        assert_eq!(found, expected, "{limit}");
        assert!(pages > 1, "{limit}");
    }
    assert_eq!(states.entities(&Space::new("none").unwrap(), "", 10).await.unwrap().entities, []);
}

pub(crate) async fn cn_21_many_first_writers_of_a_space_all_get_in(fixture: &Fixture) {
    let writers = (0..6).map(|n| {
        let states = fixture.store.states();
        async move { write(&*states, &format!("a{n}"), put("{}"), Condition::None).await }
    });
    for wrote in join_all(writers).await {
        assert_ne!(stored(wrote).version.epoch, NEW_EPOCH);
    }
    assert_eq!(fixture.store.states().number(&space()).await.unwrap(), 6);
}
