//! Keyed work at the pace an outside API allows.
//!
//! ```text
//!              ┌─ again, or not made ─┐
//!              ▼                      │
//! enqueue ▶ Waiting ─── start ───▶ Running ─┬─ answered ─▶ Done, Failed: the results, of which the oldest go
//!            ▲   ▲                          ├─ 429, 5xx ─▶ Retrying ─┐
//!            │   └─ right after the head ───┼────────────────────────┘
//!            └───────── revive ─── Dead ◀───┴─ attempts used up
//! ```
//!
//! - [`Kind`]: what enqueuing means, as one table that memory and SQL share
//! - [`Queue`]: distinct keys in order and a result per key; each operation O(log n) or less
//! - [`mod@line`]: the same decisions for a queue that is kept in a database, over a few rows of it
//! - [`group`]: a pace for each group of keys, and whose turn it is
//! - [`Pace`] and [`Pacer`]: when the next call may start, for one process or for many that share one value
//! - [`Answer`] and [`Settings::judge`]: what follows from a call's end
//! - [`Paced`]: all of it together, driven by `poll`
//! - [`Progress`]: how far it is and how long it will take
//!
//! Invariants: a key is in exactly one [`Place`]; a key runs at most once at a time; no call starts less than the
//! interval after the last start or end that anybody saw, nor during a pause, nor beyond the concurrency.
//!
//! Left to others: making the calls, keeping the records (see [`Record`] and [`Change`]), what a key or a
//! result is and how large it may be.

mod answer;
mod chain;
pub mod group;
mod kind;
pub mod line;
mod order;
mod pace;
mod paced;
mod pacer;
mod progress;
mod random;
mod record;
pub mod retry_after;
mod settings;
mod slots;
mod turns;

pub use answer::{Answer, Health, Outcome, REASON_MAX_BYTES, Settled, Signal};
pub use group::GroupSettings;
pub use kind::{Kind, Move, Standing};
pub use order::{Enqueued, Full, Limits, Queue, Run, RunId};
pub use pace::{Breaker, Call, Pace, Pause, PauseReason};
pub use paced::{Paced, Setup, Start, Status, Step};
pub use pacer::{Clock, Pacer, Permit, Wait, Why};
pub use progress::{Counts, Meter, Outlook, Progress};
pub use record::{BadRecord, Change, Place, Record};
pub use settings::{CONCURRENCY_MAX, InvalidSettings, PAUSE_MAX, SPAN_MAX, Settings};
pub use turns::{GroupRecord, GroupStatus};
