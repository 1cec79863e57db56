//! Visits every state that can be reached from a world, once.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::world::{Action, World};

/// What was seen.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) states: u64,
    pub(crate) steps: u64,
    /// States in which somebody held the lock: a world in which nobody ever does proves nothing.
    pub(crate) held: u64,
    /// The longest time for which a lock that somebody waited for was nobody's.
    pub(crate) vacant_max_ms: u64,
}

impl Seen {
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            states: self.states + other.states,
            steps: self.steps + other.steps,
            held: self.held + other.held,
            vacant_max_ms: self.vacant_max_ms.max(other.vacant_max_ms),
        }
    }
}

/// A state that must not be, and how to get there.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) what: String,
    pub(crate) trace: Vec<Action>,
}

struct Frame {
    world: World,
    actions: Vec<Action>,
    next: usize,
}

/// Visits all states, or stops at the first violation.
pub(crate) fn explore(start: World) -> Result<Seen, Box<Violation>> {
    let mut seen = Seen::default();
    let mut visited = HashSet::new();
    let mut path = Vec::new();
    enter(start, &mut path, &mut visited, &mut seen);
    while let Some(frame) = path.last_mut() {
        let Some(action) = frame.actions.get(frame.next).copied() else {
            path.pop();
            continue;
        };
        frame.next += 1;
        seen.steps += 1;
        let mut world = frame.world.clone();
        // The machine asserts its own invariants; a panic is a violation like any other.
        let step = catch_unwind(AssertUnwindSafe(|| world.apply(action)));
        match step.unwrap_or_else(|_| Err("the machine panicked".to_owned())) {
            Ok(()) => enter(world, &mut path, &mut visited, &mut seen),
            Err(what) => {
                let trace = path.iter().map(|frame| frame.actions[frame.next - 1]).collect();
                return Err(Box::new(Violation { what, trace }));
            }
        }
    }
    Ok(seen)
}

fn enter(world: World, path: &mut Vec<Frame>, visited: &mut HashSet<u64>, seen: &mut Seen) {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    if visited.insert(hasher.finish()) {
        seen.states += 1;
        seen.held += u64::from(world.held());
        seen.vacant_max_ms = seen.vacant_max_ms.max(world.vacant_ms());
        let actions = world.actions();
        path.push(Frame { world, actions, next: 0 });
    }
}
