//! What can go wrong with a store, told apart by what the caller can do about it.
//!
//! Every variant names the store by an address without user, password or query, so that an error can be logged
//! and shown as it is. The engines' own messages are kept as text, cut to [`REASON_MAX_BYTES`].

use syncline_core::{kv, queue};

/// Longest engine message an error carries along.
pub const REASON_MAX_BYTES: usize = 500;

/// https://www.sqlite.org/rescode.html#ioerr_shmsize
const SQLITE_IOERR_SHMSIZE: i32 = 10 | (19 << 8);

/// Why a store could not be opened or used.
///
/// Unless it says otherwise an error means that nothing was changed. [`Error::Unreachable`] and [`Error::Disk`]
/// leave that open: the connection or the disk failed before the outcome was known, and the change may be there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A key or value breaks the rules of the kv.
    #[error(transparent)]
    Kv(#[from] kv::Invalid),
    /// A queue holds as many keys as it may.
    #[error(transparent)]
    QueueFull(#[from] queue::Full),
    /// A queue cannot run with these settings.
    #[error(transparent)]
    QueueSettings(#[from] queue::InvalidSettings),
    /// Another argument is out of its bounds.
    #[error("{field} {reason}")]
    Invalid {
        /// The argument.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The address does not name a store.
    #[error("database address {address}: {reason}")]
    Address {
        /// The address as far as it can be shown.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Others keep the store busy for longer than we wait.
    #[error("{store} is busy: {reason}")]
    Busy {
        /// The store.
        store: String,
        /// What we waited for.
        reason: String,
    },
    /// The database server cannot be reached, or was lost on the way.
    #[error("{store} cannot be reached: {reason}")]
    Unreachable {
        /// The store.
        store: String,
        /// What the connection said.
        reason: String,
    },
    /// There is no room left for the change.
    #[error("{store} has no space left: {reason}")]
    Full {
        /// The store.
        store: String,
        /// What the engine said.
        reason: String,
    },
    /// We may not open, create or change the store.
    #[error("{store} may not be used: {reason}")]
    Denied {
        /// The store.
        store: String,
        /// What the system or the server said.
        reason: String,
    },
    /// There is no database at the address, and none was asked for.
    #[error("{store} does not exist")]
    Missing {
        /// The store.
        store: String,
    },
    /// Tables are missing or of an earlier version, and opening was not to change that.
    #[error("{store} is not prepared: {reason}")]
    Unprepared {
        /// The store.
        store: String,
        /// What is missing.
        reason: String,
    },
    /// The application's table cannot serve as an outbox as it is.
    #[error("{store} has no usable sync_outbox: {reason}")]
    Unfit {
        /// The store.
        store: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// The database answered and refused: a constraint of a table, as a rule.
    #[error("{store} refused the change: {reason}")]
    Refused {
        /// The store.
        store: String,
        /// What the engine said.
        reason: String,
    },
    /// The database answered with something that cannot be read.
    #[error("{store} holds a value that cannot be read: {reason}")]
    Unreadable {
        /// The store.
        store: String,
        /// What was found.
        reason: String,
    },
    /// The file is no database, or the database is damaged.
    #[error("{store} is damaged or not a database: {reason}")]
    Corrupt {
        /// The store.
        store: String,
        /// What the engine said.
        reason: String,
    },
    /// A newer Syncline has changed this store.
    #[error("{store} is at version {found} of {part}, and this program knows only up to {known}")]
    Newer {
        /// The store.
        store: String,
        /// The part whose tables are newer.
        part: String,
        /// The version found in the database.
        found: i64,
        /// The newest version this program has.
        known: i64,
    },
    /// The disk failed. After a write that it did not confirm the store takes no more until it is opened again.
    #[error("the disk under {store} failed: {reason}")]
    Disk {
        /// The store.
        store: String,
        /// What failed.
        reason: String,
    },
    /// A connection pooler in front of the server lost our prepared statements.
    #[error("{store} is behind a pooler that does not keep prepared statements: {reason}")]
    Pooler {
        /// The store.
        store: String,
        /// What the server said.
        reason: String,
    },
    /// The store was closed by us.
    #[error("{store} is closed")]
    Closed {
        /// The store.
        store: String,
    },
    /// Anything else the engine refused.
    #[error("{store} failed: {reason}")]
    Engine {
        /// The store.
        store: String,
        /// What the engine said.
        reason: String,
    },
}

impl Error {
    /// Whether the same call may succeed later without anybody changing it.
    #[must_use]
    pub fn retryable(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Unreachable { .. } | Self::Full { .. })
    }

    /// What the operator can do about it, where there is something to do.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Address { .. } => {
                Some("use sqlite:path/to/file.db, sqlite::memory: or postgres://user@host/database")
            }
            Self::Busy { .. } => Some("another process holds the database; try again"),
            Self::Unreachable { .. } => {
                Some("check that the database server runs, accepts connections and takes writes")
            }
            Self::Full { .. } => Some("free some disk space; nothing that was acknowledged is lost"),
            Self::Denied { .. } => Some("check owner and permissions of the folder, file, role or schema"),
            Self::Missing { .. } => {
                Some("check the path; sqlite:PATH?mode=rwc creates the database where there is none")
            }
            Self::Unprepared { .. } => Some(
                "check the address; `syncline migrate` makes the tables, `syncline migrate --print` prints the SQL that does",
            ),
            Self::Corrupt { .. } => Some("check the path; if it is the right file, restore it from a backup"),
            Self::Newer { .. } => Some("run the newer Syncline, or point DATABASE_URL at another database"),
            Self::Disk { .. } => Some("check the disk and the system log, then restart"),
            Self::Pooler { .. } => Some(
                "set statement-cache-capacity=0 in the address, or let the pooler keep prepared statements",
            ),
            Self::QueueFull(_) => {
                Some("wait for the queue to drain, revive or remove what is dead, or allow more")
            }
            Self::Kv(_)
            | Self::QueueSettings(_)
            | Self::Invalid { .. }
            | Self::Unfit { .. }
            | Self::Refused { .. }
            | Self::Unreadable { .. }
            | Self::Closed { .. }
            | Self::Engine { .. } => None,
        }
    }

    /// An argument out of bounds.
    pub(crate) fn invalid(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid { field, reason: reason.into() }
    }

    /// Sorts what SQLite answered.
    pub(crate) fn sqlite(store: &str, error: &rusqlite::Error) -> Self {
        let code = error.sqlite_error().map(|error| error.extended_code);
        Self::sqlite_code(store, cut(error.to_string()), code)
    }

    fn sqlite_code(store: &str, reason: String, code: Option<i32>) -> Self {
        let store = store.to_owned();
        // The index of the log cannot grow, which on a full disk is the first thing to fail.
        if code == Some(SQLITE_IOERR_SHMSIZE) {
            return Self::Full { store, reason };
        }
        // The low byte is the primary result code: https://www.sqlite.org/rescode.html
        match code.map(|code| code & 0xff) {
            Some(5 | 6) => Self::Busy { store, reason },
            Some(13) => Self::Full { store, reason },
            Some(3 | 8 | 14 | 23) => Self::Denied { store, reason },
            Some(11 | 26) => Self::Corrupt { store, reason },
            Some(10) => Self::Disk { store, reason },
            Some(19 | 20) => Self::Refused { store, reason },
            _ => Self::Engine { store, reason },
        }
    }

    /// Sorts what PostgreSQL, or the way to it, answered.
    pub(crate) fn postgres(store: &str, error: &sqlx::Error) -> Self {
        let (store, reason) = (store.to_owned(), reason(error));
        let Some(database) = error.as_database_error() else {
            return match error {
                sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolTimedOut => {
                    Self::Unreachable { store, reason }
                }
                // A connection cut in the middle of a message reads as nonsense, not as an end.
                sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => Self::Unreachable { store, reason },
                sqlx::Error::PoolClosed => Self::Closed { store },
                sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
                    Self::Unreadable { store, reason }
                }
                _ => Self::Engine { store, reason },
            };
        };
        let code = database.code().unwrap_or_default();
        // https://www.postgresql.org/docs/current/errcodes-appendix.html
        match (code.get(..2).unwrap_or_default(), &*code) {
            (_, "53100") => Self::Full { store, reason },
            // Out of connections or memory, serialisation, deadlock, lock or statement time-out.
            ("53" | "40", _) | (_, "55P03" | "57014") => Self::Busy { store, reason },
            // Connection failures, shutdown and recovery; and a standby, as seen in the middle of a failover.
            ("08", _) | (_, "57P01" | "57P02" | "57P03" | "57P05" | "25006") => {
                Self::Unreachable { store, reason }
            }
            // A zero character, half a surrogate pair, a value that its column's type does not have: the caller's to change.
            (_, "22021" | "22P05" | "22P02") => {
                Self::Invalid { field: "text", reason: format!("cannot be kept by PostgreSQL: {reason}") }
            }
            ("23", _) => Self::Refused { store, reason },
            (_, "26000" | "42P05") => Self::Pooler { store, reason },
            ("28", _) | (_, "42501" | "3D000") => Self::Denied { store, reason },
            (_, "XX001" | "XX002") => Self::Corrupt { store, reason },
            _ => Self::Engine { store, reason },
        }
    }
}

fn reason(error: &sqlx::Error) -> String {
    cut(match error {
        sqlx::Error::Database(database) => database.message().to_owned(),
        // The pool does not tell which of the two it was.
        sqlx::Error::PoolTimedOut => "no connection in time: none answered, or all are in use".to_owned(),
        other => other.to_string(),
    })
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(REASON_MAX_BYTES));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_conditions_that_pass_are_retryable() {
        let store = || "s".to_owned();
        let reason = || "r".to_owned();
        let passing = [
            Error::Busy { store: store(), reason: reason() },
            Error::Unreachable { store: store(), reason: reason() },
            Error::Full { store: store(), reason: reason() },
        ];
        let lasting = [
            Error::Kv(kv::Invalid::EmptyKey),
            Error::invalid("ttl", "is zero"),
            Error::Denied { store: store(), reason: reason() },
            Error::Corrupt { store: store(), reason: reason() },
            Error::Newer { store: store(), part: reason(), found: 9, known: 2 },
            Error::Disk { store: store(), reason: reason() },
            Error::Missing { store: store() },
            Error::Unprepared { store: store(), reason: reason() },
            Error::Unfit { store: store(), reason: reason() },
            Error::Refused { store: store(), reason: reason() },
            Error::Unreadable { store: store(), reason: reason() },
            Error::Pooler { store: store(), reason: reason() },
            Error::Closed { store: store() },
            Error::Engine { store: store(), reason: reason() },
        ];
        assert!(passing.iter().all(Error::retryable));
        assert!(!lasting.iter().any(Error::retryable));
        assert!(passing.iter().all(|error| error.hint().is_some()));
    }

    #[test]
    fn a_long_engine_message_is_cut_between_characters() {
        let text = reason(&sqlx::Error::Protocol("語".repeat(400)));
        assert!(text.len() <= REASON_MAX_BYTES);
        assert!(text.len() > REASON_MAX_BYTES - 4);
        assert!(text.ends_with('語'));
    }
}
