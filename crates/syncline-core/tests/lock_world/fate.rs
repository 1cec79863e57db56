//! What happens to the tabs: they crash, freeze, go and come back, and the computer's clock is set.

use std::cell::RefCell;
use std::rc::Rc;

use syncline_core::lock::protocol::{Place, Setup};
use syncline_sim::{ActorId, Link};

use crate::browser::Browser;
use crate::page::Style;
use crate::tab::Tab;
use crate::{Bug, Note, Party, Shared, Tally, World};

const WALL_START_MS: u64 = 1_762_819_200_000;
const LONG_MS: u64 = 20 * 60_000;
/// The longest way between a tab and the browser.
const LATEST_MS: u64 = 30;
/// Long enough for a record in doubt to end, and for the lease after it.
const CALM_MS: u64 = 120_000;

/// What kind of life it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    /// Clocks may jump forth and back within one lease: then only what is stored is judged.
    pub(crate) wild: bool,
    /// The user clears what is stored, now and then, and with it the record of a lease that is held.
    pub(crate) clears: bool,
    pub(crate) style: Style,
    /// After a conflict, somebody may choose to replace what others stored.
    pub(crate) decides: bool,
    pub(crate) bug: Option<Bug>,
}

impl Default for Life {
    fn default() -> Self {
        Self { wild: false, clears: false, style: Style::Bound, decides: true, bug: None }
    }
}

struct Fate {
    world: World,
    shared: Shared,
    browser: ActorId,
    tabs: Vec<(ActorId, Setup)>,
    life: Life,
    frozen: Vec<ActorId>,
    hidden: Vec<ActorId>,
    wall_offset_ms: i64,
    jumped_ms: u64,
}

/// Twenty bad minutes and two good ones.
pub(crate) fn play(seed: u64, life: Life) -> Tally {
    let mut fate = Fate::new(seed, life);
    while fate.world.now_ms() < LONG_MS {
        let pause_ms = fate.world.dice().pick(200..=6_000);
        fate.pass(pause_ms);
        fate.strike();
    }
    fate.mend();
    fate.pass(CALM_MS);
    fate.judge_calm();
    fate.shared.take()
}

impl Fate {
    fn new(seed: u64, life: Life) -> Self {
        let shared: Shared = Rc::new(RefCell::new(Tally::default()));
        let mut world = World::new(seed);
        world.set_link(Link { loss: 0.0, duplicate: 0.0, delay_ms: 1..=LATEST_MS });
        let place = if world.dice().chance(0.3) { Place::Idb } else { Place::File };
        let browser = world.spawn(Party::Browser(Box::new(Browser::new(life.bug, shared.clone()))));
        let mut tabs = Vec::new();
        for _ in 0..world.dice().pick(2..=4) {
            let setup = Setup { web_locks: world.dice().chance(0.6), place };
            let tab = Tab::new(setup, browser, life, shared.clone());
            tabs.push((world.spawn(Party::Tab(Box::new(tab))), setup));
        }
        if let Some(Party::Browser(browser)) = world.actor_mut(browser) {
            browser.tabs = tabs.iter().map(|(id, _)| *id).collect();
        }
        let (frozen, hidden) = (Vec::new(), Vec::new());
        Self { world, shared, browser, tabs, life, frozen, hidden, wall_offset_ms: 0, jumped_ms: 0 }
    }

    fn pass(&mut self, ms: u64) {
        let until_ms = self.world.now_ms() + ms;
        // In small steps, so that beliefs are looked at often.
        while self.world.now_ms() < until_ms {
            let next_ms = (self.world.now_ms() + 25).min(until_ms);
            self.world.run_until(next_ms);
            self.judge();
        }
    }

    fn strike(&mut self) {
        let at = self.world.dice().pick(0..=self.tabs.len() as u64 - 1) as usize;
        let (tab, setup) = self.tabs[at];
        match self.world.dice().pick(0..=11) {
            0 => {
                self.count("crashes");
                self.frozen.retain(|frozen| *frozen != tab);
                self.hidden.retain(|hidden| *hidden != tab);
                self.world.crash(tab);
                // What it asked for last still arrives; then the browser cleans up, and the user opens it again.
                self.pass(LATEST_MS + 1);
                self.world.tell(self.browser, Note::Gone(tab));
                let fresh = Tab::new(setup, self.browser, self.life, self.shared.clone());
                self.world.restart(tab, Party::Tab(Box::new(fresh)));
            }
            1 | 2 if !self.frozen.contains(&tab) => {
                self.count("freezes");
                self.world.pause(tab);
                self.frozen.push(tab);
            }
            3..=5 => self.thaw(),
            6 if !self.hidden.contains(&tab) => {
                self.count("hides");
                self.world.tell(tab, Note::Hide);
                self.hidden.push(tab);
            }
            7 | 8 => self.show(),
            9 => self.jump(),
            10 if self.life.clears && self.world.dice().chance(0.1) => {
                self.count("clearings");
                if let Some(Party::Browser(browser)) = self.world.actor_mut(self.browser) {
                    browser.clear();
                }
            }
            _ => {}
        }
    }

    fn thaw(&mut self) {
        if let Some(tab) = self.frozen.pop() {
            self.world.resume(tab);
        }
    }

    fn show(&mut self) {
        if let Some(tab) = self.hidden.pop() {
            self.world.tell(tab, Note::Show);
        }
    }

    /// The clock of the computer is set, for all tabs alike.
    fn jump(&mut self) {
        let now_ms = self.world.now_ms();
        if !self.life.wild && now_ms < self.jumped_ms + 120_000 {
            return;
        }
        self.count("clocks set");
        self.jumped_ms = now_ms;
        let far = self.world.dice().pick(1_000..=60_000) as i64;
        let by_ms = if self.world.dice().chance(0.5) { far } else { -far };
        self.wall_offset_ms += by_ms;
        for (tab, _) in self.tabs.clone() {
            self.world.jump_wall(tab, by_ms);
        }
    }

    /// Everything works from now on, and nobody types.
    fn mend(&mut self) {
        while !self.frozen.is_empty() {
            self.thaw();
        }
        while !self.hidden.is_empty() {
            self.show();
        }
        if let Some(Party::Browser(browser)) = self.world.actor_mut(self.browser) {
            browser.trouble = 0.0;
        }
        for (tab, _) in self.tabs.clone() {
            if let Some(Party::Tab(tab)) = self.world.actor_mut(tab) {
                tab.typing = false;
            }
        }
    }

    fn believers(&self) -> Vec<ActorId> {
        let now_ms = self.world.now_ms();
        let wall_ms = (WALL_START_MS + now_ms).saturating_add_signed(self.wall_offset_ms);
        let believes = |id: &ActorId| matches!(self.world.actor(*id), Some(Party::Tab(tab)) if tab.believes(now_ms, wall_ms));
        self.tabs.iter().map(|(id, _)| *id).filter(believes).collect()
    }

    fn judge(&self) {
        let believers = self.believers();
        assert!(
            self.life.wild || believers.len() <= 1,
            "{believers:?} hold the lock at {} ms",
            self.world.now_ms()
        );
    }

    fn judge_calm(&self) {
        let believers = self.believers();
        assert_eq!(believers.len(), 1, "after the storm the lock is somebody's");
        for (id, _) in &self.tabs {
            if let Some(Party::Tab(tab)) = self.world.actor(*id) {
                let holder = believers.contains(id);
                assert!(
                    !holder || tab.save.clean(),
                    "the holder has unsaved changes: {:?}",
                    tab.save.status()
                );
            }
        }
    }

    fn count(&self, what: &'static str) {
        self.shared.borrow_mut().count(what);
    }
}
