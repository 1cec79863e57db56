//! The kv port: keys with an optional time to live.
//!
//! Guarantees, on every engine: an expired key is never returned, swept or not; an acknowledged write is seen by
//! every later read and survives the death of the process; a key is literal (no character in it means anything
//! to the store); order is the order of the key's bytes. Time is the store's (see each engine), never the
//! caller's.
//!
//! **Spaces.** Users and every part have key spaces apart ([`crate::Store::kv`], [`crate::Store::kv_space`]). A key of a part is stored
//! behind a control character, which no user's key has: it cannot be named, listed or changed from the users' space.
//!
//! **What a listing costs.** One range of the key index, from the first key to the last one returned: live keys
//! beyond it cost nothing. Expired keys in that range that nobody has swept yet are stepped over, but not again
//! and again: every listing looks whether more than [`GARBAGE_TOLERATED`] are lying about (a look of bounded
//! cost) and has them swept in the background. So `list(prefix, 1)` is flat in the number of live keys, and after
//! a mass expiry it is flat again once the sweep is through (on PostgreSQL: once vacuum has been there as well).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use syncline_core::kv::{self, BATCH_MAX, Condition, Key, LIST_MAX, NotAdded, Version};

use crate::Error;

pub(crate) mod port;
pub(crate) mod watch;

pub use self::watch::{KeyNews, KeyWatch};

/// Longest time to live: ten years. What should live longer should not expire.
pub const TTL_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

/// Most keys one call of [`Kv::sweep`] removes.
pub const SWEEP_MAX: usize = 10_000;

/// Expired keys a listing may meet before it has them swept.
pub const GARBAGE_TOLERATED: i64 = 64;

/// How many keys the sweep behind a listing removes per transaction.
const SWEEP_STEP: usize = 1_000;

/// A page of a listing ends when its keys and values have this many bytes together.
pub const LIST_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// Longest name of a part's space.
pub const SPACE_MAX_BYTES: usize = 64;

/// Before and behind the name of a part's space. No key has a control character.
const SPACE_MARK: char = '\u{1}';

/// No key of a user is less than this: the spaces of parts are.
const FIRST_KEY: &str = " ";

/// Which keys are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked<'a> {
    /// What they begin with.
    pub prefix: &'a str,
    /// Those behind this key, in the order of keys: the cursor.
    pub after: Option<&'a str>,
    /// At most this many.
    pub limit: usize,
    /// Whether values are wanted; without them every value is empty.
    pub values: bool,
}

/// A part of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The entries, in key order.
    pub entries: Vec<Entry>,
    /// Whether there may be more behind the last one.
    pub more: bool,
}

/// A live key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// Its value.
    pub value: String,
    /// How long it will still live; `None` when it does not expire.
    pub ttl_left: Option<Duration>,
    /// Which write it was. Grows with every write of the key.
    pub version: Version,
}

/// One thing to do in a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Read a key.
    Get {
        /// Which.
        key: Key,
    },
    /// Set a key.
    Put {
        /// Which.
        key: Key,
        /// To what.
        value: String,
        /// For how long; `None` for ever.
        ttl: Option<Duration>,
        /// On which condition.
        condition: Condition,
    },
    /// Remove a key.
    Delete {
        /// Which.
        key: Key,
        /// On which condition.
        condition: Condition,
    },
    /// Add to a key whose value is a whole number; one that is not there counts as zero.
    Increment {
        /// Which.
        key: Key,
        /// How much.
        by: i64,
        /// How long a key lives that was not there; one that is keeps its time to live.
        ttl: Option<Duration>,
    },
}

/// What an operation brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// What was read.
    Read(Option<Entry>),
    /// The key as it is now.
    Written(Entry),
    /// Whether there was anything to remove.
    Deleted(bool),
}

/// Why nothing of a batch was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The place of the operation that stood in the way, from 0.
    pub index: usize,
    /// What was wrong with it.
    pub why: Refused,
}

/// What can stand in the way of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Its condition does not hold.
    Unmet {
        /// The version of the live key, if there is one.
        found: Option<Version>,
    },
    /// Nothing can be added.
    NotAdded(NotAdded),
    /// What the batch reads has more than [`LIST_BYTES_MAX`].
    TooMuchToRead,
}

impl Operation {
    /// The key it is about.
    #[must_use]
    pub fn key(&self) -> &Key {
        match self {
            Self::Get { key }
            | Self::Put { key, .. }
            | Self::Delete { key, .. }
            | Self::Increment { key, .. } => key,
        }
    }
}

/// Keys, values and times to live.
#[async_trait]
pub trait Kv: Send + Sync {
    /// Sets `key`, whatever it was, with a time to live counted from now; `None` never expires.
    async fn put(&self, key: &Key, value: &str, ttl: Option<Duration>) -> Result<Version, Error>;

    /// Sets `key` only where it is absent or expired, and says whether it did. Of any number of callers at the
    /// same time, one is told `true`.
    async fn put_new(&self, key: &Key, value: &str, ttl: Option<Duration>) -> Result<bool, Error>;

    /// The entry of `key`, if it lives.
    async fn get(&self, key: &Key) -> Result<Option<Entry>, Error>;

    /// Removes `key` and says whether it lived.
    async fn delete(&self, key: &Key) -> Result<bool, Error>;

    /// Does up to [`BATCH_MAX`] operations in one transaction: all of them, or none if one is refused. Of any number of callers
    /// whose condition is the same version, or that the key is absent, one succeeds.
    async fn apply(&self, operations: Vec<Operation>) -> Result<Result<Vec<Applied>, Refusal>, Error>;

    /// Hears of changes of this space's keys from now on. `None` for the space of a part, which nobody watches.
    fn watch(&self) -> Option<KeyWatch>;

    /// Live entries in key order, [`LIST_BYTES_MAX`] at most. A listing is not one moment in time: keys that change while
    /// it runs may be in it or not.
    async fn page(&self, asked: Asked<'_>) -> Result<Page, Error>;

    /// The first `limit` live entries whose keys start with `prefix`, as far as they fit on a page.
    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<Entry>, Error> {
        Ok(self.page(Asked { prefix, after: None, limit, values: true }).await?.entries)
    }

    /// Removes up to `limit` expired keys, longest expired first, and says how many. Fewer than `limit` means
    /// that none were left. Nothing depends on it being called; it gives the space back.
    async fn sweep(&self, limit: usize) -> Result<u64, Error>;
}

/// Checks what is to be stored; the time to live comes back in whole milliseconds, rounded up.
pub(crate) fn check_put(value: &str, ttl: Option<Duration>) -> Result<Option<i64>, Error> {
    kv::check_value(value)?;
    ttl.map(check_ttl).transpose()
}

pub(crate) fn check_ttl(ttl: Duration) -> Result<i64, Error> {
    if ttl.is_zero() {
        return Err(Error::invalid("ttl", "is zero"));
    }
    if ttl > TTL_MAX {
        return Err(Error::invalid(
            "ttl",
            format!("is {} s; at most {} s are allowed", ttl.as_secs(), TTL_MAX.as_secs()),
        ));
    }
    let ttl_ms = ttl.as_nanos().div_ceil(1_000_000);
    Ok(i64::try_from(ttl_ms).expect("TTL_MAX in milliseconds fits"))
}

/// Checks the operations of a batch.
pub(crate) fn check_batch(operations: &[Operation]) -> Result<(), Error> {
    if operations.len() > BATCH_MAX {
        let reason = format!("are {}; at most {BATCH_MAX} are allowed", operations.len());
        return Err(Error::invalid("operations", reason));
    }
    operations.iter().try_for_each(|operation| match operation {
        Operation::Put { value, ttl, .. } => check_put(value, *ttl).map(drop),
        Operation::Increment { ttl, .. } => check_put("", *ttl).map(drop),
        Operation::Get { .. } | Operation::Delete { .. } => Ok(()),
    })
}

/// Checks the name of a part's space.
pub(crate) fn check_space(name: &str) -> Result<(), Error> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > SPACE_MAX_BYTES || !name.chars().all(fits) {
        let reason = format!("must have 1 to {SPACE_MAX_BYTES} of a-z, 0-9 and -");
        return Err(Error::invalid("space", reason));
    }
    Ok(())
}

pub(crate) fn check_sweep(limit: usize) -> Result<i64, Error> {
    if limit > SWEEP_MAX {
        return Err(Error::invalid("limit", format!("is {limit}; at most {SWEEP_MAX} are allowed")));
    }
    Ok(i64::try_from(limit).expect("SWEEP_MAX fits"))
}

/// The key range and row count of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range {
    /// The first key that could match.
    pub(crate) from: String,
    /// The first key that cannot match any more.
    pub(crate) to: String,
    pub(crate) limit: i64,
}

impl Range {
    pub(crate) fn of_prefix(prefix: &str, limit: usize) -> Result<Self, Error> {
        kv::check_prefix(prefix)?;
        if limit > LIST_MAX {
            return Err(Error::invalid("limit", format!("is {limit}; at most {LIST_MAX} are allowed")));
        }
        let limit = i64::try_from(limit).expect("LIST_MAX fits");
        Ok(Self { from: prefix.to_owned(), to: end_of_prefix(prefix), limit })
    }

    /// The range of a page in a space, and one row more to see whether there is one.
    pub(crate) fn of(asked: Asked<'_>, space: &str) -> Result<Self, Error> {
        let mut range = Self::of_prefix(asked.prefix, asked.limit)?;
        range.limit += 1;
        if let Some(after) = asked.after.filter(|after| *after >= asked.prefix) {
            kv::check_prefix(after)?;
            // No key has a control character: whatever is greater than `after` is not less than this.
            range.from = format!("{after}\u{1}");
        }
        if space.is_empty() {
            if range.from.as_str() < FIRST_KEY {
                FIRST_KEY.clone_into(&mut range.from);
            }
        } else {
            range.from.insert_str(0, space);
            range.to = end_of_prefix(&format!("{space}{}", asked.prefix));
        }
        Ok(range)
    }
}

/// Makes an entry of what a row of a space holds.
pub(crate) fn entry((key, value, ttl_left_ms, version): ListRow, space: &str) -> Result<Entry, Error> {
    let ttl_left = ttl_left_ms.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
    let key = match space {
        "" => Key::new(key)?,
        _ => Key::new(key.strip_prefix(space).unwrap_or_default())?,
    };
    Ok(Entry { key, value, ttl_left, version: version_of(version) })
}

pub(crate) fn version_of(number: i64) -> Version {
    Version(number.unsigned_abs())
}

/// One row of a listing: a live key, its value, the time left and the version.
pub(crate) type ListRow = (String, String, Option<i64>, i64);

/// The page that rows make: `asked.limit` of them, and one more if there is one, as far as they fit.
pub(crate) fn paged(rows: Vec<ListRow>, limit: usize, space: &str) -> Result<Page, Error> {
    let (mut bytes, mut more) = (0, false);
    let mut entries = Vec::with_capacity(rows.len().min(limit));
    for row in rows {
        more = entries.len() == limit || bytes >= LIST_BYTES_MAX;
        if more {
            break;
        }
        let entry = entry(row, space)?;
        bytes += entry.key.as_str().len() + entry.value.len();
        entries.push(entry);
    }
    // A page that is full may have been cut where it was read.
    Ok(Page { more: (more || bytes >= LIST_BYTES_MAX) && limit > 0, entries })
}

/// Removes expired keys behind listings, one sweep at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sweeper {
    under_way: Arc<AtomicBool>,
}

impl Sweeper {
    /// Sweeps `kv` in the background until nothing expired is left, unless that is already happening.
    pub(crate) fn start(&self, kv: impl Kv + 'static) {
        if self.under_way.swap(true, Ordering::AcqRel) {
            return;
        }
        let under_way = Arc::clone(&self.under_way);
        tokio::spawn(async move {
            loop {
                match kv.sweep(SWEEP_STEP).await {
                    Ok(swept) if swept < SWEEP_STEP as u64 => break,
                    Ok(_) => {}
                    Err(error) => {
                        // The listing was right without it, and the next one asks again.
                        tracing::warn!(%error, "expired keys could not be deleted; the next listing tries again");
                        break;
                    }
                }
            }
            under_way.store(false, Ordering::Release);
        });
    }
}

/// The smallest string greater than every key that starts with `prefix`. Code points are ordered as their UTF-8
/// bytes are, so this is the prefix with its last character moved up by one.
fn end_of_prefix(prefix: &str) -> String {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            end.push(next);
            return end;
        }
    }
    // Nothing comes after a prefix of the greatest characters: this is longer than any key of them.
    char::MAX.to_string().repeat(kv::KEY_MAX_BYTES / char::MAX.len_utf8() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vw_03_the_end_of_a_prefix_is_just_past_its_keys() {
        for (prefix, end) in [
            ("viewer:", "viewer;"),
            ("a%", "a&"),
            ("a_", "a`"),
            ("\u{d7ff}", "\u{e000}"),
            ("a\u{10ffff}", "b"),
            ("日", "旦"),
        ] {
            assert_eq!(end_of_prefix(prefix), end, "{prefix:?}");
        }
        for prefix in ["", "\u{10ffff}"] {
            let greatest_key = "\u{10ffff}".repeat(128);
            assert!(end_of_prefix(prefix) > greatest_key);
        }
    }

    #[test]
    fn a_time_to_live_is_rounded_up_and_bounded() {
        assert_eq!(check_ttl(Duration::from_nanos(1)).unwrap(), 1);
        assert_eq!(check_ttl(Duration::from_millis(60_000)).unwrap(), 60_000);
        assert!(check_ttl(Duration::ZERO).is_err());
        assert!(check_ttl(TTL_MAX).is_ok());
        assert!(check_ttl(TTL_MAX + Duration::from_nanos(1)).is_err());
    }
}
