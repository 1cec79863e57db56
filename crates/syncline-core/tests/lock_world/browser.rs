//! What the tabs share: one Web Lock, one record, one stored document. It keeps its own books and judges by them.

use std::collections::VecDeque;

use syncline_core::lock::protocol::{Place, Request};
use syncline_core::lock::{Held, Input, LeaseId};
use syncline_sim::{ActorId, Context, Event};

use crate::{Bug, Note, Shared};

pub(crate) struct Browser {
    pub(crate) place: Place,
    pub(crate) bug: Option<Bug>,
    pub(crate) shared: Shared,
    /// How often an operation fails.
    pub(crate) trouble: f64,
    pub(crate) tabs: Vec<ActorId>,
    web: Option<(ActorId, Request)>,
    queue: VecDeque<(ActorId, Request)>,
    record: Option<Held>,
    /// Who was last granted the record, and how many were before.
    owner: Option<(ActorId, u64)>,
    grants: u64,
    /// Who has the record open, and for which time.
    open: Option<(ActorId, u64)>,
    /// Transactions that wait for it.
    opening: VecDeque<(ActorId, u64)>,
    stored: u64,
    committed: u64,
}

impl Browser {
    pub(crate) fn new(place: Place, bug: Option<Bug>, shared: Shared) -> Self {
        Self {
            place,
            bug,
            shared,
            trouble: 0.01,
            tabs: Vec::new(),
            web: None,
            queue: VecDeque::new(),
            record: None,
            owner: None,
            grants: 0,
            open: None,
            opening: VecDeque::new(),
            stored: 0,
            committed: 0,
        }
    }

    pub(crate) fn handle(&mut self, event: Event<Note>, context: &mut Context<'_, Note>) {
        let Event::Message { from, body } = event else { return };
        match body {
            Note::Open(number) => self.open_record(from, number, context),
            Note::Write(held) => self.write(from, held, context),
            Note::Rename { stamp, unseen_allowed } => {
                self.rename(from, stamp, unseen_allowed);
                context.send(from, Note::Renamed);
            }
            Note::Close(number) => self.close(from, number, context),
            Note::RequestWeb(request) => {
                self.queue.push_back((from, request));
                self.grant_web(context);
            }
            Note::LetGo(request) => self.let_go(from, request, context),
            Note::StealWeb(request) => self.steal(from, request, context),
            Note::Stat => {
                let note = if context.dice().chance(self.trouble) { None } else { Some(self.stored) };
                context.send(from, Note::Stamp(note));
            }
            Note::Free => self.broadcast(from, &Note::Lock(Input::Woken), context),
            Note::Saved(stamp) => self.broadcast(from, &Note::Heard(stamp), context),
            Note::Gone(tab) => self.gone(tab, context),
            _ => {}
        }
    }

    fn open_record(&mut self, from: ActorId, number: u64, context: &mut Context<'_, Note>) {
        if context.dice().chance(self.trouble) {
            self.shared.borrow_mut().count("failing reads");
            context.send(from, Note::Lock(Input::ReadFailed));
        } else if self.open.is_none() || self.bug == Some(Bug::ReadThenWrite) {
            self.open = Some((from, number));
            context.send(from, Note::Lock(Input::Opened(self.record)));
        } else if self.place == Place::Idb {
            self.opening.push_back((from, number));
        } else {
            self.shared.borrow_mut().count("busy records");
            context.send(from, Note::Lock(Input::OpenBusy));
        }
    }

    fn write(&mut self, from: ActorId, held: Option<Held>, context: &mut Context<'_, Note>) {
        let trouble = context.dice().chance(self.trouble);
        let outcome = if trouble { context.dice().pick(0..=2) } else { 3 };
        let written = match outcome {
            0 => None,
            1 => Some(Some(Held::UNREADABLE)),
            _ => Some(held),
        };
        if let Some(record) = written {
            let lease = |record: Option<Held>| record.map_or(LeaseId::UNKNOWN, |held| held.lease);
            if lease(record) == LeaseId::UNKNOWN {
                self.owner = None;
            } else if lease(record) != lease(self.record) {
                self.grants += 1;
                self.owner = Some((from, self.grants));
                self.shared.borrow_mut().count("grants");
            }
            self.record = record;
        }
        if trouble {
            self.shared.borrow_mut().count("failing writes");
        }
        context.send(from, Note::Lock(if trouble { Input::WriteFailed } else { Input::Written }));
    }

    /// The document is replaced: by the owner of the record, in the order of the grants, never over a version unseen.
    fn rename(&mut self, from: ActorId, stamp: u64, unseen_allowed: bool) {
        let (owner, grant) = self.owner.unwrap_or((from, 0));
        let exclusive = self.open.is_some_and(|(tab, _)| tab == from);
        assert!(
            exclusive && owner == from,
            "a save without the lock: {from:?}, but {owner:?} owns the record"
        );
        assert!(grant >= self.committed, "a save after a later holder's");
        assert!(unseen_allowed || stamp == self.stored + 1, "version {stamp} over version {}", self.stored);
        (self.stored, self.committed) = (stamp, grant);
        self.shared.borrow_mut().count("saves");
    }

    fn close(&mut self, from: ActorId, number: u64, context: &mut Context<'_, Note>) {
        self.opening.retain(|waiting| *waiting != (from, number));
        if self.open == Some((from, number)) {
            self.open = self.opening.pop_front();
            if let Some((next, _)) = self.open {
                context.send(next, Note::Lock(Input::Opened(self.record)));
            }
        }
    }

    fn steal(&mut self, from: ActorId, request: Request, context: &mut Context<'_, Note>) {
        assert_eq!(self.owner.map(|(tab, _)| tab), Some(from), "stolen without the record");
        self.shared.borrow_mut().count("steals");
        if let Some((victim, held)) = self.web.replace((from, request)) {
            context.send(victim, Note::Lock(Input::WebLost(held)));
        }
        context.send(from, Note::Lock(Input::WebGranted(request)));
    }

    fn let_go(&mut self, from: ActorId, request: Request, context: &mut Context<'_, Note>) {
        self.queue.retain(|waiting| *waiting != (from, request));
        if self.web == Some((from, request)) {
            self.web = None;
            self.grant_web(context);
        }
    }

    fn grant_web(&mut self, context: &mut Context<'_, Note>) {
        if self.web.is_none()
            && let Some((tab, request)) = self.queue.pop_front()
        {
            self.web = Some((tab, request));
            // A request that was queued before a navigation can hang for ever.
            if context.dice().chance(0.02) {
                self.shared.borrow_mut().count("hanging requests");
            } else {
                context.send(tab, Note::Lock(Input::WebGranted(request)));
            }
        }
    }

    fn gone(&mut self, tab: ActorId, context: &mut Context<'_, Note>) {
        self.queue.retain(|(waiting, _)| *waiting != tab);
        self.opening.retain(|(waiting, _)| *waiting != tab);
        if let Some((holder, request)) = self.web.filter(|(holder, _)| *holder == tab) {
            self.let_go(holder, request, context);
        }
        if let Some((holder, number)) = self.open.filter(|(holder, _)| *holder == tab) {
            self.close(holder, number, context);
        }
    }

    fn broadcast(&self, from: ActorId, note: &Note, context: &mut Context<'_, Note>) {
        for tab in self.tabs.iter().filter(|tab| **tab != from) {
            // Wake-ups are a courtesy: nothing may depend on them.
            if context.dice().chance(0.8) {
                context.send(*tab, note.clone());
            }
        }
    }
}
