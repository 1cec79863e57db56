//! One tab: the real lock and the real AutoSave, wired as a page wires them.

use std::collections::VecDeque;

use syncline_core::lock::autosave::{self, AutoSave};
use syncline_core::lock::protocol::{Call, EventKind, Options, Setup};
use syncline_core::lock::{Input, LeaseId, Machine, Moment, Output};
use syncline_core::time::Timestamp;
use syncline_sim::{ActorId, Context, Event};

use crate::fate::Life;
use crate::page::{Change, News, Page, Text};
use crate::{Bug, Note, Shared};

const LOCK_TIMER: u64 = 0;
const SAVE_TIMER: u64 = 1;
const TEMP_TIMER: u64 = 2;
const USER_TIMER: u64 = 3;
const PAGE_TIMER: u64 = 4;

pub(crate) struct Tab {
    lock: Machine,
    pub(crate) save: AutoSave,
    browser: ActorId,
    shared: Shared,
    life: Life,
    page: Page,
    /// The text as the worker has it, and as it last read it with its stamp.
    text: Text,
    stored: (u64, Text),
    opening: bool,
    /// The world's time at which its monotonic clock stood at zero.
    origin_ms: i64,
    opens: u64,
    calls: u32,
    commit: Option<Call>,
    /// What is in the temporary file, and whether the user chose to replace what others stored.
    temp: (u64, Text),
    unseen_allowed: bool,
    renaming: bool,
    /// The last document was not put in place.
    revoked: bool,
    pub(crate) typing: bool,
    todo: VecDeque<Todo>,
}

enum Todo {
    Lock(Input),
    Save(autosave::Input),
    Change(Change),
}

impl Tab {
    pub(crate) fn new(setup: Setup, browser: ActorId, life: Life, shared: Shared) -> Self {
        Self {
            lock: Machine::new(setup),
            save: AutoSave::new(),
            browser,
            shared,
            life,
            page: Page::new(life.style),
            text: Text::default(),
            stored: (0, Text::default()),
            opening: true,
            origin_ms: 0,
            opens: 0,
            calls: 0,
            commit: None,
            temp: (0, Text::default()),
            unseen_allowed: false,
            renaming: false,
            revoked: false,
            typing: true,
            todo: VecDeque::new(),
        }
    }

    /// Whether it would write at this moment of the world.
    pub(crate) fn believes(&self, world_ms: u64, wall_ms: u64) -> bool {
        let mono = Timestamp::from_ms(world_ms.saturating_add_signed(-self.origin_ms));
        match self.life.bug {
            Some(Bug::NoCheckAfterResume) => self.lock.lease().is_some(),
            _ => self.lock.certain(Moment { mono, wall: Timestamp::from_ms(wall_ms) }),
        }
    }

    pub(crate) fn handle(&mut self, event: Event<Note>, context: &mut Context<'_, Note>) {
        match event {
            Event::Start => {
                self.origin_ms = context.world_ms() as i64 - context.now_ms() as i64;
                context.send(self.browser, Note::Load);
                context.set_timer(USER_TIMER, context.now_ms() + 500);
            }
            Event::Timer(LOCK_TIMER) => self.todo.push_back(Todo::Lock(Input::Timer)),
            Event::Timer(SAVE_TIMER) => self.todo.push_back(Todo::Save(autosave::Input::Timer)),
            Event::Timer(TEMP_TIMER) => {
                let failed = context.dice().chance(0.02);
                let outcome = if failed { autosave::Input::TempFailed } else { autosave::Input::TempWritten };
                self.todo.push_back(Todo::Save(outcome));
            }
            Event::Timer(PAGE_TIMER) => self.page.hear(context.now_ms()),
            Event::Timer(_) => {
                if self.typing {
                    let word = u64::from_be_bytes(context.dice().bytes());
                    self.todo.extend(self.page.type_word(word).map(Todo::Change));
                    let pause_ms = context.dice().pick(50..=4_000);
                    context.set_timer(USER_TIMER, context.now_ms() + pause_ms);
                }
            }
            Event::Message { body, .. } => self.hear(&body, context),
        }
        self.work(context);
    }

    fn hear(&mut self, note: &Note, context: &mut Context<'_, Note>) {
        use autosave::Input as Save;
        let todo = match *note {
            Note::Lock(input) => Todo::Lock(input),
            Note::Renamed { done } => {
                self.renaming = false;
                self.revoked = !done;
                if self.commit.is_none() {
                    // The lock gave up on the commit while it happened; it happened all the same, or did not.
                    self.todo.push_back(Todo::Save(if done { Save::Switched } else { Save::SwitchFailed }));
                }
                Todo::Lock(Input::Committed)
            }
            Note::Loaded(ref loaded) => {
                let failed = loaded.is_none();
                self.stored = loaded.clone().unwrap_or_else(|| self.stored.clone());
                let stamp = self.stored.0;
                match (std::mem::take(&mut self.opening), failed) {
                    (true, _) => Todo::Save(Save::Open { stamp }),
                    (false, true) => Todo::Save(Save::LoadFailed),
                    (false, false) => Todo::Save(Save::Loaded { stamp }),
                }
            }
            Note::Heard(stamp) => Todo::Save(Save::Heard { stamp }),
            Note::Hide => Todo::Save(Save::Hide),
            Note::Show => {
                self.todo.push_back(Todo::Save(Save::Show));
                Todo::Lock(Input::Show { lease: fresh(context) })
            }
            _ => return,
        };
        self.todo.push_back(todo);
    }

    /// Hands everything on until nothing is left to hand on.
    fn work(&mut self, context: &mut Context<'_, Note>) {
        let mono = Timestamp::from_ms(context.now_ms());
        let now = Moment { mono, wall: Timestamp::from_ms(context.wall_ms()) };
        while let Some(todo) = self.todo.pop_front() {
            match todo {
                Todo::Lock(input) => {
                    let outputs = self.lock.handle(now, input);
                    outputs.into_iter().for_each(|output| self.lock_wants(output, context));
                }
                Todo::Save(input) => {
                    let outputs = self.save.handle(mono, self.lock.certain(now), input);
                    outputs.into_iter().for_each(|output| self.save_wants(output, context));
                }
                Todo::Change(change) => self.change(change),
            }
        }
        let page_at = self.page.wake_at().map(Timestamp::from_ms);
        for (timer, at) in
            [(LOCK_TIMER, self.lock.wake_at()), (SAVE_TIMER, self.save.wake_at()), (PAGE_TIMER, page_at)]
        {
            match at {
                Some(at) => context.set_timer(timer, at.as_ms()),
                None => context.clear_timer(timer),
            }
        }
    }

    /// The page changed the text: as it is in the worker, or not at all.
    fn change(&mut self, Change { line, version, text }: Change) {
        let line = if self.life.bug == Some(Bug::AnyLine) { self.save.line() } else { line };
        let accepted = self.save.accepts(line);
        self.shared.borrow_mut().count(if accepted { "words" } else { "refused changes" });
        if accepted {
            self.text = text;
            self.todo.push_front(Todo::Save(autosave::Input::Changed { line, version }));
        }
    }

    /// The page is to show what is stored.
    fn show(&mut self, line: u64, context: &mut Context<'_, Note>) {
        let (stamp, text) = self.stored.clone();
        self.text = text.clone();
        let now_ms = context.now_ms();
        self.page.post(News::Document { line, stamp, text }, now_ms, context.dice());
    }

    fn lock_wants(&mut self, output: Output, context: &mut Context<'_, Note>) {
        let note = match output {
            Output::RequestWeb(request) => Note::RequestWeb(request),
            Output::AbortWeb(request) | Output::ReleaseWeb(request) => Note::LetGo(request),
            Output::StealWeb(request) => Note::StealWeb(request),
            Output::Open => {
                self.opens += 1;
                Note::Open(self.opens)
            }
            Output::Write(held) => Note::Write(held),
            Output::Close => Note::Close(self.opens),
            Output::Commit(_) => {
                self.renaming = true;
                let (stamp, text) = self.temp.clone();
                Note::Rename { stamp, text, unseen_allowed: self.unseen_allowed }
            }
            Output::Announce => Note::Free,
            other => return self.lock_says(other),
        };
        context.send(self.browser, note);
    }

    fn lock_says(&mut self, output: Output) {
        use autosave::Input as Save;
        let save = match output {
            Output::Emit(event) if event.kind == EventKind::Acquired => Save::Acquired,
            Output::Emit(event) if event.kind == EventKind::Backoff => Save::Waiting,
            Output::Lost { loss, .. } => {
                self.shared.borrow_mut().count("losses");
                Save::Lost(loss)
            }
            Output::Resolve { call, .. } if self.commit == Some(call) => {
                self.commit = None;
                if std::mem::take(&mut self.revoked) {
                    Save::SwitchFailed
                } else {
                    self.unseen_allowed = false;
                    Save::Switched
                }
            }
            Output::Reject { call, .. } if self.commit == Some(call) => {
                self.commit = None;
                if self.renaming {
                    return;
                }
                Save::SwitchFailed
            }
            Output::Reject { call, .. } if call.0 == self.calls => Save::Refused,
            _ => return,
        };
        self.todo.push_back(Todo::Save(save));
    }

    fn save_wants(&mut self, output: autosave::Output, context: &mut Context<'_, Note>) {
        use autosave::Output as Save;
        match output {
            Save::Acquire => {
                self.calls += 1;
                let options = Options { keep: true, come_back: true, ..Options::default() };
                let (call, lease) = (Call(self.calls), fresh(context));
                self.todo.push_back(Todo::Lock(Input::Acquire { call, lease, options }));
            }
            Save::Load => context.send(self.browser, Note::Load),
            Save::Conflict { .. } => {
                self.shared.borrow_mut().count("conflicts");
                self.unseen_allowed = self.life.decides && context.dice().chance(0.5);
                let keep = self.unseen_allowed;
                let chosen = if keep { autosave::Input::KeepMine } else { autosave::Input::TakeTheirs };
                self.todo.push_back(Todo::Save(chosen));
            }
            Save::WriteTemp { stamp } => {
                self.temp = (stamp, self.text.clone());
                let ms = context.dice().pick(1..=2_000);
                context.set_timer(TEMP_TIMER, context.now_ms() + ms);
            }
            Save::Switch => self.switch(),
            Save::Announce { stamp } => context.send(self.browser, Note::Saved(stamp)),
            Save::Yield => self.todo.push_back(Todo::Lock(Input::Hide)),
            Save::Adopt { line } => self.show(line, context),
            Save::Show(status) => {
                let now_ms = context.now_ms();
                self.page.post(News::Status(status), now_ms, context.dice());
            }
            Save::Release => {}
        }
    }

    fn switch(&mut self) {
        match self.lock.lease() {
            Some(lease) => {
                self.calls += 1;
                let call = Call(self.calls);
                self.commit = Some(call);
                self.todo.push_back(Todo::Lock(Input::Commit { call, lease: lease.id }));
            }
            None => self.todo.push_back(Todo::Save(autosave::Input::SwitchFailed)),
        }
    }
}

fn fresh(context: &mut Context<'_, Note>) -> LeaseId {
    LeaseId::from_random(context.dice().bytes())
}
