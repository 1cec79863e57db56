//! Learning of new entries at the least cost for the application that inserts them.
//!
//! PostgreSQL lets transactions that say `NOTIFY` commit one after the other, so the table's trigger says it only while a worker
//! sleeps. A worker is awake while it finds entries: it looks every few milliseconds, and nobody needs to tell it anything. When it has
//! found none for [`LINGER`] it says that it sleeps, and then waits until all transactions have ended that may have inserted
//! without a word, because they did so before it said that. From there on every insert wakes it.
//!
//! Who sleeps says so again every few seconds, and looks when somebody else is awake by then: that one may have died. Behind a pooler
//! `LISTEN` does not work; there, and while the listening connection is lost, whoever waits is told to look every
//! [`LOOK_EVERY_WITHOUT_NOTICES`], and nobody announces anything.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgArguments, PgPool, Postgres};
use sqlx::query::QueryScalar;

use super::super::Engine;
use super::super::listen::{Listener, Received};
use super::super::session::give_back;
use crate::names::Schema;
use crate::outbox::wakes::Wakes;

const CHANNEL: &str = "sync_outbox";
const LOOK_EVERY_WITHOUT_NOTICES: Duration = Duration::from_millis(200);
/// How long a worker that finds nothing stays awake, and how often it looks, from the first to the last.
const LINGER: Duration = Duration::from_millis(100);
const LOOK_FIRST: Duration = Duration::from_millis(2);
const LOOK_LAST: Duration = Duration::from_millis(16);
/// How often it looks while transactions from before its sleep are under way.
const LOOK_EVERY_WHILE_SETTLING: Duration = Duration::from_millis(100);
/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long a sleeper counts as one that does not say it again.
const ASLEEP_MS: i64 = 30_000;

/// Begins to follow what other processes insert, once for each engine.
pub(super) fn follow(engine: &Engine) {
    let (pool, wakes) = (engine.pool.clone(), Arc::downgrade(&engine.outbox));
    let channel = (!engine.pooled).then(|| engine.schema().channel(CHANNEL));
    let sleep = SleepFlag::new(engine.schema());
    engine.outbox.follow(|| listen(pool, wakes, channel, sleep));
}

/// Without a channel it only polls.
async fn listen(pool: PgPool, wakes: Weak<Wakes>, channel: Option<String>, sleep: SleepFlag) {
    while !pool.is_closed() {
        if let Some(channel) = &channel
            && let Err(error) = listen_once(&pool, channel, &wakes, &sleep).await
        {
            tracing::debug!(%error, "the listening connection for new outbox entries failed; it is opened again");
        }
        wake(&wakes);
        tokio::time::sleep(LOOK_EVERY_WITHOUT_NOTICES).await;
    }
}

/// Is awake and sleeps by turns, for as long as the connection lasts.
async fn listen_once(
    pool: &PgPool,
    channel: &str,
    wakes: &Weak<Wakes>,
    sleep: &SleepFlag,
) -> sqlx::Result<()> {
    let mut listener = Listener::open(pool, channel).await?;
    loop {
        sleep.end(pool).await?;
        stay_awake(wakes).await;
        let before = sleep.begin(pool).await?;
        if !wait_for_older_transactions(pool, wakes, before).await? {
            continue;
        }
        // What is announced wakes it. So does silence after somebody else was awake, who may have died since.
        loop {
            match listener.next_or_silence().await? {
                None => return Ok(()),
                Some(Received::Silence) if sleep.go_on(pool).await? => {}
                Some(_) => break,
            }
        }
    }
}

/// Has whoever waits look again and again, until nothing is found any more.
async fn stay_awake(wakes: &Weak<Wakes>) {
    let (mut found, mut since, mut pause) = (found(wakes), Instant::now(), LOOK_FIRST);
    while since.elapsed() < LINGER {
        wake(wakes);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOOK_LAST);
        let now = self::found(wakes);
        if now != found {
            (found, since, pause) = (now, Instant::now(), LOOK_FIRST);
        }
    }
}

/// Looks until every transaction has ended that began before `horizon`. Whether it may sleep: false if something was found.
async fn wait_for_older_transactions(pool: &PgPool, wakes: &Weak<Wakes>, horizon: i64) -> sqlx::Result<bool> {
    let oldest = "SELECT txid_snapshot_xmin(txid_current_snapshot())";
    loop {
        let before = found(wakes);
        let ended = number(pool, sqlx::query_scalar(oldest)).await? >= horizon;
        // After the question: what those that have ended inserted is there.
        wake(wakes);
        if ended {
            return Ok(true);
        }
        tokio::time::sleep(LOOK_EVERY_WHILE_SETTLING).await;
        if found(wakes) != before {
            return Ok(false);
        }
    }
}

/// How a worker tells the trigger that it sleeps.
struct SleepFlag {
    say: String,
    go_on: String,
}

impl SleepFlag {
    fn new(schema: &Schema) -> Self {
        let now_ms = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        Self {
            say: schema.apply("SELECT syncline.sync_outbox_sleep($1)"),
            go_on: schema.apply(&format!("SELECT syncline.sync_outbox_sleep({now_ms} + $1)")),
        }
    }

    /// It is awake: nobody need announce anything.
    async fn end(&self, pool: &PgPool) -> sqlx::Result<()> {
        self.ask(pool, &self.say, 0).await.map(|_| ())
    }

    /// It sleeps: whoever inserts from here on announces it. The first transaction that is not older than this.
    async fn begin(&self, pool: &PgPool) -> sqlx::Result<i64> {
        self.ask(pool, &self.go_on, ASLEEP_MS).await?;
        // In a statement of its own: the one before it has seen the transactions from before it was said.
        number(pool, sqlx::query_scalar("SELECT txid_snapshot_xmax(txid_current_snapshot())")).await
    }

    /// It still sleeps. Whether nobody was awake meanwhile.
    async fn go_on(&self, pool: &PgPool) -> sqlx::Result<bool> {
        Ok(self.ask(pool, &self.go_on, ASLEEP_MS).await? > 0)
    }

    async fn ask(&self, pool: &PgPool, sql: &str, value: i64) -> sqlx::Result<i64> {
        number(pool, sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).bind(value)).await
    }
}

type Question = QueryScalar<'static, Postgres, i64, PgArguments>;

/// The answer to a question, or an error where the connection is silent. No statement is prepared for it.
async fn number(pool: &PgPool, question: Question) -> sqlx::Result<i64> {
    let mut connection = pool.acquire().await?;
    let asked = question.persistent(false).fetch_one(&mut *connection);
    match tokio::time::timeout(ANSWER_MAX, asked).await {
        Ok(answer) => {
            give_back(&mut connection);
            answer
        }
        Err(_) => {
            connection.close_on_drop();
            Err(sqlx::Error::PoolTimedOut)
        }
    }
}

fn wake(wakes: &Weak<Wakes>) {
    if let Some(wakes) = wakes.upgrade() {
        wakes.wake();
    }
}

fn found(wakes: &Weak<Wakes>) -> u64 {
    wakes.upgrade().map_or(0, |wakes| wakes.found())
}
