//! The audit, keys and revocations.

use std::time::Duration;

use syncline_store::Error;
use syncline_store::access::AccessStore;
use syncline_store::access::audit::{
    AuditAsked, AuditRecord, FIELD_MAX_CHARS, Outcome, PAGE_MAX, SCAN_MAX, STEP_MAX,
};
use syncline_store::access::keys::{KeyUse, STORED_KEYS_MAX, StoredKey};
use syncline_store::access::revocations::NewRevocation;

use super::fixture::Fixture;

fn record(name: &str, thing: &str, outcome: Outcome) -> AuditRecord {
    AuditRecord {
        node: "node-1".to_owned(),
        kind: "key",
        name: name.to_owned(),
        subject: Some(name.to_owned()),
        system: "lock".to_owned(),
        verb: "force".to_owned(),
        thing: thing.to_owned(),
        action: "POST /api/locks/{name}/release".to_owned(),
        address: Some("192.0.2.1".to_owned()),
        origin: None,
        outcome,
        code: String::new(),
        count: 1,
    }
}

fn asked(limit: usize) -> AuditAsked {
    AuditAsked { limit, ..AuditAsked::default() }
}

async fn things(access: &AccessStore, asked: AuditAsked) -> Vec<String> {
    access.page(asked).await.unwrap().rows.into_iter().map(|row| row.thing).collect()
}

pub(crate) async fn ac_13_what_was_begun_is_there_before_it_ended_and_is_settled_once(fixture: &Fixture) {
    let access = fixture.store.access();
    let id = access.begin(record("box", "doc:1", Outcome::Begun)).await.unwrap();
    let seen = fixture.another().await.access().page(asked(10)).await.unwrap();
    assert_eq!((seen.rows.len(), seen.rows[0].id, seen.rows[0].outcome.as_str()), (1, id, "begun"));
    assert!(seen.rows[0].at_ms > 1_600_000_000_000, "the store's time of day");
    access.settle(id, Outcome::Done, "").await.unwrap();
    access.settle(id, Outcome::Failed, "late").await.unwrap();
    let row = access.page(asked(10)).await.unwrap().rows.remove(0);
    assert_eq!((row.outcome.as_str(), row.code.as_str()), ("done", ""), "the first word counts");
}

pub(crate) async fn ac_13_pages_lead_through_everything_newest_first_and_filters_hold(fixture: &Fixture) {
    let access = fixture.store.access();
    let mut records: Vec<AuditRecord> =
        (0..25).map(|n| record("box", &format!("doc:{n}"), Outcome::Done)).collect();
    records[7] = AuditRecord {
        system: "state".to_owned(),
        count: 12,
        ..record("shop", "100%_Cart", Outcome::Refused)
    };
    records[7].subject = Some("person-9".to_owned());
    access.record(records).await.unwrap();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = access.page(AuditAsked { after, ..asked(4) }).await.unwrap();
        seen.extend(page.rows.iter().map(|row| row.thing.clone()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((seen.len(), seen[0].as_str(), seen[24].as_str()), (25, "doc:24", "doc:0"));
    let text = |text: &str| Some(text.to_owned());
    let cart = ["100%_Cart"];
    for one in [
        AuditAsked { text: text("%_cA"), ..asked(10) },
        AuditAsked { system: text("state"), ..asked(10) },
        AuditAsked { who: text("person-9"), ..asked(10) },
        AuditAsked { who: text("shop"), ..asked(10) },
        AuditAsked { outcome: Some(Outcome::Refused), ..asked(10) },
    ] {
        assert_eq!(things(&access, one.clone()).await, cart, "{one:?}");
    }
    let none = AuditAsked { text: text("d_c:"), ..asked(10) };
    assert!(things(&access, none).await.is_empty(), "a pattern's signs are letters like others");
    let both = AuditAsked { who: text("shop"), outcome: Some(Outcome::Done), ..asked(10) };
    assert!(things(&access, both).await.is_empty(), "every filter has to fit");
    let newest = access.page(asked(1)).await.unwrap().rows[0].id;
    assert_eq!(access.page(AuditAsked { newer: Some(newest), ..asked(10) }).await.unwrap().rows, []);
    assert_eq!(things(&access, AuditAsked { newer: Some(newest - 2), ..asked(10) }).await.len(), 2);
}

pub(crate) async fn ac_13_strangers_texts_are_kept_on_one_line_and_cut(fixture: &Fixture) {
    let access = fixture.store.access();
    let long = "x".repeat(10_000);
    let odd =
        AuditRecord { origin: Some("a\0b\u{7}\nc".to_owned()), ..record("box", &long, Outcome::Refused) };
    access.record(vec![odd]).await.unwrap();
    let row = access.page(asked(1)).await.unwrap().rows.remove(0);
    assert_eq!((row.thing.len(), row.origin.as_deref()), (FIELD_MAX_CHARS, Some("a b c")));
    let zero = AuditAsked { text: Some("\0".to_owned()), who: Some("\0".to_owned()), ..asked(1) };
    assert!(access.page(zero).await.is_ok());
    let many = vec![record("box", "doc", Outcome::Done); STEP_MAX + 1];
    assert!(matches!(access.record(many).await, Err(Error::Invalid { .. })));
    for limit in [0, PAGE_MAX + 1] {
        assert!(matches!(access.page(asked(limit)).await, Err(Error::Invalid { .. })), "{limit}");
    }
}

pub(crate) async fn ac_13_a_page_looks_at_a_bounded_number_of_rows_and_says_where_to_go_on(
    fixture: &Fixture,
) {
    let access = fixture.store.access();
    access.record(vec![record("needle", "doc", Outcome::Done)]).await.unwrap();
    for _ in 0..SCAN_MAX as usize / STEP_MAX {
        access.record(vec![record("hay", "doc", Outcome::Done); STEP_MAX]).await.unwrap();
    }
    let needle = AuditAsked { who: Some("needle".to_owned()), ..asked(10) };
    let first = access.page(needle.clone()).await.unwrap();
    assert!(first.rows.is_empty() && first.next.is_some());
    let second = access.page(AuditAsked { after: first.next, ..needle }).await.unwrap();
    assert_eq!((second.rows.len(), second.next), (1, None));
}

pub(crate) async fn ac_13_what_is_old_is_pruned_in_steps(fixture: &Fixture) {
    let access = fixture.store.access();
    access.record(vec![record("box", "doc", Outcome::Done); 25]).await.unwrap();
    assert_eq!(access.prune(10).await.unwrap(), 0, "nothing is 90 days old");
    // Before their own time: everything is older than a moment to come.
    let at_once = Duration::ZERO;
    super::fixture::until("a millisecond has passed", async || {
        access.prune_older_than(at_once, 10).await.unwrap() == 10
    })
    .await;
    assert_eq!(access.page(asked(100)).await.unwrap().rows.len(), 15);
    assert_eq!(access.prune_older_than(at_once, 10).await.unwrap(), 10);
    assert_eq!(access.prune_older_than(at_once, 10).await.unwrap(), 5);
}

fn key(name: &str) -> StoredKey {
    StoredKey {
        name: name.to_owned(),
        hash: format!("sha256:{name}"),
        may: vec!["state:a:read".to_owned(), "lock:*:see".to_owned()],
        public: name.starts_with("public"),
        origins: vec!["https://shop.example".to_owned()],
        created_at_ms: 0,
        created_by: "owner".to_owned(),
    }
}

pub(crate) async fn ac_04_a_stored_key_is_listed_until_it_is_removed_and_others_see_the_number_grow(
    fixture: &Fixture,
) {
    let access = fixture.store.access();
    let elsewhere = fixture.another().await.access();
    let before = elsewhere.version().await.unwrap();
    assert!(access.add_key(key("box")).await.unwrap());
    assert!(access.add_key(key("public-menu")).await.unwrap());
    assert!(!access.add_key(StoredKey { hash: "sha256:other".to_owned(), ..key("box") }).await.unwrap());
    assert!(
        !access.add_key(StoredKey { name: "twin".to_owned(), ..key("box") }).await.unwrap(),
        "its hash is taken"
    );
    let after = elsewhere.version().await.unwrap();
    assert_eq!(after, before + 2, "what changed nothing is no news");
    let listed = elsewhere.keys().await.unwrap();
    assert!(listed[0].created_at_ms > 1_600_000_000_000);
    let listed: Vec<StoredKey> =
        listed.into_iter().map(|one| StoredKey { created_at_ms: 0, ..one }).collect();
    assert_eq!(listed, [key("box"), key("public-menu")]);
    assert!(access.remove_key("box").await.unwrap());
    assert!(!access.remove_key("box").await.unwrap());
    assert_eq!(elsewhere.keys().await.unwrap().len(), 1);
    assert_eq!(elsewhere.version().await.unwrap(), after + 1);
}

pub(crate) async fn ac_04_the_last_use_of_a_key_is_the_latest_that_anybody_reported(fixture: &Fixture) {
    let access = fixture.store.access();
    let used = |at_ms, from: &str| KeyUse {
        name: "box".to_owned(),
        used_at_ms: at_ms,
        used_from: Some(from.to_owned()),
    };
    access.note_uses(vec![used(2_000, "192.0.2.2")]).await.unwrap();
    access.note_uses(vec![used(1_000, "192.0.2.1")]).await.unwrap();
    assert_eq!(access.uses().await.unwrap(), [used(2_000, "192.0.2.2")]);
    access.note_uses(vec![used(3_000, "192.0.2.3")]).await.unwrap();
    assert_eq!(access.uses().await.unwrap(), [used(3_000, "192.0.2.3")]);
}

pub(crate) async fn ac_04_there_is_a_most_of_keys(fixture: &Fixture) {
    let access = fixture.store.access();
    for n in 0..STORED_KEYS_MAX {
        assert!(access.add_key(key(&format!("box-{n}"))).await.unwrap());
    }
    assert!(matches!(access.add_key(key("one-more")).await, Err(Error::Invalid { .. })));
    access.remove_key("box-0").await.unwrap();
    assert!(access.add_key(key("one-more")).await.unwrap());
}

fn revocation(kind: &'static str, value: &str) -> NewRevocation {
    NewRevocation {
        kind,
        scope: "shop".to_owned(),
        value: value.to_owned(),
        issued_before_ms: None,
        made_by: "owner".to_owned(),
        lasts: Some(Duration::from_secs(3_600)),
    }
}

pub(crate) async fn ac_11_what_was_taken_back_is_seen_elsewhere_until_it_ends(fixture: &Fixture) {
    let access = fixture.store.access();
    let elsewhere = fixture.another().await.access();
    let before = elsewhere.version().await.unwrap();
    let token = access.revoke(revocation("token", "id-1")).await.unwrap();
    let brief = NewRevocation { lasts: Some(Duration::from_millis(1)), ..revocation("token", "id-2") };
    access.revoke(brief).await.unwrap();
    assert_eq!(elsewhere.version().await.unwrap(), before + 2);
    super::fixture::until("the brief one has ended", async || {
        elsewhere.revocations().await.unwrap() == [token.clone()]
    })
    .await;
    assert_eq!(access.forget_revocations().await.unwrap(), 1);
    assert_eq!(access.forget_revocations().await.unwrap(), 0);
    assert!(access.remove_revocation(token.id).await.unwrap());
    assert!(!access.remove_revocation(token.id).await.unwrap());
    assert!(elsewhere.revocations().await.unwrap().is_empty());
    assert_eq!(elsewhere.version().await.unwrap(), before + 3);
}

pub(crate) async fn ac_11_of_two_revocations_of_a_subject_the_later_time_counts(fixture: &Fixture) {
    let access = fixture.store.access();
    let at = |ms| NewRevocation { issued_before_ms: Some(ms), ..revocation("subject", "7") };
    let first = access.revoke(at(5_000)).await.unwrap();
    let again = access.revoke(at(3_000)).await.unwrap();
    assert_eq!((again.id, again.issued_before_ms), (first.id, 5_000));
    assert_eq!(access.revoke(at(9_000)).await.unwrap().issued_before_ms, 9_000);
    let for_ever = NewRevocation { lasts: None, ..at(1) };
    assert_eq!(access.revoke(for_ever).await.unwrap().ends_at_ms, None);
    assert_eq!(access.revoke(at(2)).await.unwrap().ends_at_ms, None, "what never ends stays so");
    assert_eq!(access.revocations().await.unwrap().len(), 1);
}
