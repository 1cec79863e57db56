//! The worlds that tests run in: a simulated one, and throwaway real servers.
//!
//! [`World`] runs actors in virtual time on one thread. One seed decides everything: which of two simultaneous
//! events comes first, how long a message travels, whether it is lost or doubled. So days pass in a second, and a
//! run that failed can be run again, exactly. [`check`] runs a test for many seeds and, when one fails, prints the
//! command that replays it. [`postgres`] starts real servers for the tests that need one, [`patroni`] a
//! cluster of them that fails over, and [`until`] waits for what happens there.
//!
//! The simulation knows nothing of the product, which is why its judgement of the product counts.
//!
//! # A world of two
//!
//! A client asks until it is answered; the network loses half of everything.
//!
//! ```
//! use syncline_sim::{Actor, ActorId, Context, Event, Link, World, check};
//!
//! enum Party {
//!     Client { server: ActorId, answered: bool },
//!     Server,
//! }
//!
//! impl Actor for Party {
//!     type Message = &'static str;
//!
//!     fn handle(&mut self, event: Event<&'static str>, context: &mut Context<'_, &'static str>) {
//!         match (self, event) {
//!             (Party::Client { server, answered: false }, Event::Start | Event::Timer(_)) => {
//!                 context.send(*server, "ping");
//!                 context.set_timer(0, context.now_ms() + 1_000);
//!             }
//!             (Party::Client { answered, .. }, Event::Message { .. }) => *answered = true,
//!             (Party::Server, Event::Message { from, .. }) => context.send(from, "pong"),
//!             _ => {}
//!         }
//!     }
//! }
//!
//! check("a_world_of_two", 10, |seed| {
//!     let mut world = World::new(seed);
//!     world.set_link(Link { loss: 0.5, duplicate: 0.1, delay_ms: 5..=500 });
//!     let server = world.spawn(Party::Server);
//!     let client = world.spawn(Party::Client { server, answered: false });
//!     world.run_until(60_000);
//!     assert!(matches!(world.actor(client), Some(Party::Client { answered: true, .. })));
//! });
//! ```

mod check;
mod dice;
mod fabric;
mod machine;
pub mod patroni;
pub mod postgres;
mod wait;
mod world;

pub use check::{check, find_failure};
pub use dice::Dice;
pub use fabric::Link;
pub use wait::{PATIENCE, until, until_blocking, until_some};
pub use world::{Actor, ActorId, Context, Event, World};
