//! A few tabs, one Web Lock, one record, two clocks, and whatever may go wrong with them.

use std::collections::VecDeque;
use std::time::Duration;

use syncline_core::lock::protocol::{Place, Request, State};
use syncline_core::lock::{Held, Input, Output, Ttl};

use crate::tab::{Life, Tab, fresh};

/// How long a lock that somebody waits for may be nobody's after a crash or freeze: the lease and a second.
const VACANT_MAX_MS: u64 = Ttl::DEFAULT.as_ms() + 1_000;
const WALL_START_MS: u64 = 1_762_819_200_000;
const SLOW_MS: u64 = 14_000;

/// How often each fault may still happen.
#[derive(Debug, Clone, Copy, Default, Hash)]
pub(crate) struct Budget {
    pub(crate) crashes: u8,
    pub(crate) freezes: u8,
    pub(crate) hides: u8,
    /// Of the time of day, for all.
    pub(crate) jumps: u8,
    /// Of one tab's monotonic clock.
    pub(crate) mono_jumps: u8,
    /// Failing operations on the record.
    pub(crate) troubles: u8,
    /// Web Lock grants and wake-ups that never arrive.
    pub(crate) lost: u8,
    /// Everything late by most of a lease.
    pub(crate) slow: u8,
    pub(crate) releases: u8,
    pub(crate) commits: u8,
}

/// A defect put in on purpose, to see whether it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Bug {
    None,
    /// The record is read and written without exclusion.
    ReadThenWrite,
    /// Whoever has the Web Lock does not look at the record.
    FallbackWithoutRecord,
    /// Whoever is stolen from steals back.
    StealBack,
    /// A resumed tab believes what it believed before.
    NoCheckAfterResume,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// The browser does what a tab asked of the record.
    Perform(usize),
    /// It fails.
    Fail(usize, Failure),
    /// A tab hears the next thing.
    Hear(usize),
    /// The next thing never arrives.
    Lose(usize),
    Timer(usize),
    /// Time passes to the next timer.
    Tick,
    Slow,
    Jump(i64),
    MonoJump(usize),
    Crash(usize),
    Freeze(usize),
    Thaw(usize),
    Hide(usize),
    Show(usize),
    Release(usize),
    Commit(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    Read,
    /// Nothing was written.
    Write,
    /// It was, but the tab hears that it was not.
    WriteDone,
    /// Half of it was.
    WriteTorn,
}

#[derive(Debug, Clone, Hash)]
pub(crate) struct World {
    pub(crate) tabs: Vec<Tab>,
    pub(crate) budget: Budget,
    pub(crate) bug: Bug,
    /// When the model ends.
    pub(crate) until_ms: u64,
    mono_ms: u64,
    wall_ms: u64,
    web: Option<(usize, Request)>,
    queue: VecDeque<(usize, Request)>,
    record: Option<Held>,
    /// Who has read the record and may replace it, and whether it is still what they have read.
    open: Vec<(usize, bool)>,
    /// How often the record has changed hands, and how often it had at the last commit: commits must not go back.
    grants: u32,
    committed: u32,
    /// Of each tab, the hands the record was in when it last wrote itself into it.
    granted: Vec<u32>,
    vacant_since_ms: Option<u64>,
    /// Only commits are judged, not what tabs believe.
    pub(crate) clocks_deceive: bool,
    /// No clock has jumped: only then is a take-over bounded by the lease.
    calm: bool,
}

impl World {
    /// Tabs that all ask for the lock at once.
    pub(crate) fn new(kinds: &[(bool, Place)], budget: Budget, until_ms: u64) -> Self {
        let mut world = Self {
            tabs: kinds.iter().map(|(web_locks, place)| Tab::new(*web_locks, *place)).collect(),
            budget,
            bug: Bug::None,
            until_ms,
            mono_ms: 0,
            wall_ms: WALL_START_MS,
            web: None,
            queue: VecDeque::new(),
            record: None,
            open: Vec::new(),
            grants: 0,
            committed: 0,
            granted: vec![0; kinds.len()],
            vacant_since_ms: None,
            clocks_deceive: false,
            calm: true,
        };
        for index in 0..kinds.len() {
            let wish = world.tabs[index].wish(index);
            world.bring(index, wish).expect("asking breaks nothing");
        }
        world
    }

    pub(crate) fn with_bug(self, bug: Bug) -> Self {
        Self { bug, ..self }
    }

    pub(crate) fn held(&self) -> bool {
        (0..self.tabs.len()).any(|index| self.believes(index))
    }

    /// For how long somebody has waited in vain, while that is bounded.
    pub(crate) fn vacant_ms(&self) -> u64 {
        self.vacant_since_ms.filter(|_| self.calm).map_or(0, |since| self.mono_ms - since)
    }

    /// Everything that can happen next.
    pub(crate) fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        let due = |tab: &Tab| tab.due_ms().is_some_and(|at| at <= self.mono_ms);
        for (index, tab) in self.tabs.iter().enumerate() {
            if tab.life == Life::Crashed {
                continue;
            }
            self.record_actions(index, &mut actions);
            if tab.life == Life::Running {
                if !tab.inbox.is_empty() {
                    actions.push(Action::Hear(index));
                    let losable = matches!(tab.inbox[0], Input::Woken | Input::WebGranted(_));
                    let lose = losable && self.budget.lost > 0;
                    actions.extend(lose.then_some(Action::Lose(index)));
                }
                actions.extend(due(tab).then_some(Action::Timer(index)));
                self.fate_actions(index, &mut actions);
            } else {
                actions.push(Action::Thaw(index));
            }
            actions.extend((self.budget.crashes > 0).then_some(Action::Crash(index)));
        }
        let quiet = self.tabs.iter().all(|tab| tab.quiet() && !due(tab));
        let next = self.tabs.iter().filter_map(Tab::due_ms).min();
        if quiet && next.is_some_and(|at| at <= self.until_ms) {
            actions.push(Action::Tick);
        }
        if self.budget.jumps > 0 {
            actions.extend([20_000, -20_000, 8_000].map(Action::Jump));
        }
        actions.extend((self.budget.slow > 0 && self.mono_ms < self.until_ms).then_some(Action::Slow));
        actions
    }

    fn record_actions(&self, index: usize, actions: &mut Vec<Action>) {
        let tab = &self.tabs[index];
        let Some(wants) = tab.wants else { return };
        actions.push(Action::Perform(index));
        if self.budget.troubles > 0 {
            let failures: &[Failure] = match wants {
                Output::Open => &[Failure::Read],
                Output::Write(_) => &[Failure::Write, Failure::WriteDone, Failure::WriteTorn],
                _ => &[],
            };
            actions.extend(failures.iter().map(|failure| Action::Fail(index, *failure)));
        }
    }

    fn fate_actions(&self, index: usize, actions: &mut Vec<Action>) {
        let (tab, budget) = (&self.tabs[index], &self.budget);
        let holding = tab.machine.state() == State::Holding;
        actions.extend((budget.freezes > 0).then_some(Action::Freeze(index)));
        actions.extend((budget.hides > 0 && !tab.hidden).then_some(Action::Hide(index)));
        actions.extend(tab.hidden.then_some(Action::Show(index)));
        actions.extend((budget.mono_jumps > 0).then_some(Action::MonoJump(index)));
        actions.extend((holding && budget.releases > 0).then_some(Action::Release(index)));
        actions.extend((holding && budget.commits > 0).then_some(Action::Commit(index)));
    }

    /// Does it, and says what is wrong then.
    pub(crate) fn apply(&mut self, action: Action) -> Result<(), String> {
        if matches!(
            action,
            Action::Lose(_) | Action::Slow | Action::Crash(_) | Action::Freeze(_) | Action::Fail(..)
        ) {
            self.vacant_since_ms = None;
        }
        self.perform_action(action)?;
        self.watch_vacancy();
        let holders: Vec<_> = (0..self.tabs.len()).filter(|index| self.believes(*index)).collect();
        if holders.len() > 1 && !self.clocks_deceive {
            return Err(format!("tabs {holders:?} hold the lock at once"));
        }
        if self.vacant_ms() > VACANT_MAX_MS {
            return Err(format!("nobody took over for {} ms", self.vacant_ms()));
        }
        Ok(())
    }

    fn perform_action(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Perform(index) => self.perform(index)?,
            Action::Fail(index, failure) => self.fail(index, failure),
            Action::Hear(index) => {
                let input = self.tabs[index].inbox.pop_front().expect("there is something to hear");
                if self.bug == Bug::StealBack && matches!(input, Input::WebLost(_)) {
                    self.steal(index, Request(99))?;
                }
                self.bring(index, input)?;
            }
            Action::Lose(index) => {
                self.budget.lost -= 1;
                self.tabs[index].inbox.pop_front();
            }
            Action::Timer(index) => self.bring(index, Input::Timer)?,
            Action::Tick => {
                let next = self.tabs.iter().filter_map(Tab::due_ms).min().expect("somebody waits");
                self.pass(next.saturating_sub(self.mono_ms));
            }
            Action::Slow => {
                self.budget.slow -= 1;
                self.pass(SLOW_MS);
            }
            Action::Jump(ms) => {
                self.budget.jumps -= 1;
                self.calm = false;
                self.wall_ms = self.wall_ms.saturating_add_signed(ms);
            }
            Action::MonoJump(index) => {
                self.budget.mono_jumps -= 1;
                self.tabs[index].ahead_ms += SLOW_MS;
            }
            Action::Crash(index) => self.crash(index),
            Action::Freeze(index) => {
                self.budget.freezes -= 1;
                self.tabs[index].life = Life::Frozen;
            }
            Action::Thaw(index) => self.tabs[index].life = Life::Running,
            Action::Hide(index) => {
                self.budget.hides -= 1;
                self.tabs[index].hidden = true;
                self.bring(index, Input::Hide)?;
            }
            Action::Show(index) => {
                self.tabs[index].hidden = false;
                self.tabs[index].calls += 1;
                let lease = fresh(index, self.tabs[index].calls);
                self.bring(index, Input::Show { lease })?;
            }
            Action::Release(index) => self.release(index)?,
            Action::Commit(index) => {
                self.budget.commits -= 1;
                let lease = self.tabs[index].machine.lease().expect("it holds").id;
                let call = syncline_core::lock::protocol::Call(1_000);
                self.bring(index, Input::Commit { call, lease })?;
            }
        }
        Ok(())
    }

    fn release(&mut self, index: usize) -> Result<(), String> {
        self.budget.releases -= 1;
        let lease = self.tabs[index].machine.lease().expect("it holds").id;
        let call = syncline_core::lock::protocol::Call(2_000);
        self.bring(index, Input::Release { call, lease })
    }

    /// The machine of a tab takes an input; what can be done at once is done.
    fn bring(&mut self, index: usize, input: Input) -> Result<(), String> {
        let now = self.tabs[index].moment(self.mono_ms, self.wall_ms);
        for output in self.tabs[index].machine.handle(now, input) {
            self.carry_out(index, output)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, index: usize, output: Output) -> Result<(), String> {
        match output {
            Output::Open | Output::Write(_) | Output::Commit(_) => {
                let before = self.tabs[index].wants.replace(output);
                return before
                    .map_or(Ok(()), |before| Err(format!("tab {index} still waits for {before:?}")));
            }
            Output::Close => self.open.retain(|(tab, _)| *tab != index),
            Output::RequestWeb(request) => {
                self.queue.push_back((index, request));
                self.grant_web();
            }
            Output::AbortWeb(request) => self.queue.retain(|waiting| *waiting != (index, request)),
            Output::StealWeb(request) => self.steal(index, request)?,
            Output::ReleaseWeb(request) => self.release_web(index, request),
            Output::Announce => self.announce(index),
            Output::Resolve { call, .. } | Output::Reject { call, .. } if call.0 < 1_000 => {
                self.tabs[index].answers += 1;
                if self.tabs[index].answers > self.tabs[index].calls {
                    return Err(format!("tab {index} was answered twice"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The browser does what the tab wants of the record.
    fn perform(&mut self, index: usize) -> Result<(), String> {
        let tab = &mut self.tabs[index];
        let bypass = self.bug == Bug::FallbackWithoutRecord && tab.web.is_some();
        let answer = match tab.wants.take().expect("it wants something") {
            Output::Open if bypass => Input::Opened(None),
            Output::Open => {
                self.open.push((index, true));
                Input::Opened(self.record)
            }
            Output::Write(_) if self.bug == Bug::FallbackWithoutRecord && self.read(index).is_none() => {
                Input::Written
            }
            // Somebody was faster.
            Output::Write(_) if self.read(index) == Some(false) && self.bug != Bug::ReadThenWrite => {
                Input::WriteFailed
            }
            Output::Write(held) => {
                self.write(index, held)?;
                Input::Written
            }
            Output::Commit(_) => {
                // Whoever replaced the record since has put an end to this draft before.
                if self.read(index) != Some(false) {
                    self.commit(index)?;
                }
                Input::Committed
            }
            other => return Err(format!("{other:?} is nothing to wait for")),
        };
        self.tabs[index].inbox.push_back(answer);
        Ok(())
    }

    /// Whether the record is still what this tab has read; `None`: it has not read it.
    fn read(&self, index: usize) -> Option<bool> {
        self.open.iter().find(|(tab, _)| *tab == index).map(|(_, current)| *current)
    }

    fn write(&mut self, index: usize, held: Option<Held>) -> Result<(), String> {
        if self.read(index).is_none() {
            return Err(format!("tab {index} writes a record that it has not open"));
        }
        for (tab, current) in &mut self.open {
            *current = *tab == index;
        }
        let owner = |record: Option<Held>| record.map(|held| held.lease);
        if held.is_some() && owner(held) != owner(self.record) {
            self.grants += 1;
            self.granted[index] = self.grants;
        }
        self.record = held;
        Ok(())
    }

    /// The application writes its document: nobody may come after whoever was granted later.
    fn commit(&mut self, index: usize) -> Result<(), String> {
        if self.read(index).is_none() || self.granted[index] != self.grants {
            return Err(format!("tab {index} commits without the record"));
        }
        if self.granted[index] < self.committed {
            return Err(format!("tab {index} commits after a later holder did"));
        }
        self.committed = self.granted[index];
        Ok(())
    }

    fn fail(&mut self, index: usize, failure: Failure) {
        self.budget.troubles -= 1;
        let wanted = self.tabs[index].wants.take();
        let answer = match (failure, wanted) {
            (Failure::Read, _) => Input::ReadFailed,
            (Failure::WriteDone | Failure::WriteTorn, _) if self.read(index) == Some(false) => {
                Input::WriteFailed
            }
            (Failure::WriteDone, Some(Output::Write(held))) => {
                self.write(index, held).expect("only an open record is written");
                Input::WriteFailed
            }
            (Failure::WriteTorn, _) => {
                self.write(index, Some(Held::UNREADABLE)).expect("only an open record is written");
                // Somebody unknown may hold it for one longest lease.
                self.calm = false;
                Input::WriteFailed
            }
            _ => Input::WriteFailed,
        };
        self.tabs[index].inbox.push_back(answer);
    }

    fn steal(&mut self, index: usize, request: Request) -> Result<(), String> {
        let owner = self.record.map(|held| held.lease);
        if owner.is_none_or(|lease| lease != fresh(index, self.tabs[index].calls)) {
            return Err(format!("tab {index} steals what it was not granted"));
        }
        if let Some((victim, held)) = self.web.take() {
            self.tabs[victim].web = None;
            self.tabs[victim].inbox.push_back(Input::WebLost(held));
        }
        self.give_web(index, request);
        Ok(())
    }

    fn release_web(&mut self, index: usize, request: Request) {
        if self.web == Some((index, request)) {
            self.web = None;
            self.tabs[index].web = None;
            self.grant_web();
        }
    }

    fn grant_web(&mut self) {
        if self.web.is_none()
            && let Some((index, request)) = self.queue.pop_front()
        {
            self.give_web(index, request);
        }
    }

    fn give_web(&mut self, index: usize, request: Request) {
        self.web = Some((index, request));
        self.tabs[index].web = Some(request);
        self.tabs[index].inbox.push_back(Input::WebGranted(request));
    }

    fn announce(&mut self, from: usize) {
        for (index, tab) in self.tabs.iter_mut().enumerate() {
            if index != from && tab.life != Life::Crashed {
                tab.inbox.push_back(Input::Woken);
            }
        }
    }

    fn crash(&mut self, index: usize) {
        self.budget.crashes -= 1;
        let tab = &mut self.tabs[index];
        tab.life = Life::Crashed;
        (tab.wants, tab.web) = (None, None);
        tab.inbox.clear();
        self.open.retain(|(tab, _)| *tab != index);
        self.queue.retain(|(waiting, _)| *waiting != index);
        if self.web.is_some_and(|(holder, _)| holder == index) {
            self.web = None;
            self.grant_web();
        }
    }

    fn pass(&mut self, ms: u64) {
        self.mono_ms += ms;
        self.wall_ms += ms;
    }

    /// Whether a tab would write at this moment.
    fn believes(&self, index: usize) -> bool {
        let tab = &self.tabs[index];
        let state = tab.machine.state();
        match self.bug {
            _ if tab.life == Life::Crashed => false,
            Bug::NoCheckAfterResume => matches!(state, State::Holding | State::Renewing),
            _ => tab.machine.certain(tab.moment(self.mono_ms, self.wall_ms)),
        }
    }

    /// Keeps for how long somebody has waited while nobody that runs held the lock.
    fn watch_vacancy(&mut self) {
        let running = |index: &usize| self.tabs[*index].life == Life::Running;
        let held = (0..self.tabs.len()).filter(running).any(|index| self.believes(index));
        let waited = self.tabs.iter().any(Tab::waits);
        if held || !waited {
            self.vacant_since_ms = None;
        } else if self.vacant_since_ms.is_none() {
            self.vacant_since_ms = Some(self.mono_ms);
        }
    }
}

/// A second is a thousand milliseconds, also here.
pub(crate) const fn seconds(seconds: u64) -> u64 {
    Duration::from_secs(seconds).as_millis() as u64
}
