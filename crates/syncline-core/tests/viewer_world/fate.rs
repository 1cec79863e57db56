//! What happens to the world: users come and go, nodes die and freeze, the store fails, clocks jump, strangers flood.

use std::cell::RefCell;
use std::rc::Rc;

use syncline_core::schedule::{Gate, Reason};
use syncline_core::viewer::{Input, SessionId};
use syncline_sim::{ActorId, Link};

use crate::node::{CAP, Node};
use crate::page::Page;
use crate::store::Store;
use crate::trace::Trace;
use crate::{Bug, Note, Party, World, settled};

const NODES: usize = 3;
const PAGES: usize = 4;
const LOST: Link = Link { loss: 1.0, duplicate: 0.0, delay_ms: 0..=0 };
const STORE_LINK: Link = Link { loss: 0.002, duplicate: 0.0, delay_ms: 1..=300 };

pub(crate) struct Fate {
    pub(crate) world: World,
    pub(crate) trace: Rc<RefCell<Trace>>,
    bug: Option<Bug>,
    gate: Gate,
    store: ActorId,
    nodes: Vec<ActorId>,
    pages: Vec<ActorId>,
    lives: usize,
    /// What is to be mended, and when.
    mending: Vec<(u64, Mend)>,
    /// Until when nobody is let in, so that there are minutes nobody watches.
    closed_until_ms: u64,
    /// Until when the store's clock is left alone.
    store_steady_until_ms: u64,
}

#[derive(Clone, Copy)]
enum Mend {
    Restart(ActorId),
    Resume(ActorId),
    Store,
    Reconnect(ActorId),
}

impl Fate {
    pub(crate) fn new(seed: u64, bug: Option<Bug>) -> Self {
        let trace = Rc::new(RefCell::new(Trace::default()));
        let mut world = World::new(seed);
        world.set_link(Link { loss: 0.05, duplicate: 0.03, delay_ms: 5..=2_000 });
        let gate = if world.dice().chance(0.3) { Gate::VisibleViewers } else { Gate::Viewers };
        let store = world.spawn(Party::Store(Store::new(bug, trace.clone())));
        let mut fate = Self {
            world,
            trace,
            bug,
            gate,
            store,
            nodes: Vec::new(),
            pages: Vec::new(),
            lives: 0,
            mending: Vec::new(),
            closed_until_ms: 0,
            store_steady_until_ms: 0,
        };
        for _ in 0..NODES {
            let node = fate.new_node();
            let id = fate.world.spawn(node);
            fate.connect(id, &STORE_LINK);
            fate.nodes.push(id);
        }
        for _ in 0..PAGES {
            let page = Party::Page(Page::new(&mut fate.world, &fate.nodes));
            fate.pages.push(fate.world.spawn(page));
        }
        fate
    }

    /// A world in which nothing goes wrong by itself, and nobody is there yet.
    pub(crate) fn calm(seed: u64) -> Self {
        let mut fate = Self::new(seed, None);
        fate.gate = Gate::Viewers;
        fate.world.set_link(Link::GOOD);
        for node in fate.nodes.clone() {
            fate.connect(node, &Link::GOOD);
        }
        fate.restart_nodes();
        fate
    }

    pub(crate) fn open_pages(&mut self) {
        for page in self.pages.clone() {
            self.world.tell(page, Note::User(Input::Start));
        }
    }

    pub(crate) fn freeze_pages(&mut self) {
        self.pages.iter().for_each(|page| self.world.pause(*page));
    }

    pub(crate) fn crash_nodes(&mut self) {
        self.nodes.iter().for_each(|node| _ = self.world.crash(*node));
    }

    pub(crate) fn restart_nodes(&mut self) {
        for node in self.nodes.clone() {
            let reborn = self.new_node();
            self.world.restart(node, reborn);
        }
    }

    /// Minutes settled so far, and skips for want of a viewer.
    pub(crate) fn outcome(&self) -> (u64, u64) {
        let trace = self.trace.borrow();
        (settled(&trace), trace.tally.of(Reason::NoViewer))
    }

    /// Lets the world run for `for_ms`, with something happening every 20 s or so.
    pub(crate) fn run_for(&mut self, for_ms: u64) {
        let end_ms = self.world.now_ms() + for_ms;
        while self.world.now_ms() < end_ms {
            let pause_ms = self.world.dice().pick(1..=40_000);
            self.world.run_until((self.world.now_ms() + pause_ms).min(end_ms));
            self.mend();
            self.strike();
        }
    }

    fn strike(&mut self) {
        let seldom = self.world.dice().chance(0.2);
        let kind = self.world.dice().pick(0..=9);
        match (seldom, kind) {
            (false, _) => self.user(),
            (true, 0) => self.crash_node(),
            (true, 1) => (0..NODES).for_each(|_| self.crash_node()),
            (true, 2) => {
                let node = self.any_node();
                self.pause(node, 100_000);
            }
            (true, 3) => {
                self.set_failing(true);
                self.mend_within(200_000, Mend::Store);
            }
            (true, 4) => self.pause(self.store, 150_000),
            (true, 5) => {
                let node = self.any_node();
                self.connect(node, &LOST);
                self.mend_within(150_000, Mend::Reconnect(node));
            }
            (true, 6) => self.jump(),
            (true, 7) => self.flood(),
            (true, 8) => self.close_up(),
            (true, _) => {
                let page = self.any_page();
                self.pause(page, 300_000);
            }
        }
    }

    fn user(&mut self) {
        let page = self.any_page();
        let visible = self.world.dice().chance(0.5);
        let inputs = [Input::Start, Input::Start, Input::Show, Input::Visible(visible), Input::Hide];
        let input = *self.world.dice().choose(&inputs).expect("not empty");
        if self.world.now_ms() >= self.closed_until_ms {
            self.world.tell(page, Note::User(input));
        }
    }

    /// Everybody leaves, some without a goodbye, and nobody comes for a while.
    fn close_up(&mut self) {
        self.closed_until_ms = self.world.now_ms() + self.world.dice().pick(120_000..=1_800_000);
        for page in self.pages.clone() {
            if self.world.dice().chance(0.5) {
                self.world.tell(page, Note::User(Input::Stop));
            } else {
                let reopened = Party::Page(Page::new(&mut self.world, &self.nodes));
                self.world.restart(page, reopened);
            }
        }
    }

    fn jump(&mut self) {
        self.trace.borrow_mut().counts.jumps += 1;
        // The store keeps reports for ten minutes of its own wall clock; within that a jump must do no harm at all. Two
        // could be more together, before any report is written again.
        let now_ms = self.world.now_ms();
        let store = self.world.dice().chance(0.3) && now_ms >= self.store_steady_until_ms;
        let (whose, longest_ms) = if store { (self.store, 500_000) } else { (self.any_node(), 7_200_000) };
        if store {
            self.store_steady_until_ms = now_ms + 600_000;
            self.trace.borrow_mut().store_jumped = true;
        } else {
            self.trace.borrow_mut().node_jumped = true;
        }
        let by_ms = self.world.dice().pick(1..=longest_ms) as i64;
        let direction = if self.world.dice().chance(0.5) { 1 } else { -1 };
        self.world.jump_wall(whose, by_ms * direction);
    }

    fn flood(&mut self) {
        let node = self.any_node();
        for _ in 0..2 * CAP {
            let session = SessionId::from_random(self.world.dice().bytes());
            self.world.tell(node, Note::Beat { session, visible: true });
        }
    }

    fn crash_node(&mut self) {
        let node = self.any_node();
        if self.world.crash(node).is_some() {
            self.mend_within(120_000, Mend::Restart(node));
        }
    }

    fn pause(&mut self, id: ActorId, longest_ms: u64) {
        self.trace.borrow_mut().counts.pauses += 1;
        self.world.pause(id);
        self.mend_within(longest_ms, Mend::Resume(id));
    }

    fn mend_within(&mut self, longest_ms: u64, mend: Mend) {
        let at_ms = self.world.now_ms() + self.world.dice().pick(1..=longest_ms);
        self.mending.push((at_ms, mend));
    }

    fn mend(&mut self) {
        let now_ms = self.world.now_ms();
        let due: Vec<_> = self.mending.extract_if(.., |(at_ms, _)| *at_ms <= now_ms).collect();
        for (_, mend) in due {
            match mend {
                Mend::Restart(node) => {
                    let reborn = self.new_node();
                    self.world.restart(node, reborn);
                }
                Mend::Resume(id) => self.world.resume(id),
                Mend::Store => self.set_failing(false),
                Mend::Reconnect(node) => self.connect(node, &STORE_LINK),
            }
        }
    }

    fn set_failing(&mut self, failing: bool) {
        if let Some(Party::Store(store)) = self.world.actor_mut(self.store) {
            store.failing = failing;
        }
    }

    fn connect(&mut self, node: ActorId, link: &Link) {
        self.world.set_link_between(node, self.store, link.clone());
        self.world.set_link_between(self.store, node, link.clone());
    }

    fn new_node(&mut self) -> Party {
        self.lives += 1;
        let name = format!("life-{}", self.lives);
        Party::Node(Box::new(Node::new(name, self.store, self.gate, self.bug, self.trace.clone())))
    }

    fn any_node(&mut self) -> ActorId {
        *self.world.dice().choose(&self.nodes).expect("there are nodes")
    }

    fn any_page(&mut self) -> ActorId {
        *self.world.dice().choose(&self.pages).expect("there are pages")
    }
}
