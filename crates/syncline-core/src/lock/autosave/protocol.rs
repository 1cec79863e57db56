//! The words between the rules of AutoSave and whoever carries them out.
//!
//! [`Input`] is what happened, [`Output`] is what to do, [`Status`] is what the user sees. Plain values; nothing is decided here.

use crate::lock::protocol::Loss;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input {
    /// The document is open in this tab, as the stored version `stamp` (0: there is none yet). After `Refused`, the lock is
    /// asked for again.
    Open {
        /// The stamp of what was read.
        stamp: u64,
    },
    /// The application changed the document. Ignored unless [`AutoSave::accepts`](super::AutoSave::accepts) the line.
    Changed {
        /// The line that the changed text grew out of.
        line: u64,
        /// The version of the new text.
        version: u64,
    },
    /// The application wants it saved now.
    Flush,
    /// The lock is held.
    Acquired,
    /// The lock is held by another tab; it is waited for.
    Waiting,
    /// The lock cannot be had at all.
    Refused,
    /// The lease is gone.
    Lost(Loss),
    /// The stored version was read: its stamp, 0 when there is none.
    Loaded {
        /// Its stamp.
        stamp: u64,
    },
    /// It could not be read.
    LoadFailed,
    /// The temporary file is complete and on disk.
    TempWritten,
    /// It could not be written.
    TempFailed,
    /// The temporary file is in place.
    Switched,
    /// It is not, and the stored version is the old one.
    SwitchFailed,
    /// Another tab saved version `stamp`.
    Heard {
        /// Its stamp.
        stamp: u64,
    },
    /// After `Conflict`: this tab's document shall replace the stored one.
    KeepMine,
    /// After `Conflict`: the stored document shall replace this tab's.
    TakeTheirs,
    /// The moment of [`AutoSave::wake_at`](super::AutoSave::wake_at) has come.
    Timer,
    /// The page goes.
    Hide,
    /// The page is back.
    Show,
    /// The application closes the document.
    Close,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Output {
    /// Acquire the lock, to be kept.
    Acquire,
    /// Release it, if it is held.
    Release,
    /// Read the stamp of the stored version; answered by `Loaded` or `LoadFailed`.
    Load,
    /// Show the stored version instead of what the application has.
    Adopt {
        /// The line that it begins.
        line: u64,
    },
    /// Both have changed: ask the application for `KeepMine` or `TakeTheirs`.
    Conflict {
        /// The stored stamp.
        stored: u64,
    },
    /// Write the document as it is now, with this stamp, to the temporary file of this lease, and flush it; answered by
    /// `TempWritten` or `TempFailed`.
    WriteTemp {
        /// To be stored with it.
        stamp: u64,
    },
    /// Put the temporary file in place, under a commit of the lock; answered by `Switched` or `SwitchFailed`.
    Switch,
    /// Tell the other tabs that version `stamp` is stored.
    Announce {
        /// Its stamp.
        stamp: u64,
    },
    /// The page goes and there is nothing left to save: tell the lock.
    Yield,
    /// Show this state.
    Show(Status),
}

/// What the user sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Nothing is known yet.
    Opening,
    /// All changes are stored.
    Saved,
    /// Changes are being stored, or will be in a moment.
    Saving,
    /// Changes could not be stored; it is tried again.
    Unsaved,
    /// Another tab holds the project.
    ReadOnly,
    /// Another tab has taken the project over from this one.
    TakenOver,
    /// The lease was lost, or cannot be had.
    Lost,
    /// The stored document and this one have both changed.
    Conflict,
}

impl Status {
    /// The word for pages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Saved => "saved",
            Self::Saving => "saving",
            Self::Unsaved => "unsaved",
            Self::ReadOnly => "read-only",
            Self::TakenOver => "taken-over",
            Self::Lost => "lost",
            Self::Conflict => "conflict",
        }
    }
}
