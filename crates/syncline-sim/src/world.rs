//! Actors in virtual time.
//!
//! Everything that happens is an event for one actor: its start, a timer, a message. The world delivers them in
//! order of time, simultaneous ones in an order drawn from the seed. Between events nothing happens, so an actor
//! is as fast as its code and an hour without events costs nothing.
//!
//! Messages pass a [`Link`] that may lose, double and delay them; doubled and delayed ones overtake each other.
//! Actors [`crash`](World::crash) (what they knew and what was under way to them is gone), are replaced by
//! [`restart`](World::restart), are [`pause`](World::pause)d (what comes is kept for later, as for a stopped process
//! or a frozen page), and have the time of day set for them ([`jump_wall`](World::jump_wall)), while each one's
//! monotonic clock, whose origin differs from start to start, stays steady.

use std::cmp::Reverse;

use crate::Dice;
use crate::fabric::{Fabric, Link, Scheduled};

/// Something that lives in a [`World`] and reacts to what happens.
pub trait Actor {
    /// What actors of this world send each other.
    type Message: Clone;

    /// Reacts to one event.
    fn handle(&mut self, event: Event<Self::Message>, context: &mut Context<'_, Self::Message>);
}

/// Names an actor, across restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorId(pub(crate) usize);

/// What happens to an actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<M> {
    /// Its life begins.
    Start,
    /// A timer it set has come due; the token it was set with.
    Timer(u64),
    /// A message arrived.
    Message {
        /// The sender.
        from: ActorId,
        /// What it said.
        body: M,
    },
}

/// Actors, their links and their time.
#[derive(Debug)]
pub struct World<A: Actor> {
    /// `None` while crashed, and while the actor handles an event.
    actors: Vec<Option<A>>,
    fabric: Fabric<A::Message>,
}

impl<A: Actor> World<A> {
    /// An empty world at time zero in which everything follows from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { actors: Vec::new(), fabric: Fabric::new(seed) }
    }

    /// Adds an actor; it starts at the present time.
    pub fn spawn(&mut self, actor: A) -> ActorId {
        let id = self.fabric.add_host();
        self.actors.push(None);
        self.restart(id, actor);
        id
    }

    /// Ends an actor's life without a word and returns what it was.
    pub fn crash(&mut self, id: ActorId) -> Option<A> {
        let host = &mut self.fabric.hosts[id.0];
        host.life += 1;
        host.held = None;
        host.timers.clear();
        self.actors[id.0].take()
    }

    /// Puts `actor` in the place of one that crashed, or that crashes hereby.
    pub fn restart(&mut self, id: ActorId, actor: A) {
        self.crash(id);
        self.actors[id.0] = Some(actor);
        let fabric = &mut self.fabric;
        // Up to eleven days: readings of different lives must not look comparable.
        fabric.hosts[id.0].origin_ms = fabric.now_ms as i64 - fabric.dice.pick(0..=1_000_000_000) as i64;
        fabric.schedule(fabric.now_ms, id, 0, Event::Start);
    }

    /// Stops an actor in its tracks. Events that come are kept until it [`resume`](Self::resume)s.
    pub fn pause(&mut self, id: ActorId) {
        self.fabric.hosts[id.0].held.get_or_insert_default();
    }

    /// Lets a paused actor go on; what was kept for it arrives now, in the order it came.
    pub fn resume(&mut self, id: ActorId) {
        let fabric = &mut self.fabric;
        for delivery in fabric.hosts[id.0].held.take().unwrap_or_default() {
            fabric.enqueue(fabric.now_ms, 0, delivery);
        }
    }

    /// Sets an actor's time of day forwards or backwards.
    pub fn jump_wall(&mut self, id: ActorId, by_ms: i64) {
        self.fabric.hosts[id.0].wall_offset_ms += by_ms;
    }

    /// How messages travel where no other link was set.
    pub fn set_link(&mut self, link: Link) {
        self.fabric.link = link;
    }

    /// How messages travel from one actor to another.
    pub fn set_link_between(&mut self, from: ActorId, to: ActorId, link: Link) {
        self.fabric.links.insert((from, to), link);
    }

    /// An actor, unless it has crashed.
    #[must_use]
    pub fn actor(&self, id: ActorId) -> Option<&A> {
        self.actors[id.0].as_ref()
    }

    /// An actor, unless it has crashed, to be changed from outside.
    pub fn actor_mut(&mut self, id: ActorId) -> Option<&mut A> {
        self.actors[id.0].as_mut()
    }

    /// Hands an actor an event from outside, such as a user's doing.
    pub fn tell(&mut self, id: ActorId, body: A::Message) {
        let fabric = &mut self.fabric;
        fabric.schedule(fabric.now_ms, id, 0, Event::Message { from: id, body });
    }

    /// Milliseconds since the world began: the one true time, which no actor should act on.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.fabric.now_ms
    }

    /// Chance, for whoever plays fate with this world.
    pub fn dice(&mut self) -> &mut Dice {
        &mut self.fabric.dice
    }

    /// Lets everything happen that happens up to `until_ms`.
    pub fn run_until(&mut self, until_ms: u64) {
        while self.fabric.queue.peek().is_some_and(|Reverse(next)| next.order.0 <= until_ms) {
            self.step();
        }
        self.fabric.now_ms = self.fabric.now_ms.max(until_ms);
    }

    /// Lets the next thing happen; false when nothing is left to happen.
    pub fn step(&mut self) -> bool {
        let fabric = &mut self.fabric;
        let Some(Reverse(Scheduled { order, delivery })) = fabric.queue.pop() else { return false };
        fabric.now_ms = order.0;
        let to = delivery.to;
        if let Some(event) = fabric.admit(delivery)
            && let Some(mut actor) = self.actors[to.0].take()
        {
            actor.handle(event, &mut Context { fabric, me: to });
            self.actors[to.0] = Some(actor);
        }
        true
    }
}

/// What an actor may do while it handles an event.
#[derive(Debug)]
pub struct Context<'a, M> {
    fabric: &'a mut Fabric<M>,
    me: ActorId,
}

impl<M: Clone> Context<'_, M> {
    /// The actor itself.
    #[must_use]
    pub fn me(&self) -> ActorId {
        self.me
    }

    /// The actor's monotonic clock.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        (self.fabric.now_ms as i64 - self.fabric.hosts[self.me.0].origin_ms).unsigned_abs()
    }

    /// The actor's time of day, in ms since the epoch.
    #[must_use]
    pub fn wall_ms(&self) -> u64 {
        (self.fabric.now_ms as i64 + self.fabric.hosts[self.me.0].wall_offset_ms).max(0).unsigned_abs()
    }

    /// Milliseconds since the world began, for records that checkers read. No actor should act on it.
    #[must_use]
    pub fn world_ms(&self) -> u64 {
        self.fabric.now_ms
    }

    /// Chance.
    pub fn dice(&mut self) -> &mut Dice {
        &mut self.fabric.dice
    }

    /// Asks for [`Event::Timer`] at `at_ms` on the actor's monotonic clock; replaces a timer with the same token.
    pub fn set_timer(&mut self, token: u64, at_ms: u64) {
        let host = &mut self.fabric.hosts[self.me.0];
        // Settings are numbered by what has been scheduled, which only grows.
        let setting = self.fabric.scheduled + 1;
        host.timers.insert(token, setting);
        let at_ms = (at_ms as i64 + host.origin_ms).max(0).unsigned_abs();
        self.fabric.schedule(at_ms, self.me, setting, Event::Timer(token));
    }

    /// Takes back a timer.
    pub fn clear_timer(&mut self, token: u64) {
        self.fabric.hosts[self.me.0].timers.remove(&token);
    }

    /// Sends a message, which arrives or does not, as the link will have it.
    pub fn send(&mut self, to: ActorId, body: M) {
        let fabric = &mut *self.fabric;
        let link = fabric.links.get(&(self.me, to)).unwrap_or(&fabric.link).clone();
        if fabric.dice.chance(link.loss) {
            return;
        }
        let copies = if fabric.dice.chance(link.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let at_ms = fabric.now_ms + fabric.dice.pick(link.delay_ms.clone());
            fabric.schedule(at_ms, to, 0, Event::Message { from: self.me, body: body.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes down all that happens to it, with its clocks; a number it is told is a timer to set or, above 1,000,
    /// a message to pass on to actor 0.
    #[derive(Default)]
    struct Scribe(Vec<(u64, u64, Event<u64>)>);

    impl Actor for Scribe {
        type Message = u64;

        fn handle(&mut self, event: Event<u64>, context: &mut Context<'_, u64>) {
            if let Event::Message { from, body } = event
                && from == context.me()
            {
                match body {
                    0..=1_000 => context.set_timer(body % 10, context.now_ms() + body),
                    _ => context.send(ActorId(0), body),
                }
            }
            self.0.push((context.now_ms(), context.wall_ms(), event));
        }
    }

    fn world(seed: u64) -> (World<Scribe>, ActorId, ActorId) {
        let mut world = World::new(seed);
        let (one, two) = (world.spawn(Scribe::default()), world.spawn(Scribe::default()));
        world.run_until(0);
        (world, one, two)
    }

    fn timers(world: &World<Scribe>, id: ActorId) -> usize {
        let written = &world.actor(id).unwrap().0;
        written.iter().filter(|(.., event)| matches!(event, Event::Timer(_))).count()
    }

    fn messages(world: &World<Scribe>, from: ActorId) -> usize {
        let written = &world.actor(ActorId(0)).unwrap().0;
        written
            .iter()
            .filter(|(.., event)| matches!(event, Event::Message { from: sender, .. } if *sender == from))
            .count()
    }

    #[test]
    fn the_same_seed_gives_the_same_world() {
        let run = |seed| {
            let (mut world, _, two) = world(seed);
            world.set_link(Link { loss: 0.3, duplicate: 0.3, delay_ms: 0..=1_000 });
            (0..50).for_each(|number| world.tell(two, 2_000 + number));
            world.run_until(10_000);
            world.actors[0].take().unwrap().0
        };
        assert_eq!(run(5), run(5));
        assert_ne!(run(5), run(6));
    }

    #[test]
    fn links_lose_double_and_reorder_as_told() {
        let sent = |link: Link| {
            let (mut world, _, two) = world(1);
            world.set_link_between(two, ActorId(0), link);
            for number in 0..1_000 {
                world.tell(two, 2_000 + number);
                world.run_until(number + 1);
            }
            world.run_until(10_000);
            messages(&world, two)
        };
        assert_eq!(sent(Link::GOOD), 1_000);
        assert_eq!(sent(Link { loss: 1.0, ..Link::GOOD }), 0);
        assert_eq!(sent(Link { duplicate: 1.0, ..Link::GOOD }), 2_000);
        assert!((400..600).contains(&sent(Link { loss: 0.5, ..Link::GOOD })));
    }

    #[test]
    fn a_crash_loses_timers_and_messages_under_way() {
        let (mut world, one, two) = world(2);
        world.tell(one, 500);
        world.tell(two, 5_000);
        world.run_until(0);
        world.crash(one);
        world.run_until(100);
        assert!(world.actor(one).is_none());
        world.restart(one, Scribe::default());
        world.run_until(5_000);
        let events: Vec<_> = world.actor(one).unwrap().0.iter().map(|(.., event)| event.clone()).collect();
        assert_eq!(events, [Event::Start]);
    }

    #[test]
    fn a_paused_actor_gets_everything_later_and_in_order() {
        let (mut world, one, _) = world(3);
        world.tell(one, 1);
        world.tell(one, 12);
        world.run_until(0);
        world.pause(one);
        world.run_until(5_000);
        assert_eq!(timers(&world, one), 0);
        world.resume(one);
        world.run_until(5_000);
        let written = &world.actor(one).unwrap().0;
        let tokens = written.iter().filter_map(|(.., event)| match event {
            Event::Timer(token) => Some(*token),
            _ => None,
        });
        assert_eq!(tokens.collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn a_timer_set_again_fires_once() {
        let (mut world, one, _) = world(4);
        world.tell(one, 110);
        world.run_until(50);
        world.tell(one, 120);
        world.run_until(1_000);
        assert_eq!(timers(&world, one), 1);
    }

    #[test]
    fn the_wall_jumps_while_the_monotonic_clock_stays_steady() {
        let (mut world, one, _) = world(5);
        world.run_until(1_000);
        world.jump_wall(one, -3_600_000);
        world.tell(one, 1);
        world.run_until(2_000);
        let written = &world.actor(one).unwrap().0;
        let (started, told) = (&written[0], &written[1]);
        assert_eq!(told.0 - started.0, 1_000);
        assert_eq!(told.1 as i64 - started.1 as i64, 1_000 - 3_600_000);
    }
}
