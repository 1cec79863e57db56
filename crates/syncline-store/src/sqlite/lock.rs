//! Locks on SQLite. Leases are counted on the store's steady clock.
//!
//! Grants, renewals and releases share commits like every change, but need not be synced ([`Durability::Unsynced`]). What that
//! means for which crash:
//!
//! - **The process is killed:** nothing is lost. What is committed is the system's to write.
//! - **The machine loses power:** the last grants and releases may be gone. Therefore two promises are synced ahead of
//!   them, every few seconds at most ([`Reserve`]): no token above this one has been granted, and no lease lasts
//!   beyond that moment. With the first opening in another boot the tokens go on above the one, all leases from before
//!   count as lost, and for as long as one of them could still have lasted nobody is granted anything
//!   ([`forget_before_boot`]). That time is counted from the opening, so that no clock has to be believed.
//!
//! Several processes may share the file: everything is decided by the rows, inside SQLite's transactions. A release
//! wakes who waits in this process at once; in another one they look every [`LOOK_EVERY`].

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Params, params};
use syncline_core::lock::{LeaseId, Name, Refused, Token, Ttl};

use super::Engine;
use super::writer::{Done, Durability};
use crate::clock::SteadyClock;
use crate::database::statements_of;
use crate::lock::{
    self, Acquired, CLOCK_TOKEN_MAX, FORGET_AFTER, Holding, Locks, ReleaseWaiters, ReleaseWatch, Request,
    Row, holding, token_of,
};
use crate::{Error, names};

/// How often somebody who waits looks for a release by another process on the file.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often where no other process can be.
const LOOK_EVERY_ALONE: Duration = Duration::from_secs(1);
/// How far beyond what is needed now the promises reach: one synced write in this time, however many grants.
const RESERVED_AHEAD_MS: i64 = 10_000;
/// Tokens follow the time of day in microseconds.
const TOKENS_PER_MS: i64 = 1_000;

statements_of!("lock.sqlite":
    GRANT_WITHIN, RENEW, RELEASE, LEASE, LOOK, HELD_BY_ANOTHER, END, LIST, TOKEN, RESERVE, FORGETTABLE,
    RESET, RAISE_FLOOR, FORGET,
);

/// What all ports of one engine share.
#[derive(Debug)]
pub(crate) struct Shared {
    waiters: Arc<ReleaseWaiters>,
    /// The last promises this process has made.
    reserve: Mutex<Reserve>,
    quiet_until_ms: i64,
    look_every: Duration,
}

/// What has been promised durably.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reserve {
    /// No token above this has been granted.
    token_ceiling: i64,
    /// No lease ends after this.
    lease_horizon_ms: i64,
}

/// The lock port on SQLite.
#[derive(Debug)]
pub(crate) struct SqliteLocks {
    engine: Engine,
}

impl Shared {
    pub(super) fn new(in_memory: bool, quiet_until_ms: i64) -> Self {
        Self {
            waiters: Arc::default(),
            // Nothing is known to be promised before the first promise is made.
            reserve: Mutex::new(Reserve { token_ceiling: 0, lease_horizon_ms: 0 }),
            quiet_until_ms,
            look_every: if in_memory { LOOK_EVERY_ALONE } else { LOOK_EVERY },
        }
    }

    pub(super) fn close(&self) {
        self.waiters.notify_all();
    }

    fn reserve(&self) -> Reserve {
        *self.reserve.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What another boot means for what was granted before it: see the module's words on the loss of power.
pub(super) fn forget_before_boot(connection: &Connection, now_ms: i64) -> rusqlite::Result<()> {
    connection.execute(names::sqlite(RESET), [now_ms])?;
    connection.execute(names::sqlite("DELETE FROM syncline.locks"), []).map(drop)
}

/// Until when nobody is granted anything.
pub(super) fn quiet_until_ms(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row(names::sqlite("SELECT quiet_until FROM syncline.lock_reserve"), [], |row| row.get(0))
}

/// The number that a statement answers with, if it changes or finds a row.
fn number(connection: &Connection, sql: &'static str, values: impl Params) -> rusqlite::Result<Option<i64>> {
    connection.prepare_cached(names::sqlite(sql))?.query_row(values, |row| row.get(0)).optional()
}

/// The lock that a statement finds.
fn found(
    connection: &Connection,
    sql: &'static str,
    values: impl Params,
) -> rusqlite::Result<Option<Holding>> {
    let row = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Row> { row.try_into() };
    Ok(connection.prepare_cached(names::sqlite(sql))?.query_row(values, row).optional()?.map(holding))
}

/// The answer to somebody who showed a lease: the token where a row was changed.
fn answer(
    connection: &Connection,
    (name, lease): (&str, LeaseId),
    changed: Option<i64>,
) -> rusqlite::Result<Result<Token, Refused>> {
    if let Some(token) = changed {
        return Ok(Ok(token_of(token)));
    }
    let mut read = connection.prepare_cached(names::sqlite(LEASE))?;
    let found: Option<Option<String>> = read.query_row([name], |row| row.get(0)).optional()?;
    Ok(Err(lock::refused(found, lease)))
}

/// What one attempt at a grant came to.
enum Attempt {
    Done(Acquired),
    /// The promises do not reach as far as this token and this moment.
    BeyondReserve {
        token: i64,
    },
}

#[async_trait]
impl Locks for SqliteLocks {
    async fn acquire(&self, request: Request<'_>) -> Result<Acquired, Error> {
        lock::check_holder(request.holder)?;
        let clock = self.engine.clock();
        let quiet_ms = self.shared()?.quiet_until_ms - clock.now_ms();
        if quiet_ms > 0 {
            return Ok(Acquired::Quiet { left: Duration::from_millis(quiet_ms.unsigned_abs()) });
        }
        let mut token = clock_token(clock);
        loop {
            self.promise(token, request.ttl).await?;
            match self.attempt(request).await? {
                Attempt::Done(acquired) => return Ok(acquired),
                Attempt::BeyondReserve { token: reached } => token = reached,
            }
        }
    }

    async fn renew(&self, name: &Name, lease: LeaseId, ttl: Ttl) -> Result<Result<Token, Refused>, Error> {
        loop {
            self.promise(0, ttl).await?;
            let horizon_ms = self.shared()?.reserve().lease_horizon_ms;
            let (clock, name) = (self.engine.clock().clone(), name.as_str().to_owned());
            let renewed = self.write(Durability::Unsynced, move |connection| {
                let now_ms = clock.now_ms();
                let expires_at = now_ms + ttl_ms(ttl);
                if expires_at > horizon_ms {
                    return Ok(None);
                }
                let token = number(connection, RENEW, params![name, lease.text(), now_ms, expires_at])?;
                answer(connection, (&name, lease), token).map(Some)
            });
            if let Some(renewed) = renewed.await? {
                return Ok(renewed);
            }
        }
    }

    async fn release(&self, name: &Name, lease: LeaseId) -> Result<Result<Token, Refused>, Error> {
        let (clock, text) = (self.engine.clock().clone(), name.as_str().to_owned());
        let released = self.write(Durability::Unsynced, move |connection| {
            let token = number(connection, RELEASE, params![text, lease.text(), clock.now_ms()])?;
            answer(connection, (&text, lease), token)
        });
        let released = released.await?;
        if released.is_ok() {
            self.shared()?.waiters.notify_one(name.as_str());
        }
        Ok(released)
    }

    async fn force_release(&self, name: &Name) -> Result<Option<Holding>, Error> {
        let (clock, text) = (self.engine.clock().clone(), name.as_str().to_owned());
        let ended = self.write(Durability::Unsynced, move |connection| {
            let now_ms = clock.now_ms();
            let held = found(connection, LOOK, params![text, now_ms])?;
            connection.prepare_cached(names::sqlite(END))?.execute(params![text, now_ms])?;
            Ok(held)
        });
        let ended = ended.await?;
        self.shared()?.waiters.notify_one(name.as_str());
        Ok(ended)
    }

    async fn look(&self, name: &Name) -> Result<Option<Holding>, Error> {
        let (name, clock) = (name.as_str().to_owned(), self.engine.clock().clone());
        self.read(move |connection| found(connection, LOOK, params![name, clock.now_ms()])).await
    }

    async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<Holding>, Error> {
        let (from, to, limit) = lock::check_list(prefix, after, limit)?;
        let clock = self.engine.clock().clone();
        let list = move |connection: &Connection| {
            let mut list = connection.prepare_cached(names::sqlite(LIST))?;
            let rows = list.query_map(params![from, to, clock.now_ms(), limit], |row| row.try_into())?;
            rows.map(|row| row.map(holding)).collect()
        };
        self.read(list).await
    }

    fn watch(&self, name: &Name) -> ReleaseWatch {
        match &self.engine.locks {
            Some(shared) => shared.waiters.watch(name, shared.look_every),
            None => Arc::<ReleaseWaiters>::default().watch(name, LOOK_EVERY_ALONE),
        }
    }

    async fn sweep(&self, limit: usize) -> Result<u64, Error> {
        let limit = lock::check_sweep(limit)?;
        let forget_after_ms = i64::try_from(FORGET_AFTER.as_millis()).expect("an hour fits");
        let before_ms = self.engine.clock().now_ms() - forget_after_ms;
        // Found beside the writer, because the search goes through all rows.
        let forgettable = move |connection: &Connection| {
            let mut find = connection.prepare_cached(names::sqlite(FORGETTABLE))?;
            find.query_map([before_ms, limit], |row| row.get(0))?.collect()
        };
        let names: Vec<String> = self.read(forgettable).await?;
        if names.is_empty() {
            return Ok(0);
        }
        let names = serde_json::to_string(&names).expect("a list of strings");
        let forgotten = self.write(Durability::Unsynced, move |connection| {
            connection.prepare_cached(names::sqlite(RAISE_FLOOR))?.execute(params![names, before_ms])?;
            connection.prepare_cached(names::sqlite(FORGET))?.execute(params![names, before_ms])
        });
        Ok(forgotten.await? as u64)
    }
}

impl SqliteLocks {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    fn shared(&self) -> Result<&Shared, Error> {
        let not_opened = || {
            let reason = "it was opened without the part lock".to_owned();
            Error::Unprepared { store: self.engine.name().to_owned(), reason }
        };
        self.engine.locks.as_deref().ok_or_else(not_opened)
    }

    /// Runs a change of locks, of which one statement writes. All but promises are unsynced: see the module's words on crashes.
    async fn write<T, F>(&self, durability: Durability, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.shared()?;
        let store = Arc::clone(&self.engine.store);
        let work = move |connection: &mut Connection| match work(connection) {
            Ok(made) => Ok(Done::Kept(made)),
            Err(error) => Err(Error::sqlite(&store, &error)),
        };
        self.engine.writer.write_once(durability, work).await
    }

    async fn read<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let store = Arc::clone(&self.engine.store);
        self.engine
            .read(move |connection| work(connection).map_err(|error| Error::sqlite(&store, &error)))
            .await
    }

    /// One attempt, decided inside the transaction.
    async fn attempt(&self, request: Request<'_>) -> Result<Attempt, Error> {
        let (name, lease) = (request.name.as_str().to_owned(), request.lease.text());
        let (holder, ttl_ms) = (request.holder.to_owned(), ttl_ms(request.ttl));
        let (clock, reserve) = (self.engine.clock().clone(), self.shared()?.reserve());
        let attempt = self.write(Durability::Unsynced, move |connection| {
            let (now_ms, token) = (clock.now_ms(), clock_token(&clock));
            if now_ms + ttl_ms > reserve.lease_horizon_ms || token > reserve.token_ceiling {
                return Ok(Attempt::BeyondReserve { token });
            }
            let wish = params![name, lease, holder, token, now_ms, now_ms + ttl_ms, reserve.token_ceiling];
            if let Some(token) = number(connection, GRANT_WITHIN, wish)? {
                return Ok(Attempt::Done(Acquired::Granted { token: token_of(token) }));
            }
            if let Some(held) = found(connection, HELD_BY_ANOTHER, params![name, now_ms, lease])? {
                return Ok(Attempt::Done(Acquired::Held(held)));
            }
            let reached = number(connection, TOKEN, [&name])?.unwrap_or(0);
            Ok(Attempt::BeyondReserve { token: reached + 1 })
        });
        attempt.await
    }

    /// Makes sure that what was promised durably reaches as far as a lease of `ttl` and this token.
    async fn promise(&self, token: i64, ttl: Ttl) -> Result<(), Error> {
        let now_ms = self.engine.clock().now_ms();
        let (reserve, expires_at) = (self.shared()?.reserve(), now_ms + ttl_ms(ttl));
        if reserve.token_ceiling >= token && reserve.lease_horizon_ms >= expires_at {
            return Ok(());
        }
        let ceiling = token.max(clock_token(self.engine.clock())) + RESERVED_AHEAD_MS * TOKENS_PER_MS;
        let raise = move |connection: &Connection| {
            let mut raise = connection.prepare_cached(names::sqlite(RESERVE))?;
            let wish = params![ceiling, expires_at + RESERVED_AHEAD_MS, now_ms];
            raise.query_row(wish, |row| Ok((row.get(0)?, row.get(1)?)))
        };
        let (token_ceiling, lease_horizon_ms) = self.write(Durability::Synced, raise).await?;
        let mut known = self.shared()?.reserve.lock().unwrap_or_else(PoisonError::into_inner);
        // Two may have raised it at once; what is in the database only grows.
        known.token_ceiling = known.token_ceiling.max(token_ceiling);
        known.lease_horizon_ms = known.lease_horizon_ms.max(lease_horizon_ms);
        Ok(())
    }
}

/// The smallest token this moment allows.
fn clock_token(clock: &SteadyClock) -> i64 {
    clock.wall_ms().saturating_mul(TOKENS_PER_MS).clamp(1, CLOCK_TOKEN_MAX)
}

fn ttl_ms(ttl: Ttl) -> i64 {
    i64::try_from(ttl.as_ms()).expect("the longest lease fits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TimeSource;
    use crate::clock::fake::FakeMachine;

    const DECADE_MS: i64 = 10 * 365 * 86_400_000;

    struct World {
        folder: tempfile::TempDir,
        machine: Arc<FakeMachine>,
    }

    impl World {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap(), machine: Arc::new(FakeMachine::new()) }
        }

        async fn open(&self) -> SqliteLocks {
            let url = format!("sqlite:{}", self.folder.path().join("store.db").display());
            let source = Arc::clone(&self.machine) as Arc<dyn TimeSource>;
            SqliteLocks::new(Engine::open(&url, source).await.unwrap())
        }

        /// What a disk would have that got nothing since: copies of the files, to be put back later.
        fn disk(&self) -> Vec<(std::path::PathBuf, Vec<u8>)> {
            let files = std::fs::read_dir(self.folder.path()).unwrap().map(|file| file.unwrap().path());
            // The index beside the log lives in memory and is gone with the power.
            let kept = files.filter(|file| !file.to_string_lossy().ends_with("-shm"));
            kept.map(|file| (file.clone(), std::fs::read(file).unwrap())).collect()
        }

        /// Loses power, with the disk as it was.
        async fn lose_power(&self, locks: SqliteLocks, disk: Vec<(std::path::PathBuf, Vec<u8>)>) {
            locks.engine.close().await;
            for file in std::fs::read_dir(self.folder.path()).unwrap() {
                std::fs::remove_file(file.unwrap().path()).unwrap();
            }
            for (file, bytes) in disk {
                std::fs::write(file, bytes).unwrap();
            }
            self.machine.reboot();
        }
    }

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    async fn ask(locks: &SqliteLocks, text: &str, ttl: Ttl) -> (LeaseId, Acquired) {
        let (name, lease) = (name(text), LeaseId::from_random(rand::random()));
        let request = Request { name: &name, lease, holder: "ann", ttl, waits: false };
        (lease, locks.acquire(request).await.unwrap())
    }

    async fn take(locks: &SqliteLocks, text: &str, ttl: Ttl) -> (LeaseId, Token) {
        match ask(locks, text, ttl).await {
            (lease, Acquired::Granted { token }) => (lease, token),
            (_, refused) => panic!("{text}: {refused:?}"),
        }
    }

    #[tokio::test]
    async fn lk_23_a_clock_that_is_set_neither_ends_nor_lengthens_a_lease() {
        let world = World::new();
        let locks = world.open().await;
        let mut last = Token::NONE;
        for jump_ms in [DECADE_MS, -DECADE_MS, -DECADE_MS, 3_600_000] {
            let (lease, token) = take(&locks, "project", Ttl::DEFAULT).await;
            assert!(token > last, "{token} after {last}, jumping {jump_ms}");
            last = token;
            world.machine.jump(jump_ms);
            world.machine.advance(14_999);
            assert!(matches!(ask(&locks, "project", Ttl::DEFAULT).await.1, Acquired::Held(_)));
            assert_eq!(locks.renew(&name("project"), lease, Ttl::DEFAULT).await.unwrap(), Ok(token));
            world.machine.advance(15_000);
        }
        // Forgotten while the clock stands in the past: the token does not go back with it.
        world.machine.advance(2 * 3_600_000);
        world.machine.jump(-3 * DECADE_MS);
        assert_eq!(locks.sweep(10).await.unwrap(), 1);
        assert!(take(&locks, "project", Ttl::DEFAULT).await.1 > last);
    }

    #[tokio::test]
    async fn lk_23_after_a_loss_of_power_no_token_goes_back_and_no_lease_is_doubled() {
        let world = World::new();
        let locks = world.open().await;
        take(&locks, "first", Ttl::DEFAULT).await;
        let disk = world.disk();
        // None of this reaches the disk. The clock is set back as well, so that it cannot help.
        let mut lost = Vec::new();
        for n in 0..50 {
            lost.push(take(&locks, &format!("lost:{n}"), Ttl::DEFAULT).await.1);
            let again = take(&locks, "again", Ttl::DEFAULT).await;
            locks.release(&name("again"), again.0).await.unwrap().unwrap();
            lost.push(again.1);
        }
        world.machine.advance(5_000);
        let (lease, _) = take(&locks, "still-out", Ttl::DEFAULT).await;
        world.lose_power(locks, disk).await;
        world.machine.jump(-DECADE_MS);

        let locks = world.open().await;
        let (_, quiet) = ask(&locks, "lost:0", Ttl::DEFAULT).await;
        let Acquired::Quiet { left } = quiet else { panic!("{quiet:?}") };
        assert!(left >= Ttl::DEFAULT.duration(), "{left:?}");
        let gone = locks.renew(&name("still-out"), lease, Ttl::DEFAULT).await.unwrap();
        assert_eq!(gone, Err(Refused::NotHolder), "whoever held something finds out");
        world.machine.advance(i64::try_from(left.as_millis()).unwrap() - 1);
        assert!(matches!(ask(&locks, "lost:0", Ttl::DEFAULT).await.1, Acquired::Quiet { .. }));
        // A second process, and a restart, count the same time.
        let second = world.open().await;
        assert!(matches!(ask(&second, "lost:0", Ttl::DEFAULT).await.1, Acquired::Quiet { .. }));
        world.machine.advance(1);
        let highest = lost.iter().max().unwrap();
        for (locks, text) in [(&locks, "lost:0"), (&second, "again"), (&locks, "never-asked-for")] {
            let token = take(locks, text, Ttl::DEFAULT).await.1;
            assert!(token > *highest, "{token} after {highest}");
        }
    }

    #[tokio::test]
    async fn lk_23_a_promise_is_synced_every_few_seconds_however_many_grants() {
        let world = World::new();
        let locks = world.open().await;
        let synced = || locks.engine.counts().1;
        let before = synced();
        for _ in 0..200 {
            let (lease, _) = take(&locks, "project", Ttl::DEFAULT).await;
            locks.renew(&name("project"), lease, Ttl::DEFAULT).await.unwrap().unwrap();
            locks.release(&name("project"), lease).await.unwrap().unwrap();
        }
        assert_eq!(synced() - before, 1);
        for second in 1..=60 {
            world.machine.advance(1_000);
            let (lease, _) = take(&locks, "project", Ttl::DEFAULT).await;
            locks.release(&name("project"), lease).await.unwrap().unwrap();
            assert!(synced() - before <= 1 + second / 10 + 1, "{second} s: {}", synced() - before);
        }
        assert!(synced() - before >= 5);
    }
}
