//! A document that saves itself while this tab holds its project, and never otherwise.
//!
//! ```text
//!               acquired, stored version read
//!   Opening ──────────────────────────────────▶ Saved ◀──────▶ Saving ──▶ Unsaved (failed; tried again)
//!      │ another tab has it                       ▲  │ lease gone
//!      └──────────▶ ReadOnly ── acquired ─────────┘  ├──▶ Lost        nobody is known to have it
//!                                                    └──▶ TakenOver   another tab has it
//!   back in possession, both sides changed: Conflict, until the application decides
//! ```
//!
//! Every text has a version. Those of one tab grow with each change, and a text is stored with the version it has then (its
//! stamp). A text that comes from storage begins a new *line*; a change names the line it grew out of, and one of an older line
//! is refused: its author had not seen what is stored.
//!
//! Guarantees: a save is begun only while the lease is certain, and put in place by one switch under the record's own
//! exclusion ([`Input::Commit`](super::Input::Commit) of the lock), so a crash leaves the old or the new version and a
//! tab that lost its lease leaves nothing; a stored version that this tab has not seen is never written over unasked;
//! a change that was accepted is never forgotten: it is saved, or the status says that it is not. A document that vanished
//! from storage is stored again from the tab that holds the project.
//!
//! Leaves to others: the lock, the files, and keeping the stamp with the stored document. The temporary file
//! must be one of this lease alone, or a tab woken from a freeze could write into another's.

mod protocol;

use std::mem;
use std::time::Duration;

use crate::lock::protocol::Loss;
use crate::retry::Policy;
use crate::time::Timestamp;

pub use protocol::{Input, Output, Status};

/// A save begins when nothing has changed for this long...
pub const QUIET: Duration = Duration::from_millis(500);

/// ...or when the oldest unsaved change is this old.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// How long a page that goes may hold on to the lock to finish its last save.
const LAST_SAVE_MAX: Duration = Duration::from_secs(1);

/// Pause before asking again whether the lease is certain.
const RECHECK: Duration = Duration::from_millis(250);

/// What is stored after storage was cleared counts on far above, from a place that depends on the moment: no other tab must take
/// it for a version that it had seen before, and storage may be cleared again before that tab wakes.
const VANISHED_GAP: u64 = 1 << 32;
const VANISHED_STEP: u64 = 1 << 10;
const VANISHED_SPREAD: u64 = 1 << 42;

/// The pauses after failed saves; they never end.
const RETRY: Policy = Policy {
    initial_delay: Duration::from_secs(1),
    max_delay: Duration::from_secs(30),
    multiplier: 2.0,
    max_attempts: u32::MAX,
    jitter: 0.0,
};

/// The saving of one document in one tab.
#[derive(Debug, Clone, Hash)]
pub struct AutoSave {
    now: Timestamp,
    lease: Standing,
    /// The stamp of the stored version that the document in this tab is, or grew out of.
    base: u64,
    /// The version of the document in this tab.
    version: u64,
    /// How many texts this tab took from storage: the line that the document in this tab belongs to.
    line: u64,
    /// When the first and the last unsaved change were made; `None`: nothing is unsaved.
    unsaved: Option<Unsaved>,
    /// What is unsaved is not to wait.
    hurried: bool,
    save: Option<Save>,
    /// An answer to `Load` is on its way.
    loading: bool,
    /// That answer will be too old to count.
    reload: bool,
    /// Saves that failed in a row.
    failures: u32,
    retry_at: Timestamp,
    /// The page goes: until when it may still save.
    leaving: Option<Timestamp>,
    shown: Option<Status>,
    out: Vec<Output>,
}

/// What this tab has of the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Standing {
    Closed,
    /// Asked for; what became of it before, if anything.
    Wanted(Status),
    /// Held; the stored version is being read.
    Reading,
    /// Held, and the stored version is known.
    Held,
    /// Held, and both sides have changed: the stored stamp.
    Torn(u64),
    /// Given up.
    Refused,
}

#[derive(Debug, Clone, Copy, Hash)]
struct Unsaved {
    since: Timestamp,
    last: Timestamp,
}

#[derive(Debug, Clone, Copy, Hash)]
struct Save {
    stamp: u64,
    /// The document has changed since the snapshot was taken.
    outdated: Option<Unsaved>,
    switching: bool,
}

impl AutoSave {
    /// A document that is not open yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            now: Timestamp::ZERO,
            lease: Standing::Closed,
            base: 0,
            version: 0,
            line: 0,
            unsaved: None,
            hurried: false,
            save: None,
            loading: false,
            reload: false,
            failures: 0,
            retry_at: Timestamp::ZERO,
            leaving: None,
            shown: None,
            out: Vec::new(),
        }
    }

    /// Takes one input and says what to do, in this order. `now` is monotonic; `certain` is what the lock says of its
    /// lease at this very moment.
    pub fn handle(&mut self, now: Timestamp, certain: bool, input: Input) -> Vec<Output> {
        self.now = self.now.max(now);
        self.take(input, certain);
        self.save_if_due(certain);
        self.leave_if_done();
        let status = self.status();
        if self.lease != Standing::Closed && self.shown != Some(status) {
            self.shown = Some(status);
            self.out.push(Output::Show(status));
        }
        mem::take(&mut self.out)
    }

    /// What the user should see.
    #[must_use]
    pub fn status(&self) -> Status {
        match self.lease {
            Standing::Closed | Standing::Reading => Status::Opening,
            Standing::Wanted(status) => status,
            Standing::Refused => Status::Lost,
            Standing::Torn(_) => Status::Conflict,
            Standing::Held if self.failures > 0 => Status::Unsaved,
            Standing::Held if self.save.is_some() || self.unsaved.is_some() => Status::Saving,
            Standing::Held => Status::Saved,
        }
    }

    /// Whether everything the application changed is stored.
    #[must_use]
    pub fn clean(&self) -> bool {
        self.unsaved.is_none() && self.save.is_none()
    }

    /// The line that the document in this tab belongs to; 0 before it is open.
    #[must_use]
    pub const fn line(&self) -> u64 {
        self.line
    }

    /// Whether a change of a text of this line is based on what this tab has. A text of an older line was overtaken by one
    /// from storage before its author saw that.
    #[must_use]
    pub const fn accepts(&self, line: u64) -> bool {
        self.line == line
    }

    /// The monotonic moment at which to bring [`Input::Timer`]. Replaces what was asked for before.
    #[must_use]
    pub fn wake_at(&self) -> Option<Timestamp> {
        let due = match (self.lease, self.save) {
            (Standing::Held, None) => self.due_at(),
            (Standing::Reading, _) if !self.loading => Some(self.retry_at),
            _ => None,
        };
        due.into_iter().chain(self.leaving).min()
    }

    fn take(&mut self, input: Input, certain: bool) {
        match input {
            Input::Open { stamp } if self.lease == Standing::Closed => {
                self.adopt(stamp);
                self.want(Status::Opening);
            }
            // The text here is what it was, and grew out of what it did.
            Input::Open { .. } if self.lease == Standing::Refused => self.want(Status::Lost),
            Input::Changed { line, version } if self.accepts(line) => self.changed(version),
            Input::Flush => self.hurry(),
            Input::Acquired if matches!(self.lease, Standing::Wanted(_)) => self.read(),
            Input::Waiting => self.waiting(),
            Input::Refused if self.lease != Standing::Closed => self.lease = Standing::Refused,
            Input::Lost(loss) => self.lost(loss),
            Input::Loaded { stamp } => self.loaded(stamp),
            Input::LoadFailed => self.load_failed(),
            Input::TempWritten => self.temp_written(certain),
            Input::Switched => self.switched(),
            Input::TempFailed | Input::SwitchFailed => self.save_failed(),
            Input::Heard { stamp } => self.heard(stamp),
            Input::KeepMine => self.resolve(true),
            Input::TakeTheirs => self.resolve(false),
            Input::Timer if self.lease == Standing::Reading && !self.loading && self.retry_at <= self.now => {
                self.load();
            }
            Input::Hide => {
                self.hurry();
                self.leaving = Some(self.now + LAST_SAVE_MAX);
            }
            Input::Show => self.leaving = None,
            Input::Close if self.lease != Standing::Closed => {
                self.lease = Standing::Closed;
                self.shown = None;
                self.out.push(Output::Release);
            }
            _ => {}
        }
    }

    fn want(&mut self, status: Status) {
        self.lease = Standing::Wanted(status);
        self.out.push(Output::Acquire);
    }

    fn changed(&mut self, version: u64) {
        self.version = self.version.max(version);
        let now = self.now;
        let changes = match &mut self.save {
            Some(save) => &mut save.outdated,
            None => &mut self.unsaved,
        };
        let since = changes.map_or(now, |changes| changes.since);
        *changes = Some(Unsaved { since, last: now });
    }

    /// Makes what is unsaved due now.
    fn hurry(&mut self) {
        self.hurried = !self.clean();
        if self.lease == Standing::Held {
            self.retry_at = self.retry_at.min(self.now);
        }
    }

    fn read(&mut self) {
        self.lease = Standing::Reading;
        self.failures = 0;
        self.load();
    }

    /// Reads the stored stamp as it is from now on: an answer that is on its way may be older than that.
    fn load(&mut self) {
        self.reload = self.loading;
        if !self.loading {
            self.loading = true;
            self.out.push(Output::Load);
        }
    }

    fn load_failed(&mut self) {
        if !self.load_answered() && self.lease == Standing::Reading {
            self.failed();
        }
    }

    /// An answer to `Load` came; true when it is too old to count.
    fn load_answered(&mut self) -> bool {
        self.loading = false;
        let outdated = self.reload;
        if outdated {
            self.load();
        }
        outdated
    }

    /// Another tab has it. What that one stored before this tab listened, or while it stood still, is read once.
    fn waiting(&mut self) {
        let Standing::Wanted(before) = self.lease else { return };
        let status = match before {
            Status::TakenOver | Status::Lost => Status::TakenOver,
            _ => Status::ReadOnly,
        };
        self.lease = Standing::Wanted(status);
        if self.shown != Some(status) && self.clean() {
            self.load();
        }
    }

    fn lost(&mut self, loss: Loss) {
        if !self.holding() {
            return;
        }
        self.failures = 0;
        // A snapshot that is not in place yet will not be; one that is being put there may still arrive.
        if self.save.is_some_and(|save| !save.switching) {
            self.forget_save();
        }
        match loss {
            // The lock asks again by itself when the page is back.
            Loss::Hidden => self.lease = Standing::Wanted(Status::Lost),
            Loss::Expired => self.want(Status::Lost),
            Loss::TakenOver => self.want(Status::TakenOver),
        }
    }

    fn loaded(&mut self, stamp: u64) {
        let reading = self.lease == Standing::Reading;
        if self.load_answered() || !reading && self.holding() {
            return;
        }
        self.failures = 0;
        self.retry_at = Timestamp::ZERO;
        if stamp == self.base {
            self.lease = if reading { Standing::Held } else { self.lease };
        } else if stamp == 0 {
            self.vanished(reading);
        } else if self.clean() {
            self.adopt(stamp);
            self.lease = if reading { Standing::Held } else { self.lease };
        } else if reading {
            self.lease = Standing::Torn(stamp);
            self.out.push(Output::Conflict { stored: stamp });
        }
    }

    /// Storage was cleared: the text of the tab that holds the project is stored again.
    fn vanished(&mut self, reading: bool) {
        if !reading {
            return;
        }
        self.lease = Standing::Held;
        self.base = 0;
        self.version += VANISHED_GAP + self.now.as_ms().wrapping_mul(VANISHED_STEP) % VANISHED_SPREAD;
        let now = self.now;
        if self.clean() {
            self.unsaved = Some(Unsaved { since: now, last: now });
        }
        self.hurry();
    }

    /// The stored text is shown from now on; a change of the one before is refused.
    fn adopt(&mut self, stamp: u64) {
        self.base = stamp;
        self.version = self.version.max(stamp);
        self.line += 1;
        self.out.push(Output::Adopt { line: self.line });
    }

    fn resolve(&mut self, mine: bool) {
        let Standing::Torn(stamp) = self.lease else { return };
        self.lease = Standing::Held;
        if mine {
            self.base = stamp;
            self.hurry();
        } else {
            (self.unsaved, self.save) = (None, None);
            self.adopt(stamp);
        }
    }

    /// A reader shows what the holder saved.
    fn heard(&mut self, stamp: u64) {
        let reader = matches!(self.lease, Standing::Wanted(_) | Standing::Refused);
        if reader && stamp != self.base && self.clean() {
            self.load();
        }
    }

    fn due_at(&self) -> Option<Timestamp> {
        let Unsaved { since, last } = self.unsaved?;
        let quiet_at = if self.hurried { Timestamp::ZERO } else { (last + QUIET).min(since + PATIENCE) };
        Some(quiet_at.max(self.retry_at))
    }

    fn save_if_due(&mut self, certain: bool) {
        if self.lease != Standing::Held || self.save.is_some() || self.due_at().is_none_or(|at| at > self.now)
        {
            return;
        }
        if !certain {
            self.retry_at = self.now + RECHECK;
            return;
        }
        let stamp = self.version.max(self.base + 1);
        self.version = stamp;
        self.unsaved = None;
        self.hurried = false;
        self.save = Some(Save { stamp, outdated: None, switching: false });
        self.out.push(Output::WriteTemp { stamp });
    }

    fn temp_written(&mut self, certain: bool) {
        let Some(save) = &mut self.save else { return };
        if save.switching {
            return;
        }
        if certain && self.lease == Standing::Held {
            save.switching = true;
            self.out.push(Output::Switch);
        } else {
            self.forget_save();
            self.retry_at = self.now + RECHECK;
        }
    }

    fn switched(&mut self) {
        let Some(save) = self.save.take_if(|save| save.switching) else { return };
        self.base = save.stamp;
        self.unsaved = save.outdated;
        self.hurried &= self.unsaved.is_some();
        self.failures = 0;
        self.retry_at = Timestamp::ZERO;
        self.out.push(Output::Announce { stamp: save.stamp });
    }

    fn save_failed(&mut self) {
        if self.save.is_some() {
            self.forget_save();
            if self.holding() {
                self.failed();
            }
        }
    }

    fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = self.now + RETRY.delay(self.failures, 0.0).unwrap_or(RETRY.max_delay);
    }

    /// The snapshot will not be stored: its changes are unsaved again.
    fn forget_save(&mut self) {
        if let Some(save) = self.save.take() {
            let last = save.outdated.map_or(self.now, |changes| changes.last);
            self.unsaved = Some(Unsaved { since: self.now, last });
        }
    }

    fn leave_if_done(&mut self) {
        let Some(until) = self.leaving else { return };
        let saving = self.lease == Standing::Held && !self.clean() && self.failures == 0;
        if !saving || until <= self.now {
            self.leaving = None;
            self.out.push(Output::Yield);
        }
    }

    fn holding(&self) -> bool {
        matches!(self.lease, Standing::Reading | Standing::Held | Standing::Torn(_))
    }
}

impl Default for AutoSave {
    fn default() -> Self {
        Self::new()
    }
}
