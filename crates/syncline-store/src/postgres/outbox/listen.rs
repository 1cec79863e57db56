//! Learning of new entries at the least cost for the application that inserts them.
//!
//! PostgreSQL lets transactions that say `NOTIFY` commit one after the other, so the table's trigger says it only while a worker
//! sleeps. Of a lone entry it is told in its sleep, which costs nobody anything. When words come in a rush, it says that it is awake:
//! it looks every few milliseconds, and nobody needs to tell it anything. When it has found nothing for a while it says that it sleeps,
//! and then waits until all transactions have ended that may have inserted without a word, because they did so before it said that.
//! From there on it is told of every insert.
//!
//! Who sleeps says so again once a minute. Somebody else who wakes up tells those who sleep, with the end of that sleep itself. They
//! look every few seconds then, until everybody sleeps again: that one may have died. Where announcements are not heard, whoever
//! waits is told to look every [`LOOK_EVERY_WITHOUT_NOTICES`], and nobody announces anything.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgArguments, PgPool, Postgres};
use sqlx::query::QueryScalar;

use super::super::Engine;
use super::super::notices::{Heard, Subscription};
use super::super::session::give_back;
use crate::minute::next_minute;
use crate::names::Schema;
use crate::outbox::wakes::Wakes;

const CHANNEL: &str = "sync_outbox";
const LOOK_EVERY_WITHOUT_NOTICES: Duration = Duration::from_millis(200);
/// So many announcements within that time are a rush.
const RUSH: u32 = 8;
const RUSH_WITHIN: Duration = Duration::from_millis(100);
/// How long a worker that finds nothing stays awake after it has found a few times something, and after [`MANY`] times.
const LINGER: Duration = Duration::from_millis(10);
const LINGER_AFTER_MANY: Duration = Duration::from_millis(100);
const MANY: u64 = 8;
/// How often it looks meanwhile, from the first to the last.
const LOOK_FIRST: Duration = Duration::from_millis(2);
const LOOK_LAST: Duration = Duration::from_millis(4);
/// How often it looks while transactions from before its sleep are under way.
const LOOK_EVERY_WHILE_SETTLING: Duration = Duration::from_millis(100);
/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long a sleeper counts as one that does not say it again: more than two minutes, since it says it once a minute.
const ASLEEP_MS: i64 = 150_000;
/// How often it looks for somebody else who is awake, and may have died.
const LOOK_EVERY_WHILE_OTHERS_ARE_AWAKE: Duration = Duration::from_secs(5);
/// What whoever wakes up announces begins with. What the table's trigger announces is empty.
const AWAKE: &str = "awake ";

/// Begins to follow what other processes insert, once for each engine.
pub(super) fn follow(engine: &Engine) {
    let (pool, wakes) = (engine.pool.clone(), Arc::downgrade(&engine.outbox));
    let sleep = SleepFlag::new(engine.schema(), engine.notices.own());
    engine.outbox.follow(|| listen(pool, wakes, engine.notices.subscribe(engine, CHANNEL), sleep));
}

async fn listen(pool: PgPool, wakes: Weak<Wakes>, mut heard: Subscription, sleep: SleepFlag) {
    while !pool.is_closed() {
        if heard.is_listening()
            && let Err(error) = sleep_and_wake(&pool, &wakes, &mut heard, &sleep).await
        {
            tracing::debug!(%error, "sleeping until new outbox entries come failed; they are looked for");
        }
        wake(&wakes);
        tokio::time::sleep(LOOK_EVERY_WITHOUT_NOTICES).await;
    }
}

/// Is awake and sleeps by turns, for as long as announcements are heard.
async fn sleep_and_wake(
    pool: &PgPool,
    wakes: &Weak<Wakes>,
    heard: &mut Subscription,
    sleep: &SleepFlag,
) -> sqlx::Result<()> {
    loop {
        // Whoever waits begins to look while this is being said.
        wake(wakes);
        sleep.end(pool).await?;
        stay_awake(wakes).await;
        // What was announced until now is found by looking, which is still to come.
        heard.skip_heard();
        let before = sleep.begin(pool).await?;
        if !wait_for_older_transactions(pool, wakes, before).await? {
            continue;
        }
        if !sleep_until_rush(pool, wakes, heard, sleep).await? {
            return Ok(());
        }
    }
}

/// Has whoever waits look whenever something is announced, until that comes in a rush; false if nothing can be heard any more.
async fn sleep_until_rush(
    pool: &PgPool,
    wakes: &Weak<Wakes>,
    heard: &mut Subscription,
    sleep: &SleepFlag,
) -> sqlx::Result<bool> {
    let mut others_are_awake = false;
    let (mut since, mut announced) = (Instant::now(), 0);
    while heard.is_listening() {
        let next = tokio::select! {
            next = heard.next() => next,
            () = next_minute() => Some(Heard::Lost),
            () = tokio::time::sleep(LOOK_EVERY_WHILE_OTHERS_ARE_AWAKE), if others_are_awake => Some(Heard::Lost),
        };
        match next {
            None => return Ok(false),
            Some(Heard::Notice(payload)) if payload.starts_with(AWAKE) => {
                others_are_awake |= !payload.ends_with(&*sleep.own);
            }
            Some(Heard::Notice(_)) => {
                wake(wakes);
                if since.elapsed() > RUSH_WITHIN {
                    (since, announced) = (Instant::now(), 0);
                }
                announced += 1;
                if announced >= RUSH {
                    return Ok(true);
                }
            }
            Some(Heard::Listening) => return Ok(true),
            // Nothing was heard for a while. Somebody who is awake still, or has died awake, announces nothing.
            Some(Heard::Lost) => {
                if !sleep.go_on(pool).await? {
                    return Ok(true);
                }
                others_are_awake = false;
            }
        }
    }
    Ok(false)
}

/// Has whoever waits look again and again, until nothing is found any more.
async fn stay_awake(wakes: &Weak<Wakes>) {
    let (before, mut since, mut pause) = (found(wakes), Instant::now(), LOOK_FIRST);
    let mut found = before;
    while since.elapsed() < if found.wrapping_sub(before) < MANY { LINGER } else { LINGER_AFTER_MANY } {
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
    /// Which worker it is.
    own: Arc<str>,
    channel: String,
    end: String,
    go_on: String,
}

impl SleepFlag {
    fn new(schema: &Schema, own: &Arc<str>) -> Self {
        let now_ms = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        // Who sleeps is told by the same statement. If nobody did, there is nobody to tell.
        let end = "SELECT said + CASE WHEN said > 0 THEN length(pg_notify($1, $2)::text) ELSE 0 END FROM \
             (SELECT syncline.sync_outbox_sleep(0) AS said OFFSET 0) AS sleep";
        Self {
            own: Arc::clone(own),
            channel: schema.channel(CHANNEL),
            end: schema.apply(end),
            go_on: schema.apply(&format!("SELECT syncline.sync_outbox_sleep({now_ms} + $1)")),
        }
    }

    /// It is awake: nobody need announce anything.
    async fn end(&self, pool: &PgPool) -> sqlx::Result<()> {
        let end = sqlx::query_scalar(AssertSqlSafe(self.end.clone()));
        number(pool, end.bind(self.channel.clone()).bind(format!("{AWAKE}{}", self.own))).await.map(|_| ())
    }

    /// It sleeps: whoever inserts from here on announces it. The first transaction that is not older than this.
    async fn begin(&self, pool: &PgPool) -> sqlx::Result<i64> {
        self.say(pool).await?;
        // In a statement of its own: the one before it has seen the transactions from before it was said.
        number(pool, sqlx::query_scalar("SELECT txid_snapshot_xmax(txid_current_snapshot())")).await
    }

    /// It still sleeps. Whether nobody was awake meanwhile.
    async fn go_on(&self, pool: &PgPool) -> sqlx::Result<bool> {
        Ok(self.say(pool).await? > 0)
    }

    /// Says that it sleeps; what was said before.
    async fn say(&self, pool: &PgPool) -> sqlx::Result<i64> {
        number(pool, sqlx::query_scalar(AssertSqlSafe(self.go_on.clone())).bind(ASLEEP_MS)).await
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
