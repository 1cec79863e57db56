//! A tab for table tests: scripted Web Locks, a lease file in memory, a fake clock, and a probe that keeps what the
//! listeners, the callers and the log were told.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use syncline_core::lock::protocol::{
    Call, Event, EventKind, Loss, Options, Place, Request, Setup, Source, State,
};
use syncline_core::lock::{Code, Held, Input, Lease, LeaseId, Machine, Moment, Output, Ttl};
use syncline_core::time::Timestamp;

/// 2025-11-11T00:00Z.
pub(crate) const WALL_START_MS: u64 = 1_762_819_200_000;

/// What the next Web Lock request meets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Web {
    Granted,
    NotSupported,
    Hangs,
}

/// `project/.lock`, shared by the tabs of a test.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) record: Option<Held>,
    pub(crate) open: bool,
    /// What the next operations meet instead of success: the input that is brought.
    pub(crate) trouble: VecDeque<Input>,
}

pub(crate) struct Tab {
    pub(crate) machine: Machine,
    pub(crate) now: Moment,
    pub(crate) file: Rc<RefCell<File>>,
    pub(crate) script: VecDeque<Web>,
    pub(crate) web_held: Vec<Request>,
    pub(crate) asked: Vec<Request>,
    pub(crate) events: Vec<Event>,
    pub(crate) answers: Vec<(u32, Result<Option<Lease>, Code>)>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) logged: Vec<Code>,
    pub(crate) announced: u32,
    pub(crate) stolen: u32,
    pub(crate) commits: u32,
    calls: u32,
}

impl Tab {
    pub(crate) fn new() -> Self {
        Self::with(Setup { web_locks: true, place: Place::File }, &Rc::default())
    }

    pub(crate) fn without_web_locks(file: &Rc<RefCell<File>>) -> Self {
        Self::with(Setup { web_locks: false, place: Place::File }, file)
    }

    pub(crate) fn with(setup: Setup, file: &Rc<RefCell<File>>) -> Self {
        let now = Moment { mono: Timestamp::from_ms(1_000), wall: Timestamp::from_ms(WALL_START_MS) };
        Self {
            machine: Machine::new(setup),
            now,
            file: Rc::clone(file),
            script: VecDeque::new(),
            web_held: Vec::new(),
            asked: Vec::new(),
            events: Vec::new(),
            answers: Vec::new(),
            losses: Vec::new(),
            logged: Vec::new(),
            announced: 0,
            stolen: 0,
            commits: 0,
            calls: 0,
        }
    }

    /// Brings an input and carries out what follows, until nothing does.
    pub(crate) fn bring(&mut self, input: Input) {
        let mut todo = VecDeque::from(self.machine.handle(self.now, input));
        while let Some(output) = todo.pop_front() {
            if let Some(answer) = self.carry_out(output) {
                todo.extend(self.machine.handle(self.now, answer));
            }
        }
    }

    pub(crate) fn acquire(&mut self, options: Options) -> LeaseId {
        self.calls += 1;
        let lease = LeaseId::from_random([self.calls as u8; 16]);
        self.bring(Input::Acquire { call: Call(self.calls), lease, options });
        lease
    }

    /// Acquires and returns the lease that was resolved.
    pub(crate) fn acquired(&mut self, options: Options) -> Lease {
        self.acquire(options);
        match self.answers.last() {
            Some((_, Ok(Some(lease)))) => *lease,
            other => panic!("not acquired: {other:?}"),
        }
    }

    pub(crate) fn renew(&mut self, lease: LeaseId, ms: u64) {
        self.calls += 1;
        let ttl = Ttl::from_ms(ms).expect("within bounds");
        self.bring(Input::Renew { call: Call(self.calls), lease, ttl });
    }

    pub(crate) fn release(&mut self, lease: LeaseId) {
        self.calls += 1;
        self.bring(Input::Release { call: Call(self.calls), lease });
    }

    pub(crate) fn commit(&mut self, lease: LeaseId) {
        self.calls += 1;
        self.bring(Input::Commit { call: Call(self.calls), lease });
    }

    pub(crate) fn last_call(&self) -> Call {
        Call(self.calls)
    }

    /// Lets time pass on both clocks; the timers fire when they are due.
    pub(crate) fn pass(&mut self, ms: u64) {
        let end = self.now.mono + Duration::from_millis(ms);
        while let Some(at) = self.machine.wake_at().filter(|at| *at <= end) {
            self.jump(at.saturating_since(self.now.mono));
            self.bring(Input::Timer);
        }
        self.jump(end.saturating_since(self.now.mono));
    }

    /// Lets time pass without any timer: frozen, or asleep.
    pub(crate) fn jump(&mut self, time: Duration) {
        self.now = Moment { mono: self.now.mono + time, wall: self.now.wall + time };
    }

    pub(crate) fn kinds(&self) -> Vec<EventKind> {
        self.events.iter().map(|event| event.kind).collect()
    }

    pub(crate) fn state(&self) -> State {
        self.machine.state()
    }

    /// The last answer's failure.
    pub(crate) fn failure(&self) -> Option<Code> {
        self.answers.last().and_then(|(_, answer)| answer.err())
    }

    pub(crate) fn source(&self) -> Option<Source> {
        self.machine.lease().map(|lease| lease.source)
    }

    pub(crate) fn certain(&self) -> bool {
        self.machine.certain(self.now)
    }

    fn carry_out(&mut self, output: Output) -> Option<Input> {
        match output {
            Output::RequestWeb(request) => {
                self.asked.push(request);
                return match self.script.pop_front().unwrap_or(Web::Granted) {
                    Web::Granted => {
                        self.web_held.push(request);
                        Some(Input::WebGranted(request))
                    }
                    Web::NotSupported => Some(Input::WebRefused(request)),
                    Web::Hangs => None,
                };
            }
            Output::StealWeb(request) => {
                self.stolen += 1;
                self.web_held.push(request);
                return Some(Input::WebGranted(request));
            }
            Output::AbortWeb(request) => assert!(self.asked.contains(&request)),
            Output::ReleaseWeb(request) => {
                let at = self.web_held.iter().position(|held| *held == request);
                self.web_held.remove(at.expect("only a held Web Lock is released"));
            }
            Output::Open => return Some(self.open()),
            Output::Write(held) => {
                let mut file = self.file.borrow_mut();
                assert!(file.open, "written without exclusion");
                if let Some(trouble) = file.trouble.pop_front() {
                    return Some(trouble);
                }
                file.record = held;
                return Some(Input::Written);
            }
            Output::Commit(_) => {
                assert!(self.file.borrow().open && self.certain());
                self.commits += 1;
                return Some(Input::Committed);
            }
            Output::Close => {
                assert!(std::mem::replace(&mut self.file.borrow_mut().open, false), "closed twice");
            }
            Output::Announce => self.announced += 1,
            Output::Resolve { call, lease } => self.answers.push((call.0, Ok(lease))),
            Output::Reject { call, code } => self.answers.push((call.0, Err(code))),
            Output::Emit(event) => self.events.push(event),
            Output::Lost { loss, .. } => self.losses.push(loss),
            Output::Report(code) => self.logged.push(code),
        }
        None
    }

    fn open(&mut self) -> Input {
        let mut file = self.file.borrow_mut();
        match file.trouble.front() {
            Some(Input::OpenBusy | Input::OpenFailed | Input::ReadFailed) => {
                file.trouble.pop_front().expect("just seen")
            }
            _ => {
                assert!(!std::mem::replace(&mut file.open, true), "opened twice");
                Input::Opened(file.record)
            }
        }
    }
}
