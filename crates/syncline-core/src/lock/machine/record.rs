//! The record, from opening to closing: nobody else can open it in between.
//!
//! One section at a time. A state that is left in the middle of one (aborted, hidden, lost) abandons it: the answer
//! that is on its way is still awaited, and what was written in our favour is taken back before the record is closed.

use std::time::Duration;

use super::attempt::{Acquisition, Fresh};
use super::{Machine, Phase};
use crate::lock::protocol::{Input, Output, Request};
use crate::lock::{Code, Held, Validity};
use crate::time::Timestamp;

/// How often a record that somebody else has open is tried, and the pause in between. They have it for milliseconds.
const OPEN_TRIES: u8 = 8;
const OPEN_PAUSE: Duration = Duration::from_millis(50);

/// How long one section may take before what it was for counts as failed.
const SECTION_MAX: Duration = Duration::from_secs(5);

/// What is going on with the record.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct Section {
    stage: Stage,
    tries: u8,
    /// When whoever waits for it stops waiting.
    until: Timestamp,
    abandoned: bool,
}

#[derive(Debug, Clone, Copy, Hash)]
enum Stage {
    /// Somebody else has it open; the next try comes then.
    Pausing(Timestamp),
    Opening,
    Granting {
        fresh: Fresh,
        took_over: bool,
    },
    /// Written in our favour, with nothing under way.
    Ours,
    Stealing {
        fresh: Fresh,
        request: Request,
        until: Timestamp,
    },
    Repairing {
        until: Timestamp,
    },
    Renewing {
        validity: Validity,
        held: Held,
    },
    Committing,
    Removing,
    /// What an abandoned section wrote is being taken back.
    Undoing,
}

impl Section {
    /// When something is due, whether or not an answer has come.
    pub(super) fn wake_at(&self, awaited: bool) -> Option<Timestamp> {
        match self.stage {
            Stage::Pausing(at) => Some(at.min(self.until)),
            Stage::Stealing { until, .. } => Some(until),
            // A commit is the owner's: it ends with its lease.
            Stage::Committing if !awaited => None,
            _ if self.abandoned && !awaited => None,
            _ => Some(self.until),
        }
    }
}

impl Machine {
    /// Opens the record for the state just entered, as soon as an abandoned section is over.
    pub(super) fn open_record(&mut self) {
        // A renewal is not called off before the lease is: taking it back would take the lease with it.
        let until = match self.phase {
            Phase::Renewing { .. } => Timestamp::from_ms(u64::MAX),
            _ => self.now.mono + SECTION_MAX,
        };
        match &mut self.section {
            Some(section) => {
                section.until = until;
                self.want_open = true;
            }
            None => {
                self.section = Some(Section { stage: Stage::Opening, tries: 1, until, abandoned: false });
                self.out.push(Output::Open);
            }
        }
    }

    pub(super) fn close_record(&mut self) {
        self.out.push(Output::Close);
        self.end_section();
    }

    /// Nobody waits for the section any more.
    pub(super) fn abandon_section(&mut self) {
        self.want_open = false;
        let Some(section) = &mut self.section else { return };
        section.abandoned = true;
        match section.stage {
            Stage::Pausing(_) => self.section = None,
            Stage::Ours | Stage::Stealing { .. } => self.undo(),
            // An answer is on its way.
            _ => {}
        }
    }

    pub(super) fn write_grant(&mut self, fresh: Fresh, took_over: bool) {
        self.write(Stage::Granting { fresh, took_over }, Some(fresh.held));
    }

    pub(super) fn write_repair(&mut self, held: Option<Held>, until: Timestamp) {
        self.write(Stage::Repairing { until }, held);
    }

    pub(super) fn write_renewal(&mut self, validity: Validity, held: Held) {
        self.write(Stage::Renewing { validity, held }, Some(held));
    }

    pub(super) fn write_removal(&mut self) {
        self.write(Stage::Removing, None);
    }

    pub(super) fn begin_commit(&mut self) {
        self.set_stage(Stage::Committing);
    }

    pub(super) fn steal(&mut self, request: Request, fresh: Fresh, until: Timestamp) {
        self.set_stage(Stage::Stealing { fresh, request, until });
    }

    /// The steal under way.
    pub(super) fn stealing(&self) -> Option<Request> {
        match self.section {
            Some(Section { stage: Stage::Stealing { request, .. }, abandoned: false, .. }) => Some(request),
            _ => None,
        }
    }

    /// The steal is over, with or without the Web Lock.
    pub(super) fn finish(&mut self, acquisition: Acquisition, web: Option<Request>) {
        if let Some(Section { stage: Stage::Stealing { fresh, .. }, .. }) = self.section {
            self.hold_it(acquisition, fresh, web);
        }
    }
    /// An answer to `Open`, `Write` or `Commit`. One that nobody asked for is ignored.
    pub(super) fn record_answered(&mut self, input: Input) {
        let Some(section) = self.section else { return };
        match (input, section.stage) {
            (Input::Opened(held), Stage::Opening) => self.opened(section, held),
            (Input::OpenBusy, Stage::Opening) => self.open_busy(section),
            (Input::OpenFailed, Stage::Opening) => self.not_opened(section, Code::FallbackOpenFailed),
            (Input::ReadFailed, Stage::Opening) => self.not_opened(section, Code::FallbackReadFailed),
            (Input::Committed, Stage::Committing) if section.abandoned => self.undo(),
            (Input::Committed, Stage::Committing) => self.committed(),
            (Input::Written | Input::WriteFailed, Stage::Granting { .. } | Stage::Renewing { .. })
                if section.abandoned =>
            {
                self.undo();
            }
            (Input::Written | Input::WriteFailed, Stage::Undoing) => self.close_freed(),
            (Input::Written, Stage::Removing) if section.abandoned => self.close_freed(),
            (Input::Written | Input::WriteFailed, Stage::Removing | Stage::Repairing { .. })
                if section.abandoned =>
            {
                self.close_record();
            }
            (Input::Written, stage) => self.written(stage),
            (
                Input::WriteFailed,
                Stage::Granting { .. } | Stage::Renewing { .. } | Stage::Repairing { .. } | Stage::Removing,
            ) => {
                self.close_record();
                self.record_failed(Code::FallbackWriteFailed);
            }
            _ => {}
        }
    }

    /// A moment of [`Section::wake_at`] has come.
    pub(super) fn section_due(&mut self, section: Section) {
        let now = self.now.mono;
        match (section.stage, self.phase) {
            (Stage::Pausing(at), _) if at <= now && now < section.until => {
                self.set_stage(Stage::Opening);
                self.out.push(Output::Open);
            }
            (Stage::Pausing(_), _) => self.not_opened(section, Code::FallbackReadFailed),
            (Stage::Stealing { .. }, Phase::Switching { acquisition }) => self.finish(acquisition, None),
            _ => {
                self.abandon_section();
                self.record_failed(Code::FallbackReadFailed);
            }
        }
    }

    fn opened(&mut self, section: Section, held: Option<Held>) {
        match self.phase {
            _ if section.abandoned => self.close_record(),
            Phase::Requesting { acquisition, .. } | Phase::Switching { acquisition } => {
                self.decide_grant(acquisition, held);
            }
            Phase::Renewing { .. } => self.decide_renew(held),
            Phase::Releasing { .. } => self.decide_release(held),
            _ => self.close_record(),
        }
    }

    fn open_busy(&mut self, section: Section) {
        if section.abandoned || section.tries >= OPEN_TRIES {
            self.not_opened(section, Code::FallbackReadFailed);
        } else if let Some(section) = &mut self.section {
            section.tries += 1;
            section.stage = Stage::Pausing(self.now.mono + OPEN_PAUSE);
        }
    }

    fn not_opened(&mut self, section: Section, code: Code) {
        self.end_section();
        if !section.abandoned {
            self.record_failed(code);
        }
    }

    fn written(&mut self, stage: Stage) {
        match stage {
            Stage::Granting { fresh, took_over } => {
                self.set_stage(Stage::Ours);
                self.granted(fresh, took_over);
            }
            Stage::Renewing { validity, held } => {
                self.set_stage(Stage::Ours);
                self.renewed(validity, held);
            }
            Stage::Repairing { until } => {
                self.close_record();
                self.fail(Code::WebLockUnavailable, Some(until));
            }
            Stage::Removing => self.released(),
            _ => {}
        }
    }

    /// What the section was for has failed; it is over, or abandoned.
    fn record_failed(&mut self, code: Code) {
        match self.phase {
            Phase::Requesting { .. } | Phase::Switching { .. } => self.fail(code, None),
            Phase::Renewing { .. } => self.renew_failed(code),
            Phase::Releasing { .. } => self.release_failed(),
            _ => {}
        }
    }

    /// Takes back what was written in our favour.
    fn undo(&mut self) {
        self.set_stage(Stage::Undoing);
        self.out.push(Output::Write(None));
    }

    /// The record is empty again, as far as we can tell.
    fn close_freed(&mut self) {
        self.out.push(Output::Announce);
        self.close_record();
    }

    fn write(&mut self, stage: Stage, held: Option<Held>) {
        self.set_stage(stage);
        self.out.push(Output::Write(held));
    }

    fn set_stage(&mut self, stage: Stage) {
        if let Some(section) = &mut self.section {
            section.stage = stage;
        }
    }

    fn end_section(&mut self) {
        self.section = None;
        if self.want_open {
            self.want_open = false;
            self.open_record();
        }
    }
}
