//! A page: the real heartbeat machine, a user, and a choice of nodes to talk to.

use syncline_core::time::Timestamp;
use syncline_core::viewer::{Heartbeat, Input, Message};
use syncline_sim::{ActorId, Context, Event};

use crate::{Note, World};

const WAKE: u64 = 0;

pub(crate) struct Page {
    heartbeat: Heartbeat,
    /// Any of them may get the next ping: pages stand behind a load balancer.
    nodes: Vec<ActorId>,
    node: ActorId,
}

impl Page {
    pub(crate) fn new(world: &mut World, nodes: &[ActorId]) -> Self {
        let node = *world.dice().choose(nodes).expect("there are nodes");
        let visible = world.dice().chance(0.7);
        Self { heartbeat: Heartbeat::new(world.dice().bytes(), visible), nodes: nodes.to_vec(), node }
    }

    pub(crate) fn handle(&mut self, event: &Event<Note>, context: &mut Context<'_, Note>) {
        let input = match event {
            Event::Timer(_) => Input::Timer,
            Event::Message { body: Note::User(input), .. } => *input,
            // Answers change nothing: a failed ping waits for the next.
            Event::Start | Event::Message { .. } => return,
        };
        let output = self.heartbeat.handle(Timestamp::from_ms(context.now_ms()), input);
        if context.dice().chance(0.1) {
            self.node = *context.dice().choose(&self.nodes).expect("there are nodes");
        }
        let session = *self.heartbeat.session();
        match output.send {
            Some(Message::Ping { visible }) => context.send(self.node, Note::Beat { session, visible }),
            Some(Message::Bye) => context.send(self.node, Note::Bye { session }),
            None => {}
        }
        match output.wake_at {
            Some(at) => context.set_timer(WAKE, at.as_ms()),
            None => context.clear_timer(WAKE),
        }
    }
}
