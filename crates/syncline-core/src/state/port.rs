//! The ports of a replica: what happens to it, and what it wants done.
//!
//! Values cross as JSON text. The storage behind it is any that can get, set, remove and list keys and tells about
//! changes; it needs no transactions and no compare-and-set. What an adapter does:
//!
//! - **order**: carries out [`Output::effects`] in their order, and gives every input to
//!   [`handle`](super::Replica::handle) one at a time; an input that comes up while effects are carried out waits;
//! - **time**: `now` from a clock that does not jump, `wall` from the time of day, with every input; one timer, set anew to
//!   [`Output::wake_at`] after each, brings [`Input::Timer`]. Late is harmless, too early costs a call;
//! - **storage**: one question at a time is under way; each is answered exactly once, with `Got`, `Stored`, `Swapped`, `Listed`
//!   or `Failed`. A question that may never be answered should be ended with [`Failure::Other`] after a while; an answer
//!   that comes after that is not given any more;
//! - **changes**: [`Input::Changed`] for each change of a key, its own included, as soon as the context listens, which should
//!   be before [`Input::Start`]; while loading they are kept. Keys that are not ours may be left out, and need not be.
//!   Doubled, late and lost ones do no harm; after a gap ([`Input::Refresh`]) everything is read again;
//! - **messages**: to all other contexts, and only a means to be faster. An adapter whose storage tells others of changes
//!   with their contents may carry out `Send` by answering [`Input::Acked`] at once;
//! - **the view**: what was rendered is what is shown; nothing else has to be kept.

use super::layout::Layout;
use super::value::Value;
use crate::time::Timestamp;

/// What happened. `op` is a number of the caller's own, `ask` and `send` are numbers from an [`Effect`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Load everything.
    Start,
    /// Add an entity, or give it another value.
    Put {
        /// Answered by [`Effect::Resolve`] or [`Effect::Reject`].
        op: u64,
        /// The entity.
        id: String,
        /// Its value.
        value: Value,
    },
    /// Remove entities.
    Remove {
        /// As for `Put`.
        op: u64,
        /// The entities; those that are not there are no error.
        ids: Vec<String>,
    },
    /// Remove every entity there is, and nothing else.
    Reset {
        /// As for `Put`.
        op: u64,
    },
    /// Store settings.
    SetSettings {
        /// As for `Put`.
        op: u64,
        /// The whole document; the application has checked its fields.
        value: Value,
    },
    /// Keep entities in another layout from now on.
    SetLayout {
        /// As for `Put`.
        op: u64,
        /// The layout.
        layout: Layout,
    },
    /// Look for orphans among all keys; they are removed when they still are orphans a while later.
    Sweep {
        /// As for `Put`; answered when the search is done.
        op: u64,
    },
    /// From now on this context talks to the node for all contexts on this storage, or does not any more. Exactly one
    /// should: hold a lock for it. Only where [`Config::bridged`](super::Config::bridged) is set. Given again, it means
    /// that the node may be reachable again, and nothing has to be waited for.
    Link {
        /// Whether it does.
        up: bool,
    },
    /// The node has told that its log has come to this number.
    Told {
        /// The number.
        number: u64,
    },
    /// Answers [`Effect::Pull`] and [`Effect::Push`]: the node's answer, JSON.
    Answered {
        /// Which question.
        ask: u64,
        /// The body.
        text: String,
    },
    /// Answers them too: the node could not be reached, or refused.
    Unanswered {
        /// Which question.
        ask: u64,
        /// The stable word of a refusal; `None`: no answer, or one of a failing node.
        refusal: Option<String>,
        /// A fresh random number, so that not everybody comes back at once.
        random: u32,
    },
    /// Answers [`Effect::Get`]: every key that was asked for, with its contents as JSON.
    Got {
        /// Which question.
        ask: u64,
        /// Key and contents; `None`: there is no such key.
        found: Vec<(String, Option<String>)>,
    },
    /// Answers [`Effect::Set`] and [`Effect::Remove`]: it is done, and survives a crash.
    Stored {
        /// Which question.
        ask: u64,
    },
    /// Answers [`Effect::Swap`]: it is done, and survives a crash.
    Swapped {
        /// Which question.
        ask: u64,
        /// Every key with what it held before.
        before: Vec<(String, Option<String>)>,
    },
    /// Answers [`Effect::List`].
    Listed {
        /// Which question.
        ask: u64,
        /// All keys of the storage area.
        keys: Vec<String>,
    },
    /// Answers any of them: it was not done.
    Failed {
        /// Which question.
        ask: u64,
        /// Why.
        failure: Failure,
    },
    /// Keys of the storage area changed, by whomever.
    Changed(Vec<(String, Option<String>)>),
    /// Another context sent this text.
    Message(String),
    /// Somebody acknowledged a message.
    Acked {
        /// Which one.
        send: u64,
    },
    /// Nobody was there to hear a message.
    NoReceiver {
        /// Which one.
        send: u64,
    },
    /// The time of [`Output::wake_at`] has come, or may have come unnoticed.
    Timer,
    /// Changes may have been missed: the page was frozen, or is back from the back/forward cache.
    Refresh,
    /// The context is cut off from its storage for good.
    Close,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Read keys, at least as they are when this is carried out; answer with [`Input::Got`] or [`Input::Failed`].
    Get {
        /// The question's number.
        ask: u64,
        /// The keys.
        keys: Vec<String>,
    },
    /// Store keys: all at once where that can be done, otherwise in this order. Answer with [`Input::Stored`] when it
    /// survives a crash, with [`Input::Failed`] when any of it was not done ([`Failure::Quota`]: there is no room).
    Set {
        /// The question's number.
        ask: u64,
        /// Key and contents as JSON.
        entries: Vec<(String, String)>,
    },
    /// Store keys and read what they held before, in one step that nobody comes between: all of it or nothing. Only where
    /// [`Config::swaps`](super::Config::swaps) is set. Answer with [`Input::Swapped`], or as for `Set` when it was not done.
    Swap {
        /// The question's number.
        ask: u64,
        /// Key and contents as JSON.
        entries: Vec<(String, String)>,
    },
    /// Remove keys; those that are not there are no error. Answer as for `Set`.
    Remove {
        /// The question's number.
        ask: u64,
        /// The keys.
        keys: Vec<String>,
    },
    /// Name all keys of the storage area; answer with [`Input::Listed`] or [`Input::Failed`].
    List {
        /// The question's number.
        ask: u64,
    },
    /// Send a text to the other contexts; tell [`Input::Acked`] or [`Input::NoReceiver`] if anything is known of it.
    Send {
        /// The message's number.
        send: u64,
        /// The text.
        text: String,
    },
    /// Loading is done. What there is has been rendered before.
    Ready,
    /// Show an entity as it is now; `None`: show it no more.
    Render {
        /// The entity.
        id: String,
        /// Its value.
        value: Option<Value>,
    },
    /// There are no entities any more: clear the whole view.
    Clear,
    /// The settings are these now; `None`: nobody has set any.
    Settings(Option<Value>),
    /// A caller's operation is stored.
    Resolve {
        /// The caller's number.
        op: u64,
    },
    /// A caller's operation is not stored; what it changed in the view has been changed back.
    Reject {
        /// The caller's number.
        op: u64,
        /// Why.
        error: Error,
    },
    /// Ask the node for changes: `GET /api/state/{space}?{query}`. Answer with [`Input::Answered`] or
    /// [`Input::Unanswered`].
    Pull {
        /// The question's number.
        ask: u64,
        /// The query, ready to be used.
        query: String,
    },
    /// Send the node changes: `POST /api/state/{space}`. Answer as for `Pull`.
    Push {
        /// The question's number.
        ask: u64,
        /// The body, JSON.
        body: String,
    },
    /// How this context stands with the node, whenever that changes.
    Link(LinkStatus),
    /// Something to log.
    Report(Report),
}

/// How a context stands with the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkStatus {
    /// This context does not talk to the node.
    Down,
    /// Changes are being exchanged, or are waiting to be.
    Behind,
    /// The node has everything, and there was nothing more when it was last asked.
    InStep,
    /// The node does not answer; it is asked again later. Changes wait in storage.
    Unreachable,
    /// This machine's clock is too far from the node's: its changes would win over all others', or lose to all. Nothing is
    /// exchanged until it is set right; changes wait in storage.
    ClockOff,
    /// The node refuses; it is asked again later. Its stable word says why.
    Refused(String),
}

/// What [`Replica::handle`](super::Replica::handle) returns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// What to do, in this order.
    pub effects: Vec<Effect>,
    /// When to bring [`Input::Timer`]; replaces what was asked for before.
    pub wake_at: Option<Timestamp>,
}

/// Why the storage refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It is full.
    Quota,
    /// It is not there any more.
    Gone,
    /// Answers [`Effect::Set`]: somebody has written since this context last read; nothing was done. It reads again.
    Overtaken,
    /// Anything else; trying again may help.
    Other,
}

/// Why an operation was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The id is empty, too long, or has control characters.
    #[error("not an id")]
    BadId,
    /// Settings that the application's own check refuses.
    #[error("settings are not valid")]
    BadSettings,
    /// More entities than a space may hold.
    #[error("too many entities")]
    TooMany,
    /// More operations at once than are kept waiting.
    #[error("too many operations at once")]
    Busy,
    /// The storage is full.
    #[error("storage is full")]
    Quota,
    /// The storage refused.
    #[error("storage failed")]
    Storage,
    /// The context was closed, or cannot use what is stored.
    #[error("closed")]
    Closed,
}

impl Error {
    /// Whether the same operation may succeed later.
    #[must_use]
    pub const fn retryable(&self) -> bool {
        matches!(self, Self::Busy | Self::Storage)
    }
}

/// Something worth a line in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Report {
    /// A key holds what nobody here can read. It is not shown; should it have to be overwritten, its contents are kept
    /// under [`ASIDE_PREFIX`](super::names::ASIDE_PREFIX).
    Poisoned {
        /// The key.
        key: String,
    },
    /// An entity could not be brought to the present schema and stays as it is.
    NotMigrated {
        /// The entity.
        id: String,
    },
    /// What is stored is of a newer schema than this program's.
    NewerSchema {
        /// The version stored.
        stored: u32,
    },
    /// Nobody heard a message; what it said is stored.
    NoReceiver,
    /// Nobody acknowledged a message, however often it was sent; what it said is stored.
    Unacknowledged,
    /// More came in while loading than is kept: everything is read again.
    Overflow,
    /// The storage refused something that is tried again later.
    StorageFailed(Failure),
    /// The time of day was set or this context slept: everything is read again.
    ClockJumped,
    /// Storage was cleared under this context: what it held is gone.
    Cleared,
}
