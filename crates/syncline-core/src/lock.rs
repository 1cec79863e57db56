//! One holder at a time, by lease.
//!
//! A lease is the right to be the only one for a while. It is granted by whoever keeps the record of it (a row in a
//! database, a file in a page's private storage), it ends by itself when it is not renewed, and each grant has a
//! number that only grows, the fencing [`Token`], by which a resource tells a late writer from the present one.
//!
//! - [`Name`], [`LeaseId`], [`Token`], [`Ttl`]: the small values that SQL, HTTP and pages share
//! - [`Slot`]: the rule of acquiring, renewing and releasing, as functions from one record to the next
//! - [`Validity`]: what the holder itself may still believe, on two clocks
//! - [`Machine`]: the project lock of a tab: Web Locks, a record beside them, and everything that can go wrong
//! - [`protocol`]: the words between that machine and the page
//! - [`autosave`]: a document that saves itself while its tab holds the lock
//!
//! Invariants: of one record there is at most one unexpired lease; a token is never granted twice and never smaller
//! than one before it; a holder believes for a shorter time than the record promises.
//!
//! Left to others: changing the record only where it is what was read (one statement, one transaction, one move
//! of a file), and asking [`Validity`] at the moment of each write.

pub mod autosave;
mod code;
mod ids;
mod machine;
mod name;
pub mod protocol;
mod slot;
mod validity;

pub use code::{Code, Level};
pub use ids::{InvalidLeaseId, InvalidTtl, LeaseId, Token, Ttl};
pub use machine::Machine;
pub use name::{InvalidName, NAME_MAX_BYTES, Name};
pub use protocol::{Input, Lease, Output};
pub use slot::{Acquired, Held, Refused, Slot};
pub use validity::{Moment, Validity};
