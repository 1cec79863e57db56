//! Leases and their tokens.

use std::time::Duration;

use futures::future::join_all;
use syncline_core::lock::{LeaseId, Name, Refused, Token, Ttl};
use syncline_store::lock::{Acquired, HOLDER_MAX_BYTES, LIST_MAX, Locks, Request, SWEEP_MAX};
use syncline_store::{Backend, Error};

use super::fixture::{Fixture, until};

const LONG: Duration = Duration::from_secs(3_600);

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn lease() -> LeaseId {
    LeaseId::from_random(rand::random())
}

async fn ask(locks: &dyn Locks, name: &Name, lease: LeaseId, ttl: Ttl) -> Acquired {
    locks.acquire(Request { name, lease, holder: "ann", ttl, waits: false }).await.unwrap()
}

/// Takes a lock that is known to be free.
async fn take(locks: &dyn Locks, name: &Name, ttl: Ttl) -> (LeaseId, Token) {
    let lease = lease();
    match ask(locks, name, lease, ttl).await {
        Acquired::Granted { token } => (lease, token),
        refused => panic!("{name}: {refused:?}"),
    }
}

pub(crate) async fn lk_20_of_many_that_ask_at_once_one_is_granted(fixture: &Fixture) {
    let stores = [fixture.store.clone(), fixture.another().await];
    let (project, mut last) = (name("project"), Token::NONE);
    for _ in 0..10 {
        let asking = join_all((0..20).map(|n| {
            let (locks, project) = (stores[n % 2].locks(), project.clone());
            tokio::spawn(async move {
                let lease = lease();
                (lease, ask(&*locks, &project, lease, Ttl::DEFAULT).await)
            })
        }))
        .await;
        let (mut granted, mut held) = (Vec::new(), Vec::new());
        for answer in asking {
            match answer.unwrap() {
                (lease, Acquired::Granted { token }) => granted.push((lease, token)),
                (_, Acquired::Held(holding)) => held.push(holding.token),
                (_, quiet @ Acquired::Quiet { .. }) => panic!("{quiet:?}"),
            }
        }
        let [(lease, token)] = granted[..] else { panic!("{granted:?}") };
        assert!(token > last, "{token} after {last}");
        assert!(held.iter().all(|seen| *seen == token), "{held:?}");
        last = token;
        assert_eq!(stores[1].locks().release(&project, lease).await.unwrap(), Ok(token));
    }
}

pub(crate) async fn lk_23_the_rule_of_the_record_holds_in_the_store(fixture: &Fixture) {
    let locks = fixture.store.locks();
    let project = name("project");
    let (ann, token) = take(&*locks, &project, Ttl::DEFAULT).await;
    let bob = lease();
    let Acquired::Held(held) = ask(&*locks, &project, bob, Ttl::DEFAULT).await else { panic!("two holders") };
    assert_eq!((held.name.as_str(), held.holder.as_str(), held.token), ("project", "ann", token));
    assert!(held.left <= Ttl::DEFAULT.duration() && held.left > Duration::ZERO, "{held:?}");

    assert_eq!(locks.renew(&project, bob, Ttl::DEFAULT).await.unwrap(), Err(Refused::NotHolder));
    assert_eq!(locks.release(&project, bob).await.unwrap(), Err(Refused::NotHolder));
    assert_eq!(locks.renew(&project, ann, Ttl::MAX).await.unwrap(), Ok(token));
    assert!(locks.look(&project).await.unwrap().unwrap().left > Ttl::DEFAULT.duration());
    assert_eq!(locks.renew(&project, ann, Ttl::MIN).await.unwrap(), Ok(token), "shorter is possible too");
    until("it has expired", async || locks.look(&project).await.unwrap().is_none()).await;
    assert_eq!(locks.renew(&project, ann, Ttl::DEFAULT).await.unwrap(), Err(Refused::Expired));
    assert_eq!(locks.release(&project, ann).await.unwrap(), Err(Refused::Expired));

    let (carl, next) = take(&*locks, &project, Ttl::DEFAULT).await;
    assert!(next > token);
    // What the expired holder does changes nothing.
    assert_eq!(locks.release(&project, ann).await.unwrap(), Err(Refused::NotHolder));
    assert_eq!(locks.look(&project).await.unwrap().unwrap().token, next);
    assert_eq!(locks.release(&project, carl).await.unwrap(), Ok(next));
    assert_eq!(locks.release(&project, carl).await.unwrap(), Err(Refused::NotHolder));
    assert_eq!(locks.renew(&name("never"), ann, Ttl::DEFAULT).await.unwrap(), Err(Refused::NotHolder));
}

pub(crate) async fn lk_23_asking_twice_with_one_lease_is_asking_once(fixture: &Fixture) {
    let locks = fixture.store.locks();
    let project = name("project");
    let (lease, token) = take(&*locks, &project, Ttl::MIN).await;
    assert_eq!(ask(&*locks, &project, lease, Ttl::DEFAULT).await, Acquired::Granted { token });
    assert!(
        locks.look(&project).await.unwrap().unwrap().left > Ttl::MIN.duration(),
        "counted from the second"
    );
    locks.release(&project, lease).await.unwrap().unwrap();
    let Acquired::Granted { token: next } = ask(&*locks, &project, lease, Ttl::DEFAULT).await else {
        panic!("it is free")
    };
    assert!(next > token, "a lease that was given back begins anew");
}

pub(crate) async fn lk_23_tokens_grow_over_release_expiry_reopening_forgetting_and_restoring(
    fixture: &Fixture,
) {
    let locks = fixture.store.locks();
    let (project, mut tokens) = (name("project"), Vec::new());
    for _ in 0..3 {
        let (lease, token) = take(&*locks, &project, Ttl::DEFAULT).await;
        locks.release(&project, lease).await.unwrap().unwrap();
        tokens.push(token);
    }
    tokens.push(take(&*locks, &project, Ttl::MIN).await.1);
    until("it has expired", async || locks.look(&project).await.unwrap().is_none()).await;
    let another = fixture.another().await;
    tokens.push(take(&*another.locks(), &project, Ttl::DEFAULT).await.1);
    another.close().await;

    // A backup of long ago was restored: only the clock knows better.
    fixture.execute("UPDATE syncline.locks SET token = 5, expires_at = 1000").await;
    tokens.push(take(&*locks, &project, Ttl::DEFAULT).await.1);

    // Its token has run ahead of the clock, and then nobody wants it for an hour.
    fixture.execute("UPDATE syncline.locks SET token = token + 1000000000, expires_at = 1000").await;
    let ahead = Token::new(tokens.last().unwrap().number() + 1_000_000_000);
    tokens.push(ahead);
    if fixture.store.backend() == Backend::Postgres {
        // What may be forgotten is decided a minute before it goes.
        assert_eq!(locks.sweep(10).await.unwrap(), 0);
        fixture.execute("UPDATE syncline.lock_floor SET raised_at = 0").await;
        assert_eq!(locks.sweep(10).await.unwrap(), 0);
    }
    assert_eq!(locks.sweep(10).await.unwrap(), 1);
    assert_eq!(fixture.rows("syncline.locks").await, 0);
    tokens.push(take(&*locks, &project, Ttl::DEFAULT).await.1);
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

pub(crate) async fn lk_23_locks_are_listed_looked_at_and_ended_by_force(fixture: &Fixture) {
    let (locks, other) = (fixture.store.locks(), fixture.another().await.locks());
    for text in ["b:2", "b:10", "a", "c"] {
        take(&*locks, &name(text), Ttl::DEFAULT).await;
    }
    let after = async |prefix: &str, after: Option<&str>, limit| {
        let listed = other.list(prefix, after, limit).await.unwrap();
        listed.into_iter().map(|holding| holding.name).collect::<Vec<_>>()
    };
    let listed = async |prefix: &str, limit| after(prefix, None, limit).await;
    assert_eq!(after("", Some("b:10"), 10).await, ["b:2", "c"]);
    assert_eq!(after("b:", Some("a"), 10).await, ["b:10", "b:2"]);
    assert_eq!(after("b:", Some("b:2"), 10).await, [""; 0]);
    assert_eq!(listed("", 10).await, ["a", "b:10", "b:2", "c"]);
    assert_eq!(listed("b:", 10).await, ["b:10", "b:2"]);
    assert_eq!(listed("", 2).await, ["a", "b:10"]);
    assert_eq!(listed("b%", 10).await, [""; 0]);
    let ended = other.force_release(&name("a")).await.unwrap().unwrap();
    assert_eq!((ended.name.as_str(), ended.holder.as_str()), ("a", "ann"));
    assert_eq!(other.force_release(&name("a")).await.unwrap(), None);
    assert_eq!(other.force_release(&name("never")).await.unwrap(), None);
    assert_eq!(locks.look(&name("a")).await.unwrap(), None);
    assert_eq!(listed("", 10).await, ["b:10", "b:2", "c"]);
    assert!(take(&*locks, &name("a"), Ttl::DEFAULT).await.1 > ended.token);
    // A row that claims more than any lease may, as after the server's clock was set back.
    if fixture.store.backend() == Backend::Postgres {
        fixture
            .execute("UPDATE syncline.locks SET expires_at = expires_at + 1000000000000 WHERE name = 'c'")
            .await;
        let name = name("c");
        let request = Request { name: &name, lease: lease(), holder: "bob", ttl: Ttl::DEFAULT, waits: true };
        let Acquired::Held(held) = locks.acquire(request).await.unwrap() else { panic!("two holders") };
        assert!(held.left <= Ttl::MAX.duration(), "{held:?}");
    }
}

pub(crate) async fn lk_21_a_release_is_heard_here_and_elsewhere(fixture: &Fixture) {
    let other = fixture.another().await;
    let (locks, elsewhere) = (fixture.store.locks(), other.locks());
    let project = name("project");
    for waiting in [&locks, &elsewhere] {
        let (lease, token) = take(&*locks, &project, Ttl::MAX).await;
        let mine = self::lease();
        let request = Request { name: &project, lease: mine, holder: "bob", ttl: Ttl::DEFAULT, waits: true };
        let mut watch = waiting.watch(&project);
        assert!(matches!(waiting.acquire(request).await.unwrap(), Acquired::Held(_)));
        let ((), granted) = tokio::join!(
            async { assert_eq!(locks.release(&project, lease).await.unwrap(), Ok(token)) },
            async {
                loop {
                    if let Acquired::Granted { token } = waiting.acquire(request).await.unwrap() {
                        break token;
                    }
                    watch.freed(LONG).await;
                }
            }
        );
        assert!(granted > token);
        locks.release(&project, mine).await.unwrap().unwrap();
    }
}

pub(crate) async fn lk_23_what_breaks_a_bound_is_refused(fixture: &Fixture) {
    let locks = fixture.store.locks();
    let project = name("project");
    let long = "h".repeat(HOLDER_MAX_BYTES + 1);
    for holder in ["", "a\nb", long.as_str()] {
        let request = Request { name: &project, lease: lease(), holder, ttl: Ttl::DEFAULT, waits: false };
        let refused = locks.acquire(request).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid { field: "holder", .. }), "{refused}");
    }
    assert!(locks.list("", None, LIST_MAX + 1).await.is_err());
    assert!(locks.list(&"p".repeat(129), None, 1).await.is_err());
    assert!(locks.sweep(SWEEP_MAX + 1).await.is_err());
    assert_eq!(fixture.rows("syncline.locks").await, 0);
}
