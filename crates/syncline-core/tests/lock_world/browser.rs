//! What the tabs share: one Web Lock, one record, one stored document. It keeps its own books and judges by them.

use std::collections::{BTreeSet, VecDeque};

use syncline_core::lock::protocol::Request;
use syncline_core::lock::{Held, Input, LeaseId};
use syncline_sim::{ActorId, Context, Event};

use crate::page::Text;
use crate::{Bug, Note, Shared};

pub(crate) struct Browser {
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
    /// The same, also after it gave the record back.
    granted_to: Option<ActorId>,
    grants: u64,
    /// Who has read the record, for which time, and whether it is still what they have read.
    open: Vec<(ActorId, u64, bool)>,
    stored: (u64, Text),
    /// The words that were ever stored and are to stay.
    promised: BTreeSet<u64>,
    committed: u64,
}

impl Browser {
    pub(crate) fn new(bug: Option<Bug>, shared: Shared) -> Self {
        Self {
            bug,
            shared,
            trouble: 0.01,
            tabs: Vec::new(),
            web: None,
            queue: VecDeque::new(),
            record: None,
            owner: None,
            granted_to: None,
            grants: 0,
            open: Vec::new(),
            stored: (0, Text::default()),
            promised: BTreeSet::new(),
            committed: 0,
        }
    }

    pub(crate) fn handle(&mut self, event: Event<Note>, context: &mut Context<'_, Note>) {
        let Event::Message { from, body } = event else { return };
        match body {
            Note::Open(number) => self.open_record(from, number, context),
            Note::Write(held) => self.write(from, held, context),
            Note::Rename { stamp, text, unseen_allowed } => {
                let done = self.rename(from, (stamp, text), unseen_allowed);
                context.send(from, Note::Renamed { done });
            }
            Note::Close(number) => self.open.retain(|(tab, time, _)| (*tab, *time) != (from, number)),
            Note::RequestWeb(request) => {
                self.queue.push_back((from, request));
                self.grant_web(context);
            }
            Note::LetGo(request) => self.let_go(from, request, context),
            Note::StealWeb(request) => self.steal(from, request, context),
            Note::Load => {
                let failed = context.dice().chance(self.trouble);
                context.send(from, Note::Loaded(if failed { None } else { Some(self.stored.clone()) }));
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
        } else {
            self.open.push((from, number, true));
            context.send(from, Note::Lock(Input::Opened(self.record)));
        }
    }

    /// Whether the record is still what this tab has read.
    fn current(&self, from: ActorId) -> bool {
        self.open.iter().any(|(tab, _, current)| *tab == from && *current)
    }

    fn write(&mut self, from: ActorId, held: Option<Held>, context: &mut Context<'_, Note>) {
        if !self.current(from) && self.bug != Some(Bug::ReadThenWrite) {
            self.shared.borrow_mut().count("lost races");
            context.send(from, Note::Lock(Input::WriteFailed));
            return;
        }
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
                self.granted_to = Some(from);
                self.shared.borrow_mut().count("grants");
            }
            self.record = record;
            for (tab, _, current) in &mut self.open {
                *current = *tab == from;
            }
        }
        if trouble {
            self.shared.borrow_mut().count("failing writes");
        }
        context.send(from, Note::Lock(if trouble { Input::WriteFailed } else { Input::Written }));
    }

    /// The document is replaced: by the owner of the record, in the order of the grants, never over a version unseen.
    /// Not done where the record was replaced since: whoever did so has put an end to the draft before.
    fn rename(&mut self, from: ActorId, (stamp, text): (u64, Text), unseen_allowed: bool) -> bool {
        if !self.current(from) && self.bug != Some(Bug::ReadThenWrite) {
            self.shared.borrow_mut().count("revoked saves");
            return false;
        }
        let (owner, grant) = self.owner.unwrap_or((from, 0));
        assert!(owner == from, "a save without the lock: {from:?}, but {owner:?} owns the record");
        assert!(grant >= self.committed, "a save after a later holder's");
        assert!(stamp > self.stored.0, "version {stamp} over version {}", self.stored.0);
        if unseen_allowed {
            self.promised.clear();
        }
        let words: BTreeSet<u64> = text.iter().copied().collect();
        if let Some(word) = self.promised.difference(&words).next() {
            panic!("word {word} of version {} or before is missing from version {stamp}", self.stored.0);
        }
        self.promised = words;
        (self.stored, self.committed) = ((stamp, text), grant);
        self.shared.borrow_mut().count("saves");
        true
    }

    /// The user clears what the site has stored.
    pub(crate) fn clear(&mut self) {
        (self.record, self.owner, self.stored) = (None, None, (0, Text::default()));
        self.promised.clear();
        for (_, _, current) in &mut self.open {
            *current = false;
        }
    }

    fn steal(&mut self, from: ActorId, request: Request, context: &mut Context<'_, Note>) {
        // It may have given the record back since: a page that is put aside does, and that may overtake the theft.
        assert_eq!(self.granted_to, Some(from), "stolen without the record");
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
        self.open.retain(|(reader, ..)| *reader != tab);
        if let Some((holder, request)) = self.web.filter(|(holder, _)| *holder == tab) {
            self.let_go(holder, request, context);
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
