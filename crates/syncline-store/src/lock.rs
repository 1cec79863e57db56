//! The lock port: leases with a fencing token.
//!
//! Guarantees, on every engine: of one name there is at most one unexpired lease; a grant is one statement, and time
//! is the store's; a token of a name is greater than every token granted for it before, over releases, expiry,
//! restarts, names that were forgotten, and crashes; renewing and releasing need the id of the lease in force and
//! change nothing otherwise. The rule is core's [`Slot`](syncline_core::lock::Slot), said in SQL.
//!
//! **Tokens** are the greater of one more than the last and the time of day in microseconds. So they grow without
//! anybody having to count them, and a database restored from a backup goes on above what was granted since, unless
//! its clock was set back as well. They stay below 2^53: a page can hold them as numbers.
//!
//! What a crash of which kind can take is each engine's to say. Waiting in order, and what a holder may believe, are
//! the node's and core's.

pub(crate) mod history;
mod waiters;

use std::time::Duration;

use async_trait::async_trait;
use syncline_core::lock::{LeaseId, NAME_MAX_BYTES, Name, Refused, Token, Ttl};

pub(crate) use self::waiters::ReleaseWaiters;
pub use self::waiters::ReleaseWatch;
use crate::database::{Transaction, statements, statements_of, values};
use crate::{Backend, Error};

statements!("lock": GRANT, HOLDER);
statements_of!("lock.sqlite": GRANTED);

/// Longest name of a holder in bytes.
pub const HOLDER_MAX_BYTES: usize = 128;
/// Most locks one listing returns.
pub const LIST_MAX: usize = 1_000;
/// Most names one call of [`Locks::sweep`] forgets.
pub const SWEEP_MAX: usize = 10_000;
/// A name is remembered for this long after its last lease ended.
pub const FORGET_AFTER: Duration = Duration::from_secs(3_600);

/// The clock has a say in tokens up to the year 2200; one set beyond that would use up the numbers a page can hold.
pub(crate) const CLOCK_TOKEN_MAX: i64 = 7_258_118_400_000_000;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Which lock.
    pub name: &'a Name,
    /// The id of the lease to be. Asking twice with the same one is asking once.
    pub lease: LeaseId,
    /// Who asks, for others to read.
    pub holder: &'a str,
    /// How long the lease lasts unless it is renewed.
    pub ttl: Ttl,
    /// Whether whoever asks will wait, and a release should be announced to them.
    pub waits: bool,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// It is yours for as long as you asked.
    Granted {
        /// The number of this grant.
        token: Token,
    },
    /// Somebody has it.
    Held(Holding),
    /// The machine was started anew, or another server has taken over that may lack the last grants, and leases from before may
    /// still be out: nobody is granted anything yet.
    Quiet {
        /// How much longer.
        left: Duration,
    },
}

/// A lock that is held, as everybody may see it. The lease's id is not part of it: it is what proves the holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// Which lock.
    pub name: String,
    /// Who has it.
    pub holder: String,
    /// The number of the grant.
    pub token: Token,
    /// For how long already.
    pub age: Duration,
    /// How much longer, unless it is renewed or released.
    pub left: Duration,
}

/// Leases.
#[async_trait]
pub trait Locks: Send + Sync {
    /// Asks once, and does not wait.
    async fn acquire(&self, request: Request<'_>) -> Result<Acquired, Error>;

    /// Lets the lease last `ttl` from now.
    async fn renew(&self, name: &Name, lease: LeaseId, ttl: Ttl) -> Result<Result<Token, Refused>, Error>;

    /// Gives the lock back and wakes who waits for it.
    async fn release(&self, name: &Name, lease: LeaseId) -> Result<Result<Token, Refused>, Error>;

    /// Ends whatever lease is in force, by an operator's decision; its holder finds out when it renews. Returns what
    /// was ended.
    async fn force_release(&self, name: &Name) -> Result<Option<Holding>, Error>;

    /// The lock, if it is held.
    async fn look(&self, name: &Name) -> Result<Option<Holding>, Error>;

    /// The first `limit` locks that are held and whose names start with `prefix`, by name.
    async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<Holding>, Error>;

    /// Hears of releases of `name` from this moment on, so that one between asking and waiting is not missed.
    fn watch(&self, name: &Name) -> ReleaseWatch;

    /// Forgets up to `limit` names whose last lease ended more than [`FORGET_AFTER`] ago, and says how many. Their
    /// tokens are never granted again. Nothing depends on it being called; it gives the space back.
    async fn sweep(&self, limit: usize) -> Result<u64, Error>;
}

/// Grants a lock in a transaction that does more and is synced; who holds it, where somebody else does.
pub(crate) async fn grant(
    transaction: &mut Transaction<'_>,
    (name, lease, holder): (&str, LeaseId, &str),
    ttl_ms: i64,
) -> Result<Result<Token, String>, Error> {
    let values = values![name, lease.text(), holder, ttl_ms, CLOCK_TOKEN_MAX];
    let mut granted: Option<(i64,)> = transaction.query_first(GRANT, &values).await?;
    if granted.is_none() && transaction.backend() == Backend::Postgres {
        if history::settle(transaction, ttl_ms, CLOCK_TOKEN_MAX).await? > 0 {
            return Ok(Err("nobody: leases from before a failover may still last".to_owned()));
        }
        granted = transaction.query_first(GRANT, &values).await?;
    }
    if let Some((token,)) = granted {
        if transaction.backend() == Backend::Sqlite {
            transaction.execute(GRANTED, &values![token]).await?;
        }
        return Ok(Ok(token_of(token)));
    }
    let holder: Option<(String,)> = transaction.query_first(HOLDER, &values![name]).await?;
    // Between the two statements the lock may have expired and been forgotten.
    Ok(Err(holder.map_or_else(|| "unknown".to_owned(), |(holder,)| holder)))
}

/// A row as the listings read it: name, holder, token, age and time left in milliseconds.
pub(crate) type Row = (String, String, i64, i64, i64);

pub(crate) fn holding((name, holder, token, age_ms, left_ms): Row) -> Holding {
    Holding { name, holder, token: token_of(token), age: duration(age_ms), left: duration(left_ms) }
}

/// Why a lease that is not in force was refused: the row's lease, if there is a row.
pub(crate) fn refused(found: Option<Option<String>>, lease: LeaseId) -> Refused {
    match found.flatten() {
        Some(id) if id == lease.text() => Refused::Expired,
        _ => Refused::NotHolder,
    }
}

pub(crate) fn token_of(number: i64) -> Token {
    Token::new(number.unsigned_abs())
}

pub(crate) fn check_holder(holder: &str) -> Result<(), Error> {
    if holder.is_empty() || holder.len() > HOLDER_MAX_BYTES || holder.chars().any(char::is_control) {
        let reason = format!("must have 1 to {HOLDER_MAX_BYTES} bytes and no control characters");
        return Err(Error::invalid("holder", reason));
    }
    Ok(())
}

/// The first name that could match, the first that cannot any more, and the number of rows.
pub(crate) fn check_list(
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<(String, String, i64), Error> {
    for (what, text) in [("prefix", prefix), ("after", after.unwrap_or_default())] {
        if text.len() > NAME_MAX_BYTES || text.chars().any(char::is_control) {
            let reason = format!("may have {NAME_MAX_BYTES} bytes and no control characters");
            return Err(Error::invalid(what, reason));
        }
    }
    if limit > LIST_MAX {
        return Err(Error::invalid("limit", format!("is {limit}; at most {LIST_MAX} are allowed")));
    }
    let range = crate::kv::Range::of_prefix(prefix, limit)?;
    // No name has a control character: whatever is greater than `after` is not less than this.
    let from = after.filter(|after| *after >= prefix).map_or(range.from, |after| format!("{after}\u{1}"));
    Ok((from, range.to, range.limit))
}

pub(crate) fn check_sweep(limit: usize) -> Result<i64, Error> {
    if limit > SWEEP_MAX {
        return Err(Error::invalid("limit", format!("is {limit}; at most {SWEEP_MAX} are allowed")));
    }
    Ok(i64::try_from(limit).expect("SWEEP_MAX fits"))
}

fn duration(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
