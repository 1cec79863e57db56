//! Locks on PostgreSQL. Leases are counted on the database's clock, read again when the row is ours.
//!
//! A grant is one statement and durable when it is answered: nothing is lost with a node, the server or its power. With a primary
//! whose standbys did not confirm, grants can be lost; [`history`] says what happens then.
//! A clock of the server that was set back makes leases look longer than any may be; they are shortened to the longest
//! as soon as somebody asks for the lock.
//!
//! Who waits says so in the row (`wanted_until`), and the release then announces itself by `NOTIFY`, in its own
//! transaction: a release nobody waits for does not pay for it. Where announcements are not heard, whoever waits looks every
//! [`LOOK_EVERY_WITHOUT_NOTICES`].

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use syncline_core::lock::{LeaseId, Name, Refused, Token, Ttl};
use tokio::task::JoinSet;

use super::Engine;
use super::notices::{Heard, Subscription};
use crate::database::{Database, statements_of};
use crate::lock::history;
use crate::lock::{
    self, Acquired, CLOCK_TOKEN_MAX, FORGET_AFTER, Holding, Locks, ReleaseWaiters, ReleaseWatch, Request,
    Row, holding, token_of,
};
use crate::{Backend, Error};

/// How often a waiter looks although releases are announced: a notice can be lost on the way.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often where no notices of other nodes arrive.
const LOOK_EVERY_WITHOUT_NOTICES: Duration = Duration::from_millis(50);
/// How long one look keeps a row marked as wanted.
const WANTED_FOR_MS: i64 = 60_000;
/// How old a raised floor must be before rows below it go: longer than any statement lasts.
const FLOOR_SETTLES_MS: i64 = 60_000;
const CHANNEL: &str = "lock";

statements_of!("lock.postgres":
    WANT, LOOK, RENEW, RELEASE, FORCE, LEASE, LIST, FORGET, RAISE_FLOOR,
);

/// What all ports of one engine share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    waiters: Arc<ReleaseWaiters>,
    /// Passes on the releases of other nodes, once somebody waits. Ends with this, whether or not the store was closed.
    following: Mutex<JoinSet<()>>,
}

/// The lock port on PostgreSQL.
#[derive(Debug)]
pub(crate) struct PostgresLocks {
    engine: Engine,
}

#[async_trait]
impl Locks for PostgresLocks {
    async fn acquire(&self, request: Request<'_>) -> Result<Acquired, Error> {
        lock::check_holder(request.holder)?;
        loop {
            let mut session = self.engine.statement().await?;
            let grant = self.engine.query(lock::GRANT.of(Backend::Postgres)).bind(request.name.as_str());
            let grant = grant.bind(request.lease.text()).bind(request.holder).bind(ttl_ms(request.ttl));
            let granted: Option<(i64,)> = session.first(grant.bind(CLOCK_TOKEN_MAX)).await?;
            session.commit().await?;
            if let Some((token,)) = granted {
                return Ok(Acquired::Granted { token: token_of(token) });
            }
            if let Some(held) = self.held(request).await? {
                return Ok(Acquired::Held(held));
            }
            // Between the two statements it may have been given back, or the floor did not fit: it is asked for again.
            let quiet_ms = self.settle(ttl_ms(request.ttl)).await?;
            if quiet_ms > 0 {
                return Ok(Acquired::Quiet { left: Duration::from_millis(quiet_ms.unsigned_abs()) });
            }
        }
    }

    async fn renew(&self, name: &Name, lease: LeaseId, ttl: Ttl) -> Result<Result<Token, Refused>, Error> {
        let mut renewed = self.renew_once(name, lease, ttl).await?;
        if renewed.is_none() {
            // The floor may not have fitted.
            self.settle(ttl_ms(ttl)).await?;
            renewed = self.renew_once(name, lease, ttl).await?;
        }
        self.answer(name, lease, renewed).await
    }

    async fn release(&self, name: &Name, lease: LeaseId) -> Result<Result<Token, Refused>, Error> {
        let release = self.engine.query(RELEASE).bind(name.as_str().to_owned()).bind(lease.text());
        let release = release.bind(self.engine.schema().channel(CHANNEL)).bind(self.own_prefix());
        let mut session = self.engine.statement().await?;
        let released: Option<(i64, Option<String>)> = session.first(release).await?;
        session.commit().await?;
        if released.is_some() {
            self.engine.locks.waiters.notify_one(name.as_str());
        }
        self.answer(name, lease, released.map(|(token, _)| token)).await
    }

    async fn force_release(&self, name: &Name) -> Result<Option<Holding>, Error> {
        let force = self.engine.query(FORCE).bind(name.as_str().to_owned());
        let force = force.bind(self.engine.schema().channel(CHANNEL)).bind(self.own_prefix());
        let mut session = self.engine.statement().await?;
        let ended: Option<(String, String, i64, i64, i64, Option<String>)> = session.first(force).await?;
        session.commit().await?;
        self.engine.locks.waiters.notify_one(name.as_str());
        Ok(ended
            .map(|(name, holder, token, age_ms, left_ms, _)| holding((name, holder, token, age_ms, left_ms))))
    }

    async fn look(&self, name: &Name) -> Result<Option<Holding>, Error> {
        let mut session = self.engine.statement().await?;
        let row: Option<Row> = session.first(self.engine.query(LOOK).bind(name.as_str().to_owned())).await?;
        session.commit().await?;
        Ok(row.map(holding))
    }

    async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<Holding>, Error> {
        let (from, to, limit) = lock::check_list(prefix, after, limit)?;
        let mut session = self.engine.statement().await?;
        let rows: Vec<Row> = session.all(self.engine.query(LIST).bind(from).bind(to).bind(limit)).await?;
        session.commit().await?;
        Ok(rows.into_iter().map(holding).collect())
    }

    fn watch(&self, name: &Name) -> ReleaseWatch {
        let shared = &self.engine.locks;
        let heard = self.engine.notices.subscribe(&self.engine, CHANNEL);
        let look_every = if heard.is_listening() { LOOK_EVERY } else { LOOK_EVERY_WITHOUT_NOTICES };
        let mut following = shared.following.lock().unwrap_or_else(PoisonError::into_inner);
        if following.is_empty() {
            following.spawn(follow(heard, Arc::clone(&shared.waiters), self.own_prefix()));
        }
        shared.waiters.watch(name, look_every)
    }

    async fn sweep(&self, limit: usize) -> Result<u64, Error> {
        let limit = lock::check_sweep(limit)?;
        let forget_after_ms = i64::try_from(FORGET_AFTER.as_millis()).expect("an hour fits");
        let mut session = self.engine.statement().await?;
        let forgotten = session.execute(self.engine.query(FORGET).bind(limit).bind(forget_after_ms)).await?;
        session.commit().await?;
        let mut session = self.engine.statement().await?;
        session.execute(self.engine.query(RAISE_FLOOR).bind(FLOOR_SETTLES_MS)).await?;
        session.commit().await?;
        // Whether or not anybody asks for a lock: what was lost is over the sooner.
        self.settle(0).await?;
        Ok(forgotten)
    }
}

impl PostgresLocks {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// What our own notices begin with: the waiters here were notified already.
    fn own_prefix(&self) -> String {
        format!("{} ", self.engine.notices.own())
    }

    async fn renew_once(&self, name: &Name, lease: LeaseId, ttl: Ttl) -> Result<Option<i64>, Error> {
        let renew = self.engine.query(RENEW).bind(name.as_str().to_owned()).bind(lease.text());
        let mut session = self.engine.statement().await?;
        let renewed: Option<(i64,)> = session.first(renew.bind(ttl_ms(ttl))).await?;
        session.commit().await?;
        Ok(renewed.map(|(token,)| token))
    }

    /// Makes the floor fit the server's history and a lease of this length. How much longer nobody is granted anything, in milliseconds.
    async fn settle(&self, ttl_ms: i64) -> Result<i64, Error> {
        let database = Database::new(self.engine.clone());
        let settle = database.write(move |transaction| {
            Box::pin(async move { history::settle(transaction, ttl_ms, CLOCK_TOKEN_MAX).await })
        });
        settle.await
    }

    /// Who has the lock, if anybody has; marked as wanted if whoever asks will wait.
    async fn held(&self, request: Request<'_>) -> Result<Option<Holding>, Error> {
        if !request.waits {
            return self.look(request.name).await;
        }
        let want = self.engine.query(WANT).bind(request.name.as_str().to_owned()).bind(WANTED_FOR_MS);
        let mut session = self.engine.statement().await?;
        let row: Option<Row> = session.first(want.bind(ttl_ms(Ttl::MAX))).await?;
        session.commit().await?;
        Ok(row.filter(|row| row.4 > 0).map(holding))
    }

    /// The answer to somebody who showed a lease: the token where a row was changed.
    async fn answer(
        &self,
        name: &Name,
        lease: LeaseId,
        changed: Option<i64>,
    ) -> Result<Result<Token, Refused>, Error> {
        if let Some(token) = changed {
            return Ok(Ok(token_of(token)));
        }
        let mut session = self.engine.statement().await?;
        let found: Option<(Option<String>,)> =
            session.first(self.engine.query(LEASE).bind(name.as_str().to_owned())).await?;
        session.commit().await?;
        Ok(Err(lock::refused(found.map(|(lease,)| lease), lease)))
    }
}

/// Passes on what other nodes announce, until the store is gone.
async fn follow(mut heard: Subscription, waiters: Arc<ReleaseWaiters>, own_prefix: String) {
    while let Some(heard) = heard.next().await {
        match heard {
            // What was announced before this moment was not heard.
            Heard::Listening => waiters.notify_all(),
            Heard::Notice(payload) if payload.starts_with(&own_prefix) => {}
            Heard::Notice(payload) => {
                if let Some((_, name)) = payload.split_once(' ') {
                    waiters.notify_one(name);
                }
            }
            // Who waits looks once a second in any case, and more often from the next time on.
            Heard::Lost => {}
        }
    }
}

fn ttl_ms(ttl: Ttl) -> i64 {
    i64::try_from(ttl.as_ms()).expect("the longest lease fits")
}
